#include "profiler/head_use.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>

#include "profiler/mean.hpp"
#include "profiler/pair_scores.hpp"
#include "spectral/effective_base.hpp"
#include "spectral/frequency_use.hpp"
#include "spectral/frozen_pairs.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Sums over the pairs of a block, or of a head.
struct UseSums : ScanResult {
  PairSums pairs;
  double norm_product = 0;
  std::int64_t frozen = 0;  // pairs that were frozen
  double effective_length = 0, variance = 0;
  std::vector<double> length_change, variance_change;  // [n_freq]

  void add(const UseSums& other) {
    pairs.add(other.pairs);
    norm_product += other.norm_product;
    frozen += other.frozen;
    effective_length += other.effective_length;
    variance += other.variance;
    length_change.resize(other.length_change.size(), 0.0);
    variance_change.resize(other.variance_change.size(), 0.0);
    for (std::size_t n = 0; n < length_change.size(); ++n) {
      length_change[n] += other.length_change[n];
      variance_change[n] += other.variance_change[n];
    }
  }
};

double column_square(const spectral::VectorColumns& columns, std::size_t column) {
  double sum = 0;
  for (std::size_t r = 0; r < columns.rows(); ++r) {
    const double x = columns.row(r)[column];
    sum += x * x;
  }
  return sum;
}

// c A_q A_k ||q|| ||k|| of the block's valid pairs: the factors are in the queries.
double norm_products(const HeadJob& job, const PairBlock& block, std::int64_t index) {
  HeadVectors vectors;  // not kept: a later head's vectors may lie at the same address
  vectors.assign(job.setting, *job.slots, job.phases.get());
  const auto count = static_cast<std::int64_t>(block.norm.size());
  double sum = 0;
  for (const QueryRun& r : query_runs(job.slots->first_pair, index * kPairBlock, count)) {
    const spectral::PairRun run = vectors.pairs(r.query, r.first, r.count, false).run;
    const double query = std::sqrt(column_square(*run.query, run.q));
    for (std::size_t k = 0; k < run.count; ++k)
      if (block.norm[r.place + k] != 0) sum += query * std::sqrt(column_square(*run.key, run.first_key + k));
  }
  return sum;
}

// Lanes of the block's valid pairs that are frozen.
std::vector<std::size_t> chosen_lanes(const PairBlock& block, const ScanBlock& at, std::int64_t wanted) {
  const std::int64_t pairs = at.job->slots->pairs(), count = std::min(wanted, pairs),
                     end = at.first + at.count;
  const auto numbers = std::views::iota(std::int64_t{0}, count);
  const auto pair = [&](std::int64_t k) { return spread_pair(k, pairs, count); };
  std::vector<std::size_t> lanes;
  for (auto k = std::ranges::lower_bound(numbers, at.first, {}, pair); k != numbers.end() && pair(*k) < end;
       ++k) {
    const auto place = static_cast<std::size_t>(pair(*k) - at.first);
    if (block.norm[place] != 0) lanes.push_back(block.first_lane + place);
  }
  return lanes;
}

// Those lanes as a batch of their own.
spectral::CoefficientBatch take_lanes(const spectral::CoefficientBatch& batch,
                                      const std::vector<std::size_t>& lanes) {
  spectral::CoefficientBatch taken;
  taken.reset(batch.n_freq, lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (std::size_t n = 0; n < batch.n_freq; ++n) {
      taken.re[n * taken.stride + i] = batch.re[n * batch.stride + lanes[i]];
      taken.im[n * taken.stride + i] = batch.im[n * batch.stride + lanes[i]];
    }
    taken.constant[i] = batch.constant[lanes[i]];
  }
  return taken;
}

void freeze(const HeadJob& job, const spectral::CoefficientBatch& lanes, UseSums& sums) {
  if (lanes.n_pairs == 0 || job.grid->window() < 2) return;
  const spectral::FrozenPairs frozen =
      spectral::freeze_each_pair(job.grid->plan(), job.grid->moments(), lanes, job.setting.layer->softcap);
  sums.frozen = static_cast<std::int64_t>(lanes.n_pairs);
  sums.length_change.assign(lanes.n_freq, 0.0);
  sums.variance_change.assign(lanes.n_freq, 0.0);
  for (std::size_t i = 0; i < lanes.n_pairs; ++i) {
    sums.effective_length += frozen.effective_length[i];
    sums.variance += frozen.variance[i];
    for (std::size_t n = 0; n < lanes.n_freq; ++n) {
      const std::size_t at = n * lanes.n_pairs + i;
      sums.length_change[n] += frozen.frozen_effective_length[at] - frozen.effective_length[i];
      sums.variance_change[n] += frozen.frozen_variance[at] - frozen.variance[i];
    }
  }
}

std::unique_ptr<ScanResult> measure(const ScanBlock& block, const HeadUseOptions& options) {
  auto sums = std::make_unique<UseSums>();
  PairPart part = block.job->pair_part(block.index);
  part.usage = true;
  part.norm_share = false;
  spectral::CoefficientBatch batch;
  const std::vector<PairBlock> scored = score_pairs({&part, 1}, block.job->grid->high(), batch);
  sums->pairs = scored[0].sums;
  if (options.norms) sums->norm_product = norm_products(*block.job, scored[0], block.index);
  if (options.frozen_pairs > 0)
    freeze(*block.job, take_lanes(batch, chosen_lanes(scored[0], block, options.frozen_pairs)), *sums);
  return sums;
}

// What is averaged over examples and tasks.
constexpr double HeadUse::*kSingle[] = {&HeadUse::usage_cov,        &HeadUse::usage_centroid,
                                        &HeadUse::usage_norm_cov,   &HeadUse::usage_norm_centroid,
                                        &HeadUse::frequency_mass,   &HeadUse::amplitude,
                                        &HeadUse::norm_product,     &HeadUse::window,
                                        &HeadUse::effective_length, &HeadUse::logit_variance};
constexpr std::vector<double> HeadUse::*kOfPair[] = {&HeadUse::usage, &HeadUse::usage_norm,
                                                     &HeadUse::length_change, &HeadUse::variance_change};

// One example of a head from its sums.
HeadUse use_of(const HeadJob& job, const UseSums& sums, bool norms) {
  HeadUse use;
  for (auto value : kSingle) use.*value = kNaN;
  const std::size_t h = job.grid->grid().frequencies.omega.size();
  for (auto values : kOfPair) (use.*values).assign(h, kNaN);
  use.window = static_cast<double>(job.grid->window());
  const spectral::LaneMap& lanes = *job.setting.lanes;
  const std::vector<double>& log_omega = job.grid->grid().log_omega;
  if (sums.pairs.valid == 0) return use;
  const auto valid = static_cast<double>(sums.pairs.valid);
  std::vector<double> usage = sums.pairs.usage, modulus = sums.pairs.usage_norm;
  double amplitude = 0;
  for (std::size_t n = 0; n < usage.size(); ++n) {
    const auto pair = static_cast<std::size_t>(lanes.pair[n]);
    use.usage[pair] = usage[n] /= valid;
    use.usage_norm[pair] = modulus[n] /= valid;
    amplitude += modulus[n];
  }
  use.amplitude = amplitude;
  use.usage_cov = spectral::usage_variation(usage);
  use.usage_centroid = spectral::usage_centroid(usage, log_omega);
  use.usage_norm_cov = spectral::usage_variation(modulus);
  use.usage_norm_centroid = spectral::usage_centroid(modulus, log_omega);
  use.frequency_mass = sums.pairs.frequency_mass / valid;
  if (norms) use.norm_product = sums.norm_product / valid;
  if (sums.frozen == 0) return use;
  const auto frozen = static_cast<double>(sums.frozen);
  use.effective_length = sums.effective_length / frozen;
  use.logit_variance = sums.variance / frozen;
  for (std::size_t n = 0; n < sums.length_change.size(); ++n) {
    const auto pair = static_cast<std::size_t>(lanes.pair[n]);
    use.length_change[pair] = sums.length_change[n] / frozen;
    use.variance_change[pair] = sums.variance_change[n] / frozen;
  }
  return use;
}

// Means over the uses that are added.
class UseMean {
 public:
  void add(const HeadUse& use) {
    for (std::size_t i = 0; i < std::size(kSingle); ++i) single_[i].add(use.*kSingle[i]);
    for (std::size_t i = 0; i < std::size(kOfPair); ++i) {
      const std::vector<double>& values = use.*kOfPair[i];
      if (of_pair_[i].size() < values.size()) of_pair_[i].resize(values.size());
      for (std::size_t n = 0; n < values.size(); ++n) of_pair_[i][n].add(values[n]);
    }
  }
  HeadUse value() const {
    HeadUse use;
    for (std::size_t i = 0; i < std::size(kSingle); ++i) use.*kSingle[i] = single_[i].value();
    for (std::size_t i = 0; i < std::size(kOfPair); ++i)
      for (const Mean& mean : of_pair_[i]) (use.*kOfPair[i]).push_back(mean.value());
    return use;
  }

 private:
  Mean single_[std::size(kSingle)];
  std::vector<Mean> of_pair_[std::size(kOfPair)];
};

class UseFold {
 public:
  UseFold(const CacheRun& run, bool norms) : run_(run), norms_(norms) {}

  void take(const ScanBlock& block, const UseSums& sums) {
    if (run_.task_index(block.example) != task_) close_task();
    task_ = run_.task_index(block.example);
    head_.add(sums);
    if (!block.last) return;
    of_task_[block.head].add(use_of(*block.job, head_, norms_));
    head_ = {};
    const std::int64_t window = run_.examples()[block.example]->window;
    Longest& longest = longest_[block.head];
    if (window > longest.window)
      longest = {window, block.job->grid->grid().frequencies.omega, block.job->setting.lanes->omega};
  }

  std::vector<HeadUse> finish() {
    close_task();
    std::vector<HeadUse> uses;
    for (const auto& [head, mean] : total_) {
      HeadUse use = mean.value();
      use.layer = run_.set().heads()[static_cast<std::size_t>(head)].layer;
      use.head = run_.set().heads()[static_cast<std::size_t>(head)].head;
      use.omega = longest_[head].omega;
      use.effective_base = spectral::effective_base(longest_[head].turning);
      uses.push_back(std::move(use));
    }
    return uses;
  }

 private:
  struct Longest {
    std::int64_t window = 0;
    std::vector<double> omega, turning;
  };

  void close_task() {
    for (const auto& [head, mean] : of_task_) total_[head].add(mean.value());
    of_task_.clear();
  }

  const CacheRun& run_;
  bool norms_;
  std::size_t task_ = 0;
  UseSums head_;                                     // blocks of the head under way
  std::map<std::int64_t, UseMean> of_task_, total_;  // by head
  std::map<std::int64_t, Longest> longest_;
};

}  // namespace

double HeadUse::max_omega() const {
  return omega.empty() ? kNaN : *std::max_element(omega.begin(), omega.end());
}

std::int64_t spread_pair(std::int64_t k, std::int64_t pairs, std::int64_t count) {
  // floor((2 k + 1) pairs / (2 count)), in parts so that nothing overflows
  return pairs / count * k + ((2 * k + 1) * (pairs % count) + pairs / count * count) / (2 * count);
}

std::vector<HeadUse> measure_use(const CacheRun& run, const HeadUseOptions& options) {
  ScanOptions scan;
  scan.unit = ScanUnit::kPairs;
  UseFold fold(run, options.norms);
  std::size_t done = 0;
  run.scan(
      scan, [&](const ScanBlock& block) { return measure(block, options); },
      [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
        fold.take(block, static_cast<const UseSums&>(*result));
        if (options.progress && block.example > done)
          options.progress(static_cast<std::int64_t>(block.example - done));
        done = block.example;
      });
  return fold.finish();
}

}  // namespace rope

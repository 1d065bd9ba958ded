#include "profiler/pair_scores.hpp"

#include <algorithm>
#include <cmath>

namespace rope {

using spectral::CoefficientBatch;

namespace {

// Memory that the blocks of a call share.
struct Scratch {
  HeadVectors vectors;
  std::vector<double> subset;  // 1 for the pairs of H(M), else 0
  std::vector<double> high_norm, mass;
  spectral::UsageSums usage;
  HeadVectors unchanged;
  CoefficientBatch unchanged_batch;
};

std::vector<QueryRun> block_runs(const PairPart& part) {
  return query_runs(part.slots->first_pair, part.index * kPairBlock, part.pairs(), spectral::kMostRunQueries);
}

// Sum of term(i) over the lanes that are valid, in four sums by turns: one alone would wait for itself.
template <class Term>
double sum_valid(const std::vector<double>& norm, const Term& term) {
  constexpr std::size_t kSums = 4;
  double sum[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= norm.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double value = term(i + j);
      sum[j] += norm[i + j] == 0 ? 0.0 : value;
    }
  }
  for (std::size_t j = 0; i < norm.size(); ++i, ++j) sum[j] += norm[i] == 0 ? 0.0 : term(i);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// U of the unchanged head: its pairs once more, as measured without a change.
void fill_fixed_norm(Scratch& scratch, const PairPart& part, PairBlock& block) {
  const HeadSetting& head = *part.unchanged;
  const std::vector<double> none(head.lanes->omega.size(), 0.0);
  std::vector<double> unused(block.norm.size());
  block.fixed_norm.resize(block.norm.size());
  spectral::PairMeasures measures;
  measures.subset = none.data();
  measures.largest = kLargestNorm;
  measures.norm = block.fixed_norm.data();
  measures.subset_norm = unused.data();
  scratch.unchanged.assign(head, *part.slots, head.stored_phases);
  scratch.unchanged_batch.shape(none.size(), block.norm.size());
  for (const QueryRun& r : block_runs(part)) {
    HeadVectors::PairColumns columns = scratch.unchanged.pairs(r, false);
    columns.run.first_lane = r.place;
    measures.query = columns.query_moduli;
    measures.key = columns.key_moduli;
    spectral::measure_pairs(columns.run, measures, scratch.unchanged_batch);
  }
}

// One block into its lanes of the batch.
void fill(Scratch& scratch, const PairPart& part, CoefficientBatch& batch, PairBlock& block) {
  const std::size_t lanes = block.norm.size();
  const std::vector<double>& omega = part.head->lanes->omega;
  scratch.high_norm.resize(lanes);
  spectral::PairMeasures measures;
  measures.subset = scratch.subset.data();
  measures.largest = kLargestNorm;
  measures.norm = block.norm.data();
  measures.subset_norm = scratch.high_norm.data();
  if (part.usage) {
    scratch.mass.resize(lanes);
    scratch.usage.clear(omega.size());
    measures.omega = omega.data();
    measures.usage = &scratch.usage;
    measures.mass = scratch.mass.data();
  }
  scratch.vectors.assign(*part.head, *part.slots, part.phases);
  for (const QueryRun& r : block_runs(part)) {
    HeadVectors::PairColumns columns = scratch.vectors.pairs(r, part.usage);
    columns.run.first_lane = block.first_lane + r.place;
    measures.query = columns.query_moduli;
    measures.key = columns.key_moduli;
    measures.turned_query = columns.turned_query;
    measures.turned_key = columns.turned_key;
    spectral::measure_pairs(columns.run, measures, batch);
  }
  if (part.unchanged != nullptr) fill_fixed_norm(scratch, part, block);
  PairSums& sums = block.sums;
  sums.pairs = part.pairs();
  sums.undefined = static_cast<std::int64_t>(measures.undefined);
  sums.non_finite = static_cast<std::int64_t>(measures.non_finite);
  sums.valid = sums.pairs - sums.undefined - sums.non_finite;
  const double *high = scratch.high_norm.data(), *norm = block.norm.data(), *mass = scratch.mass.data();
  if (part.norm_share)
    sums.norm_share = sum_valid(block.norm, [=](std::size_t i) { return high[i] / norm[i]; });
  if (part.usage) sums.frequency_mass = sum_valid(block.norm, [=](std::size_t i) { return mass[i]; });
  if (!part.usage) return;
  sums.usage.assign(omega.size(), 0.0);
  sums.usage_norm.assign(omega.size(), 0.0);
  scratch.usage.fold(sums.usage.data(), sums.usage_norm.data());
}

}  // namespace

std::int64_t PairPart::pairs() const { return std::min(kPairBlock, slots->pairs() - index * kPairBlock); }

void PairSums::add(const PairSums& other) {
  pairs += other.pairs;
  undefined += other.undefined;
  non_finite += other.non_finite;
  valid += other.valid;
  norm_share += other.norm_share;
  frequency_mass += other.frequency_mass;
  positional += other.positional;
  response_max += other.response_max;
  effective_length += other.effective_length;
  aliasing += other.aliasing;
  aliasing_f16 += other.aliasing_f16;
  near_far += other.near_far;
  near_far_gaussian += other.near_far_gaussian;
  barrier += other.barrier;
  barrier_gaussian += other.barrier_gaussian;
  barrier_limit += other.barrier_limit;
  logit_spread += other.logit_spread;
  positional_fixed_norm += other.positional_fixed_norm;
  fixed_norm_valid += other.fixed_norm_valid;
  if (usage.empty()) usage.resize(other.usage.size(), 0.0);
  if (usage_norm.empty()) usage_norm.resize(other.usage_norm.size(), 0.0);
  for (std::size_t n = 0; n < other.usage.size(); ++n) {
    usage[n] += other.usage[n];
    usage_norm[n] += other.usage_norm[n];
  }
}

std::vector<PairBlock> score_pairs(std::span<const PairPart> parts, const std::vector<char>& high,
                                   CoefficientBatch& batch) {
  std::vector<PairBlock> blocks(parts.size());
  std::size_t lanes = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].first_lane = lanes;
    blocks[k].norm.resize(static_cast<std::size_t>(parts[k].pairs()));
    lanes += blocks[k].norm.size();
  }
  batch.shape(high.size(), lanes);
  Scratch scratch;
  scratch.subset.assign(high.begin(), high.end());
  for (std::size_t k = 0; k < parts.size(); ++k) fill(scratch, parts[k], batch, blocks[k]);
  return blocks;
}

void add_spread(const spectral::WindowMoments& moments, const CoefficientBatch& batch,
                std::span<PairBlock> blocks) {
  std::vector<double> mean(batch.n_pairs), variance(batch.n_pairs);
  moments.evaluate(batch, mean, variance);
  for (PairBlock& block : blocks)
    for (std::size_t lane = 0; lane < block.norm.size(); ++lane)
      if (block.norm[lane] != 0) block.sums.logit_spread += std::sqrt(variance[block.first_lane + lane]);
}

void add_sweep(const spectral::SweepResult& swept, PairBlock& block) {
  for (std::size_t lane = 0; lane < block.norm.size(); ++lane) {
    const double norm = block.norm[lane];
    if (norm == 0) continue;
    const std::size_t from = block.first_lane + lane;
    if (!swept.mean_response.empty()) block.sums.positional += swept.mean_response[from] / norm;
    if (!swept.mean_response.empty() && !block.fixed_norm.empty() && block.fixed_norm[lane] > 0) {
      block.sums.positional_fixed_norm += swept.mean_response[from] / block.fixed_norm[lane];
      ++block.sums.fixed_norm_valid;
    }
    if (!swept.response_max.empty()) block.sums.response_max += swept.response_max[from] / norm;
    if (!swept.effective_length.empty()) block.sums.effective_length += swept.effective_length[from];
    if (!swept.aliasing.empty()) block.sums.aliasing += swept.aliasing[from];
    if (!swept.aliasing_f16.empty()) block.sums.aliasing_f16 += swept.aliasing_f16[from];
  }
}

void add_near_far(const spectral::NearFarOrder& order, PairBlock& block) {
  for (std::size_t lane = 0; lane < block.norm.size(); ++lane) {
    if (block.norm[lane] == 0) continue;
    block.sums.near_far += order.exact[block.first_lane + lane];
    block.sums.near_far_gaussian += order.gaussian[block.first_lane + lane];
  }
}

void add_barrier(std::span<const std::int64_t> counts, std::int64_t window,
                 const spectral::BarrierGaussian& gaussian, PairBlock& block) {
  for (std::size_t lane = 0; lane < block.norm.size(); ++lane) {
    if (block.norm[lane] == 0) continue;
    const std::size_t from = block.first_lane + lane;
    block.sums.barrier += static_cast<double>(counts[from]) / static_cast<double>(window);
    block.sums.barrier_gaussian += gaussian.exact_moments[from];
    block.sums.barrier_limit += gaussian.limit_variance[from];
  }
}

}  // namespace rope

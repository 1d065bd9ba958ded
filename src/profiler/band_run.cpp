#include "profiler/band_run.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "profiler/pair_scores.hpp"
#include "profiler/semantic_score.hpp"
#include "spectral/band_split.hpp"

namespace rope {
namespace {

using spectral::CoefficientBatch;
using spectral::ScoreLaw;

constexpr double kLargestPooled = 1e150;  // squares of larger norms leave float64

struct MarginSums : ScanResult {
  spectral::PrefixSums sums;
  std::int64_t left_out = 0;
};

struct LawCounts {
  ScoreLaw::Counts counts{};
  std::int64_t size = 0, vectors = 0, left_out = 0;
  double coordinate_error = 0;
};

struct PairCounts : ScanResult {
  std::vector<std::unique_ptr<LawCounts>> laws;
};

/// The last grid and window that a thread worked on, and what is made once for these.
template <class Made>
class LastOf {
 public:
  template <class Make>
  const Made& get(const std::shared_ptr<const WindowedGrid>& grid, const Make& make) {
    if (grid != grid_) {
      made_.emplace(make());
      grid_ = grid;
    }
    return *made_;
  }

 private:
  std::shared_ptr<const WindowedGrid> grid_;
  std::optional<Made> made_;
};

std::unique_ptr<ScanResult> sum_margins(const ScanBlock& block) {
  auto result = std::make_unique<MarginSums>();
  const WindowedGrid& grid = *block.job->grid;
  thread_local LastOf<spectral::PrefixVariance> last;
  const spectral::PrefixVariance& variance = last.get(
      block.job->grid, [&] { return spectral::PrefixVariance(grid.grid().lanes.omega, grid.window()); });
  CoefficientBatch margins;
  const TripletPart part = block.job->triplet_part(block.index);
  TripletBlock triplets = std::move(score_triplets({&part, 1}, grid.moments(), margins).front());
  std::vector<double> norm(margins.n_pairs);
  spectral::pair_norms(margins, norm);
  for (std::size_t t = 0; t < triplets.valid.size(); ++t) {
    if (!(norm[t] <= kLargestPooled)) triplets.valid[t] = 0;
    result->left_out += triplets.valid[t] == 0;
  }
  variance.add(margins, triplets.valid, result->sums);
  return result;
}

/// The pairs of one choice of H on a grid and window, as a mask, a list and a counter of its scores.
struct HighSet {
  std::vector<char> mask;
  std::vector<int> pairs;
  std::optional<spectral::ScoreCounter> counter;

  HighSet(const WindowedGrid& grid, std::vector<char> members) : mask(std::move(members)) {
    std::vector<double> omega;
    for (std::size_t n = 0; n < mask.size(); ++n) {
      if (mask[n] == 0) continue;
      pairs.push_back(static_cast<int>(n));
      omega.push_back(grid.grid().lanes.omega[n]);
    }
    if (!omega.empty()) counter.emplace(omega, grid.window());
  }
};

/// H(M) of the split, then the prefixes.
std::vector<HighSet> high_sets(const WindowedGrid& grid, const BandOptions& options) {
  std::vector<HighSet> sets;
  sets.emplace_back(grid, grid.high());
  for (const int size : options.prefixes) {
    spectral::SplitRule rule;
    rule.kind = spectral::SplitRule::Kind::kPrefix;
    rule.prefix = size;
    sets.emplace_back(grid, spectral::high_frequency_mask(rule, grid.grid().lanes.omega, 0, grid.window()));
  }
  return sets;
}

std::unique_ptr<ScanResult> count_pairs(const ScanBlock& block, const BandOptions& options) {
  auto result = std::make_unique<PairCounts>();
  const WindowedGrid& grid = *block.job->grid;
  thread_local LastOf<std::vector<HighSet>> last;
  const std::vector<HighSet>& sets = last.get(block.job->grid, [&] { return high_sets(grid, options); });
  CoefficientBatch batch;
  const PairPart part = block.job->pair_part(block.index);
  const PairBlock pairs = std::move(score_pairs({&part, 1}, grid.high(), batch).front());
  std::vector<double> norm(batch.n_pairs), subset(batch.n_pairs);
  for (const HighSet& set : sets) {
    auto counts = std::make_unique<LawCounts>();
    counts->size = std::ssize(set.pairs);
    spectral::pair_norms(batch, set.mask, norm, subset);
    for (std::size_t lane = 0; lane < pairs.norm.size(); ++lane) {
      const bool chosen = (block.first + static_cast<std::int64_t>(lane)) % options.law_stride == 0;
      if (!chosen || pairs.norm[lane] == 0)
        subset[lane] = 0;
      else if (!(subset[lane] > 0))
        ++counts->left_out;
    }
    if (set.counter) {
      counts->vectors = set.counter->count(batch, set.pairs, subset, counts->counts);
      counts->coordinate_error = set.counter->coordinate_error();
    }
    result->laws.push_back(std::move(counts));
  }
  return result;
}

/// Finds the group that a block belongs to.
class Groups {
 public:
  Groups(const CacheRun& run, const BandOptions& options) : run_(&run), options_(&options) {}

  BandGroup& of(const ScanBlock& block, std::size_t window_index) {
    const SetHead& head = run_->set().heads()[static_cast<std::size_t>(block.head)];
    const std::size_t grid = grids_.number(block, head);
    const int layer = options_->by == BandBy::kPooled  ? -1
                      : options_->by == BandBy::kGroup ? first_of_group(head.layer)
                                                       : head.layer;
    const int number = options_->by == BandBy::kHead ? head.head : -1;
    Entry& entry = entries_[{window_index, layer, number, grid}];
    BandGroup& group = entry.group;
    const std::int64_t window = block.job->grid->window();
    if (entry.layers.empty()) {
      group.grid = grid;
      group.layer = layer;
      group.head = number;
      group.window = options_->windows.empty() ? 0 : options_->windows[window_index];
      group.window_min = group.window_max = window;
    }
    entry.layers.insert(head.layer);
    group.window_min = std::min(group.window_min, window);
    group.window_max = std::max(group.window_max, window);
    return group;
  }

  BandResult take() {
    BandResult result;
    result.grids = grids_.facts();
    for (auto& [key, entry] : entries_) {
      entry.group.layers.assign(entry.layers.begin(), entry.layers.end());
      result.groups.push_back(std::move(entry.group));
    }
    return result;
  }

 private:
  struct Entry {
    BandGroup group;
    std::set<int> layers;
  };

  /// Layers whose facts and grids are equal, as `inspect` groups them.
  int first_of_group(int layer) {
    const auto known = group_of_layer_.find(layer);
    if (known != group_of_layer_.end()) return known->second;
    for (const std::vector<int>& group : run_->set().model(run_->set().file_of_layer(layer)).groups())
      if (std::find(group.begin(), group.end(), layer) != group.end())
        return group_of_layer_[layer] = group.front();
    return group_of_layer_[layer] = layer;
  }

  const CacheRun* run_;
  const BandOptions* options_;
  ScannedGrids grids_;
  std::map<int, int> group_of_layer_;
  std::map<std::tuple<std::size_t, int, int, std::size_t>, Entry> entries_;
};

void add_law(const LawCounts& counts, std::int64_t window, BandLaw& to) {
  const bool first = to.set.empty();
  to.size_min = first ? counts.size : std::min(to.size_min, counts.size);
  to.size_max = std::max(to.size_max, counts.size);
  to.left_out += counts.left_out;
  to.law.add(counts.counts, counts.vectors, window, counts.coordinate_error);
}

void scan(const CacheRun& run, std::int64_t window, ScanUnit unit, const ScanWork& work,
          const ScanFold& fold) {
  ScoringOptions scoring = run.scoring();
  if (window > 0) scoring.window = window;
  ScanOptions options;
  options.unit = unit;
  scan_heads(run.set(), scoring, run.resources(), run.examples(), run.heads(), options, work, fold);
}

}  // namespace

int band_scans(const BandOptions& options) {
  return static_cast<int>(std::max<std::size_t>(1, options.windows.size())) *
         (options.law_stride > 0 ? 2 : 1);
}

const char* band_by_name(BandBy by) {
  constexpr const char* kNames[] = {"pooled", "layer", "group", "head"};
  return kNames[static_cast<int>(by)];
}

BandResult measure_bands(const CacheRun& run, const BandOptions& options,
                         const std::function<void(int, std::size_t)>& progress) {
  Groups groups(run, options);
  int scans = 0;
  for (std::size_t w = 0; w < std::max<std::size_t>(1, options.windows.size()); ++w) {
    const std::int64_t window = options.windows.empty() ? 0 : options.windows[w];
    const auto nothing = [](const ScanBlock& block) { return block.job->grid->window() < 2; };
    scan(
        run, window, ScanUnit::kTriplets,
        [&](const ScanBlock& block) { return nothing(block) ? nullptr : sum_margins(block); },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
          progress(scans, block.example);
          if (!result) return;
          auto& found = static_cast<MarginSums&>(*result);
          BandGroup& group = groups.of(block, w);
          group.sums.add(found.sums);
          group.left_out += found.left_out;
        });
    ++scans;
    if (options.law_stride == 0) continue;
    scan(
        run, window, ScanUnit::kPairs,
        [&](const ScanBlock& block) { return nothing(block) ? nullptr : count_pairs(block, options); },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
          progress(scans, block.example);
          if (!result) return;
          auto& found = static_cast<PairCounts&>(*result);
          BandGroup& group = groups.of(block, w);
          group.laws.resize(found.laws.size());
          for (std::size_t s = 0; s < found.laws.size(); ++s) {
            add_law(*found.laws[s], block.job->grid->window(), group.laws[s]);
            group.laws[s].set = s == 0 ? "H(M)" : "prefix:" + std::to_string(options.prefixes[s - 1]);
          }
        });
    ++scans;
  }
  return groups.take();
}

std::vector<BandPlace> band_places(const GridFacts& grid) {
  std::vector<BandPlace> places;
  for (const int n : spectral::falling_order(grid.omega)) {
    const auto at = static_cast<std::size_t>(n);
    places.push_back({grid.pair.empty() ? n : grid.pair[at], grid.omega[at]});
  }
  return places;
}

}  // namespace rope

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "profiler/cache_run.hpp"
#include "profiler/context_bounds.hpp"
#include "profiler/scanned_grids.hpp"

namespace rope {

/// Quantiles of positive numbers, which do not depend on the order they came in: exact for up to kExact of
/// them, else from bins of a relative width of 2^-12. Memory: about 1 MB at most for numbers as wide apart as
/// responses are.
class ResponseQuantiles {
 public:
  static constexpr std::size_t kExact = 100'000;
  static constexpr double kRelativeError = 0x1p-12;

  void add(double value);  ///< >= 0, finite
  std::int64_t count() const { return count_; }
  bool exact() const { return bins_.empty(); }
  /// Linear between neighbouring order statistics; NaN where nothing was added. 0 <= q <= 1.
  double quantile(double q) const;

 private:
  double order_statistic(std::int64_t rank) const;

  std::int64_t count_ = 0;
  mutable std::vector<double> values_;  // sorted when asked
  std::map<std::uint64_t, std::int64_t> bins_;
};

/// tau and zeta of every task of a run (theory §10), and the grids they are on. A task has one entry for each
/// grid that its chosen heads turn by; grids are numbered as they first come. Margins are the valid triplets
/// of theory §3, each at the window of its example and layer; windows of one token have none. `progress` is
/// called for each block with its example.
struct MarginMeasures {
  std::vector<GridFacts> grids;
  std::vector<MeasuredTask> tasks;          ///< by task, then grid
  std::vector<std::string> without_margin;  ///< tasks that have none
  bool exact_quantiles = true;              ///< false: within ResponseQuantiles::kRelativeError
};
MarginMeasures measure_margins(const CacheRun& run, const std::function<void(std::size_t)>& progress);

}  // namespace rope

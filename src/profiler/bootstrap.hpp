#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/ranking.hpp"

namespace rope::detail {

/// Example values of one task; NaN = the example has none. Each score has at least one value.
struct TaskValues {
  std::string name;
  std::vector<double> semantic, positional;  ///< [E]
};

/// Task means of every resample: the examples drawn with replacement, the same for both scores; a draw
/// without a value for either score is drawn anew.
struct Resamples {
  std::int64_t count = 0;
  std::vector<double> semantic, positional;  ///< [task][resample]
};

/// One generator per task, seeded from the seed and the task's name: a task's draws depend neither on the
/// other tasks nor on threads.
Resamples resample_tasks(const std::vector<TaskValues>& tasks, const BootstrapOptions& options);

/// Fills intervals and direction probabilities of `ranked` (in the order of `tasks`).
void add_intervals(std::vector<RankedTask>& ranked, const Resamples& resamples, int threads);

/// Quantile of sorted values, linear between order statistics: position q (n - 1).
double quantile(std::span<const double> sorted, double q);

}  // namespace rope::detail

#pragma once

#include <time.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace rope::bench {

/// Processor time of the whole process for work on one thread, so that other programs on the machine disturb
/// little; time of day for work on several.
enum class Clock { kProcessor, kWall };

inline double now_ns(Clock clock) {
  timespec now{};
  clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

template <class Run>
double elapsed_ns(Clock clock, Run&& run) {
  const double start = now_ns(clock);
  std::forward<Run>(run)();
  return now_ns(clock) - start;
}

template <class Run>
double best_ns(int repeats, Clock clock, Run&& run) {
  double best = elapsed_ns(clock, run);
  for (int repeat = 1; repeat < repeats; ++repeat) best = std::min(best, elapsed_ns(clock, run));
  return best;
}

/// Exponent p of cost ~ size^p: least squares in logarithms. sizes and costs: > 0, two or more.
double fitted_exponent(const std::vector<double>& sizes, const std::vector<double>& costs);

}  // namespace rope::bench

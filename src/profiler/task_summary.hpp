#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/profile_file.hpp"

namespace rope {

/// One row of `export --table tasks` (commands.md, columns; theory §§3, 4, 6: averages and what is left out).
struct TaskSummary {
  std::string task, family;
  std::int64_t examples = 0, window_min = 0, window_max = 0;
  double window_mean = 0;
  std::array<double, static_cast<int>(Score::kCount)>
      score;  ///< over selected heads, then examples; NaN = none
  std::int64_t triplets = 0, ties = 0, pairs = 0, undefined = 0, non_finite = 0, fragile = 0;
};

/// One row per (task, head) of `export --table heads`.
struct HeadSummary {
  std::string task;
  std::int64_t head = 0;  ///< index into ProfileHeader::heads
  bool selected = false;
  std::array<double, static_cast<int>(Score::kCount)> score;  ///< mean over the head's own valid examples
};

/// Streams a profile by blocks of examples.
std::vector<TaskSummary> summarize_tasks(const ProfileReader& profile);
std::vector<HeadSummary> summarize_heads(const ProfileReader& profile, const ProfileTask& task);
/// [N] per head of the profile: mean over its own valid examples, NaN where none.
std::vector<double> head_means(const ProfileReader& profile, const ProfileTask& task, Score score);

/// Examples' task values: mean over selected heads, NaN where none (what the bootstrap resamples).
std::vector<double> example_values(const ProfileReader& profile, const ProfileTask& task, Score score);

}  // namespace rope

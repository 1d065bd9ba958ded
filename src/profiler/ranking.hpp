#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/profile_file.hpp"

namespace rope {

/// Ranks of falling values (no NaN), 1 = largest; ties share the smallest rank (1,2,2,4) or their average
/// (1,2.5,2.5,4).
std::vector<double> competition_ranks(std::span<const double> values);
std::vector<double> average_ranks(std::span<const double> values);

/// Spearman's rho: Pearson correlation of the average ranks. NaN when a side is constant or n < 2.
double spearman(std::span<const double> a, std::span<const double> b);

/// w_S = 1/2 + (r_S - r_P) / (2 (T-1)); 1/2 for T = 1 (theory §6; P 171, 180).
std::vector<double> susceptibility(std::span<const double> semantic, std::span<const double> positional);

enum class Direction { kNone, kSemantic, kPositional };
const char* direction_name(Direction direction);
/// Average ranks of falling w_S; rank/T <= 1/2 -> semantic; all equal -> none.
std::vector<Direction> directions(std::span<const double> w_s);

struct RankedTask {
  std::string task, family;
  std::int64_t examples = 0;
  double window_mean = 0, semantic_score = 0, positional_score = 0;
  double r_s = 0, r_p = 0, w_s = 0, w_p = 0;
  Direction direction = Direction::kNone;
  double w_s_low = 0, w_s_high = 0, r_s_low = 0, r_s_high = 0, r_p_low = 0, r_p_high = 0;
  double direction_probability = 0;
};

struct Ranking {
  std::string model_name;                  ///< as the profile has it
  std::vector<RankedTask> tasks;           ///< both scores present; falling w_S, ties by name
  std::vector<std::string> unranked;       ///< tasks without both scores, by name
  std::vector<RankedTask> unranked_tasks;  ///< the same; what they lack is NaN, direction none
  std::int64_t resamples = 0;
  std::uint64_t seed = 0;
};

struct BootstrapOptions {
  std::int64_t resamples = 2000;
  std::uint64_t seed = 20260910;
  int threads = 0;
};

/// Ranks the tasks of a profile. The bootstrap resamples the examples' task values within each task, jointly
/// for both scores; 95 % percentile intervals. Deterministic in (profile, resamples, seed), for any number of
/// threads and any order of tasks. resamples = 0: intervals stay NaN.
Ranking rank_profile(const ProfileReader& profile, const BootstrapOptions& options);

}  // namespace rope

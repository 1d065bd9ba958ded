#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "profiler/profile_file.hpp"

namespace rope::test {

/// Uniform in [0, 1), the same on every library.
inline double unit(std::mt19937_64& generator) { return static_cast<double>(generator() >> 11) * 0x1p-53; }

/// A small invented profile: `layers` layers of two heads (layer 1 does not rotate), tasks "task-0", ... with
/// 3, 4, 5, ... examples. Everything follows from the seed. Put task by task, flushed in between.
struct ProfileRecipe {
  int layers = 4, tasks = 3;
  std::uint64_t seed = 7;
  bool selection = true, usage = true, inputs = true;
  bool reverse_second_pass = false;  ///< put the positional scores in a second pass
};

ProfileHeader recipe_header(const ProfileRecipe& recipe);
void fill_profile(ProfileWriter& writer, const ProfileRecipe& recipe);
/// Writes and commits.
void make_profile(const std::string& path, const ProfileRecipe& recipe);

/// A profile with given scores: value [task][example][head] of a column, heads (0,0), (0,1), ...
using ScoreCube = std::vector<std::vector<std::vector<double>>>;
struct ScoreTable {
  std::vector<std::string> tasks;
  int heads = 1;
  std::vector<char> selected;  ///< empty: all
  std::vector<std::pair<Score, ScoreCube>> scores;
};
void make_profile(const std::string& path, const ScoreTable& table);

}  // namespace rope::test

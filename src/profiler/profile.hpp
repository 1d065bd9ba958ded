#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activation_set.hpp"
#include "profiler/example_scorer.hpp"
#include "profiler/head_selection.hpp"
#include "profiler/profile_file.hpp"
#include "profiler/ranking.hpp"
#include "profiler/sweep_engine.hpp"
#include "profiler/task_summary.hpp"

namespace rope {

/// Everything that decides a profile (commands.md, options of `profile`).
struct ProfileOptions {
  std::vector<std::string> files;
  ActivationSetOptions input;
  ScoringOptions scoring;
  HeadRequest heads;
  bool heads_given = false;                   ///< `--heads` was on the command line
  std::optional<std::string> selection_from;  ///< `--selection P0.h5`
  bool digest = true;                         ///< `--digest full`
  std::string output;                         ///< empty: no file is kept
  /// `-o -`: takes the finished scratch file in place of a rename.
  std::function<void(const std::string& path)> deliver;
  bool force = false;
  SweepEngine engine = cpu_engine();
  std::string backend = "cpu";  ///< the engine's, for the record
  std::string simd;
  int threads = 0;                                ///< that compute; 0: as OpenMP would
  std::int64_t memory = std::int64_t{512} << 20;  ///< `--memory`
  PhaseClock* clock = nullptr;                    ///< where CPU time is booked; may be null
};

/// What `profile` says at its end.
struct ProfileReport {
  std::string model_name;
  std::vector<std::string> warnings;
  std::vector<int> still_layers;  ///< stored layers without rotation: listed, not scored
  std::vector<ProfileHead> heads;
  HeadSelection selection;
  std::vector<TaskSummary> tasks;
  Ranking ranking;  ///< without bootstrap
  /// Of the pass over all heads, and of that over the selected where there was one.
  std::vector<ScoringFacts> passes;
};

/// Called with what is being done, how many steps are done and how many there are.
using ProgressCallback = std::function<void(const char* what, std::int64_t done, std::int64_t total)>;

/// The main job: scores every (task, example, layer, head), selects heads, writes the profile, sums it up.
/// Under `--heads top:F` the norm shares of all heads come first and only the selected heads are swept, in a
/// second pass over the vectors. The result does not depend on threads, file order or how examples are split
/// over files.
ProfileReport run_profile(const ProfileOptions& options, const ProgressCallback& progress);

/// Metric names of `--metrics`, comma-separated. Throws UserError (usage) for an unknown one.
void set_metrics(const std::string& text, ScoringOptions& options);
std::string metric_names(const ScoringOptions& options);

}  // namespace rope

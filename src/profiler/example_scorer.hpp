#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "profiler/activation_set.hpp"
#include "profiler/grid_cache.hpp"
#include "profiler/profile_file.hpp"

namespace rope {

/// Which scores to compute, and under which window.
struct ScoringOptions {
  bool semantic = true, exact_reversal = false, positional = true, share = true, length = true, usage = true,
       aliasing = false;
  std::int64_t window = 0;  ///< > 0: in place of the examples' own
  bool window_cap = true;   ///< layers with a sliding window cap the window
  spectral::SplitRule split;

  bool needs_sweep() const { return positional || length || aliasing || (semantic && exact_reversal); }
};

/// What a head is asked for.
enum class HeadWork : char {
  kNone = 0,
  kWithoutSweep = 1,  ///< moments, norm share, usage
  kSweepOnly = 2,     ///< Positional Score, E_2, exact reversal, aliasing
  kAll = 3,
};

/// All values of one (example, head). NaN = not computed or undefined.
struct HeadScores {
  std::array<double, static_cast<int>(Score::kCount)> score;
  std::array<std::int64_t, static_cast<int>(Count::kCount)> count{};
  bool present = false;  ///< stored in this example, rotating, and asked for
  const Grid* grid = nullptr;
  std::vector<double> usage,
      usage_norm;  ///< [n_freq] u_n and mean |z_n|; empty when not asked for or undefined

  HeadScores();
};

/// Scores the heads of one example after another (theory §§3-5, 12). One thread reads, all threads compute; a
/// result depends on neither.
class ExampleScorer {
 public:
  ExampleScorer(const ActivationSet& set, const ScoringOptions& options);

  /// work: [set.heads()]. Throws UserError for unusable slots or vectors that cannot be read.
  std::vector<HeadScores> score(const SetTask& task, const SetExample& example,
                                std::span<const HeadWork> work);

  GridCache& grids() { return grids_; }
  /// The window that counts for a layer of an example.
  std::int64_t layer_window(const LayerModel& layer, const SetExample& example) const;

 private:
  struct Job;
  void add_jobs(const SetExample& example, const ExamplePart& part, std::span<const HeadWork> work,
                std::vector<HeadScores>& scores);
  void run_jobs();

  const ActivationSet* set_;
  ScoringOptions options_;
  GridCache grids_;
  std::vector<Job> jobs_;
  std::size_t raw_bytes_ = 0;

 public:
  ~ExampleScorer();
};

}  // namespace rope

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "profiler/example_reader.hpp"
#include "profiler/phase_clock.hpp"
#include "profiler/sweep_engine.hpp"

namespace rope {

/// With what scores are computed; no result depends on it.
struct ScoringResources {
  int threads = 0;                                ///< that compute; 0: as OpenMP would
  std::int64_t memory = std::int64_t{512} << 20;  ///< bytes in all, about; kLeastMemory or more
  SweepEngine engine = cpu_engine();
  PhaseClock* clock = nullptr;  ///< where CPU time is booked
};
inline constexpr std::int64_t kLeastMemory = std::int64_t{64} << 20;

/// How a memory budget is divided; all in bytes but `lanes`.
struct MemoryShares {
  std::int64_t vectors;  ///< stored vectors that were read and not yet used
  std::int64_t results;  ///< of examples under way
  std::int64_t windows;  ///< plans and factors kept for later examples
  std::int64_t lanes;    ///< of a batch; every worker has one
};
MemoryShares share_memory(const ScoringResources& resources, int workers, std::size_t most_frequencies);

/// What a run did, for people and tests.
struct ScoringFacts {
  std::int64_t vector_bytes = 0;  ///< read from the caches
  std::int64_t batches = 0, lanes = 0, swept_batches = 0, swept_lanes = 0;
  std::int64_t peak_vectors = 0, peak_results = 0;  ///< bytes that were under way at a time
};

/// Scores examples (theory §§3-5, 12): one thread reads ahead, others compute batches of lanes gathered from
/// whatever heads and examples share a grid and window, and the caller takes the results in order. They
/// depend on none of this.
class ExampleScorer {
 public:
  /// The set must outlive the scorer.
  ExampleScorer(const ActivationSet& set, const ScoringOptions& options, ScoringResources resources = {});

  /// Called for examples 0, 1, ... in order, by the thread that called score(). scores: [set.heads()].
  using Take = std::function<void(std::size_t example, std::vector<HeadScores>& scores)>;
  /// work: [set.heads()]. Throws UserError for unusable slots or vectors that cannot be read, or when threads
  /// cannot be started.
  void score(std::span<const SetExample* const> examples, std::span<const HeadWork> work, const Take& take);
  std::vector<HeadScores> score(const SetExample& example, std::span<const HeadWork> work);

  const ScoringFacts& facts() const { return facts_; }

 private:
  const ActivationSet* set_;
  ScoringOptions options_;
  ScoringResources resources_;
  int workers_;
  MemoryShares shares_;
  GridCache grids_;
  ScoringFacts facts_;
};

}  // namespace rope

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "profiler/head_job.hpp"
#include "profiler/sweep_engine.hpp"

namespace rope {

/// One block of pairs or of triplets of a head.
struct BatchPart {
  std::shared_ptr<HeadJob> job;
  std::int64_t block = 0;
};

/// Blocks, of whatever heads and examples, that one thread turns into one batch of lanes: all on one grid and
/// window, all pairs or all triplets, all swept or none.
struct BatchTask {
  enum class Kind { kPairs, kTriplets, kPlan, kMoments };  ///< the last two: only makes what others will need
  Kind kind = Kind::kPairs;
  bool sweep = false;
  std::shared_ptr<const WindowedGrid> grid, order_grid;  ///< see HeadJob
  double softcap = 0;
  std::vector<BatchPart> parts;
  std::int64_t lanes = 0;
};

/// Gathers blocks into tasks. Which blocks share a task decides how full the kernel's vectors are, and
/// nothing else. Not thread-safe.
class BatchPacker {
 public:
  using Sink = std::function<void(BatchTask&&)>;
  /// `lanes`: of a full task; long windows get fewer.
  BatchPacker(std::int64_t lanes, Sink sink) : lanes_(lanes), sink_(std::move(sink)) {}

  /// Every block of a head, pairs first.
  void add(const std::shared_ptr<HeadJob>& job);
  /// Hands out what has been gathered.
  void flush();
  bool empty() const { return open_.empty(); }

 private:
  using Key = std::tuple<const WindowedGrid*, double, BatchTask::Kind, bool>;
  void add(const std::shared_ptr<HeadJob>& job, BatchTask::Kind kind, bool sweep, std::int64_t block,
           std::int64_t lanes);

  std::int64_t lanes_;
  Sink sink_;
  std::map<Key, BatchTask> open_;
};

/// Lanes that a full task of a window has: some tens of milliseconds of work at most, so that threads end
/// together.
std::int64_t task_lanes(std::int64_t most, std::int64_t window);

/// Computes tasks, with memory that it keeps: one per thread.
class BatchScorer {
 public:
  BatchScorer(const ScoringOptions& options, const SweepEngine& engine)
      : options_(&options), engine_(&engine) {}

  /// `finished`: called for each head whose last block this was.
  void run(const BatchTask& task, const std::function<void(HeadJob&)>& finished);

 private:
  void score_pair_blocks(const BatchTask& task);
  void score_triplet_blocks(const BatchTask& task);
  void sweep_pairs(const BatchTask& task, std::vector<PairBlock>& blocks);
  void order_pairs(const BatchTask& task, std::vector<PairBlock>& blocks);
  std::vector<std::int64_t> barrier_counts(const BatchTask& task);

  const ScoringOptions* options_;
  const SweepEngine* engine_;
  spectral::CoefficientBatch batch_, margins_;
  spectral::SweepResult swept_;
};

}  // namespace rope

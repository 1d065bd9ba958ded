#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "profiler/grid_cache.hpp"
#include "profiler/head_change.hpp"
#include "profiler/memory_gate.hpp"
#include "profiler/pair_scores.hpp"
#include "profiler/profile_file.hpp"
#include "profiler/semantic_score.hpp"

namespace rope {

/// Which scores to compute, and under which window.
struct ScoringOptions {
  bool semantic = true, exact_reversal = false, positional = true, share = true, length = true, usage = true,
       aliasing = false;
  bool near_far = false;             ///< near-far order (theory §11)
  std::int64_t near_far_window = 0;  ///< > 0: its M in place of the layer's own
  std::optional<double> barrier;     ///< S_0 of the barrier exceedance (theory §11)
  bool logit_spread = false;         ///< sd of S(m) over the window, mean over pairs (theory §7)
  bool fixed_norm = false;           ///< Positional Score over U of the unchanged head, too (theory §7)
  std::int64_t window = 0;           ///< > 0: in place of the examples' own
  bool window_cap = true;            ///< layers with a sliding window cap the window
  spectral::SplitRule split;
  std::shared_ptr<const HeadChanges> changes;  ///< null: heads as they were stored

  /// Of pairs: what one sweep gives; what else needs every score of a window.
  bool sweeps_pairs() const { return positional || length || aliasing; }
  bool orders_pairs() const { return near_far || barrier.has_value(); }
  bool needs_sweep() const { return sweeps_pairs() || orders_pairs() || (semantic && exact_reversal); }
};

/// What a head is asked for.
enum class HeadWork : char {
  kNone = 0,
  kWithoutSweep = 1,  ///< moments, norm share, usage
  kSweepOnly = 2,     ///< Positional Score, E_2, exact reversal, aliasing, near-far order, barrier
  kAll = 3,
};
inline bool does(HeadWork work, HeadWork what) {
  return (static_cast<int>(work) & static_cast<int>(what)) != 0;
}

/// All values of one (example, head). NaN = not computed or undefined.
struct HeadScores {
  std::array<double, static_cast<int>(Score::kCount)> score;
  std::array<std::int64_t, static_cast<int>(Count::kCount)> count{};
  bool present = false;  ///< stored in this example, rotating, and asked for
  const Grid* grid = nullptr;
  std::vector<double> usage,
      usage_norm;  ///< [n_freq] u_n and mean |z_n|; empty when not asked for or undefined
  double logit_spread, positional_fixed_norm;  ///< of ScoringOptions; no columns of a profile

  HeadScores();
};

/// The stored vectors of neighbouring heads, shared by their jobs, and the memory that they were granted.
class HeldVectors {
 public:
  MemoryLease lease;
  RawBlock query, key;

  /// Makes the bytes of both, once; for any thread. Throws UserError for a damaged chunk.
  void decode();

 private:
  std::once_flag once_;
};

/// One head of one example: where its vectors lie, what to compute, and the sums of its blocks, which may be
/// computed by several threads.
class HeadJob {
 public:
  HeadSetting setting;
  std::vector<double> query_scale;       ///< what `setting` points into, where the head is changed
  std::optional<HeadSetting> unchanged;  ///< for the fixed norm, where the head is changed
  std::shared_ptr<HeldVectors> vectors;  ///< what `setting` points into; to be decoded before use
  std::shared_ptr<const PartSlots> slots;
  std::shared_ptr<const WindowedGrid> grid;
  std::shared_ptr<const WindowedGrid> order_grid;  ///< of the near-far order: its own M
  std::shared_ptr<const SlotPhases> phases;
  std::shared_ptr<const SlotPhases> stored_phases;  ///< of the unchanged grid, where that is another
  HeadWork work = HeadWork::kNone;
  const ScoringOptions* options = nullptr;
  std::shared_ptr<void> owner;   ///< keeps `target`
  HeadScores* target = nullptr;  ///< where the scores go

  bool light() const { return does(work, HeadWork::kWithoutSweep); }
  /// A window of one token has nothing to sweep.
  bool sweeps() const { return does(work, HeadWork::kSweepOnly) && grid->window() >= 2; }
  bool orders() const { return does(work, HeadWork::kSweepOnly) && options->orders_pairs(); }
  bool sweeps_pairs() const { return (sweeps() && options->sweeps_pairs()) || orders(); }
  bool sweeps_triplets() const { return sweeps() && options->exact_reversal; }

  /// To be called once all of the above is set: makes room for the blocks.
  void open();
  std::int64_t pair_blocks() const { return static_cast<std::int64_t>(pairs_.size()); }
  std::int64_t triplet_blocks() const { return static_cast<std::int64_t>(triplets_.size()); }
  PairPart pair_part(std::int64_t block) const;
  TripletPart triplet_part(std::int64_t block) const;

  void put(std::int64_t block, PairSums&& sums) { pairs_[static_cast<std::size_t>(block)] = std::move(sums); }
  void put(std::int64_t block, const TripletSums& sums) { triplets_[static_cast<std::size_t>(block)] = sums; }
  /// Call after each block, and once when all blocks are handed out. True for the last: the scores are there.
  bool done_one() { return open_.fetch_sub(1) == 1; }
  HeadScores scores() const;

  /// Bytes of the sums of a head of so many blocks, about.
  static std::int64_t bytes_of(const PartSlots& slots, std::size_t n_freq);

 private:
  void set_pair_scores(HeadScores& result) const;
  void set_triplet_scores(HeadScores& result) const;

  std::vector<PairSums> pairs_;        // by block, folded in that order
  std::vector<TripletSums> triplets_;  // by block
  std::atomic<std::int64_t> open_{1};
};

}  // namespace rope

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/head_vectors.hpp"
#include "profiler/part_slots.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/barrier.hpp"
#include "spectral/near_far_order.hpp"
#include "spectral/pair_coefficients.hpp"
#include "spectral/window_moments.hpp"

namespace rope {

/// Pairs of a head in fixed blocks, as triplets are; a multiple of the lanes that a sweep takes at a time.
inline constexpr std::int64_t kPairBlock = 960;

/// What a block of pairs adds to a head's scores (theory §§4, 5, 12). Sums run over its valid pairs.
struct PairSums {
  std::int64_t pairs = 0, undefined = 0, non_finite = 0, valid = 0;
  double norm_share = 0, frequency_mass = 0;
  double positional = 0, response_max = 0, effective_length = 0, aliasing = 0, aliasing_f16 = 0,
         logit_spread = 0;
  double near_far = 0, near_far_gaussian = 0;  // theory §11
  double barrier = 0, barrier_gaussian = 0, barrier_limit = 0;
  double positional_fixed_norm = 0;  ///< over the fixed_norm_valid pairs that have a U of the unchanged head
  std::int64_t fixed_norm_valid = 0;
  std::vector<double> usage, usage_norm;  ///< [n_freq] of |Re(z_n e^{i m omega_n})| and |z_n|

  void add(const PairSums& other);
};

struct PairBlock {
  std::size_t first_lane = 0;  ///< of its pairs in the batch
  std::vector<double> norm;    ///< [n] U; 0 for left-out pairs
  std::vector<double>
      fixed_norm;  ///< [n] U of the unchanged head, 0 for its left-out pairs; empty: not asked for
  PairSums sums;   ///< all but what the sweep gives
};

/// One block of pairs of a head, and what to take from it besides the coefficients.
struct PairPart {
  const HeadSetting* head = nullptr;
  const PartSlots* slots = nullptr;
  std::int64_t index = 0;              ///< pairs [index * kPairBlock, ...) of the head
  const SlotPhases* phases = nullptr;  ///< of these slots on the head's grid; null: made anew where needed
  bool usage = false;                  ///< usage and frequency mass
  bool norm_share = true;
  const HeadSetting* unchanged = nullptr;  ///< not null: U of this one, too

  std::int64_t pairs() const;
};

/// Coefficients of blocks of pairs of one or several heads on one grid and window into `batch` (shaped here),
/// block after block, and what needs no sweep. Left-out pairs become zero lanes. A block's result does not
/// depend on the others. high: [n_freq] mask of H(M) over the rotating pairs.
std::vector<PairBlock> score_pairs(std::span<const PairPart> parts, const std::vector<char>& high,
                                   spectral::CoefficientBatch& batch);

/// Adds the standard deviations of S(m) over the window of the blocks' lanes to their sums (theory §2, on z).
void add_spread(const spectral::WindowMoments& moments, const spectral::CoefficientBatch& batch,
                std::span<PairBlock> blocks);

/// Adds the block's lanes of what a sweep of the batch gave to its sums.
void add_sweep(const spectral::SweepResult& swept, PairBlock& block);

/// Adds the block's lanes of the near-far order.
void add_near_far(const spectral::NearFarOrder& order, PairBlock& block);

/// Adds the block's lanes of the barrier exceedance. counts: of m < window with S(m) > S_0, per lane.
void add_barrier(std::span<const std::int64_t> counts, std::int64_t window,
                 const spectral::BarrierGaussian& gaussian, PairBlock& block);

}  // namespace rope

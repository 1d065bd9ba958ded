#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/head_vectors.hpp"
#include "profiler/part_slots.hpp"
#include "spectral/pair_coefficients.hpp"
#include "spectral/window_moments.hpp"

namespace rope {

/// Triplets of a head in fixed blocks: the partial sums of a block do not depend on how blocks are batched.
inline constexpr std::int64_t kTripletBlock = 512;

/// What a block of triplets adds to a head's Semantic Score (theory §3). Sums run over its valid triplets.
struct TripletSums {
  std::int64_t triplets = 0, ties = 0, undefined = 0, non_finite = 0, fragile = 0, valid = 0;
  double reversal = 0;        ///< Gaussian p_rev
  double exact_reversal = 0;  ///< exact p_rev
  double gap = 0;             ///< |Gaussian - exact|
};

/// One block of triplets of a head.
struct TripletPart {
  const HeadSetting* head = nullptr;
  const PartSlots* slots = nullptr;
  std::int64_t index = 0;              ///< triplets [index * kTripletBlock, ...) of the head
  const SlotPhases* phases = nullptr;  ///< of these slots on the head's grid; null: made anew where needed

  std::int64_t triplets() const;
};

/// What is known of one block of triplets.
struct TripletBlock {
  std::size_t first_lane = 0;    ///< of its triplets in the batch
  std::vector<double> reversal;  ///< [n] Gaussian p_rev of each lane
  std::vector<char> valid;       ///< [n]
  TripletSums sums;              ///< all but the exact part
};

/// Scores blocks of triplets of one or several heads on one grid and window and leaves their margins d in
/// `margins` (shaped here), block after block: oriented so that D(0) > 0, lanes of left-out triplets zero; as
/// they come where `oriented` is false, which changes no result and saves a pass. `moments` is made for that
/// grid and window. A block's result does not depend on the others.
std::vector<TripletBlock> score_triplets(std::span<const TripletPart> parts,
                                         const spectral::WindowMoments& moments,
                                         spectral::CoefficientBatch& margins, bool oriented = true);

/// Adds the exact reversals to the block's sums. counts: of m < window with D(m) < 0, for every lane of the
/// batch.
void add_exact_reversals(std::span<const std::int64_t> counts, std::int64_t window, TripletBlock& block);

}  // namespace rope

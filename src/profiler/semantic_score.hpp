#pragma once

#include <cstdint>
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

/// Margins d of one block of triplets, oriented so that D(0) > 0; lanes of left-out triplets are zero.
struct TripletBlock {
  std::vector<double> reversal;  ///< [n] Gaussian p_rev of each lane
  std::vector<char> valid;       ///< [n]
  TripletSums sums;              ///< all but the exact part
};

/// Scores triplets [first, first + count) of a head and leaves their margins in lanes [0, count) of `margins`
/// (reset here). `moments` is made for the head's grid and window.
TripletBlock score_triplets(const HeadSetting& head, const PartSlots& slots, std::int64_t first,
                            std::int64_t count, const spectral::WindowMoments& moments,
                            spectral::CoefficientBatch& margins);

/// Adds the exact reversals, counts of m < window with D(m) < 0 for lanes [0, n), to the block's sums.
void add_exact_reversals(const std::int64_t* counts, std::int64_t window, TripletBlock& block);

}  // namespace rope

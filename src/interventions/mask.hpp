#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/band_split.hpp"

namespace rope {

/// M of theory §1 for a layer: the prompt's length, capped by its sliding window or chunk (0 = none).
std::int64_t capped_window(std::int64_t prompt_length, std::int64_t layer_window);

/// Indexes of the pairs in H(M), rising (theory §§5, 7). omega: [h], zeros never in H; rho: of the grid;
/// prompt_length >= 1 tokens. Fixed for the whole generation.
std::vector<int> masked_pairs(const spectral::SplitRule& split, std::span<const double> omega, double rho,
                              std::int64_t prompt_length, std::int64_t layer_window);

/// From `length` tokens on the first `pairs` pairs in falling frequency are in H.
struct MaskStep {
  std::int64_t length = 1;
  int pairs = 0;
  bool operator==(const MaskStep&) const = default;
};

/// H for every prompt length from 1 to 2^24, as rising steps: each H(M) is a prefix and never shrinks with M.
std::vector<MaskStep> mask_steps(const spectral::SplitRule& split, std::span<const double> omega, double rho,
                                 std::int64_t layer_window);

}  // namespace rope

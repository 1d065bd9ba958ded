#pragma once

#include <cstddef>
#include <cstdint>

namespace rope::spectral {

/// Offsets on one side of a block's centre: t = 1/2, 3/2, ..., so a block has twice as many distances.
inline constexpr std::size_t kLawOffsets = 64;
/// Offsets that are worked on together.
inline constexpr std::size_t kLawTile = 4;

/// One block of some lanes. Scores come in bins: X_H(centre +- t) in units of a bin's width.
struct LawBlock {
  const float* table =
      nullptr;  ///< [kLawOffsets / kLawTile][h][2 * kLawTile]: cosines, then sines, of t omega
  const float *re = nullptr, *im = nullptr;  ///< [h][lanes] u = z e^{i centre omega}
  std::size_t h = 0, lanes = 0;              ///< lanes: of a vector, law_lanes()
  std::int32_t* above = nullptr;             ///< [kLawOffsets][lanes] bin of the score at centre + t
  std::int32_t* below = nullptr;             ///< the same at centre - t
};

/// Lanes of one vector on the SIMD target in use.
std::size_t law_lanes();
/// Fills above and below for the first `tiles` tiles of offsets.
void law_block(const LawBlock& block, std::size_t tiles);

}  // namespace rope::spectral

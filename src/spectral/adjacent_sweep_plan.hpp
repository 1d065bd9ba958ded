#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {

/// Offsets that one register tile of the kernel computes; the table is laid out for it.
inline constexpr std::size_t kTileOffsets = 4;

/// One mirrored block of the window: distances centre - below ... centre + above.
struct SweepBlock {
  std::int64_t centre = 0;
  std::size_t below = 0, above = 0;  ///< above = below, or below + 1 in a last block of odd length
};

/// What src/spectral/README.md calls the plan: the window is cut into blocks of 2 * half differences that
/// share their boundary distances, and the table holds e^{i t omega} - 1 for the offsets t = 1 ... half that
/// every block uses. Size: O(half * h), whatever the window.
struct SweepPlan::Impl {
  std::vector<double> omega;
  std::int64_t window = 0;
  std::size_t half = 0;       ///< multiple of kTileOffsets
  std::vector<double> table;  ///< [half / 4][h][cos(t w) - 1 for 4 offsets, then sin(t w) for 4 offsets]
  std::vector<double>
      advance;  ///< [h][cos, sin] of 2 * half * omega: centre of a block to centre of the next
  std::int64_t blocks = 0;

  SweepBlock block(std::int64_t index) const {
    const auto span = static_cast<std::int64_t>(2 * half), start = index * span;
    const auto length = static_cast<std::size_t>(span < window - 1 - start ? span : window - 1 - start);
    const std::size_t below = length / 2;
    return {start + static_cast<std::int64_t>(below), below, length - below};
  }
};

}  // namespace rope::spectral

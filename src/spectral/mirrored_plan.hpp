#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rope::spectral {

/// Offsets that one register tile of the float64 kernel computes; the table is laid out for it.
inline constexpr std::size_t kTileOffsets = 4;

/// float64 tables of one grid for the plain mirrored sweep (src/spectral/README.md): the window is cut into
/// blocks of 2 * half differences that share their boundary distances, and the table holds e^{i t omega} - 1
/// for the offsets t = 1 ... half that every block uses. Size: O(half * h), whatever the window.
struct MirroredPlan {
  explicit MirroredPlan(std::span<const double> omega);

  std::vector<double> omega;
  std::size_t half = 0;       ///< multiple of kTileOffsets
  std::vector<double> table;  ///< [half / 4][h][cos(t w) - 1 for 4 offsets, then sin(t w) for 4 offsets]
  std::vector<double>
      advance;  ///< [h][cos, sin] of 2 * half * omega: centre of a block to centre of the next
};

/// One mirrored block of the window: distances centre - below ... centre + above.
struct MirroredBlock {
  std::int64_t centre = 0;
  std::size_t below = 0, above = 0;  ///< above = below, or below + 1 in a last block of odd length
};

/// A grid's tables at one window.
struct MirroredWindow {
  MirroredWindow(const MirroredPlan& tables, std::int64_t distances)
      : plan(tables), window(distances), blocks((distances - 2) / span() + 1) {}

  const MirroredPlan& plan;
  std::int64_t window, blocks;

  std::int64_t span() const { return static_cast<std::int64_t>(2 * plan.half); }
  MirroredBlock block(std::int64_t index) const {
    const std::int64_t start = index * span();
    const auto length = static_cast<std::size_t>(span() < window - 1 - start ? span() : window - 1 - start);
    const std::size_t below = length / 2;
    return {start + static_cast<std::int64_t>(below), below, length - below};
  }
};

}  // namespace rope::spectral

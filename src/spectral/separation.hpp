#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "spectral/band_split.hpp"

namespace rope::spectral {

/// The hypothesis of Prop. 1 (theory §5): the points {0, +omega_n, -omega_n}, n in H, lie at least
/// delta apart on the circle, distinct by index (equal frequencies give 0), and M delta >= 2 C / epsilon.
/// `certified` sets of geometric grids and `separation` sets of any grid meet it by construction; for other
/// sets and grids it decides whether the proposition says anything.
struct SeparationCheck {
  std::size_t size = 0;            ///< |H|
  double delta = 0;                ///< smallest distance, radians; NaN where H is empty
  double scaled = 0;               ///< M delta; NaN where H is empty
  double needed = 0;               ///< 2 C / epsilon of the rule
  bool satisfied = false;          ///< M delta >= needed; false where H is empty
  bool proved = false;             ///< satisfied, and C >= 2 pi: Prop. 1 holds for every vector on H
  std::size_t largest_prefix = 0;  ///< |H| of `separation` with the same C and epsilon at this window
  bool is_prefix = false;          ///< H holds the fastest pairs and no other
};

/// C and epsilon of a rule; those of `certified` (2 pi, 0.01) for rules that have none (omega, periods,
/// prefix).
struct BandConstants {
  double c = 0, epsilon = 0;
};
BandConstants band_constants(const SplitRule& rule);

/// Smallest distance modulo 2 pi between members of {0, +omega_n, -omega_n} that differ by index. omega in
/// (0, pi]. NaN where there is none.
double smallest_separation(std::span<const double> omega);

/// high: [h] mask of H under `rule`; omega: [h], in (0, pi]. window >= 1.
SeparationCheck check_separation(const SplitRule& rule, std::span<const double> omega,
                                 std::span<const char> high, std::int64_t window);

}  // namespace rope::spectral

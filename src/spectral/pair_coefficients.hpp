#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rope::spectral {

/// Which lanes make up rotary pair n of r/2: (n, n + r/2) or (2n, 2n + 1).
enum class PairLayout { kHalf, kInterleaved };

/// Lanes of a head split into rotating pairs, pairs of zero frequency and plain tail (theory §1).
struct LaneMap {
  std::vector<int> pair;      ///< [n_freq] original pair index of each rotating pair, rising
  std::vector<int> a, b;      ///< [n_freq] lanes of the rotating pairs
  std::vector<double> omega;  ///< [n_freq] their frequencies, all > 0
  std::vector<int> still;     ///< lanes of pairs with omega = 0: constant, scaled by A_q A_k
  std::vector<int> tail;      ///< lanes outside the rotary width: constant, not scaled
};

/// `omega`: [h] with zeros allowed; `head_dim` >= 2h.
LaneMap make_lane_map(std::span<const double> omega, PairLayout layout, int head_dim);

/// SIMD lane padding of every batch below: strides are multiples of it.
inline constexpr std::size_t kLaneAlign = 16;
inline std::size_t padded(std::size_t n) { return (n + kLaneAlign - 1) / kLaneAlign * kLaneAlign; }

/// Coefficient vectors z of many query-key pairs (or margins d) on one grid, ready for the sweep.
/// Lane p of row n is z_n of pair p; lanes beyond n_pairs are zero.
struct CoefficientBatch {
  std::size_t n_freq = 0, n_pairs = 0, stride = 0;  ///< stride = padded(capacity)
  std::vector<double> re, im;                       ///< [n_freq * stride], row-major by frequency
  std::vector<double> constant;                     ///< [stride] c_0

  void reset(std::size_t frequencies, std::size_t pairs);
};

/// Undo (direction = -1) or apply (+1) the rotation of row-major vectors [count, head_dim] in place:
/// pair n is multiplied by e^{i direction * position * omega_n}. Angles reduced in float64.
void rotate_rows(double* rows, std::size_t count, int head_dim, const LaneMap& map,
                 std::span<const long long> positions, int direction);

}  // namespace rope::spectral

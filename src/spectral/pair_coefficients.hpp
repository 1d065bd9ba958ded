#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "spectral/aligned_vector.hpp"

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

/// `omega`: [h] with zeros allowed; `head_dim` >= 2h. Throws std::logic_error on a negative or non-finite
/// frequency or a head too narrow.
LaneMap make_lane_map(std::span<const double> omega, PairLayout layout, int head_dim);

/// SIMD lane padding of every batch below: strides are multiples of it.
inline constexpr std::size_t kLaneAlign = 16;
inline std::size_t padded(std::size_t n) { return (n + kLaneAlign - 1) / kLaneAlign * kLaneAlign; }

/// Coefficient vectors z of many query-key pairs (or margins d) on one grid, ready for the sweep.
/// Lane p of row n is z_n of pair p; lanes beyond n_pairs are zero.
struct CoefficientBatch {
  std::size_t n_freq = 0, n_pairs = 0, stride = 0;  ///< stride = padded(capacity)
  AlignedVector re, im;                             ///< [n_freq * stride], row-major by frequency
  AlignedVector constant;                           ///< [stride] c_0

  /// Shapes the batch for `pairs` lanes, all zero. Keeps the memory it has.
  void reset(std::size_t frequencies, std::size_t pairs);
  /// Shapes it with the padding zero; the caller writes the lanes [0, pairs), which hold anything.
  void shape(std::size_t frequencies, std::size_t pairs);
};

/// Undo (direction = -1) or apply (+1) the rotation of row-major vectors [count, head_dim] in place:
/// pair n is multiplied by e^{i direction * position * omega_n}. Angles reduced in float64.
void rotate_rows(double* rows, std::size_t count, int head_dim, const LaneMap& map,
                 std::span<const long long> positions, int direction);

/// z and c_0 of every query x every key of one head (theory §1): pair (i, j) goes to lane
/// first_lane + i * n_keys + j of `batch`, which must hold those lanes and map.omega.size() rows.
/// queries [n_queries, head_dim] and keys [n_keys, head_dim]: content vectors, row-major.
/// scale = c A_q A_k, on rotating and still lanes; tail_scale = c. Non-finite inputs give non-finite lanes
/// and touch no other lane.
void pair_coefficients(const double* queries, std::size_t n_queries, const double* keys, std::size_t n_keys,
                       int head_dim, const LaneMap& map, double scale, double tail_scale,
                       CoefficientBatch& batch, std::size_t first_lane);

/// U(z) and U_J(z) of each lane (theory §1, §5): norm[p] = sqrt(sum_n |z_n|^2), subset_norm[p] the same over
/// the pairs with mask[n] != 0. norm and subset_norm: [n_pairs]; mask: [n_freq]. Each lane is scaled by a
/// power of two first, so nothing under- or overflows unless U itself does; subset_norm <= norm exactly. NaN
/// or infinite where the lane is.
void pair_norms(const CoefficientBatch& batch, std::span<const char> mask, std::span<double> norm,
                std::span<double> subset_norm);

/// U alone.
void pair_norms(const CoefficientBatch& batch, std::span<double> norm);

/// Power of two s such that s * largest lies in [1/2, 1), 1 for 0 and what is not finite. Exponents are
/// clamped to +-1000, so what is subnormal stays small, but is not lost.
double unit_scale(double largest);

/// unit_scale of max_n max(|Re z_n|, |Im z_n|) of each lane.
void lane_scales(const CoefficientBatch& batch, std::span<double> scale);

}  // namespace rope::spectral

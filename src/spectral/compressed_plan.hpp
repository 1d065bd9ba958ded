#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rope::spectral {

/// Geometry of the two-level sweep. Inner blocks hold 2 * kInnerHalf differences about a centre c, outer
/// blocks 2 * kOuterHalf about a centre C; the inner centres of an outer block are C +- inner_shift(j),
/// j = 0 ... kInnerPairs - 1.
inline constexpr std::size_t kInnerHalf = 64, kInnerPairs = 8;
inline constexpr std::size_t kOuterHalf = 2 * kInnerHalf * kInnerPairs;  // 1024
inline constexpr std::size_t kPlanTile = 4;  ///< offsets that one register tile computes; the layout follows
inline constexpr std::int64_t inner_shift(std::size_t j) {
  return static_cast<std::int64_t>((2 * j + 1) * kInnerHalf);
}

/// float32 tables of the compressed sweep of one grid, made in float64, the same for every window, pair and
/// backend (derivation: src/spectral/README.md). Frequencies are sorted, fastest first: the first n_direct
/// are summed as they are in every inner block; the first n_direct + n_middle as they are in every outer
/// block; the others only through bases that they share. With u_n = z_n e^{i c omega_n}, Re u_n belongs to
/// the even and -Im u_n to the odd functions of the offset:
///
///     S(c +- t) = S(c) + E(t) +- O(t),   E(t) = sum_k even_table[t][k] even[k],   E(0) = 0, O alike.
///
/// All functions are in remainder form (cos - 1, sin), so S(c) enters no difference.
struct CompressedPlan {
  explicit CompressedPlan(std::span<const double> omega);  ///< > 0, <= pi, h from 1 to 512, any order

  std::size_t n_freq = 0, n_direct = 0, n_middle = 0;
  std::size_t inner_even = 0, inner_odd = 0;  ///< ranks of the inner basis of all but the direct ones
  std::size_t outer_even = 0, outer_odd = 0;  ///< ranks of the outer basis of the n_rest() slowest
  std::vector<std::size_t> order;             ///< [n_freq] index in the caller's omega
  std::vector<double> omega;                  ///< [n_freq] sorted, falling
  std::vector<double> advance;                ///< [n_freq][cos, sin] of 2 kOuterHalf omega: C to the next C

  /// [n_freq][3]: r = min(1, kInnerHalf omega), R = min(1, kOuterHalf omega), R^2: how far a frequency's
  /// terms move within a block, for bounds.
  std::vector<double> reach;

  std::size_t n_rest() const { return n_freq - n_direct - n_middle; }
  std::size_t even_size() const { return n_direct + inner_even; }  ///< coefficients of an inner block
  std::size_t odd_size() const { return n_direct + inner_odd; }
  std::size_t outer_a() const { return n_middle + outer_even; }  ///< outer coefficients: even functions
  std::size_t outer_b() const { return n_middle + outer_odd; }   ///< and odd ones

  /// [kInnerHalf / 4 tiles][even_size()][4 offsets]: offsets t = 1 ... kInnerHalf; direct ones first.
  std::vector<float> even_table, odd_table;
  /// [tiles of outer_even rows][n_rest()][4 rows]: outer coefficients a[n_middle + q] = sum_n project * Re U,
  /// b alike from -Im U with outer_odd. a[i], b[i] for i < n_middle are Re U and -Im U of the middle ones.
  std::vector<float> project_even, project_odd;
  /// [kInnerPairs][n_direct][cos, sin] of inner_shift(j) * omega. At C +- s:
  /// even = Re U cos +- (-Im U) sin, odd = (-Im U) cos -+ Re U sin.
  std::vector<float> turn;
  /// transfer_a: [kInnerPairs][tiles of transfer_rows()][outer_a()][4 rows], transfer_b with outer_b(). Row
  /// 0: what S(c) gains over S(C); then the even and the odd coefficients of the inner basis. At C + s a row
  /// is the sum of its two products; at C - s the b part (rows 0 and even) or the a part (odd) changes its
  /// sign.
  std::vector<float> transfer_a, transfer_b;
  std::size_t transfer_rows() const { return 1 + inner_even + inner_odd; }
  static constexpr std::size_t tiles(std::size_t rows) { return (rows + kPlanTile - 1) / kPlanTile; }

  /// Fused multiply-adds per pair and distance, all levels.
  double cost() const;
  /// Bound on the error of one basis function relative to its root mean square.
  static constexpr double kTolerance = 2e-7;
};

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// Content vectors of several tokens, one column per token, so that neighbouring tokens share a vector
/// register. Rows: lanes a of the rotating pairs, then their lanes b, then the still lanes, then the tail
/// (order of the LaneMap). Lanes beyond `tokens` hold anything; kLaneAlign values more follow the last row.
struct VectorColumns {
  std::size_t n_freq = 0, n_still = 0, n_tail = 0;
  std::size_t tokens = 0, stride = 0;  ///< stride = padded(tokens)
  AlignedVector values;                ///< [rows()][stride]

  std::size_t rows() const { return 2 * n_freq + n_still + n_tail; }
  double* row(std::size_t r) { return values.data() + r * stride; }
  const double* row(std::size_t r) const { return values.data() + r * stride; }

  /// Shapes for `count` tokens without setting the values. Keeps the memory it has.
  void shape(const LaneMap& map, std::size_t count);
  void shape_like(const VectorColumns& other);
  /// Puts row-major vectors [count, head_dim] into columns first ... first + count - 1.
  void put(const double* vectors, std::size_t count, int head_dim, const LaneMap& map, std::size_t first);
};

/// |x_n|^2 and |x_n| of the rotating pairs of columns, each column over a power of two so that its largest
/// component lies in [1, 2). |z_n| = |q_n| |k_n|, so these are what norms and usage of pairs are made of.
struct ColumnModuli {
  std::size_t n_freq = 0, stride = 0;
  AlignedVector square, modulus;  ///< [n_freq][stride]
  /// [stride] the power of two. 0 for columns whose products could leave float64 nonetheless (not finite, or
  /// components more than 2^100 apart): their pairs are measured one by one.
  AlignedVector unit;

  const double* square_row(std::size_t n) const { return square.data() + n * stride; }
  const double* modulus_row(std::size_t n) const { return modulus.data() + n * stride; }
};
void measure_columns(const VectorColumns& columns, ColumnModuli& moduli);

/// The same vectors in the rows of another map of the same head: some of its pairs still instead of rotating,
/// or back.
void regroup_columns(const VectorColumns& from, const LaneMap& map, const LaneMap& other, VectorColumns& to);

/// e^{i p omega_n} of many positions on one grid, one column per position.
struct PhaseColumns {
  std::size_t n_freq = 0, tokens = 0, stride = 0;  ///< stride = padded(tokens)
  AlignedVector cos, sin;                          ///< [n_freq][stride]
};
PhaseColumns make_phase_columns(std::span<const double> omega, std::span<const long long> positions);

/// Turns pair n of token t by e^{i direction p_t omega_n}, direction +1 or -1, in place; token t has column
/// first + t of `phases`.
void turn_columns(VectorColumns& columns, const PhaseColumns& phases, std::size_t first, int direction);

/// Bounds of columns, one value each, that the margins of their pairs are judged by.
struct ColumnBounds {
  std::vector<double> size;      ///< norm of the rotating rows, at least
  std::vector<double> largest;   ///< largest square, at least; of queries
  std::vector<double> rounding;  ///< sum of what difference_columns says; of key pairs
};
void bound_columns(const VectorColumns& columns, ColumnBounds& bounds);

/// What rounding its two keys and a query of error u_q does to a row of a margin, over the query's square:
/// u_q^2 (k_1 - k_2)^2 + u_k^2 (k_1^2 + k_2^2) (theory §3, fragile triplets).
struct RoundingUnits {
  double query = 0, key = 0;
};
/// difference = first - second of columns of equal shape, with its size and the sum over the rows of
/// rounding.
void difference_columns(const VectorColumns& first, const VectorColumns& second, const RoundingUnits& units,
                        VectorColumns& difference, ColumnBounds& bounds);
/// Sum over the rows of q^2 * rounding: column q of `query`, column k of the others.
double margin_rounding(const VectorColumns& query, std::size_t q, const VectorColumns& first,
                       const VectorColumns& second, std::size_t k, const RoundingUnits& units);

}  // namespace rope::spectral

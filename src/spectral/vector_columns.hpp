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
  std::vector<double> values;          ///< [rows()][stride]

  std::size_t rows() const { return 2 * n_freq + n_still + n_tail; }
  double* row(std::size_t r) { return values.data() + r * stride; }
  const double* row(std::size_t r) const { return values.data() + r * stride; }

  /// Shapes for `count` tokens without setting the values. Keeps the memory it has.
  void shape(const LaneMap& map, std::size_t count);
  void shape_like(const VectorColumns& other);
  /// Puts row-major vectors [count, head_dim] into columns first ... first + count - 1.
  void put(const double* vectors, std::size_t count, int head_dim, const LaneMap& map, std::size_t first);
};

/// The same vectors in the rows of another map of the same head: some of its pairs still instead of rotating,
/// or back.
void regroup_columns(const VectorColumns& from, const LaneMap& map, const LaneMap& other, VectorColumns& to);

/// e^{i p omega_n} of many positions on one grid, one column per position.
struct PhaseColumns {
  std::size_t n_freq = 0, tokens = 0, stride = 0;  ///< stride = padded(tokens)
  std::vector<double> cos, sin;                    ///< [n_freq][stride]
};
PhaseColumns make_phase_columns(std::span<const double> omega, std::span<const long long> positions);

/// Turns pair n of token t by e^{i direction p_t omega_n}, direction +1 or -1, in place; token t has column
/// first + t of `phases`.
void turn_columns(VectorColumns& columns, const PhaseColumns& phases, std::size_t first, int direction);

/// Of columns of equal shape, by element: difference = first - second, and rounding = query_unit^2
/// difference^2 + key_unit^2 (first^2 + second^2) (theory §3, fragile triplets).
void difference_columns(const VectorColumns& first, const VectorColumns& second, double query_unit,
                        double key_unit, VectorColumns& difference, VectorColumns& rounding);

}  // namespace rope::spectral

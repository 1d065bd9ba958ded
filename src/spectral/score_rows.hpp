#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {

/// Every score of a few lanes, for what needs them all at hand (near_far_order).
class ScoreRows {
 public:
  explicit ScoreRows(const SweepBasis& basis) : basis_(&basis) {}

  /// Lanes that evaluate() computes at a time: those of one vector, [k * lanes(), (k + 1) * lanes()).
  static std::size_t lanes();

  /// S(m) - c_0 at m = first ... first + count - 1 of lanes [first_lane, first_lane + kept) of the batch, in
  /// float64: rows[i * count + m - first]. The lanes lie in one vector; count >= 1. A score is within
  /// score_error_bound of real arithmetic; its bytes depend on the lane, first and the SIMD target alone.
  void evaluate(const CoefficientBatch& batch, std::size_t first_lane, std::size_t kept, std::int64_t first,
                std::int64_t count, std::span<double> rows);

 private:
  const SweepBasis* basis_;
  std::vector<double> block_, scratch_;
};

}  // namespace rope::spectral

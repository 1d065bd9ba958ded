#pragma once

#include <cstddef>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// Columns of a factor that one register tile of the kernel computes.
inline constexpr std::size_t kTileColumns = 4;

/// What evaluation needs of a (grid, window).
struct MomentFactors {
  std::size_t h = 0;
  std::vector<double> phase;   ///< [h][cos, sin] of omega at the window centre
  std::vector<double> weight;  ///< [h] mean of cos(t omega) over the window, t from the centre
  std::vector<double> cosine;  ///< [columns / 4][h][4] factor of the covariance of cos(t omega)
  std::vector<double> sine;    ///< the same of sin(t omega)
};

/// Lanes first_lane ... + simd width * 3 - 1 of the batch, as far as padding goes; returns how many lanes
/// were done. mean, variance: [padded(n_pairs)]. scratch: moments_scratch_size() doubles.
std::size_t evaluate_moments(const MomentFactors& factors, const CoefficientBatch& batch,
                             std::size_t first_lane, double* mean, double* variance, double* scratch);
std::size_t moments_scratch_size(const MomentFactors& factors);

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// Columns of a factor that one register tile of the kernel computes.
inline constexpr std::size_t kTileColumns = 4;

/// Factor of one covariance block. Its rows are in the order of the pivots, so that column k is zero above
/// row k and a tile of columns needs no row above its first.
struct MomentFactor {
  std::size_t tiles = 0;
  std::vector<double> table;       ///< tile by tile: [h - 4 tile][4]
  std::vector<std::size_t> place;  ///< [h] row of each frequency
};

/// What evaluation needs of a (grid, window).
struct MomentFactors {
  std::size_t h = 0;
  std::vector<double> phase;   ///< [h][cos, sin] of omega at the window centre
  std::vector<double> weight;  ///< [h] mean of cos(t omega) over the window, t from the centre
  MomentFactor cosine, sine;   ///< of the covariances of cos(t omega) and sin(t omega)
};

/// Some vectors of lanes from first_lane on, as far as padding goes; returns how many lanes
/// were done. mean, variance: [padded(n_pairs)]. scratch: moments_scratch_size() doubles.
std::size_t evaluate_moments(const MomentFactors& factors, const CoefficientBatch& batch,
                             std::size_t first_lane, double* mean, double* variance, double* scratch);
std::size_t moments_scratch_size(const MomentFactors& factors);

}  // namespace rope::spectral

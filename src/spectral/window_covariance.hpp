#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rope::spectral {

/// Covariances over a window, phases at its centre (see exact_covariance.hpp), scaled to a unit diagonal.
/// Frequencies are in falling order here: place i holds omega[order[i]].
struct WindowCovariance {
  struct Block {
    std::vector<double> matrix;  ///< [h][stride], symmetric; zero rows where there is no variance
    std::vector<double> scale;   ///< [h] square roots of the diagonal
  };
  std::size_t h = 0, stride = 0;   ///< stride = padded(h)
  std::vector<std::size_t> order;  ///< [h]
  std::vector<double> mean;        ///< [h] mean of cos(omega t)
  Block cosine, sine;
};

/// omega in (0, pi], window >= 1. Entries are right to about 1e-15 of the diagonal over a small number for
/// most grids; long double serves short windows, frequencies above 2 and neighbours closer than 1/64.
WindowCovariance make_window_covariance(std::span<const double> omega, std::int64_t window);

/// Functions of the frequencies of a window at the places of a WindowCovariance, arrays of `stride` values
/// and more behind: s = sin(w/2), c = cos(w/2), capitals with M w, and what they lack to 1; deficit = 1 -
/// mean.
struct WindowTerms {
  /// Terms of the series of pairs with M (w + v) <= kShort: there (M w / 2)^2j / (2j)! < 5e-17 beyond.
  static constexpr std::size_t kSeries = 12;
  static constexpr double kShort = 5.0;

  std::size_t h = 0, stride = 0;
  double window = 0;
  std::vector<double> omega, deficit, s, c, big_s, big_c, one_minus_c, one_minus_big_c;
  std::vector<double> even, odd;              ///< [kSeries][stride] powers of M w over factorials, signed
  std::vector<double> even_moved, odd_moved;  ///< the same times the covariances of the powers of t
};

/// Covariances of place `row` with places [row, h) to cosine and sine, both of `stride` values and kLaneAlign
/// more. No entry may be of neighbours nearer than 1/64 but the first.
void covariance_row(const WindowTerms& terms, std::size_t row, double* cosine, double* sine);

/// Pivoted Cholesky factor of a scaled block: columns [rank][stride] in the order of the pivots, which go to
/// `pivots`; what is left out is below the rounding of float64. Column k is zero at the places pivots[0 ...
/// k-1].
std::vector<double> pivoted_cholesky(const WindowCovariance::Block& block, std::size_t h, std::size_t stride,
                                     std::vector<std::size_t>& pivots);

}  // namespace rope::spectral

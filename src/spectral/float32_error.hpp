#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {

/// Sizes of every lane of a batch, from which the error of a float32 sweep follows.
struct LaneSizes {
  std::vector<double> scale;  ///< power of two that brings the coefficients to order 1
  std::vector<double> norm;   ///< sqrt(sum |z_n|^2)
  std::vector<double>
      reach;  ///< sqrt(sum (|z_n| min(2, 64 omega_n))^2): size of S(c +- t) - S(c) inside a block
  std::vector<float> doubt;  ///< bound on the error of S + c_0, in units of 1 / (scale log2 e)
  std::vector<char> finite;

  LaneSizes(const CoefficientBatch& batch, std::span<const double> omega);
};

/// Whether each figure of a float32 sweep is within 1e-5 of float64, judged by its own value. The errors were
/// measured in units of 2^-24 times the lane's sizes, over 64 lanes each of white, fast, slow and lone-pair
/// vectors, rms scores from 0.5 to 1000, windows from 2 to 8192 and h from 16 to 128: at most 4.7 reach for
/// the largest difference (bound 6), 3.6 reach for the mean of few differences and 0.4 reach of many (bound
/// 1 + 6 / sqrt(M - 1)), and for E_2, whose relative error falls with 1 - 1 / E_2, about 10 norm (bound 12).
bool mean_is_right(double mean, double reach, std::int64_t window);
bool max_is_right(double max, double reach);
bool effective_length_is_right(double length, double norm);

}  // namespace rope::spectral

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// Exact mean and variance of X(m) = c + Re sum_n d_n e^{i m omega_n} over m = 0 ... window-1 (theory §2; P
/// 175-179). Built once per (grid, window) in float64: phases at the window centre, where cosine and sine
/// parts decouple, and pivoted Cholesky factors of the two covariance blocks, so that the variance is a sum
/// of squares.
class WindowMoments {
 public:
  /// omega: > 0, <= pi, radians per token. window >= 1.
  WindowMoments(std::span<const double> omega, std::int64_t window);
  ~WindowMoments();
  WindowMoments(WindowMoments&&) noexcept;
  WindowMoments& operator=(WindowMoments&&) noexcept;

  /// mean and variance: [batch.n_pairs]. A lane's result does not depend on its neighbours in the batch.
  void evaluate(const CoefficientBatch& batch, std::span<double> mean, std::span<double> variance) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope::spectral

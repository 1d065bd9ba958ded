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
///
/// Error: mean 1e-15 sum|d_n|; variance about 1e-13 relative, also where all frequencies are slow and the
/// variance is tiny beside the squared mean. Squares below 1e-308 underflow to 0.
class WindowMoments {
 public:
  /// omega: > 0, <= pi, radians per token. window >= 1. Throws std::logic_error otherwise.
  WindowMoments(std::span<const double> omega, std::int64_t window);
  ~WindowMoments();
  WindowMoments(WindowMoments&&) noexcept;
  WindowMoments& operator=(WindowMoments&&) noexcept;

  /// mean and variance: [batch.n_pairs]. A lane's result does not depend on its neighbours in the batch.
  /// Single-threaded; may be called by many threads at once.
  void evaluate(const CoefficientBatch& batch, std::span<double> mean, std::span<double> variance) const;

  /// Columns of the two factors, cosine and sine block together: evaluate costs at most h times this.
  int rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope::spectral

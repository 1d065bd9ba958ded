#pragma once

#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"
#include "spectral/window_moments.hpp"

namespace rope::spectral {

/// Barrier exceedance (theory §11): p_exc(S_0) = P[S(m) > S_0], m uniform over the window; a score equal to
/// S_0 does not exceed it.

/// Coefficients of S_0 - S(m): it is negative where S(m) exceeds the barrier, so that the reversals of a
/// sweep of this batch are the exact exceedances (S_0 - c_0 is rounded once). level: finite.
void barrier_margins(const CoefficientBatch& batch, double level, CoefficientBatch& margins);

/// S(0) of a lane, c_0 included: the only score of a window of one distance.
double score_at_zero(const CoefficientBatch& batch, std::size_t lane);

/// [n_pairs] the two Gaussian values of p_exc.
struct BarrierGaussian {
  std::vector<double> exact_moments;  ///< Phi((mu - S_0) / sigma) with the exact moments of §2
  /// P (45): Phi((mu - S_0) / s), s^2 = Var_N + U_H^2 / 2 + 2 Cov(X_H, X_N), the variance of the fast pairs
  /// replaced by its limit for long windows. s^2 <= 0 is taken as certainty, as sigma = 0 is.
  std::vector<double> limit_variance;
};

/// high: [n_freq] mask of H(M); level: finite. Without any variance the value is 1 where mu > S_0, else 0.
/// NaN where a lane is not finite. A lane's result depends on the lane alone.
BarrierGaussian barrier_gaussian(const WindowMoments& moments, std::span<const char> high,
                                 const CoefficientBatch& batch, double level);

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rope::spectral {

/// lambda(L) = (1/tau) [ln(1 + max(L, L_ref) / L_ref)]^gamma, the query's scale at L keys (theory §12;
/// A 4.3). tau > 0, reference = L_ref > 0.
double ada_scale(double tau, double gamma, double length, double reference);

/// ln ln(1 + max(L, L_ref) / L_ref): what ln lambda is linear in, with slope gamma.
double ada_scale_abscissa(double length, double reference);

inline constexpr std::size_t kLeastScalePoints = 3;

struct AdaScaleFit {
  double tau = 1, gamma = 0;
  double residual = 0;            ///< root of the mean square of `residuals`
  std::vector<double> residuals;  ///< ln lambda - ln lambda(L) at the fit, in the order of the points
};

/// Least squares of (tau, gamma) on ln lambda = -ln tau + gamma ln ln(1 + max(L, L_ref) / L_ref). lengths,
/// lambdas: [n] > 0. None with fewer than kLeastScalePoints points, or all at the same abscissa.
std::optional<AdaScaleFit> fit_ada_scale(std::span<const double> lengths, std::span<const double> lambdas,
                                         double reference);

}  // namespace rope::spectral

#pragma once

#include <cmath>
#include <numbers>
#include <span>

namespace rope::spectral {

/// Phi(difference / sqrt(variance)): the chance that a Gaussian of that mean and variance is above 0. A
/// variance of 0 is certainty: 1 where difference > 0, else 0 (a tie is not above).
inline double chance_above_zero(double difference, double variance) {
  const double sigma = std::sqrt(variance);
  if (!(sigma > 0))
    return std::isnan(difference + variance) ? difference + variance : difference > 0 ? 1.0 : 0.0;
  return 0.5 * std::erfc(-difference / sigma * (0.5 * std::numbers::sqrt2));
}

/// Phi(-mean / sqrt(variance)) of many Gaussians: the chance to be below 0, to 1e-15. A variance of 0 is
/// certainty again. NaN gives numbers of no meaning; chance may not overlap the others.
void chances_below_zero(std::span<const double> mean, std::span<const double> variance,
                        std::span<double> chance);

}  // namespace rope::spectral

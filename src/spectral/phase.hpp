#pragma once

#include <cmath>

namespace rope::spectral {

/// cos and sin of one angle.
struct Phase {
  double cos = 1.0, sin = 0.0;
};

/// e^{i m omega} for a distance or position m that is exact in float64 (|m| < 2^53). The rounding error of
/// the product m * omega, up to 1e-10 rad at m = 2^20, is recovered by a fused multiply-add and put back to
/// first order, so both parts are right to about 2^-52.
inline Phase phase_at(double m, double omega) {
  const double angle = m * omega;
  const double rest = std::fma(m, omega, -angle);
  const double c = std::cos(angle), s = std::sin(angle);
  return {c - rest * s, s + rest * c};
}

/// cos(x) - 1 without cancellation.
inline double cos_minus_one(double x) {
  const double s = std::sin(0.5 * x);
  return -2.0 * s * s;
}

}  // namespace rope::spectral

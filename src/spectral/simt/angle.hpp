#pragma once

#include "spectral/simt/block.hpp"

namespace rope::spectral::simt {

/// cos and sin of one angle.
struct Turn {
  double cos, sin;
};

/// e^{i m omega} for a distance m (|m| <= 2^24, exact in float64) and 0 < omega <= pi, to about 2^-52; the
/// same bits on every machine. As spectral/phase.hpp, without a mathematics library: the product's rounding
/// error is put back, quarter turns are taken off with pi/2 in two parts (the first difference is exact), and
/// Taylor's series of sine and cosine do the rest.
ROPE_HD Turn turn_by(double m, double omega) {
  const double angle = m * omega;
  const double quarters = ::rint(angle * 0.63661977236758134);
  double r = fma(-quarters, 0x1.921fb54442d18p+0, angle);
  r = fma(-quarters, 0x1.1a62633145c07p-54, r) + fma(m, omega, -angle);
  const double q = r * r;
  double s = 1.0 / 355687428096000.0;  // 1 / 17!
  s = fma(s, q, -1.0 / 1307674368000.0);
  s = fma(s, q, 1.0 / 6227020800.0);
  s = fma(s, q, -1.0 / 39916800.0);
  s = fma(s, q, 1.0 / 362880.0);
  s = fma(s, q, -1.0 / 5040.0);
  s = fma(s, q, 1.0 / 120.0);
  s = fma(s, q, -1.0 / 6.0);
  s = fma(s * q, r, r);
  double c = 1.0 / 20922789888000.0;  // 1 / 16!
  c = fma(c, q, -1.0 / 87178291200.0);
  c = fma(c, q, 1.0 / 479001600.0);
  c = fma(c, q, -1.0 / 3628800.0);
  c = fma(c, q, 1.0 / 40320.0);
  c = fma(c, q, -1.0 / 720.0);
  c = fma(c, q, 1.0 / 24.0);
  c = fma(c, q, -0.5);
  c = fma(c, q, 1.0);
  const auto quadrant = static_cast<int>(static_cast<long long>(quarters)) & 3;
  if (quadrant == 0) return {c, s};
  if (quadrant == 1) return {-s, c};
  if (quadrant == 2) return {-c, -s};
  return {s, -c};
}

}  // namespace rope::spectral::simt

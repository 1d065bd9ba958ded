#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

// The local response envelope (theory §8; P 166, A.4.1, C.6.4). One step of distance turns pair n by omega_n,
// which moves its part of the score by gamma_n |z_n| at most, gamma_n = |e^{i omega_n} - 1| = 2
// |sin(omega_n/2)|. So for every coefficient vector z, every window and every division of the pairs into H
// and N
//
//   zeta = max_m |S(m+1) - S(m)| / U  <=  T = w_N + kappa_H r_H
//
//   w_N     = sum_N gamma_n |z_n| / U            what the low frequencies can add to a step at most
//   kappa_H = sum_H gamma_n |z_n| / U_H          step per unit of high-frequency norm, 0 where U_H = 0
//   r_H     = U_H / U                            the norm share (P 8)
//   f_pos   = [zeta - w_N]_+ / kappa_H <= r_H    the share that a step of size zeta needs at least; only U_H
//   > 0
//
// T does not depend on the division, w_N, kappa_H and f_pos do.
//
// How far may computed values break these inequalities? u = 2^-53, h pairs, errors to first order in u, all
// of them relative to E = sum_n g_n |z_n|, where g_n is the computed gamma_n: both sides use the same numbers
// g_n, so their error does not count.
// - Computed E: |z_n| from hypot, one unit in the last place or 2u; its product with g_n, u; h - 1 additions
// of
//   terms >= 0, (h-1)u. So it is short of E by (h+2)u at most, and so are its parts over H and over N.
// - Computed step D(m) = -sum_n g_n Im(z_n e^{i(m+1/2)omega_n}) of exact_response: g_n z_n, u; phases of a
// block's
//   centre and of an offset, each within 3.2u (a unit in the last place of sine and cosine, <= u; what is
//   left of putting back the rounding of m omega, <= 0.15u for m <= 2^24 and omega <= pi; one addition, <= u;
//   both parts together: times sqrt 2); a complex product without fused operations, sqrt(5)u; the imaginary
//   part of the second product, u for its two multiplications and u for the addition; h - 1 additions of
//   terms that are at most g_n |z_n|, (h-1)u. Together (h + 10.7)u.
// - Divisions by U and the comparison: U, whatever its own error, divides both sides alike; 2u.
// Hence computed zeta <= T (1 + (2h + 15)u). For f_pos the same errors enter zeta - w_N, whose subtraction
// and quotient round 5 times more, and kappa_H is short by (h+2)u: computed f_pos <= r_H + (3h + 25)u T /
// kappa_H. `response_rounding` and `norm_floor_rounding` add 5u for the terms of second order.

/// gamma_n = 2 |sin(omega_n / 2)|, [h]. omega in (0, pi].
std::vector<double> response_factors(std::span<const double> omega);

/// (2h + 20) 2^-53: computed zeta beyond T by a larger share breaks zeta <= T, if zeta is float64's
/// (exact_response.hpp).
double response_rounding(std::size_t pairs);
/// (3h + 30) 2^-53, of T / kappa_H.
double norm_floor_rounding(std::size_t pairs);

/// What the envelope of one coefficient vector is made of.
struct EnvelopeTerms {
  double norm = 0, high_norm = 0;      ///< U, U_H
  double low_step = 0, high_step = 0;  ///< sum gamma_n |z_n| over N and over H

  double norm_share() const { return high_norm / norm; }                             ///< r_H (P 8)
  double low_response() const { return low_step / norm; }                            ///< w_N (P 166)
  double high_slope() const { return high_norm > 0 ? high_step / high_norm : 0.0; }  ///< kappa_H (P 166)
  double envelope() const { return (low_step + high_step) / norm; }                  ///< T (P 166)
  /// Whether f_pos is defined: U_H > 0, and not so small that kappa_H underflows.
  bool has_floor() const { return high_norm > 0 && high_step > 0; }
  /// f_pos of zeta (P C.6.4); only where has_floor().
  double norm_floor(double zeta) const;

  /// Whether zeta breaks zeta <= T, or f_pos <= r_H, beyond what rounding explains. NaN breaks both.
  bool breaks_envelope(double zeta, std::size_t pairs) const;
  bool breaks_norm_floor(double zeta, std::size_t pairs) const;
};

/// Terms of every lane. high: [n_freq] mask of H. factors: response_factors of the grid. The lanes' largest
/// coefficients should be near 1 (scale_lanes), so that nothing under- or overflows. A lane of zeros has norm
/// 0.
std::vector<EnvelopeTerms> envelope_terms(const CoefficientBatch& batch, std::span<const double> factors,
                                          std::span<const char> high);

/// Multiplies each lane by a power of two that brings its largest coefficient to [1/2, 1), and drops c_0: all
/// ratios of this page stay as they are. Lanes must be finite.
void scale_lanes(CoefficientBatch& batch);

}  // namespace rope::spectral

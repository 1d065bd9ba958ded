#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "spectral/exact_covariance.hpp"

namespace rope::spectral {

/// Windows are exact in float64 up to here; a bound that sets in later is said to.
inline constexpr std::int64_t kLargestBoundWindow = std::int64_t{1} << 53;

/// The two constants of H(M) that the theorem is proved with (theory §5, `certified`).
struct BoundConstants {
  double c = 6.283185307179586;  ///< C > 0
  double epsilon = 0.01;         ///< 0 < epsilon < 1/2
};

/// The chain of P Theorem 1 (26-37) at one window M and response zeta.
struct BoundPoint {
  std::int64_t window = 0;
  double response = 0;         ///< zeta
  int slow_pairs = 0;          ///< k_N = |N(M)|
  double response_floor = 0;   ///< l, in [0, 1): the norm share r_H that such a response needs at least
  double mean_bound = 0;       ///< u(l): the mean of a margin of norm 1 is at most that, in size
  double deviation_floor = 0;  ///< v(l): its standard deviation is at least that
  double reversal_floor = 0;   ///< Phi(-u / v) where v > 0, else 0: p_floor of tau = 0; below 1e-308 it is 0
};

/// How long a context can be before the theory says that preferences between keys flip too often (theory §10;
/// P Theorem 1, Theorem 3, 26-37), for one grid and pair of constants:
///
///   gamma_n = 2 sin(omega_n / 2),  R_F = sqrt(sum gamma_n^2),  Gamma = 2 C / ((1 - rho) epsilon)
///   N(M) = {n : M omega_n < Gamma},  k_N = |N(M)|,  c_eps = sqrt(1/2 - epsilon)
///   l(M; zeta) = [zeta - Gamma sqrt(h) / M]_+ / R_F,   0 < zeta < R_F
///   u(r) = epsilon r + sqrt(k_N) sqrt(1 - r^2),   v(r) = [c_eps r - sqrt(k_N) sqrt(1 - r^2)]_+
///   p_floor(M) = [Phi(-u(l) / v(l)) - tau]_+ where v > 0, else 0:   non-decreasing in M and in zeta
///
/// R_F, Gamma and 1 - l are kept in the widest type, so that sqrt(1 - l^2) is right also for l near 1. k_N is
/// that of high_frequency_mask.
class ContextBound {
 public:
  /// omega: > 0, <= pi, radians per token, at least one (pairs that do not rotate are no part of it).
  /// rho: theory §5, in [0, 1]; 1 makes Gamma infinite, and no window is ever bounded. Throws
  /// std::logic_error.
  ContextBound(std::span<const double> omega, double rho, const BoundConstants& constants);

  std::span<const double> omega() const { return omega_; }
  double rho() const { return rho_; }
  const BoundConstants& constants() const { return constants_; }
  double response_limit() const { return static_cast<double>(response_limit_); }  ///< R_F
  double gamma() const { return static_cast<double>(gamma_); }                    ///< Gamma
  double slowest() const { return slowest_; }                                     ///< omega_min

  /// True where 0 < zeta < R_F, which the rest asks for: no response per norm can be larger than R_F.
  bool in_range(double response) const;

  /// window: 1 ... kLargestBoundWindow.
  int slow_pairs(std::int64_t window) const;
  BoundPoint at(std::int64_t window, double response) const;

  /// Phi(-epsilon / c_eps): what the floor is wherever N is empty and l > 0, and never above. Less tau:
  /// delta*.
  double largest_reversal() const;

  /// M_suff = max(2, ceil(Gamma / omega_min), floor(Gamma sqrt(h) / zeta) + 1): from there on N is empty and
  /// l > 0, so the floor is its largest. Nothing where that is beyond kLargestBoundWindow.
  std::optional<std::int64_t> sufficient_window(double response) const;

 private:
  Wide offset(std::int64_t window) const;  // Gamma sqrt(h) / M

  std::vector<double> omega_;
  double rho_ = 0, slowest_ = 0;
  BoundConstants constants_;
  Wide response_limit_ = 0, gamma_ = 0;
};

/// [reversal - tau]_+ : p_floor, or delta* of the largest reversal. tau: the gap between the Gaussian and the
/// exact reversal, >= 0.
double floor_above(double reversal, double tau);

/// M-dagger and M_max among given windows (P 36, 37).
struct BoundCrossing {
  std::optional<std::int64_t> first_excluded;  ///< first window with p_floor > delta
  std::optional<std::int64_t> last_allowed;    ///< last one before it, or the last of all
};
/// windows: rising; floors: p_floor at each. A window after the first excluded one is excluded, too: the
/// floor does not fall, and its rounding is not asked.
BoundCrossing find_crossing(std::span<const std::int64_t> windows, std::span<const double> floors,
                            double delta);

}  // namespace rope::spectral

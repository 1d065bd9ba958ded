#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"
#include "spectral/window_moments.hpp"

namespace rope::spectral {

/// Prop. 1 (theory §5): on a well separated set H the part X_H(m) = Re sum_H z_n e^{i m omega_n} of
/// the score behaves over a window like a sum of independent waves,
///
///   |mean X_H| <= epsilon U_H        |Var X_H - U_H^2 / 2| <= epsilon U_H^2
///
/// for every coefficient vector. How much of the two bounds one vector uses: 1 is all of it.
struct BandCertificate {
  double mean_share = 0;      ///< |mean X_H| / (epsilon U_H)
  double variance_share = 0;  ///< |Var X_H - U_H^2/2| / (epsilon U_H^2)
};

class BandCertificates {
 public:
  /// omega: [h] in (0, pi]; high: [h] mask of H, not empty; window >= 1; 0 < epsilon.
  BandCertificates(std::span<const double> omega, std::span<const char> high, std::int64_t window,
                   double epsilon);

  /// Of every lane, exact mean and variance (WindowMoments of H alone). high_norm: [n_pairs] U_H; lanes with
  /// U_H = 0 get NaN. Lanes must be finite and neither huge nor tiny (scale_lanes). For any thread.
  std::vector<BandCertificate> evaluate(const CoefficientBatch& batch,
                                        std::span<const double> high_norm) const;

  /// Largest share that rounding alone can add: the errors that WindowMoments states (mean 1e-15 sum |z_n| <=
  /// 1e-15 sqrt(|H|) U_H, variance 1e-13 relative, Var <= (|H|/2) U_H^2), over epsilon, and the rounding of
  /// U_H. A certificate holds up to 1 + this.
  double rounding() const { return rounding_; }
  bool mean_holds(const BandCertificate& c) const { return c.mean_share <= 1.0 + rounding_; }
  bool variance_holds(const BandCertificate& c) const { return c.variance_share <= 1.0 + rounding_; }

 private:
  std::vector<std::size_t> rows_;  // of the pairs in H
  std::size_t n_freq_;
  double epsilon_, rounding_ = 0;
  std::unique_ptr<WindowMoments> moments_;
};

}  // namespace rope::spectral

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"
#include "spectral/window_covariance.hpp"

namespace rope::spectral {

/// What R_var of every prefix H_k of a grid is made of, summed over vectors (theory §9; P 168-169). Places
/// are those of falling frequency, ties by index; H_k holds the places 0 ... k-1.
struct PrefixSums {
  std::vector<double> increment;  ///< [h] Var(X_{H_{k+1}}) - Var(X_{H_k}): pair k's own and its covariances
  std::vector<double> own_variance;  ///< [h] Var of the pair alone
  std::vector<double> square;        ///< [h] |d_n|^2
  std::int64_t vectors = 0;

  void add(const PrefixSums& other);  ///< of the same grid, any window
};

/// R_var = sum Var_M(X_{H_k}) / sum U_{H_k}^2 / 2 over the vectors, a = sqrt(R_var), R = max(0, 1 - |a - 1|),
/// for every k = 1 ... h. NaN where no vector has energy there.
struct BandAgreement {
  double r_var = 0, ratio = 0, agreement = 0;
};
BandAgreement band_agreement(double r_var);
std::vector<BandAgreement> prefix_agreement(const PrefixSums& sums);
/// R_var of each pair alone.
std::vector<double> pair_agreement(const PrefixSums& sums);
/// sum |d_n|^2 / sum U(d)^2 by place; NaN without energy.
std::vector<double> energy_shares(const PrefixSums& sums);

/// The first k (1 ... h) whose agreement R is below `threshold`: where the high-frequency picture of the
/// variance breaks. 0: nowhere.
std::size_t first_break(std::span<const BandAgreement> prefixes, double threshold);

/// Variances over a window of all prefixes of many vectors in one go. With phases at the window's centre
/// cosines and sines do not correlate, so Var(X_{H_{k+1}}) - Var(X_{H_k}) = y_k (C_kk y_k + 2 sum_{l<k} C_kl
/// y_l) in each of the two blocks: h^2 multiply-adds per vector for all h prefixes.
///
/// Error: increments are right to about 1e-14 of the sum of the pairs' own variances in the prefix. Var of a
/// prefix can be that much below 0 where its pairs cancel each other; R_var never is shown below 0.
class PrefixVariance {
 public:
  /// omega: > 0, <= pi. window >= 1.
  PrefixVariance(std::span<const double> omega, std::int64_t window);

  std::size_t size() const { return covariance_.h; }
  std::span<const std::size_t> order() const { return covariance_.order; }  ///< [h] pair at each place

  /// Adds the lanes with use[lane] != 0, in order. Lanes that are used hold no norm beyond 1e150.
  void add(const CoefficientBatch& batch, std::span<const char> use, PrefixSums& sums) const;

 private:
  WindowCovariance covariance_;
  std::vector<double> cosine_, sine_;  // [h] of the window's centre, by place
};

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace rope::spectral {

/// The growth of the effective length with the number of keys (theory §12; A §3):
///
///     ln E_2 = a + b ln L + residual,
///
/// least squares over length groups, all of one weight. b near 0: the head keeps looking at so many keys
/// however many there are (retrieval); b near 1: at a fixed share of them (aggregation).
struct GrowthFit {
  double intercept = 0, slope = 0;  ///< a, b
  /// b -+ t s / sqrt(sum (x - mean x)^2), s^2 = sum residual^2 / (n - 2) and t the 0.975 quantile of
  /// Student's t with n - 2 degrees of freedom: 95 % for residuals that are independent and normal. NaN for n
  /// = 2.
  double low, high;
  std::size_t groups = 0;  ///< n
};

/// log_length: ln L, log_effective: ln E_2, of the groups; those with a value that is not finite are left
/// out. Nothing where fewer than two different lengths are left.
std::optional<GrowthFit> fit_growth(std::span<const double> log_length,
                                    std::span<const double> log_effective);

/// Quantile of Student's t for a probability in (0.5, 1), by bisection on its closed form for whole degrees
/// of freedom >= 1.
double student_t_quantile(double probability, int degrees);

/// What b says of a head.
enum class GrowthClass { kNone, kRetrieval, kMixed, kAggregation };
const char* growth_class_name(GrowthClass growth);  ///< "none", "retrieval", "mixed", "aggregation"
/// b < retrieval_below, b > aggregation_above, or between; none without a fit.
GrowthClass growth_class(const std::optional<GrowthFit>& fit, double retrieval_below,
                         double aggregation_above);

}  // namespace rope::spectral

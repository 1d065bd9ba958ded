#include "spectral/growth_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace rope::spectral {
namespace {

// Lengths nearer to each other than this, relatively, are one length.
constexpr double kSameLength = 1e-9;

// P(|T| < t): finite sums in the angle atan(t / sqrt(degrees)).
double central_mass(double t, int degrees) {
  const double angle = std::atan2(t, std::sqrt(static_cast<double>(degrees)));
  const double c = std::cos(angle), s = std::sin(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? c : 1.0, sum = 0;
  for (int k = odd ? 3 : 2; k <= degrees; k += 2) {  // powers of the cosine up to degrees - 2
    sum += term;
    term *= c * c * (k - 1) / k;
  }
  return odd ? 2 / std::numbers::pi * (angle + s * sum) : s * sum;
}

}  // namespace

double student_t_quantile(double probability, int degrees) {
  if (!(probability > 0.5 && probability < 1) || degrees < 1)
    throw std::logic_error("student_t_quantile: probability in (0.5, 1), degrees of freedom from 1");
  const double mass = 2 * probability - 1;
  double low = 0, high = 1;
  while (central_mass(high, degrees) < mass) high *= 2;
  for (int step = 0; step < 200 && low < high; ++step) {
    const double middle = 0.5 * (low + high);
    if (middle == low || middle == high) break;
    (central_mass(middle, degrees) < mass ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

std::optional<GrowthFit> fit_growth(std::span<const double> log_length,
                                    std::span<const double> log_effective) {
  if (log_length.size() != log_effective.size()) throw std::logic_error("fit_growth: one value per length");
  std::vector<double> x, y;
  for (std::size_t i = 0; i < log_length.size(); ++i) {
    if (!std::isfinite(log_length[i]) || !std::isfinite(log_effective[i])) continue;
    x.push_back(log_length[i]);
    y.push_back(log_effective[i]);
  }
  if (x.size() < 2) return std::nullopt;
  const auto [shortest, longest] = std::minmax_element(x.begin(), x.end());
  if (!(*longest - *shortest > kSameLength)) return std::nullopt;

  const auto n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0, rest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  GrowthFit fit;
  fit.groups = x.size();
  fit.slope = xy / xx;
  fit.intercept = mean_y - fit.slope * mean_x;
  fit.low = fit.high = std::numeric_limits<double>::quiet_NaN();
  if (x.size() == 2) return fit;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double residual = y[i] - mean_y - fit.slope * (x[i] - mean_x);
    rest += residual * residual;
  }
  const double half =
      student_t_quantile(0.975, static_cast<int>(x.size()) - 2) * std::sqrt(rest / (n - 2) / xx);
  fit.low = fit.slope - half;
  fit.high = fit.slope + half;
  return fit;
}

const char* growth_class_name(GrowthClass growth) {
  switch (growth) {
    case GrowthClass::kRetrieval:
      return "retrieval";
    case GrowthClass::kMixed:
      return "mixed";
    case GrowthClass::kAggregation:
      return "aggregation";
    case GrowthClass::kNone:
      break;
  }
  return "none";
}

GrowthClass growth_class(const std::optional<GrowthFit>& fit, double retrieval_below,
                         double aggregation_above) {
  if (!fit) return GrowthClass::kNone;
  if (fit->slope < retrieval_below) return GrowthClass::kRetrieval;
  return fit->slope > aggregation_above ? GrowthClass::kAggregation : GrowthClass::kMixed;
}

}  // namespace rope::spectral

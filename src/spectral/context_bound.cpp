#include "spectral/context_bound.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "spectral/band_split.hpp"

namespace rope::spectral {
namespace {

/// The smallest whole number >= least with reached(number), which lies near `guess` and holds from some
/// number on; nothing beyond the largest window.
template <class Reached>
std::optional<std::int64_t> first_reached(Wide guess, Reached reached) {
  if (!(guess < static_cast<Wide>(kLargestBoundWindow))) return std::nullopt;
  std::int64_t window = std::max<std::int64_t>(1, static_cast<std::int64_t>(guess));
  while (window > 1 && reached(window - 1)) --window;  // a step or two: what rounding may do
  while (window <= kLargestBoundWindow && !reached(window)) ++window;
  if (window > kLargestBoundWindow) return std::nullopt;
  return window;
}

}  // namespace

ContextBound::ContextBound(std::span<const double> omega, double rho, const BoundConstants& constants)
    : omega_(omega.begin(), omega.end()), rho_(rho), constants_(constants) {
  if (omega_.empty() || !(rho >= 0 && rho <= 1)) throw std::logic_error("ContextBound: no grid, or rho");
  if (!(constants.c > 0 && std::isfinite(constants.c) && constants.epsilon > 0 && constants.epsilon < 0.5))
    throw std::logic_error("ContextBound: C or epsilon");
  Wide squares = 0;
  for (const double w : omega_) {
    if (!(w > 0 && w <= std::numbers::pi)) throw std::logic_error("ContextBound: frequency outside (0, pi]");
    const Wide gamma = 2 * std::sin(0.5L * static_cast<Wide>(w));
    squares += gamma * gamma;
  }
  response_limit_ = std::sqrt(squares);
  slowest_ = *std::min_element(omega_.begin(), omega_.end());
  gamma_ = 2 * static_cast<Wide>(constants.c) /
           ((1 - static_cast<Wide>(rho)) * static_cast<Wide>(constants.epsilon));
}

bool ContextBound::in_range(double response) const {
  return response > 0 && static_cast<Wide>(response) < response_limit_;
}

Wide ContextBound::offset(std::int64_t window) const {
  return gamma_ * std::sqrt(static_cast<Wide>(omega_.size())) / static_cast<Wide>(window);
}

int ContextBound::slow_pairs(std::int64_t window) const {
  SplitRule rule;
  rule.kind = SplitRule::Kind::kCustom;
  rule.c = constants_.c;
  rule.epsilon = constants_.epsilon;
  const std::vector<char> high = high_frequency_mask(rule, omega_, rho_, window);
  return static_cast<int>(std::count(high.begin(), high.end(), char{0}));
}

BoundPoint ContextBound::at(std::int64_t window, double response) const {
  if (window < 1 || window > kLargestBoundWindow || !in_range(response))
    throw std::logic_error("ContextBound::at: window or response");
  BoundPoint point;
  point.window = window;
  point.response = response;
  point.slow_pairs = slow_pairs(window);
  const Wide zeta = response, below = offset(window);
  if (!(zeta > below)) {  // l = 0: r_H may be 0
    point.mean_bound = std::sqrt(static_cast<double>(point.slow_pairs));
    return point;
  }
  const Wide floor = (zeta - below) / response_limit_;
  const Wide rest = (response_limit_ - zeta + below) / response_limit_;  // 1 - l
  const Wide slow = std::sqrt(static_cast<Wide>(point.slow_pairs) * rest * (1 + floor));
  const Wide epsilon = constants_.epsilon;
  const Wide mean = epsilon * floor + slow;
  const Wide deviation = std::sqrt(0.5L - epsilon) * floor - slow;
  point.response_floor = static_cast<double>(floor);
  point.mean_bound = static_cast<double>(mean);
  point.deviation_floor = deviation > 0 ? static_cast<double>(deviation) : 0.0;
  if (point.slow_pairs == 0)
    point.reversal_floor = largest_reversal();  // the very same number at every window
  else if (point.deviation_floor > 0)
    point.reversal_floor = 0.5 * std::erfc(static_cast<double>(mean / deviation) * M_SQRT1_2);
  return point;
}

double ContextBound::largest_reversal() const {
  const Wide epsilon = constants_.epsilon;
  return 0.5 * std::erfc(static_cast<double>(epsilon / std::sqrt(0.5L - epsilon)) * M_SQRT1_2);
}

std::optional<std::int64_t> ContextBound::sufficient_window(double response) const {
  if (!in_range(response)) throw std::logic_error("ContextBound::sufficient_window: response");
  const auto no_slow = first_reached(gamma_ / static_cast<Wide>(slowest_),
                                     [&](std::int64_t window) { return slow_pairs(window) == 0; });
  const Wide zeta = response;
  const auto responds = first_reached(gamma_ * std::sqrt(static_cast<Wide>(omega_.size())) / zeta,
                                      [&](std::int64_t window) { return zeta > offset(window); });
  if (!no_slow || !responds) return std::nullopt;
  return std::max({std::int64_t{2}, *no_slow, *responds});
}

double floor_above(double reversal, double tau) { return std::max(0.0, reversal - tau); }

BoundCrossing find_crossing(std::span<const std::int64_t> windows, std::span<const double> floors,
                            double delta) {
  if (windows.size() != floors.size()) throw std::logic_error("find_crossing: sizes differ");
  BoundCrossing crossing;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (floors[i] > delta) {
      crossing.first_excluded = windows[i];
      break;
    }
    crossing.last_allowed = windows[i];
  }
  return crossing;
}

}  // namespace rope::spectral

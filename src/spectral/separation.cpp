#include "spectral/separation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace rope::spectral {
namespace {

using Kind = SplitRule::Kind;
constexpr double kTwoPi = 2.0 * std::numbers::pi;

}  // namespace

BandConstants band_constants(const SplitRule& rule) {
  switch (rule.kind) {
    case Kind::kOmega:
    case Kind::kPeriods:
    case Kind::kPrefix:
      return {kTwoPi, 0.01};
    default:
      return {rule.c, rule.epsilon};
  }
}

double smallest_separation(std::span<const double> omega) {
  if (omega.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto around = [](double x) { return std::min(std::abs(x), kTwoPi - std::abs(x)); };  // |x| <= 2 pi
  double delta = std::numbers::pi;
  for (std::size_t i = 0; i < omega.size(); ++i) {
    delta = std::min({delta, around(omega[i]), around(2 * omega[i])});
    for (std::size_t j = 0; j < i; ++j)
      delta = std::min({delta, around(omega[i] - omega[j]), around(omega[i] + omega[j])});
  }
  return delta;
}

SeparationCheck check_separation(const SplitRule& rule, std::span<const double> omega,
                                 std::span<const char> high, std::int64_t window) {
  std::vector<double> band;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (high[n]) band.push_back(omega[n]);
  }
  const BandConstants constants = band_constants(rule);
  SeparationCheck check;
  check.size = band.size();
  check.delta = smallest_separation(band);
  check.scaled = static_cast<double>(window) * check.delta;
  check.needed = 2 * constants.c / constants.epsilon;
  check.satisfied = check.scaled >= check.needed;
  check.proved = check.satisfied && constants.c >= kTwoPi;
  SplitRule separation;
  separation.kind = Kind::kSeparation;
  separation.c = constants.c;
  separation.epsilon = constants.epsilon;
  const auto largest = high_frequency_mask(separation, omega, 0.0, window);
  check.largest_prefix = static_cast<std::size_t>(std::count(largest.begin(), largest.end(), char{1}));
  const std::vector<int> order = falling_order(omega);
  check.is_prefix = true;
  for (std::size_t i = 0; i < order.size(); ++i)
    check.is_prefix = check.is_prefix && (high[static_cast<std::size_t>(order[i])] != 0) == (i < band.size());
  return check;
}

}  // namespace rope::spectral

#include "reference/context_bound.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

namespace rope::reference {
namespace {

using Wide = long double;

Wide positive_part(Wide x) { return x > 0 ? x : 0; }
Wide normal(Wide x) { return std::erfc(-x / std::sqrt(Wide{2})) / 2; }

}  // namespace

Wide ContextBound::response_limit() const {
  Wide sum = 0;
  for (const double w : omega) {
    const std::complex<Wide> turn(std::cos(static_cast<Wide>(w)), std::sin(static_cast<Wide>(w)));
    sum += std::norm(turn - std::complex<Wide>(1));
  }
  return std::sqrt(sum);
}

Wide ContextBound::gamma() const {
  return 2 * static_cast<Wide>(c) / ((1 - static_cast<Wide>(rho)) * epsilon);
}

int ContextBound::slow_pairs(std::int64_t window) const {
  int count = 0;
  for (const double w : omega) count += !(static_cast<Wide>(window) * w >= gamma());
  return count;
}

Wide ContextBound::response_floor(std::int64_t window, double response) const {
  const Wide h = static_cast<Wide>(omega.size());
  return positive_part(response - gamma() * std::sqrt(h) / static_cast<Wide>(window)) / response_limit();
}

Wide ContextBound::mean_bound(int slow, Wide share) const {
  return epsilon * share + std::sqrt(static_cast<Wide>(slow)) * std::sqrt(1 - share * share);
}

Wide ContextBound::deviation_floor(int slow, Wide share) const {
  const Wide c_epsilon = std::sqrt(Wide{0.5} - epsilon);
  return positive_part(c_epsilon * share - std::sqrt(static_cast<Wide>(slow)) * std::sqrt(1 - share * share));
}

Wide ContextBound::p_floor(std::int64_t window, double response, double tau) const {
  const Wide share = response_floor(window, response);
  const int slow = slow_pairs(window);
  const Wide v = deviation_floor(slow, share);
  return v > 0 ? positive_part(normal(-mean_bound(slow, share) / v) - tau) : 0;
}

Wide ContextBound::delta_star(double tau) const {
  return positive_part(normal(-epsilon / std::sqrt(Wide{0.5} - epsilon)) - tau);
}

std::int64_t ContextBound::sufficient_window(double response) const {
  const Wide slowest = *std::min_element(omega.begin(), omega.end());
  const Wide h = static_cast<Wide>(omega.size());
  return std::max({std::int64_t{2}, static_cast<std::int64_t>(std::ceil(gamma() / slowest)),
                   static_cast<std::int64_t>(std::floor(gamma() * std::sqrt(h) / response)) + 1});
}

}  // namespace rope::reference

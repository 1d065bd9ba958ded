#include "interventions/mcnemar.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rope {

double mcnemar_p(std::int64_t gained, std::int64_t lost) {
  const std::int64_t n = gained + lost, tail = std::min(gained, lost);
  if (gained == lost) return 1;
  // Sum of C(n, k) for k <= tail, scaled by powers of two so that it never overflows.
  constexpr int kStep = 512;
  const double step = std::ldexp(1.0, -kStep);
  double term = 1, sum = 1;
  std::int64_t exponent = 0;
  for (std::int64_t k = 1; k <= tail; ++k) {
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    sum += term;
    if (term > 1 / step) {
      term *= step;
      sum *= step;
      exponent += kStep;
    }
  }
  const std::int64_t power =
      std::max<std::int64_t>(exponent + 1 - n, -100'000);  // far below what ldexp keeps
  return std::min(1.0, std::ldexp(sum, static_cast<int>(power)));
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<double> adjusted(p_values.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i)
    if (!std::isnan(p_values[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, static_cast<double>(order.size() - i) * p_values[order[i]]);
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

}  // namespace rope

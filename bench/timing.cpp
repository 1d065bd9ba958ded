#include "timing.hpp"

#include <cmath>

namespace rope::bench {

double fitted_exponent(const std::vector<double>& sizes, const std::vector<double>& costs) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const double n = static_cast<double>(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double u = std::log(sizes[i]), v = std::log(costs[i]);
    x += u;
    y += v;
    xx += u * u;
    xy += u * v;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace rope::bench

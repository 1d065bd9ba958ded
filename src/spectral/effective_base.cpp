#include "spectral/effective_base.hpp"

#include <cmath>
#include <limits>

namespace rope::spectral {

double effective_base(std::span<const double> omega) {
  if (omega.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (double w : omega) sum += std::log(w);
  const double width = 2.0 * static_cast<double>(omega.size());
  return std::exp(-4 / (width - 2) * sum);
}

}  // namespace rope::spectral

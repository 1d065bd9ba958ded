#include "spectral/frequency_use.hpp"

#include <cmath>
#include <limits>

namespace rope::spectral {

double usage_variation(std::span<const double> usage) {
  double sum = 0;
  for (double u : usage) sum += u;
  if (!(sum > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum / static_cast<double>(usage.size());
  double squares = 0;
  for (double u : usage) squares += (u - mean) * (u - mean);
  return std::sqrt(squares / static_cast<double>(usage.size())) / mean;
}

double usage_centroid(std::span<const double> usage, std::span<const double> log_omega) {
  double sum = 0, weighted = 0;
  for (std::size_t n = 0; n < usage.size(); ++n) {
    sum += usage[n];
    weighted += usage[n] * log_omega[n];
  }
  return sum > 0 ? weighted / sum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace rope::spectral

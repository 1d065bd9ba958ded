#include "spectral/nope_scale.hpp"

#include <cmath>
#include <limits>

namespace rope::spectral {

double nope_scale(double length, double effective_length, double logit_variance, double beta) {
  if (!(logit_variance > 0) || !(effective_length <= length)) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(2 / (beta * logit_variance) * std::log(length / effective_length));
}

}  // namespace rope::spectral

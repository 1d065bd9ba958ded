#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace rope {

/// A mean that leaves missing values (NaN) out; NaN where all are missing. Sums in the order of add().
struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    if (std::isnan(value)) return;
    sum += value;
    ++count;
  }
  double value() const {
    return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace rope

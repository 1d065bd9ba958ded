#include "support/compare.hpp"

#include <algorithm>
#include <sstream>

namespace rope::test {
namespace {

Comparison compare(const std::string& what, std::span<const double> value, std::span<const double> expected,
                   double bound, double floor, bool relative, bool nan_matches) {
  Comparison c;
  c.what = what;
  c.bound = bound;
  c.count = value.size();
  if (value.size() != expected.size() || value.empty()) {
    c.failed = true;
    c.worst = std::numeric_limits<double>::quiet_NaN();
    return c;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (nan_matches && std::isnan(value[i]) && std::isnan(expected[i])) continue;
    double deviation = value[i] == expected[i] ? 0.0 : std::abs(value[i] - expected[i]);
    if (relative && deviation > 0) deviation /= std::max(std::abs(expected[i]), floor);
    if (!(deviation <= bound)) c.failed = true;  // true for NaN
    if (!(deviation <= c.worst)) {
      c.worst = deviation;
      c.index = i;
    }
  }
  return c;
}

}  // namespace

std::string Comparison::text() const {
  std::ostringstream out;
  out << what << ": worst " << worst << " at " << index << " of " << count << ", " << 100.0 * share()
      << " % of the bound " << bound;
  return out.str();
}

Comparison compare_relative(const std::string& what, std::span<const double> value,
                            std::span<const double> expected, double bound, double floor, bool nan_matches) {
  return compare(what, value, expected, bound, floor, true, nan_matches);
}

Comparison compare_absolute(const std::string& what, std::span<const double> value,
                            std::span<const double> expected, double bound, bool nan_matches) {
  return compare(what, value, expected, bound, 0.0, false, nan_matches);
}

}  // namespace rope::test

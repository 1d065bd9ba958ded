#include "spectral/normal_law.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"

namespace rope::test {
namespace {

using namespace spectral;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("normal law: chances below zero against erfc of the C library, on every SIMD target") {
  std::vector<double> mean, variance;
  for (double x = -45; x <= 45; x += 0x1p-9) {
    mean.push_back(3 * x);
    variance.push_back(9);
  }
  for (const double edge : {0.0, -0.0, 1e-300, -1e-300, 1e200, -1e200}) {
    for (const double v : {0.0, 1e-300, 1.0, 1e300}) {
      mean.push_back(edge);
      variance.push_back(v);
    }
  }
  for (const std::string& target : simd_available()) {
    select_simd(target);
    CAPTURE(target);
    std::vector<double> chance(mean.size());
    chances_below_zero(mean, variance, chance);
    double worst = 0, worst_relative = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double expected = variance[i] > 0 ? 0.5 * std::erfc(mean[i] / std::sqrt(variance[i]) * M_SQRT1_2)
                                              : (mean[i] < 0 ? 1.0 : 0.0);
      worst = std::max(worst, std::abs(chance[i] - expected));
      if (expected > 1e-250) worst_relative = std::max(worst_relative, std::abs(chance[i] / expected - 1));
    }
    MESSAGE(target << ": " << worst << ", relative " << worst_relative);
    CHECK(worst < 1e-15);
    CHECK(worst_relative < 1e-12);                     // the argument's rounding counts 2 x^2 times
    for (const std::size_t count : {1, 2, 3, 7, 9}) {  // a value does not depend on its neighbours
      std::vector<double> few(count, -1.0);
      chances_below_zero(std::span(mean).subspan(20000, count), std::span(variance).subspan(20000, count),
                         few);
      CHECK(std::equal(few.begin(), few.end(), chance.begin() + 20000));
    }
  }
  select_simd("auto");
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

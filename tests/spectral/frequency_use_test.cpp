#include "spectral/frequency_use.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace rope::test {
namespace {

using namespace spectral;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("usage: variation and centroid by hand") {
  CHECK(usage_variation(std::vector<double>{2.0, 2.0, 2.0}) == 0.0);
  CHECK(usage_variation(std::vector<double>{1.0, 3.0}) == doctest::Approx(0.5));
  CHECK(std::isnan(usage_variation(std::vector<double>{0.0, 0.0})));
  const std::vector<double> log_omega{0.0, -2.0};
  CHECK(usage_centroid(std::vector<double>{1.0, 3.0}, log_omega) == doctest::Approx(-1.5));
  CHECK(std::isnan(usage_centroid(std::vector<double>{0.0, 0.0}, log_omega)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

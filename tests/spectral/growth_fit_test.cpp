#include "spectral/growth_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "reference/lengths.hpp"
#include "spectral/sweep_cases.hpp"

namespace rope::test {
namespace {

using spectral::fit_growth;
using spectral::growth_class;
using spectral::GrowthClass;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("growth fit: quantiles of Student's t") {
  // Tables of the t distribution.
  for (const auto& [degrees, quantile] : {std::pair{1, 12.7062047362},
                                          {2, 4.30265272975},
                                          {3, 3.18244630528},
                                          {4, 2.7764451052},
                                          {6, 2.44691185114},
                                          {30, 2.0422724563},
                                          {1000, 1.9623390808}})
    CHECK(spectral::student_t_quantile(0.975, degrees) == doctest::Approx(quantile).epsilon(1e-10));
  CHECK(spectral::student_t_quantile(0.95, 5) == doctest::Approx(2.0150483733).epsilon(1e-10));
  CHECK_THROWS_AS(spectral::student_t_quantile(0.975, 0), std::logic_error);
  CHECK_THROWS_AS(spectral::student_t_quantile(1.0, 3), std::logic_error);
}

TEST_CASE("growth fit: line and interval equal those of the reference") {
  std::mt19937_64 random(4);
  for (const int groups : {3, 4, 8, 25}) {
    std::vector<double> x, y;
    for (int i = 0; i < groups; ++i) {
      x.push_back(3 + 0.4 * i + 0.1 * uniform(random));
      y.push_back(0.6 * x.back() - 1 + 0.3 * uniform(random));
    }
    const auto fit = fit_growth(x, y);
    const reference::LineFit expected = reference::fit_line(x, y);
    REQUIRE(fit.has_value());
    CHECK(fit->groups == static_cast<std::size_t>(groups));
    CHECK(fit->slope == doctest::Approx(static_cast<double>(expected.slope)).epsilon(1e-11));
    CHECK(fit->intercept == doctest::Approx(static_cast<double>(expected.intercept)).epsilon(1e-11));
    CHECK(fit->low == doctest::Approx(static_cast<double>(expected.low)).epsilon(1e-9));
    CHECK(fit->high == doctest::Approx(static_cast<double>(expected.high)).epsilon(1e-9));
    CHECK(fit->low < fit->high);
  }
}

TEST_CASE("growth fit: exact lines, missing values, too few lengths, classes") {
  const std::vector<double> x = {1, 2, 4, 5};
  std::vector<double> y;
  for (const double length : x) y.push_back(0.25 + 0.5 * length);
  const auto line = fit_growth(x, y);
  REQUIRE(line.has_value());
  CHECK(line->slope == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(line->intercept == doctest::Approx(0.25).epsilon(1e-14));
  CHECK(line->high - line->low < 1e-12);
  CHECK(growth_class(line, 0.5, 0.75) == GrowthClass::kMixed);
  CHECK(growth_class(line, 0.51, 0.75) == GrowthClass::kRetrieval);
  CHECK(growth_class(line, 0.1, 0.49) == GrowthClass::kAggregation);
  CHECK(growth_class({}, 0.25, 0.75) == GrowthClass::kNone);

  y[1] = std::nan("");
  y[3] = INFINITY;
  const auto two = fit_growth(x, y);
  REQUIRE(two.has_value());
  CHECK(two->groups == 2);
  CHECK(two->slope == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(std::isnan(two->low));
  CHECK(std::isnan(two->high));
  y[2] = std::nan("");
  CHECK_FALSE(fit_growth(x, y).has_value());
  CHECK_FALSE(fit_growth(std::vector<double>{3, 3, 3 + 1e-12}, std::vector<double>{1, 2, 3}).has_value());
  CHECK_FALSE(fit_growth({}, {}).has_value());
  CHECK_THROWS_AS(fit_growth(x, {}), std::logic_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

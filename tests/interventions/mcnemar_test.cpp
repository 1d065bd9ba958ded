#include "interventions/mcnemar.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/compare.hpp"

using namespace rope;
using namespace rope::test;

namespace {

/// Sum over every outcome at most as likely as the one seen, of Binomial(n, 1/2), by logarithms.
double direct_p(std::int64_t gained, std::int64_t lost) {
  const auto n = static_cast<double>(gained + lost);
  const std::int64_t distance = std::abs(gained - lost);
  double sum = 0;
  for (std::int64_t k = 0; k <= gained + lost; ++k) {
    if (std::abs(2 * k - (gained + lost)) < distance) continue;
    const auto x = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) - n * std::log(2.0));
  }
  return sum;
}

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("McNemar's p: known values") {
  CHECK(mcnemar_p(0, 0) == 1);
  CHECK(mcnemar_p(3, 3) == 1);
  CHECK(mcnemar_p(1, 0) == 1);
  CHECK(mcnemar_p(0, 5) == 0.0625);            // 2 / 32
  CHECK(mcnemar_p(8, 1) == 2 * 10 / 512.0);    // 2 (1 + 9) / 2^9
  CHECK(mcnemar_p(2, 10) == 2 * 79 / 4096.0);  // 2 (1 + 12 + 66) / 2^12
  CHECK(mcnemar_p(0, 1074) == 0x1p-1073);      // below the smallest normal number
  CHECK(mcnemar_p(5'000'000, 0) == 0);
}

TEST_CASE("McNemar's p equals the sum over all outcomes as far from the middle, whatever the sides") {
  std::vector<double> value, expected;
  for (std::int64_t n = 0; n <= 60; ++n)
    for (std::int64_t k = 0; k <= n; ++k) {
      value.push_back(mcnemar_p(k, n - k));
      expected.push_back(direct_p(k, n - k));
      CHECK(mcnemar_p(k, n - k) == mcnemar_p(n - k, k));
      CHECK(mcnemar_p(k, n - k) <= 1);
    }
  CHECK_COMPARISON(compare_relative("p, n to 60", value, expected, 1e-12));
  const std::vector<double> large{mcnemar_p(5100, 4900), mcnemar_p(60'000, 61'000)};
  const std::vector<double> direct{direct_p(5100, 4900), direct_p(60'000, 61'000)};
  CHECK_COMPARISON(compare_relative("p, large n", large, direct, 1e-8));  // the logarithms' error
}

TEST_CASE("Holm: known values, order, bounds") {
  const std::vector<double> p{0.01, 0.04, 0.03, 0.005};
  CHECK_COMPARISON(compare_relative("four", holm(p), std::vector<double>{0.03, 0.06, 0.06, 0.02}, 1e-15));
  const double nan = std::nan("");
  const auto with_gap = holm(std::vector<double>{nan, 0.02, nan, 0.9});
  CHECK_COMPARISON(
      compare_relative("gaps", with_gap, std::vector<double>{nan, 0.04, nan, 0.9}, 1e-15, 0, true));
  CHECK(holm({}).empty());

  std::mt19937_64 generator(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + generator() % 30);
    for (double& v : values) v = static_cast<double>(generator() % 1000) / 999.0;
    const auto adjusted = holm(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(adjusted[i] <= 1);
      CHECK(adjusted[i] >= values[i]);
      // Holm by its definition: rejected at level a iff every smaller p passes its own threshold.
      double expected = 0;
      for (std::size_t j = 0; j < values.size(); ++j) {
        if (values[j] > values[i]) continue;
        const auto smaller =
            std::count_if(values.begin(), values.end(), [&](double v) { return v < values[j]; });
        expected = std::max(
            expected, static_cast<double>(values.size() - static_cast<std::size_t>(smaller)) * values[j]);
      }
      CHECK(adjusted[i] == std::min(1.0, expected));
    }
  }
}

TEST_SUITE_END();

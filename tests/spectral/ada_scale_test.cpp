#include "spectral/ada_scale.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "reference/adarope.hpp"
#include "spectral/effective_base.hpp"
#include "spectral/nope_scale.hpp"
#include "spectral/scale_search.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;
using State = ScaleSearch::State;
using Rows = std::vector<std::vector<long double>>;

// A whole search over a function of the scale; counts the rounds.
template <class F>
ScaleSearch search(const F& value, double target, int* rounds = nullptr) {
  ScaleSearch s;
  std::vector<double> values;
  for (double x : ScaleSearch::first_points()) values.push_back(value(x));
  s.start(values, target);
  int count = 1;
  for (; s.state() == State::kOpen && count < 100; ++count) {
    CHECK(!s.points().empty());
    CHECK(s.points().size() <= 12);
    CHECK(std::is_sorted(s.points().begin(), s.points().end()));
    values.clear();
    for (double x : s.points()) values.push_back(value(x));
    s.update(values);
  }
  if (rounds != nullptr) *rounds = count;
  return s;
}

Rows random_rows(std::uint64_t seed, std::size_t count, std::size_t keys, double size) {
  std::mt19937_64 random(seed);
  Rows rows(count);
  for (auto& row : rows)
    for (std::size_t k = 0; k < keys; ++k) row.push_back(size * uniform(random) + (k == 0 ? size : 0));
  return rows;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("AdaScale: the formula by hand, flat below the reference") {
  CHECK(ada_scale(2, 1.5, 3000, 1000) == doctest::Approx(std::pow(std::log(4.0), 1.5) / 2).epsilon(1e-14));
  CHECK(ada_scale(2, 1.5, 10, 1000) == ada_scale(2, 1.5, 1000, 1000));
  // lambda(L_ref) = 1 at tau = (ln 2)^gamma.
  for (double gamma : {-1.0, 0.0, 0.5, 1.0, 2.0})
    CHECK(ada_scale(std::pow(std::log(2.0), gamma), gamma, 512, 512) == doctest::Approx(1).epsilon(1e-14));
}

TEST_CASE("AdaScale: least squares gives back what it was made from, and agrees with the normal equations") {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const double tau = std::exp(uniform(random)), gamma = 2 * uniform(random),
                 reference = 100 + 50 * uniform(random);
    std::vector<double> lengths, exact, noisy;
    for (int i = 0; i < 3 + trial % 6; ++i) {
      lengths.push_back(reference * (1 + i * (1.5 + uniform(random))));
      exact.push_back(ada_scale(tau, gamma, lengths.back(), reference));
      noisy.push_back(exact.back() * std::exp(0.3 * uniform(random)));
    }
    const auto fit = fit_ada_scale(lengths, exact, reference);
    REQUIRE(fit.has_value());
    CHECK(fit->tau == doctest::Approx(tau).epsilon(1e-10));
    CHECK(std::abs(fit->gamma - gamma) < 1e-10);
    CHECK(fit->residual < 1e-12);

    const auto rough = fit_ada_scale(lengths, noisy, reference);
    const auto expected = reference::fit_scale(lengths, noisy, reference);
    CHECK(rough->tau == doctest::Approx(expected.tau).epsilon(1e-10));
    CHECK(std::abs(rough->gamma - expected.gamma) < 1e-10);
    CHECK(rough->residual == doctest::Approx(expected.residual).epsilon(1e-9));
    for (std::size_t i = 0; i < lengths.size(); ++i)
      CHECK(rough->residuals[i] ==
            doctest::Approx(std::log(noisy[i] / ada_scale(rough->tau, rough->gamma, lengths[i], reference))));
  }
}

TEST_CASE("AdaScale: no fit where a line is not determined") {
  const std::vector<double> two{100, 200}, equal{100, 100, 100, 60}, scale{1, 1.2, 1.3, 1.4};
  CHECK_FALSE(fit_ada_scale(two, std::span(scale).first(2), 100).has_value());
  CHECK_FALSE(fit_ada_scale(equal, scale, 100).has_value());
}

TEST_CASE("E_2 never rises with the logit scale, from L down to the number of largest logits") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rows rows = random_rows(seed, 1, 3 + 7 * seed, static_cast<double>(seed));
    if (seed % 3 == 0) rows[0][1] = rows[0][0];                              // a tie at the top
    if (seed % 4 == 0) std::fill(rows[0].begin() + 1, rows[0].end(), -5.0);  // one against equals
    long double before = std::log(static_cast<long double>(rows[0].size())) + 1e-15L;
    for (double t = -12; t < 7; t += 0.01) {
      const long double now = reference::log_length(rows[0], std::exp(t));
      CHECK(now <= before + 1e-15L);
      before = now;
    }
  }
}

TEST_CASE("scale search: as 300 halvings, in a few rounds") {
  int most = 0;
  std::vector<double> found, expected;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Rows small = random_rows(seed, 3, 20, 0.1 * static_cast<double>(seed));
    const Rows large = random_rows(seed + 100, 3, 20 + 11 * seed, 0.11 * static_cast<double>(seed));
    const double target = static_cast<double>(reference::mean_log_length(small, 1));
    int rounds = 0;
    const ScaleSearch s = search(
        [&](double x) { return static_cast<double>(reference::mean_log_length(large, x)); }, target, &rounds);
    REQUIRE(s.state() == State::kFound);
    found.push_back(s.scale());
    expected.push_back(reference::holding_scale(large, target));
    most = std::max(most, rounds);
  }
  CHECK_COMPARISON(compare_relative("lambda", found, expected, 1e-8));
  CHECK(most <= 7);
}

TEST_CASE("scale search: hard functions") {
  // A jump, a plateau at the value sought (its lower end), a root at either end of the range.
  const auto step = [](double x) { return x < 0.123456789 ? 1.0 : 0.0; };
  CHECK(search(step, 0.5).scale() == doctest::Approx(0.123456789).epsilon(1.1e-8));
  CHECK(search([&](double x) { return x < 2.5  ? 3 - x
                                      : x < 40 ? 0.5
                                               : 0.0; }, 0.5).scale() ==
        doctest::Approx(2.5).epsilon(1.1e-8));
  CHECK(search([](double x) { return -std::log(x); }, -std::log(9999.0)).scale() ==
        doctest::Approx(9999).epsilon(1.1e-8));
  CHECK(search([](double x) { return -x; }, -3e-8).scale() == doctest::Approx(3e-8).epsilon(1.1e-8));
  CHECK(search([](double x) { return -x; }, -1.0).scale() == doctest::Approx(1).epsilon(1.1e-8));
}

TEST_CASE("scale search: says why there is no scale") {
  const auto length = [](double x) { return std::log(1 + 9 * std::exp(-x)); };  // from ln 10 down to 0
  CHECK(search(length, std::log(10.0)).state() == State::kBelow);
  CHECK(search(length, 3.0).state() == State::kBelow);
  CHECK(search([](double) { return 1.0; }, 0.5).state() == State::kAbove);
  CHECK(search([](double x) { return x > 1 ? std::nan("") : 1.0; }, 0.5).state() == State::kUndefined);
  CHECK(search(length, std::nan("")).state() == State::kUndefined);
  CHECK(std::isnan(search(length, 3.0).scale()));
}

TEST_CASE("NoPE scale: the closed form, and what normal logits really need (A 36)") {
  CHECK(nope_scale(1000, 10, 4) == doctest::Approx(std::sqrt(std::log(100.0) / 4)).epsilon(1e-14));
  CHECK(nope_scale(1000, 10, 4, 1) == doctest::Approx(std::sqrt(2 * std::log(100.0) / 4)).epsilon(1e-14));
  CHECK(nope_scale(10, 10, 4) == 0);
  CHECK(std::isnan(nope_scale(9, 10, 4)));
  CHECK(std::isnan(nope_scale(100, 10, 0)));
  CHECK(std::isnan(nope_scale(100, 10, std::nan(""))));
  // Logits at the quantiles of a normal law: ln E_2 = ln L - lambda^2 sigma^2 while the law's tail is
  // sampled.
  constexpr std::size_t kKeys = 200000;
  std::vector<long double> row;
  for (std::size_t i = 0; i < kKeys; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / kKeys;
    double z = 0;  // Newton on the distribution function
    for (int k = 0; k < 60; ++k)
      z -=
          std::clamp((reference::normal_cdf(z) - p) / (std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0))),
                     -0.5, 0.5);
    row.push_back(z);
  }
  const double effective = static_cast<double>(std::exp(reference::log_length(row, 0.9L)));
  CHECK(nope_scale(kKeys, effective, static_cast<double>(reference::variance(row))) ==
        doctest::Approx(0.9).epsilon(2e-3));
}

TEST_CASE("effective base: the base of a geometric grid") {
  for (double base : {2.0, 500.0, 1e4, 5e5, 1e6})
    for (std::size_t h : {2u, 8u, 32u, 64u, 128u})
      CHECK(effective_base(geometric_grid(base, h)) == doctest::Approx(base).epsilon(1e-11));
  CHECK(std::isnan(effective_base(std::vector<double>{1.0})));
  CHECK(std::isnan(effective_base(std::vector<double>{})));
  // All pairs slowed by s: Theta grows by s^(2h / (h - 1)).
  std::vector<double> slow = geometric_grid(1e4, 16);
  for (double& w : slow) w /= 4;
  CHECK(effective_base(slow) == doctest::Approx(1e4 * std::pow(4.0, 2 * 16 / 15.0)).epsilon(1e-11));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "spectral/context_bound.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "reference/context_bound.hpp"
#include "spectral/band_split.hpp"
#include "spectral/sweep_cases.hpp"
#include "spectral/window_moments.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

struct Setting {
  std::string name;
  std::vector<double> omega;
  double rho;
  BoundConstants constants;
};

double rho_of_base(double base, std::size_t h) { return std::pow(base, -1.0 / static_cast<double>(h)); }

/// Llama-3.1: base 5e5, h = 64, llama3 scaling by 8 below 8192 / 4 periods, smoothed.
std::vector<double> llama_frequencies() {
  std::vector<double> omega = geometric_grid(5e5, 64);
  for (double& w : omega) {
    const double periods = 8192 * w / (2 * std::numbers::pi);
    const double keep = std::clamp((periods - 1) / 3, 0.0, 1.0);
    w = keep * w + (1 - keep) * w / 8;
  }
  return omega;
}

std::vector<Setting> settings() {
  const BoundConstants certified;
  return {{"Qwen3", geometric_grid(1e6, 64), rho_of_base(1e6, 64), certified},
          {"Llama-3.1", llama_frequencies(), rho_of_base(5e5, 64), certified},
          {"operational", geometric_grid(1e6, 64), rho_of_base(1e6, 64), {0.06, 0.1}},
          {"wide epsilon", geometric_grid(1e4, 8), rho_of_base(1e4, 8), {1.0, 0.4999}},
          {"one pair", {0.5}, 0.0, {2.0, 0.2}},
          {"up to pi", {std::numbers::pi, 1.0, 0.3}, 0.3, {0.5, 0.1}},
          {"very slow", geometric_grid(1e10, 16), rho_of_base(1e10, 16), {0.06, 0.3}},
          {"equal frequencies", {0.25, 0.25, 0.25}, 1.0, certified}};
}

reference::ContextBound slow_copy(const Setting& s) {
  return {s.omega, s.rho, s.constants.c, s.constants.epsilon};
}

/// From 2 to 1e15, denser than the powers of 2.
std::vector<std::int64_t> windows() {
  std::vector<std::int64_t> list;
  for (double x = 2; x < 1.1e15; x *= 1.37) list.push_back(static_cast<std::int64_t>(x));
  list.push_back(1'000'000'000'000'003);
  return list;
}

/// Small, middling and all but R_F.
std::vector<double> responses(const ContextBound& bound) {
  std::vector<double> list;
  for (const double share : {1e-12, 1e-3, 0.1, 0.5, 0.61, 0.9, 0.999, 1 - 1e-6, 1 - 1e-10})
    list.push_back(share * bound.response_limit());
  return list;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("context bound: the oracles of theory §10") {
  const ContextBound qwen(geometric_grid(1e6, 64), rho_of_base(1e6, 64), {});
  const ContextBound llama(llama_frequencies(), rho_of_base(5e5, 64), {});
  CHECK(qwen.response_limit() == doctest::Approx(1.64675).epsilon(5e-6 / 1.64675));
  CHECK(llama.response_limit() == doctest::Approx(1.68155).epsilon(5e-6 / 1.68155));
  // No floor before about 5e9 tokens, whatever zeta up to 1 is.
  for (const double zeta : {0.01, 0.3, 1.0}) {
    const std::int64_t first = *qwen.sufficient_window(zeta);
    CHECK(static_cast<double>(first) == doctest::Approx(5e9).epsilon(0.1));
    CHECK(qwen.at(first, zeta).reversal_floor > 0.49);
    for (std::int64_t window = first - 1; window >= 2; window /= 2) {
      CAPTURE(window);
      CHECK(qwen.at(window, zeta).reversal_floor == 0);
    }
  }
}

TEST_CASE("context bound: every part against the formulas in long double") {
  for (const Setting& s : settings()) {
    CAPTURE(s.name);
    const ContextBound bound(s.omega, s.rho, s.constants);
    const reference::ContextBound slow = slow_copy(s);
    const double limit = static_cast<double>(slow.response_limit());
    CHECK_COMPARISON(compare_relative("R_F", std::vector{bound.response_limit()}, std::vector{limit}, 1e-15));
    std::vector<double> value[4], expected[4];
    for (const double zeta : responses(bound)) {
      for (const std::int64_t window : windows()) {
        const BoundPoint point = bound.at(window, zeta);
        const long double share = slow.response_floor(window, zeta);
        const int k = slow.slow_pairs(window);
        CHECK(point.slow_pairs == k);
        CHECK(point.window == window);
        CHECK(point.response == zeta);
        value[0].push_back(point.response_floor), expected[0].push_back(static_cast<double>(share));
        value[1].push_back(point.mean_bound);
        expected[1].push_back(static_cast<double>(slow.mean_bound(k, share)));
        value[2].push_back(point.deviation_floor);
        expected[2].push_back(static_cast<double>(slow.deviation_floor(k, share)));
        value[3].push_back(floor_above(point.reversal_floor, 0.01));
        expected[3].push_back(static_cast<double>(slow.p_floor(window, zeta, 0.01)));
      }
    }
    CHECK_COMPARISON(compare_relative("l", value[0], expected[0], 1e-14, 1e-300));
    // 1 - l^2 of the reference has lost 1e-19 of 1.
    CHECK_COMPARISON(compare_relative("u", value[1], expected[1], 2e-9, 1e-300));
    CHECK_COMPARISON(compare_absolute("v", value[2], expected[2], 1e-12));
    CHECK_COMPARISON(compare_absolute("p_floor", value[3], expected[3], 1e-11));
  }
}

TEST_CASE("context bound: sqrt(1 - l^2) is right next to the largest response") {
  const ContextBound bound({std::vector{1.0}}, 0.0, {1.0, 0.25});  // Gamma = 8: one slow pair up to M = 7
  // There l = 0; so give C so small that l is next to 1 while the pair is still slow.
  const double c = 1e-14;
  const ContextBound near({std::vector{1e-15, 1.0}}, 0.0, {c, 0.25});
  CHECK(bound.at(7, 0.5).response_floor == 0);
  const double limit = near.response_limit();
  for (const double missing : {0x1p-50, 0x1p-44, 0x1p-30}) {
    const double zeta = limit - missing;  // exact
    const BoundPoint point = near.at(20, zeta);
    REQUIRE(point.slow_pairs == 1);
    const long double offset = 8 * static_cast<long double>(c) * std::sqrt(2.0L) / 20;
    const long double wide_limit =
        std::sqrt(4 * std::pow(std::sin(0.5L), 2.0L) + 4 * std::pow(std::sin(0.5L * 1e-15L), 2.0L));
    const long double rest = (wide_limit - zeta + offset) / wide_limit;
    const long double expected = 0.25L * (1 - rest) + std::sqrt(rest * (2 - rest));
    CHECK_COMPARISON(compare_relative("u", std::vector{point.mean_bound},
                                      std::vector{static_cast<double>(expected)}, 1e-12));
    CHECK(point.deviation_floor < 0.5);
    CHECK(point.deviation_floor > 0.4);
  }
}

TEST_CASE("context bound: the floor falls neither with the window nor with the response") {
  for (const Setting& s : settings()) {
    CAPTURE(s.name);
    const ContextBound bound(s.omega, s.rho, s.constants);
    const double top = bound.largest_reversal();
    std::vector<double> before(windows().size(), 0.0);
    for (const double zeta : responses(bound)) {
      double last = 0;
      std::size_t i = 0;
      for (const std::int64_t window : windows()) {
        const BoundPoint point = bound.at(window, zeta);
        CHECK(point.reversal_floor >= last * (1 - 1e-12));
        CHECK(point.reversal_floor >= before[i] * (1 - 1e-12));
        CHECK(point.reversal_floor <= top);
        CHECK(point.response_floor < 1);
        for (const double tau : {0.0, 0.1, 0.49, 0.6}) {
          CHECK(floor_above(point.reversal_floor, tau) <= point.reversal_floor);
          CHECK(floor_above(point.reversal_floor, tau) >= 0);
        }
        last = before[i++] = point.reversal_floor;
      }
    }
  }
}

TEST_CASE("context bound: without slow pairs u = epsilon r, v = c_epsilon r, and the floor is delta*") {
  for (const Setting& s : settings()) {
    CAPTURE(s.name);
    const ContextBound bound(s.omega, s.rho, s.constants);
    for (const double zeta : responses(bound)) {
      const auto window = bound.sufficient_window(zeta);
      if (s.rho == 1 || zeta < 1e-11) {  // never, or not before 2^53
        if (s.rho == 1) CHECK_FALSE(window.has_value());
        continue;
      }
      REQUIRE(window.has_value());
      CHECK(*window ==
            doctest::Approx(static_cast<double>(slow_copy(s).sufficient_window(zeta))).epsilon(1e-14));
      const BoundPoint point = bound.at(*window, zeta);
      CHECK(point.slow_pairs == 0);
      CHECK(point.response_floor > 0);
      const double r = point.response_floor, epsilon = s.constants.epsilon;
      CHECK(point.mean_bound == doctest::Approx(epsilon * r).epsilon(1e-14));
      CHECK(point.deviation_floor == doctest::Approx(std::sqrt(0.5 - epsilon) * r).epsilon(1e-14));
      CHECK(point.reversal_floor == bound.largest_reversal());
      CHECK(bound.largest_reversal() ==
            doctest::Approx(static_cast<double>(slow_copy(s).delta_star(0))).epsilon(1e-14));
      if (*window > 2) {  // the smallest such window
        const BoundPoint short_of = bound.at(*window - 1, zeta);
        CHECK((short_of.slow_pairs > 0 || short_of.response_floor == 0));
      }
    }
  }
}

TEST_CASE("context bound: floors deep in the tail keep their digits") {
  // One slow pair, and a floor that is tiny but not 0.
  const ContextBound bound({std::vector{1.0, 1e-9}}, 0.0, {1e-4, 0.4});
  double smallest = 1;
  for (double share = 0.999; share > 0.95; share -= 1e-4) {
    const double zeta = share * bound.response_limit();
    const double floor = bound.at(1000, zeta).reversal_floor;
    if (floor == 0) continue;
    smallest = std::min(smallest, floor);
    const reference::ContextBound slow{{1.0, 1e-9}, 0.0, 1e-4, 0.4};
    CHECK(floor == doctest::Approx(static_cast<double>(slow.p_floor(1000, zeta, 0))).epsilon(1e-9));
  }
  CHECK(smallest < 1e-100);
}

TEST_CASE("context bound: crossings") {
  const std::vector<std::int64_t> windows{4, 8, 16, 32};
  const std::vector<double> floors{0.0, 0.1, 0.1, 0.4};
  CHECK(find_crossing(windows, floors, 0.1).first_excluded == 32);
  CHECK(find_crossing(windows, floors, 0.1).last_allowed == 16);
  CHECK(find_crossing(windows, floors, 0.05).first_excluded == 8);
  CHECK(find_crossing(windows, floors, 0.05).last_allowed == 4);
  CHECK_FALSE(find_crossing(windows, floors, 0.4).first_excluded.has_value());
  CHECK(find_crossing(windows, floors, 0.4).last_allowed == 32);
  CHECK_FALSE(find_crossing({}, {}, 0.4).last_allowed.has_value());
  const std::vector<double> all{0.3, 0.3, 0.3, 0.3};
  CHECK(find_crossing(windows, all, 0.0).first_excluded == 4);
  CHECK_FALSE(find_crossing(windows, all, 0.0).last_allowed.has_value());
}

// The theorem itself: what it says of every margin without a constant holds for random and adversarial ones.
TEST_CASE("context bound: margins keep to share, mean, deviation and reversal") {
  const std::size_t h = 8;
  const double base = 50, rho = rho_of_base(base, h);
  const std::vector<double> omega = geometric_grid(base, h);
  const ContextBound bound(omega, rho, {});
  std::mt19937_64 random(20);
  int with_floor = 0, above = 0;
  for (const std::int64_t window : {3700, 5000, 12000, 40000, 200000}) {
    SplitRule certified = parse_split("certified");
    const std::vector<char> high = high_frequency_mask(certified, omega, rho, window);
    const int k = bound.slow_pairs(window);
    std::vector<reference::Vector> vectors;
    for (const Spread spread :
         {Spread::kWhite, Spread::kFastOnly, Spread::kSlowOnly, Spread::kSlowHeavy, Spread::kOne})
      for (const auto& v : make_vectors(h, h, spread, 1.0, random())) vectors.push_back(v);
    for (int v = 0; v < 12; ++v) {  // all but all in H, phases that add up, or cancel, at the start
      reference::Vector one;
      one.z.resize(h);
      for (std::size_t n = 0; n < h; ++n) {
        const double part = high[n] ? 1.0 : std::pow(10.0, -1.0 - v % 4);
        one.z[n] = std::polar(part, v < 4   ? 0.0
                                    : v < 8 ? std::numbers::pi * static_cast<double>(n)
                                            : 3 * uniform(random));
      }
      vectors.push_back(one);
    }
    CoefficientBatch batch = make_batch(vectors, h);
    std::fill(batch.constant.begin(), batch.constant.end(), 0.0);
    for (auto& v : vectors) v.constant = 0;
    std::vector<double> mean(vectors.size()), variance(vectors.size());
    WindowMoments(omega, window).evaluate(batch, mean, variance);
    const auto sums = reference::sum_over_window(vectors, omega, window);
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      CAPTURE(window);
      CAPTURE(v);
      const double norm = static_cast<double>(reference::norm(vectors[v]));
      const double share = static_cast<double>(reference::norm(vectors[v], high)) / norm;
      const double zeta = sums[v].response_max / norm;
      REQUIRE(zeta <= bound.response_limit() * (1 + 1e-12));
      if (!bound.in_range(zeta)) continue;
      const BoundPoint point = bound.at(window, zeta);
      above += point.response_floor > 0;
      CHECK(share >= point.response_floor * (1 - 1e-12));
      const double rest = std::sqrt(static_cast<double>(k) * (1 - share) * (1 + share));
      CHECK(std::abs(mean[v]) / norm <= bound.constants().epsilon * share + rest + 1e-12);
      CHECK(std::sqrt(variance[v]) / norm >=
            std::sqrt(0.5 - bound.constants().epsilon) * share - rest - 1e-12);
      const double sign = sums[v].start < 0 ? -1 : 1;
      const double reversal = reference::normal_cdf(-sign * mean[v] / std::sqrt(variance[v]));
      CHECK(reversal >= point.reversal_floor - 1e-12);
      with_floor += point.reversal_floor > 0;
    }
  }
  CHECK(with_floor > 20);
  CHECK(above > with_floor);
}

TEST_CASE("context bound: refused arguments") {
  const std::vector<double> omega{1.0, 0.1};
  const double inf = INFINITY;
  CHECK_THROWS_AS(ContextBound({}, 0.5, {}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(omega, 1.5, {}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(omega, 0.5, {0.0, 0.1}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(omega, 0.5, {inf, 0.1}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(omega, 0.5, {1.0, 0.5}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(omega, 0.5, {1.0, 0.0}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(std::vector{0.0, 1.0}, 0.5, {}), std::logic_error);
  CHECK_THROWS_AS(ContextBound(std::vector{4.0}, 0.5, {}), std::logic_error);
  const ContextBound bound(omega, 0.5, {});
  const double limit = bound.response_limit();
  for (const double zeta : {0.0, -1.0, limit * 1.0001, inf, std::nan("")}) {
    CHECK_FALSE(bound.in_range(zeta));
    CHECK_THROWS_AS(bound.at(100, zeta), std::logic_error);
    CHECK_THROWS_AS((void)bound.sufficient_window(zeta), std::logic_error);
  }
  CHECK_THROWS_AS(bound.at(0, 0.1), std::logic_error);
  CHECK_THROWS_AS(bound.at(kLargestBoundWindow + 1, 0.1), std::logic_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

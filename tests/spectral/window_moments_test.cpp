#include "spectral/window_moments.hpp"

#include <doctest/doctest.h>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::WindowMoments;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("moments: every SIMD target agrees with direct summation on the case table") {
  const auto cases = sweep_cases();
  std::vector<std::vector<reference::WindowSums>> expected;
  expected.reserve(cases.size());
  for (const SweepCase& c : cases)
    expected.push_back(reference::sum_over_window(c.vectors, c.omega, c.window));
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    double worst = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const SweepCase& c = cases[i];
      CAPTURE(c.name);
      CAPTURE(target);
      std::vector<double> mean(c.vectors.size()), variance(c.vectors.size()), mean_expected,
          variance_expected;
      WindowMoments(c.omega, c.window).evaluate(make_batch(c.vectors, c.omega.size()), mean, variance);
      double size = 0;
      for (std::size_t v = 0; v < c.vectors.size(); ++v) {
        mean_expected.push_back(static_cast<double>(expected[i][v].mean));
        variance_expected.push_back(static_cast<double>(expected[i][v].variance));
        size = std::max(size, static_cast<double>(reference::norm(c.vectors[v])));
      }
      for (const Comparison& comparison :
           {compare_absolute("mean", mean, mean_expected, 1e-14 * size),
            compare_relative("variance", variance, variance_expected, 1e-11)}) {
        CHECK_MESSAGE(comparison.ok(), comparison.text());
        worst = std::max(worst, comparison.share());
      }
    }
    MESSAGE(target << ": " << 100 * worst << " % of the bounds (mean 1e-14 U, variance 1e-11) used");
  }
  spectral::select_simd("auto");
}

TEST_CASE("moments: margins of slow pairs only, where the variance is 1e-10 of the squared mean") {
  const auto omega = geometric_grid(1e6, 64);
  auto vectors = make_vectors(24, 64, Spread::kSlowOnly, 4.0, 3);
  for (auto& vector : vectors) {
    vector.constant = 0.0;
    for (std::size_t n = 0; n < 60; ++n) vector.z[n] = 0.0;
  }
  for (std::int64_t window : {20, 445, 8192}) {
    std::vector<double> mean(24), variance(24), expected, ratio;
    WindowMoments(omega, window).evaluate(make_batch(vectors, 64), mean, variance);
    for (const auto& sums : reference::sum_over_window(vectors, omega, window))
      expected.push_back(static_cast<double>(sums.variance));
    CHECK_COMPARISON(compare_relative("variance, M = " + std::to_string(window), variance, expected, 1e-10));
    CHECK(variance[0] < 1e-2 * mean[0] * mean[0]);
  }
}

TEST_CASE("moments: no rotation, one distance, two distances") {
  const std::vector<double> omega{1.0, 0.01};
  const std::vector<reference::Vector> vectors{{{{0.0, 0.0}, {0.0, 0.0}}, 2.5},
                                               {{{1.0, 2.0}, {-0.5, 0.25}}, 1.0}};
  std::vector<double> mean(2), variance(2);
  WindowMoments(omega, 100).evaluate(make_batch(vectors, 2), mean, variance);
  CHECK(mean[0] == 2.5);
  CHECK(variance[0] == 0.0);
  WindowMoments(omega, 1).evaluate(make_batch(vectors, 2), mean, variance);
  CHECK(mean[1] == 1.5);
  CHECK(variance[1] == 0.0);
  WindowMoments(omega, 2).evaluate(make_batch(vectors, 2), mean, variance);
  const double at0 = 1.5,
               at1 = 1.0 + std::cos(1.0) - 2 * std::sin(1.0) - 0.5 * std::cos(0.01) - 0.25 * std::sin(0.01);
  CHECK(mean[1] == doctest::Approx((at0 + at1) / 2).epsilon(1e-14));
  CHECK(variance[1] == doctest::Approx((at0 - at1) * (at0 - at1) / 4).epsilon(1e-13));
  CHECK_THROWS_AS(WindowMoments(omega, 0), std::logic_error);
  CHECK_THROWS_AS(WindowMoments(std::vector<double>{0.0}, 5), std::logic_error);
  CHECK_THROWS_AS(WindowMoments(std::vector<double>{1.0}, 5).evaluate(make_batch(vectors, 2), mean, variance),
                  std::logic_error);
}

TEST_CASE("moments: a lane's bytes depend on nothing but the lane") {
  const auto omega = geometric_grid(1e6, 24);
  const auto vectors = make_vectors(61, 24, Spread::kWhite, 3.0, 5);
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    CAPTURE(target);
    const WindowMoments moments(omega, 1000);
    std::vector<double> mean(61), variance(61), mean_alone(60), variance_alone(60);
    moments.evaluate(make_batch(vectors, 24), mean, variance);
    for (std::size_t v : {0, 1, 7, 23, 24, 60}) {
      for (std::size_t first : {0, 1, 5, 17, 40}) {
        moments.evaluate(make_batch({vectors[v]}, 24, first + 3, first), mean_alone, variance_alone);
        CHECK(mean_alone[first] == mean[v]);
        CHECK(variance_alone[first] == variance[v]);
      }
    }
  }
  spectral::select_simd("auto");
}

TEST_CASE("moments: a check value of theory §9") {
  // One pair with M omega = 0.54225: variance over |z|^2 / 2 lies in [0.00024, 0.0483], by phase.
  const double omega = 0.54225 / 32768;
  const WindowMoments moments(std::vector<double>{omega}, 32768);
  double least = 1, most = 0;
  for (int i = 0; i < 720; ++i) {
    const std::vector<reference::Vector> one{{{std::polar(1.0, i * std::numbers::pi / 720)}, 0.0}};
    std::vector<double> mean(1), variance(1);
    moments.evaluate(make_batch(one, 1), mean, variance);
    least = std::min(least, 2 * variance[0]);
    most = std::max(most, 2 * variance[0]);
  }
  CHECK(least == doctest::Approx(0.00024).epsilon(0.02));
  CHECK(most == doctest::Approx(0.0483).epsilon(0.002));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

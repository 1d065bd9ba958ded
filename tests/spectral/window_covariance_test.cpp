#include "spectral/window_covariance.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/exact_covariance.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

// Largest difference from the long-double entries, relative to the roots of both variances.
double worst_entry(const std::vector<double>& omega, std::int64_t window) {
  const WindowCovariance fast = make_window_covariance(omega, window);
  const ExactCovariance exact(omega, window);
  double worst = 0;
  const auto see = [&](double difference) {
    worst = difference <= worst ? worst : difference;  // NaN stays
  };
  for (std::size_t i = 0; i < fast.h; ++i) {
    const std::size_t n = fast.order[i];
    const auto own = exact.covariance(n, n);
    see(std::abs(fast.mean[i] - static_cast<double>(exact.mean(n))));
    see(std::abs(fast.cosine.scale[i] / static_cast<double>(std::sqrt(own.cosines)) - 1));
    see(std::abs(fast.sine.scale[i] / static_cast<double>(std::sqrt(own.sines)) - 1));
    for (std::size_t j = 0; j < fast.h; ++j) {
      const auto entry = exact.covariance(n, fast.order[j]),
                 other = exact.covariance(fast.order[j], fast.order[j]);
      see(std::abs(fast.cosine.matrix[i * fast.stride + j] -
                   static_cast<double>(entry.cosines / std::sqrt(own.cosines * other.cosines))));
      see(std::abs(fast.sine.matrix[i * fast.stride + j] -
                   static_cast<double>(entry.sines / std::sqrt(own.sines * other.sines))));
    }
  }
  return worst;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("window covariance: the fast entries agree with those in long double, on every SIMD target") {
  for (const std::string& target : simd_available()) {
    select_simd(target);
    double worst = 0;
    std::string where;
    const auto check = [&](const std::string& name, const std::vector<double>& omega, std::int64_t window) {
      const double entry = worst_entry(omega, window);
      CAPTURE(target);
      CAPTURE(name);
      CAPTURE(window);
      CHECK(entry <= 1e-12);
      if (entry > worst) {
        worst = entry;
        where = name + ", M = " + std::to_string(window);
      }
    };
    for (const std::int64_t window : {63, 64, 65, 100, 1000, 3001, 8192, 131072, 16777216}) {
      for (const double base : {1e2, 1e4, 1e6, 1e10})
        for (const std::size_t h : {1, 2, 7, 16, 64, 129})
          check("geometric", geometric_grid(base, h), window);
      std::mt19937_64 random(static_cast<std::uint64_t>(window));
      std::vector<double> any(40), steps(30);
      for (double& w : any) w = std::exp(-7.0 * (1.0 + uniform(random)));
      for (std::size_t n = 0; n < steps.size(); ++n) steps[n] = 1.9 - 0.06 * static_cast<double>(n);
      check("random", any, window);
      check("arithmetic", steps, window);
      check("close and equal", {1.0, 1.0, 0.999, 0.99, 0.5, 0.4999999, 1e-3, 1e-3, 9.999e-4}, window);
      check("up to 2", {2.0, 1.99, 1.0, 0.25}, window);
    }
    MESSAGE(target << ": worst entry off by " << worst << " of its standard deviations (bound 1e-12), "
                   << where);
  }
  select_simd("auto");
}

TEST_CASE("window covariance: the factor is triangular in its pivots and gives the block back") {
  for (const std::string& target : simd_available()) {
    select_simd(target);
    CAPTURE(target);
    for (const std::size_t h : {1, 3, 16, 33, 64, 130}) {
      CAPTURE(h);
      const WindowCovariance covariance = make_window_covariance(geometric_grid(1e6, h), 8192);
      for (const auto* block : {&covariance.cosine, &covariance.sine}) {
        std::vector<std::size_t> pivots;
        const auto columns = pivoted_cholesky(*block, h, covariance.stride, pivots);
        CHECK(pivots.size() <= h);
        for (std::size_t k = 0; k < pivots.size(); ++k)
          for (std::size_t before = 0; before < k; ++before)
            CHECK(columns[k * covariance.stride + pivots[before]] == 0.0);
        std::vector<double> product, expected;
        for (std::size_t i = 0; i < h; ++i)
          for (std::size_t j = 0; j < h; ++j) {
            long double sum = 0;
            for (std::size_t k = 0; k < pivots.size(); ++k)
              sum += static_cast<long double>(columns[k * covariance.stride + i]) *
                     columns[k * covariance.stride + j];
            product.push_back(static_cast<double>(sum));
            expected.push_back(block->matrix[i * covariance.stride + j]);
          }
        const auto comparison = compare_absolute("product of the factor", product, expected, 3e-14);
        CHECK_MESSAGE(comparison.ok(), comparison.text());
      }
    }
  }
  select_simd("auto");
}

TEST_CASE("window covariance: short windows and frequencies up to pi keep their exact zeros") {
  const WindowCovariance one = make_window_covariance(std::vector<double>{1.0, 0.1}, 1);
  for (const double x : one.cosine.matrix) CHECK(x == 0.0);
  for (const double x : one.sine.matrix) CHECK(x == 0.0);
  const WindowCovariance two = make_window_covariance(std::vector<double>{1.0, 0.1}, 2);
  CHECK(two.cosine.scale == std::vector<double>{0.0, 0.0});
  CHECK(two.sine.scale[1] == doctest::Approx(std::sin(0.05)).epsilon(1e-15));
  // cos(pi t) is 0 at half-whole t, and sin(pi t) at whole t, but for the rounding of pi.
  const WindowCovariance even = make_window_covariance(std::vector<double>{std::numbers::pi}, 700);
  CHECK(even.cosine.scale[0] < 1e-12);
  CHECK(even.sine.scale[0] == doctest::Approx(1.0).epsilon(1e-14));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

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

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

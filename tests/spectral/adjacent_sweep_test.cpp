#include "spectral/adjacent_sweep.hpp"

#include <doctest/doctest.h>

#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::SweepPlan;
using spectral::SweepRequest;
using spectral::SweepResult;

constexpr SweepRequest kEverything{true, true, true, true, true, 0.0};

TEST_SUITE_BEGIN("spectral");

TEST_CASE("sweep: every SIMD target agrees with direct summation on the case table") {
  const auto cases = sweep_cases();
  std::vector<std::vector<reference::WindowSums>> expected;
  for (const SweepCase& c : cases)
    expected.push_back(reference::sum_over_window(c.vectors, c.omega, c.window));
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    CHECK(spectral::simd_in_use() == target);
    double worst = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const SweepCase& c = cases[i];
      CAPTURE(c.name);
      CAPTURE(target);
      SweepResult result;
      spectral::sweep_cpu(SweepPlan(c.omega, c.window), make_batch(c.vectors, c.omega.size()), kEverything,
                          result);
      std::vector<double> mean, max, length, aliasing;
      for (std::size_t v = 0; v < c.vectors.size(); ++v) {
        mean.push_back(expected[i][v].mean_response);
        max.push_back(expected[i][v].response_max);
        length.push_back(expected[i][v].effective_length);
        aliasing.push_back(expected[i][v].aliasing);
        CHECK(std::abs(result.reversals[v] - expected[i][v].reversals) <= expected[i][v].doubtful);
      }
      for (const Comparison& comparison :
           {compare_relative("mean_response", result.mean_response, mean, 1e-12),
            compare_relative("response_max", result.response_max, max, 1e-12),
            compare_relative("effective_length", result.effective_length, length, 1e-11),
            compare_relative("aliasing", result.aliasing, aliasing, 1e-12)}) {
        CHECK_MESSAGE(comparison.ok(), comparison.text());
        worst = std::max(worst, comparison.share());
      }
    }
    MESSAGE(target << ": " << 100 * worst << " % of the bounds (1e-12, E_2 1e-11) used");
  }
  spectral::select_simd("auto");
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "spectral/adjacent_sweep.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include "spectral/mirrored_sweep.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::SweepPlan;
using spectral::SweepRequest;
using spectral::SweepResult;

const SweepRequest kEverything{true, true, true, true, true, 0.0};

TEST_SUITE_BEGIN("spectral");

using Sweep = void (*)(const SweepPlan&, const spectral::CoefficientBatch&, const SweepRequest&,
                       SweepResult&);

/// Holds one implementation to the sums; returns the largest share of the bounds used.
double check_against_sums(Sweep run, const SweepCase& c, const std::vector<reference::WindowSums>& expected,
                          double bound) {
  SweepResult result;
  run(SweepPlan(c.omega, c.window), make_batch(c.vectors, c.omega.size()), kEverything, result);
  std::vector<double> mean, max, length, aliasing, aliasing_f16;
  for (std::size_t v = 0; v < c.vectors.size(); ++v) {
    mean.push_back(expected[v].mean_response);
    max.push_back(expected[v].response_max);
    length.push_back(expected[v].effective_length);
    aliasing.push_back(expected[v].aliasing);
    aliasing_f16.push_back(expected[v].aliasing_f16);
    CHECK(std::abs(result.reversals[v] - expected[v].reversals) <= expected[v].doubtful);
  }
  double worst = 0;
  for (const Comparison& comparison :
       {compare_relative("mean_response", result.mean_response, mean, bound),
        compare_relative("response_max", result.response_max, max, bound),
        compare_relative("effective_length", result.effective_length, length, std::max(bound, 1e-11)),
        compare_relative("aliasing", result.aliasing, aliasing, 1e-12),
        compare_relative("aliasing_f16", result.aliasing_f16, aliasing_f16, 1e-12)}) {
    CHECK_MESSAGE(comparison.ok(), comparison.text());
    worst = std::max(worst, comparison.share());
  }
  return worst;
}

TEST_CASE("sweep: every SIMD target agrees with direct summation on the case table") {
  const auto cases = sweep_cases();
  std::vector<std::vector<reference::WindowSums>> expected;
  expected.reserve(cases.size());
  for (const SweepCase& c : cases)
    expected.push_back(reference::sum_over_window(c.vectors, c.omega, c.window));
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    CHECK(spectral::simd_in_use() == target);
    double single = 0, twofold = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(cases[i].name);
      CAPTURE(target);
      single = std::max(single, check_against_sums(spectral::sweep_cpu, cases[i], expected[i], 1e-5));
      twofold = std::max(twofold, check_against_sums(spectral::mirrored_sweep, cases[i], expected[i], 1e-12));
    }
    MESSAGE(target << ": " << 100 * single << " % of the bound 1e-5 used, in float64 " << 100 * twofold
                   << " % of 1e-12 (E_2 1e-11)");
  }
  spectral::select_simd("auto");
}

SweepResult sweep(const std::vector<double>& omega, std::int64_t window,
                  const spectral::CoefficientBatch& batch, const SweepRequest& request = kEverything,
                  Sweep run = spectral::sweep_cpu) {
  SweepResult result;
  run(SweepPlan(omega, window), batch, request, result);
  return result;
}

SweepResult sweep(const std::vector<double>& omega, std::int64_t window,
                  const std::vector<reference::Vector>& vectors, const SweepRequest& request = kEverything,
                  Sweep run = spectral::sweep_cpu) {
  return sweep(omega, window, make_batch(vectors, omega.size()), request, run);
}

/// An implementation and how closely it follows float64.
struct Implementation {
  Sweep run;
  double epsilon;
};
const Implementation kImplementations[] = {{spectral::sweep_cpu, 3e-6}, {spectral::mirrored_sweep, 1e-12}};

TEST_CASE("sweep: a lane's bytes depend on nothing but the lane") {
  const auto omega = geometric_grid(1e6, 24);
  constexpr std::int64_t kWindow = 2500;
  // Neighbours of every kind: small, large, beyond float32's range, slow, constant, not finite.
  auto vectors = make_vectors(61, 24, Spread::kWhite, 3.0, 5);
  const auto large = make_vectors(20, 24, Spread::kSlowHeavy, 40.0, 6);
  for (std::size_t v = 0; v < 20; ++v) vectors[3 * v] = large[v];
  vectors[1] = make_vectors(1, 24, Spread::kSlowOnly, 1.0, 7)[0];
  vectors[4] = make_vectors(1, 24, Spread::kWhite, 1e200, 8)[0];
  vectors[7] = make_vectors(1, 24, Spread::kWhite, 400.0, 8)[0];
  for (auto& z : vectors[8].z) z = 0;
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    CAPTURE(target);
    const SweepResult all = sweep(omega, kWindow, vectors);
    for (const int threads : {1, 2, 5}) {
      omp_set_num_threads(threads);
      const SweepResult again = sweep(omega, kWindow, vectors);
      CHECK(again.mean_response == all.mean_response);
      CHECK(again.response_max == all.response_max);
      CHECK(again.effective_length == all.effective_length);
      CHECK(again.aliasing == all.aliasing);
      CHECK(again.aliasing_f16 == all.aliasing_f16);
      CHECK(again.reversals == all.reversals);
    }
    omp_set_num_threads(omp_get_num_procs());
    for (std::size_t v : {0, 1, 4, 7, 8, 23, 24, 60}) {
      for (std::size_t first : {0, 1, 5, 17, 40}) {  // alone, at several places of a wider batch
        const auto lone = sweep(omega, kWindow, make_batch({vectors[v]}, 24, first + 3, first));
        CHECK(lone.mean_response[first] == all.mean_response[v]);
        CHECK(lone.response_max[first] == all.response_max[v]);
        CHECK(lone.effective_length[first] == all.effective_length[v]);
        CHECK(lone.aliasing[first] == all.aliasing[v]);
        CHECK(lone.aliasing_f16[first] == all.aliasing_f16[v]);
        CHECK(lone.reversals[first] == all.reversals[v]);
      }
    }
    // Asking for less changes nothing in what is asked.
    for (int what = 0; what < 5; ++what) {
      const SweepRequest one{what == 0, what == 1, what == 2, what == 3, what == 4, 0.0};
      const SweepResult r = sweep(omega, kWindow, vectors, one);
      CHECK(r.mean_response == (what == 0 ? all.mean_response : std::vector<double>{}));
      CHECK(r.response_max == (what == 1 ? all.response_max : std::vector<double>{}));
      CHECK(r.effective_length == (what == 2 ? all.effective_length : std::vector<double>{}));
      CHECK(r.aliasing == (what == 3 ? all.aliasing : std::vector<double>{}));
      CHECK(r.aliasing_f16 == (what == 3 ? all.aliasing_f16 : std::vector<double>{}));
      CHECK(r.reversals == (what == 4 ? all.reversals : std::vector<std::int64_t>{}));
    }
  }
  spectral::select_simd("auto");
}

TEST_CASE("sweep: aliasing of steps around the precision of each format, and beyond its range") {
  for (const auto& [run, epsilon] : kImplementations) {
    // S = c + 1, c - 1, ...: told apart up to 2^8 (bfloat16: steps of 2) and 2^11 (float16), rounding to
    // even.
    const auto shares = [&, run = run](double constant, double size) {
      const auto r = sweep({std::numbers::pi}, 333, {{{{size, 0.0}}, constant}}, kEverything, run);
      return std::pair(r.aliasing[0], r.aliasing_f16[0]);
    };
    CHECK(shares(100.0, 1.0) == std::pair(0.0, 0.0));
    CHECK(shares(600.0, 1.0) == std::pair(1.0, 0.0));
    CHECK(shares(5000.0, 1.0) == std::pair(1.0, 1.0));
    CHECK(shares(70000.0, 1000.0) == std::pair(0.0, 1.0));   // both infinite in float16: not told apart
    CHECK(shares(0.0, 70000.0) == std::pair(0.0, 0.0));      // infinities of both signs
    CHECK(shares(65519.5, 0.75) == std::pair(1.0, 0.0));     // 65504 and infinity
    CHECK(shares(0.0, 0x1p-26) == std::pair(0.0, 1.0));      // below half the smallest float16
    CHECK(shares(0x1p-23, 0x1p-24) == std::pair(0.0, 0.0));  // subnormal float16 neighbours
    CHECK(shares(0x1.8p-23, 0x1p-27) == std::pair(0.0, 1.0));
  }
}

TEST_CASE("sweep: closed forms") {
  for (const auto& [run, epsilon] : kImplementations) {
    // omega = pi, z = 1: S = 1, -1, 1, ...
    std::vector<reference::Vector> one{{{{1.0, 0.0}}, 0.0}};
    auto r = sweep({std::numbers::pi}, 1001, one, kEverything, run);
    CHECK(r.mean_response[0] == doctest::Approx(2.0).epsilon(epsilon));
    CHECK(r.response_max[0] == doctest::Approx(2.0).epsilon(epsilon));
    CHECK(r.reversals[0] == 500);
    CHECK(r.aliasing[0] == 0.0);
    const double e = std::exp(2.0);
    CHECK(r.effective_length[0] ==
          doctest::Approx((501 * e + 500) * (501 * e + 500) / (501 * e * e + 500)).epsilon(epsilon));
    // Nothing rotates: a constant score.
    for (double constant : {0.0, 3.0, -2.0}) {
      const std::vector<reference::Vector> still{{{{0.0, 0.0}, {0.0, 0.0}}, constant}};
      r = sweep({1.0, 0.1}, 777, still, kEverything, run);
      CHECK(r.mean_response[0] == 0.0);
      CHECK(r.response_max[0] == 0.0);
      CHECK(r.effective_length[0] == 777.0);
      CHECK(r.aliasing[0] == 1.0);
      CHECK(r.aliasing_f16[0] == 1.0);
      CHECK(r.reversals[0] == (constant < 0 ? 777 : 0));
    }
    // Equal frequencies add up.
    const std::vector<reference::Vector> split{{{{0.5, 1.0}, {1.5, -3.0}}, 0.25}},
        joined{{{{2.0, -2.0}}, 0.25}};
    const auto two = sweep({0.3, 0.3}, 900, split, kEverything, run),
               sum = sweep({0.3}, 900, joined, kEverything, run);
    CHECK(two.mean_response[0] == doctest::Approx(sum.mean_response[0]).epsilon(epsilon));
    CHECK(two.effective_length[0] == doctest::Approx(sum.effective_length[0]).epsilon(epsilon));
    CHECK(two.reversals[0] == sum.reversals[0]);
  }
}

TEST_CASE("sweep: scores that are zero but for rounding take the sign of direct summation") {
  // z = i at omega = pi: S = -sin(pi m), true zeros whose float64 signs are those of libm's sine.
  const std::vector<reference::Vector> noise{{{{0.0, 1.0}}, 0.0}, {{{3.0, 0.0}}, 3.0}};
  const auto r = sweep({std::numbers::pi}, 300, noise);
  std::int64_t negative = 0, cancelled = 0;
  for (int m = 0; m < 300; ++m) {
    const long double angle = static_cast<long double>(m) * static_cast<long double>(std::numbers::pi);
    if (static_cast<double>(-std::sin(angle)) < 0) ++negative;
    if (3.0 + static_cast<double>(3 * std::cos(angle)) < 0) ++cancelled;
  }
  CHECK(r.reversals[0] == negative);
  CHECK(r.reversals[1] == cancelled);
}

TEST_CASE("sweep: signs that float32 cannot tell are those of float64") {
  // Periods of 8 distances; c_0 puts one of the 8 scores within 1e-9 of zero, on either side.
  const std::vector<double> omega{std::numbers::pi / 4, std::numbers::pi / 2};
  auto vectors = make_vectors(40, 2, Spread::kWhite, 5.0, 61);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    double score = 0;
    for (std::size_t n = 0; n < 2; ++n)
      score += (vectors[v].z[n] * std::polar(1.0, static_cast<double>(v % 8) * omega[n])).real();
    vectors[v].constant = -score + (v % 2 ? 1e-9 : -1e-9);
  }
  constexpr std::int64_t kWindow = 3000;
  const auto expected = reference::sum_over_window(vectors, omega, kWindow);
  SweepRequest request;
  request.reversals = true;
  const auto r = sweep(omega, kWindow, vectors, request);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    CAPTURE(v);
    CHECK(expected[v].doubtful == 0);
    CHECK(r.reversals[v] == expected[v].reversals);
  }
}

TEST_CASE("sweep: softcapped logits") {
  const auto omega = geometric_grid(1e4, 16);
  const auto vectors = make_vectors(9, 16, Spread::kWhite, 30.0, 15);
  for (double cap : {0.5, 20.0, 50.0, 1e6}) {
    SweepRequest request;
    request.effective_length = true;
    request.softcap = cap;
    std::vector<double> expected;
    for (const auto& sums : reference::sum_over_window(vectors, omega, 800, cap))
      expected.push_back(sums.effective_length);
    const auto r = sweep(omega, 800, vectors, request);
    CHECK_COMPARISON(compare_relative("E_2, cap " + std::to_string(cap), r.effective_length, expected,
                                      cap < 1e5 ? 1e-12 : 1e-8));
  }
}

TEST_CASE("sweep: E_2 at several logit scales") {
  const auto omega = geometric_grid(1e6, 32);
  auto vectors = make_vectors(20, 32, Spread::kWhite, 2.0, 31);
  const auto slow = make_vectors(5, 32, Spread::kSlowHeavy, 30.0, 32);
  vectors.insert(vectors.end(), slow.begin(), slow.end());
  SweepRequest request = kEverything;
  request.logit_scales = {0.125, 1.0, 3.0, 40.0};
  for (std::int64_t window : {90, 3001}) {
    const auto all = sweep(omega, window, vectors, request);
    const auto plain = sweep(omega, window, vectors);
    CHECK(all.mean_response == plain.mean_response);
    CHECK(all.effective_length == plain.effective_length);
    CHECK(all.reversals == plain.reversals);
    REQUIRE(all.scaled_length.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      auto scaled = vectors;
      for (auto& vector : scaled) {
        for (auto& z : vector.z) z *= request.logit_scales[i];
      }
      std::vector<double> expected;
      for (const auto& sums : reference::sum_over_window(scaled, omega, window))
        expected.push_back(sums.effective_length);
      CHECK_COMPARISON(compare_relative("E_2, scale " + std::to_string(request.logit_scales[i]),
                                        all.scaled_length[i], expected, 1e-5));
    }
    SweepRequest only;
    only.logit_scales = {3.0};
    CHECK(sweep(omega, window, vectors, only).scaled_length[0] == all.scaled_length[2]);
  }
}

TEST_CASE("sweep: scale invariance, and E_2 between 1 and M, falling in the scale") {
  const auto omega = geometric_grid(1e6, 32);
  const auto vectors = make_vectors(20, 32, Spread::kWhite, 1.0, 31);
  const auto base = sweep(omega, 1500, vectors);
  std::vector<double> before(20, 1500.0);
  for (double scale : {0x1p-40, 0x1p-6, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 64.0, 0x1p30}) {
    auto scaled = vectors;
    for (auto& vector : scaled) {
      for (auto& z : vector.z) z *= scale;
      vector.constant *= scale;
    }
    const auto r = sweep(omega, 1500, scaled);
    for (std::size_t v = 0; v < 20; ++v) {
      CHECK(r.mean_response[v] == scale * base.mean_response[v]);  // exact: powers of two
      CHECK(r.response_max[v] == scale * base.response_max[v]);
      CHECK(r.reversals[v] == base.reversals[v]);
      CHECK(r.effective_length[v] >= 1.0);
      CHECK(r.effective_length[v] <= before[v]);
      before[v] = r.effective_length[v];
    }
  }
}

TEST_CASE("sweep: a window in two parts, the second with shifted phases") {
  const auto omega = geometric_grid(1e6, 32);
  const std::int64_t first = 333, second = 1200;
  const auto vectors = make_vectors(6, 32, Spread::kWhite, 1.0, 41);
  auto shifted = vectors;
  for (auto& vector : shifted) {
    for (std::size_t n = 0; n < 32; ++n)
      vector.z[n] *= std::polar(1.0, static_cast<double>(first) * omega[n]);
  }
  for (const auto& [run, epsilon] : kImplementations) {
    const auto of = [&, run = run](std::int64_t window, const auto& batch) {
      return sweep(omega, window, batch, kEverything, run);
    };
    const auto whole = of(first + second, vectors), head = of(first + 1, vectors), tail = of(second, shifted),
               start = of(first, vectors);
    for (std::size_t v = 0; v < 6; ++v) {
      const double sum = static_cast<double>(first) * head.mean_response[v] +
                         static_cast<double>(second - 1) * tail.mean_response[v];
      CHECK(whole.mean_response[v] * static_cast<double>(first + second - 1) ==
            doctest::Approx(sum).epsilon(epsilon));
      CHECK(whole.response_max[v] ==
            doctest::Approx(std::max(head.response_max[v], tail.response_max[v])).epsilon(epsilon));
      CHECK(whole.reversals[v] == start.reversals[v] + tail.reversals[v]);
    }
  }
}

TEST_CASE("sweep: a lane that is not finite has no result and leaves its neighbours alone") {
  const auto omega = geometric_grid(1e6, 8);
  auto vectors = make_vectors(10, 8, Spread::kWhite, 1.0, 51);
  const auto clean = sweep(omega, 300, vectors);
  vectors[3].z[2] = {std::nan(""), 0.0};
  vectors[4].z[7] = {0.0, -HUGE_VAL};
  vectors[5].constant = HUGE_VAL;
  const auto r = sweep(omega, 300, vectors);
  for (std::size_t v = 0; v < 10; ++v) {
    if (v >= 3 && v <= 5) {
      CHECK(std::isnan(r.mean_response[v]));
      CHECK(std::isnan(r.response_max[v]));
      CHECK(std::isnan(r.effective_length[v]));
      CHECK(std::isnan(r.aliasing[v]));
      CHECK(std::isnan(r.aliasing_f16[v]));
      CHECK(r.reversals[v] == -1);
    } else {
      CHECK(r.mean_response[v] == clean.mean_response[v]);
      CHECK(r.effective_length[v] == clean.effective_length[v]);
      CHECK(r.reversals[v] == clean.reversals[v]);
    }
  }
}

TEST_CASE("sweep: the longest window") {
  const std::vector<reference::Vector> one{{{{2.0, 0.0}}, 0.0}};
  SweepRequest request;
  request.mean_response = request.reversals = true;
  const auto r = sweep({std::numbers::pi / 2}, std::int64_t{1} << 24, one, request);
  CHECK(r.mean_response[0] ==
        doctest::Approx(2.0).epsilon(1e-6));  // 2, 0, -2, 0, 2, ...; fl(pi/2) drifts by 1e-9
  // 2, 0, -2, 0: a quarter is negative, and the zeros, which fl(pi/2) moves off zero, may be.
  CHECK(r.reversals[0] >= (std::int64_t{1} << 22));
  CHECK(r.reversals[0] <= 3 * (std::int64_t{1} << 22));
}

TEST_CASE("sweep: broken preconditions") {
  const std::vector<double> omega{1.0};
  CHECK_THROWS_AS(SweepPlan(omega, 1), std::logic_error);
  CHECK_THROWS_AS(SweepPlan(omega, (std::int64_t{1} << 24) + 1), std::logic_error);
  CHECK_THROWS_AS(SweepPlan(std::span<const double>(), 10), std::logic_error);
  CHECK_THROWS_AS(SweepPlan(std::vector<double>(513, 1.0), 10), std::logic_error);
  for (double wrong : {0.0, -1.0, 3.2, std::nan("")})
    CHECK_THROWS_AS(SweepPlan(std::vector<double>{wrong}, 10), std::logic_error);
  SweepRequest scaled;
  for (double wrong : {0.0, -1.0, 2e4, std::nan("")}) {
    scaled.logit_scales = {wrong};
    CHECK_THROWS_AS(sweep(omega, 10, make_batch({}, 1), scaled), std::logic_error);
  }
  const auto batch = make_batch(make_vectors(2, 3, Spread::kWhite, 1.0, 1), 3);
  CHECK_THROWS_AS(sweep(omega, 10, batch), std::logic_error);
  spectral::CoefficientBatch empty;
  empty.reset(1, 0);
  CHECK(sweep(omega, 10, empty).mean_response.empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

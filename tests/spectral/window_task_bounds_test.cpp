#include "spectral/window_task_bounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <stdexcept>

#include "reference/adarope.hpp"
#include "spectral/sweep_cases.hpp"

namespace rope::test {
namespace {

using spectral::window_task_bounds;
using spectral::WindowTask;
using spectral::WindowTaskBounds;

constexpr double kPi = std::numbers::pi;

WindowTask task() {
  return {.window = 64,
          .slack = 0.25,
          .epsilon = 0.1,
          .amplitude = 20,
          .norm_product = 0.5,
          .length = 1001,
          .max_omega = 1};
}

// A*, S(m).
double amplitude_of(const reference::Vector& vector) {
  double sum = 0;
  for (const auto& z : vector.z) sum += std::abs(z);
  return sum;
}
double score(const reference::Vector& vector, const std::vector<double>& omega, std::int64_t m) {
  double sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n)
    sum += (vector.z[n] * std::polar(1.0, static_cast<double>(m) * omega[n])).real();
  return sum;
}

// Random vectors and those that press against the bounds: one pair, aligned at the window's centre, all slow,
// all fast, one dominant coefficient, phases that cancel at 0.
std::vector<reference::Vector> hard_vectors(const std::vector<double>& omega, double centre) {
  const std::size_t h = omega.size();
  std::vector<reference::Vector> vectors;
  for (Spread spread :
       {Spread::kWhite, Spread::kSlowOnly, Spread::kFastOnly, Spread::kOne, Spread::kSlowHeavy})
    for (auto& vector : make_vectors(h, h, spread, 3.0, 17)) vectors.push_back(std::move(vector));
  const std::size_t random = vectors.size();
  for (std::size_t v = 0; v < random; ++v) {  // the same moduli, aligned at the centre
    reference::Vector aligned = vectors[v];
    for (std::size_t n = 0; n < h; ++n)
      aligned.z[n] = std::abs(aligned.z[n]) * std::polar(1.0, -centre * omega[n]);
    vectors.push_back(aligned);
    for (std::size_t n = 0; n < h; ++n) aligned.z[n] *= n % 2 ? 1.0 : -1.0;
    vectors.push_back(aligned);
    aligned.z[v % h] *= 50.0;
    vectors.push_back(aligned);
  }
  for (auto& vector : vectors) vector.constant = 0;
  return vectors;
}

std::vector<std::vector<double>> grids() {
  return {geometric_grid(1e4, 32), geometric_grid(500, 8), {kPi}, {1.0}, {3.0, 1.5, 1.0, 0.02}, {1e-4, 2e-4}};
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("window task: the constants by hand (A 12, 47)") {
  const WindowTaskBounds b = window_task_bounds(task());
  const double odds = std::log(9.0), needed = std::log(1000.0) + odds - 0.5;
  CHECK(b.needed == doctest::Approx(needed).epsilon(1e-14));
  CHECK(b.c1 == doctest::Approx(2.0 / 20 * (odds - 0.5)).epsilon(1e-14));
  CHECK(b.c2 == doctest::Approx(kPi * (1 - needed / 20)).epsilon(1e-14));
  CHECK(b.lower == doctest::Approx(b.c1 / 9.0).epsilon(1e-14));
  CHECK(b.upper == doctest::Approx(kPi / 65 + b.c2).epsilon(1e-14));
  CHECK(b.has_fast);
  CHECK(b.says_low);
  CHECK_FALSE(b.says_high);  // C2 is about 1.8
  CHECK(b.possible);
}

TEST_CASE("window task: limits") {
  WindowTask t = task();
  t.max_omega = kPi / 65;  // the indicator's edge belongs to the slow side
  CHECK_FALSE(window_task_bounds(t).has_fast);
  CHECK(window_task_bounds(t).upper == doctest::Approx(kPi / 65));
  t.max_omega = std::nextafter(kPi / 65, 1.0) + 1e-12;
  CHECK(window_task_bounds(t).has_fast);

  t = task();
  t.window = 0;  // a task at distance 0 alone: r has nothing to act on, no upper bound below pi
  CHECK(window_task_bounds(t).lower == doctest::Approx(window_task_bounds(t).c1));
  CHECK(window_task_bounds(t).upper == doctest::Approx(kPi));
  CHECK_FALSE(window_task_bounds(t).has_fast);

  t = task();
  t.epsilon = 0.5;  // odds 1: nothing to tell apart beyond the other keys
  CHECK(window_task_bounds(t).c1 == doctest::Approx(-2 * 0.5 / 20));
  CHECK_FALSE(window_task_bounds(t).says_low);
  t.epsilon = 1 - 1e-12;
  CHECK(std::isfinite(window_task_bounds(t).c1));

  t = task();
  t.amplitude = 1e12;  // whatever A*, the range is nearly empty of information
  CHECK(window_task_bounds(t).lower == doctest::Approx(0).epsilon(1e-9));
  CHECK(window_task_bounds(t).c2 == doctest::Approx(kPi));
  t.amplitude = window_task_bounds(task()).needed;  // exactly what is needed: all pairs slow
  CHECK(window_task_bounds(t).c2 == doctest::Approx(0).epsilon(1e-12));
  t.amplitude *= 0.99;
  CHECK_FALSE(window_task_bounds(t).possible);
}

TEST_CASE("window task: the bounds move as they should") {
  const auto at = [](auto change) {
    WindowTask t = task();
    change(t);
    return window_task_bounds(t);
  };
  for (int i = 1; i < 40; ++i) {
    const double x = i;
    // A wider window: both bounds fall; more slack: the lower one falls.
    CHECK(at([&](auto& t) { t.window = x + 1; }).lower < at([&](auto& t) { t.window = x; }).lower);
    // The upper one does from w = 3 on, where a pair of frequency 1 has become fast.
    CHECK(at([&](auto& t) { t.window = x + 3; }).upper < at([&](auto& t) { t.window = x + 2; }).upper);
    CHECK(at([&](auto& t) { t.slack = x / 40 + 0.02; }).lower < at([&](auto& t) { t.slack = x / 40; }).lower);
    // A stricter task: the lower bound rises, the upper falls; other keys of a larger size undo that.
    const double epsilon = 0.5 - 0.012 * x;
    CHECK(at([&](auto& t) { t.epsilon = epsilon - 0.01; }).lower >
          at([&](auto& t) { t.epsilon = epsilon; }).lower);
    CHECK(at([&](auto& t) { t.epsilon = epsilon - 0.01; }).upper <
          at([&](auto& t) { t.epsilon = epsilon; }).upper);
    CHECK(at([&](auto& t) { t.norm_product = x + 1; }).lower <
          at([&](auto& t) { t.norm_product = x; }).lower);
    CHECK(at([&](auto& t) { t.norm_product = x + 1; }).upper >
          at([&](auto& t) { t.norm_product = x; }).upper);
    // More keys: only the upper bound knows.
    CHECK(at([&](auto& t) { t.length = 10 * x + 10; }).upper < at([&](auto& t) { t.length = 10 * x; }).upper);
    CHECK(at([&](auto& t) { t.length = 10 * x + 10; }).lower ==
          at([&](auto& t) { t.length = 10 * x; }).lower);
  }
}

TEST_CASE("window task: the lower bound holds for every vector") {
  int tight = 0;
  for (const auto& omega : grids()) {
    for (std::int64_t step : {1, 2, 5, 33}) {  // r w / 2 + 1
      for (const auto& vector : hard_vectors(omega, 40.0)) {
        double gap = 0;
        for (std::int64_t m = 0; m < 120; ++m)
          gap = std::max(gap, std::abs(score(vector, omega, m + step) - score(vector, omega, m)));
        WindowTask t = task();
        t.amplitude = amplitude_of(vector);
        if (!(t.amplitude > 0) || gap < 1e-9) continue;
        t.window = 80;
        t.slack = static_cast<double>(2 * (step - 1)) / 80;
        t.norm_product = 0.3;
        // Inside at least ln sum + odds - norms, outside at most ln sum - odds + norms: this gap allows that.
        t.epsilon = 1 / (1 + std::exp(gap / 2 + t.norm_product));
        if (!(t.epsilon > 0)) continue;
        t.max_omega = omega.front() > omega.back() ? omega.front() : omega.back();
        const double mass = reference::frequency_mass(vector, omega);
        const double lower = window_task_bounds(t).lower;
        CHECK(lower <= mass * (1 + 1e-9));
        tight += lower > 0.8 * mass;
      }
    }
  }
  CHECK(tight > 20);  // the test can tell a bound that is off by a quarter
}

TEST_CASE("window task: the upper bound holds for every vector") {
  int near = 0;
  for (const auto& omega : grids()) {
    for (std::int64_t window : {0, 1, 2, 3, 7, 40}) {
      for (const auto& vector : hard_vectors(omega, static_cast<double>(window) / 2)) {
        double least = score(vector, omega, 0);
        for (std::int64_t m = 1; m <= window; ++m) least = std::min(least, score(vector, omega, m));
        WindowTask t = task();
        t.amplitude = amplitude_of(vector);
        t.window = static_cast<double>(window);
        t.norm_product = 2;
        t.length = 500;
        t.max_omega = *std::max_element(omega.begin(), omega.end());
        // The strictest epsilon that a least score inside allows.
        t.epsilon = 1 / (1 + std::exp(least + t.norm_product - std::log(t.length - 1)));
        if (!(t.amplitude > 0) || least < -10 || !(t.epsilon > 0))
          continue;  // far below: epsilon rounds to 1
        const WindowTaskBounds bounds = window_task_bounds(t);
        CHECK(bounds.needed == doctest::Approx(least).epsilon(1e-9));
        const double mass = reference::frequency_mass(vector, omega);
        CHECK(mass <= bounds.upper * (1 + 1e-9));
        near += mass > 0.6 * bounds.upper;
      }
    }
  }
  CHECK(near > 20);
}

TEST_CASE("window task: what the upper bound rests on, for single frequencies") {
  for (int count : {1, 2, 3, 4, 5, 8, 9, 64, 65}) {
    for (int i = 0; i <= 4000; ++i) {
      const double omega = kPi * i / 4000;
      std::complex<double> mean = 0;
      for (int m = 0; m < count; ++m) mean += std::polar(1.0 / count, m * omega);
      CHECK(std::abs(mean) <= 1 + 1.0 / count - omega / kPi + 1e-12);
    }
  }
}

TEST_CASE("window task: refusals name the parameter") {
  const auto refused = [](auto change, const char* name) {
    WindowTask t = task();
    change(t);
    std::string text;
    try {
      window_task_bounds(t);
    } catch (const std::invalid_argument& error) {
      text = error.what();
    }
    CHECK_MESSAGE(text.find(name) != std::string::npos, name << ": " << text);
  };
  const double nan = std::nan("");
  for (double bad : {0.0, 1.0, -0.1, 1.5, nan}) refused([&](auto& t) { t.epsilon = bad; }, "epsilon");
  for (double bad : {-1.0, nan, 1.0 / 0.0}) refused([&](auto& t) { t.window = bad; }, "window");
  for (double bad : {-0.1, nan}) refused([&](auto& t) { t.slack = bad; }, "r must");
  for (double bad : {0.0, -2.0, nan, 1.0 / 0.0}) refused([&](auto& t) { t.amplitude = bad; }, "A*");
  for (double bad : {-1.0, nan}) refused([&](auto& t) { t.norm_product = bad; }, "norms");
  for (double bad : {1.0, 0.0, nan}) refused([&](auto& t) { t.length = bad; }, "length");
  for (double bad : {0.0, -1.0, 3.2, nan}) refused([&](auto& t) { t.max_omega = bad; }, "frequency");
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "spectral/barrier.hpp"

#include <doctest/doctest.h>

#include "reference/order_sums.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

struct Found {
  std::vector<double> exact, gaussian, limit;
};

Found exceedance(const std::vector<double>& omega, std::int64_t window, const std::vector<char>& high,
                 const std::vector<reference::Vector>& vectors, double level) {
  const auto batch = make_batch(vectors, omega.size());
  spectral::CoefficientBatch margins;
  spectral::barrier_margins(batch, level, margins);
  spectral::SweepRequest request;
  request.reversals = true;
  spectral::SweepResult swept;
  if (window >= 2) spectral::sweep_cpu(spectral::SweepPlan(omega, window), margins, request, swept);
  Found found;
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const double count = window >= 2 ? static_cast<double>(swept.reversals[v])
                                     : (spectral::score_at_zero(margins, v) < 0 ? 1.0 : 0.0);
    found.exact.push_back(count / static_cast<double>(window));
  }
  auto gaussian = spectral::barrier_gaussian(spectral::WindowMoments(omega, window), high, batch, level);
  found.gaussian = std::move(gaussian.exact_moments);
  found.limit = std::move(gaussian.limit_variance);
  return found;
}

std::vector<char> prefix(std::size_t h, std::size_t size) {
  std::vector<char> mask(h, 0);
  std::fill_n(mask.begin(), size, char{1});
  return mask;
}

void check(const std::vector<double>& omega, std::int64_t window, const std::vector<char>& high,
           const std::vector<reference::Vector>& vectors, double level) {
  CAPTURE(window);
  CAPTURE(level);
  const Found found = exceedance(omega, window, high, vectors, level);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    CAPTURE(v);
    const reference::Barrier r = reference::barrier(vectors[v], omega, window, high, level);
    CHECK(std::abs(found.exact[v] - r.exact) <= r.doubtful + 1e-15);
    CHECK(std::abs(found.gaussian[v] - r.gaussian) < 1e-10);
    CHECK(std::abs(found.limit[v] - r.limit) < 1e-10);
  }
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("barrier: agrees with sums over all distances") {
  const auto omega = geometric_grid(1e6, 16);
  for (const std::int64_t window : {1, 2, 3, 64, 65, 129, 1000, 2050})
    for (const std::size_t high : {0, 1, 7, 16})
      for (const double level : {-3.0, 0.0, 0.25, 2.0})
        check(omega, window, prefix(16, high), make_vectors(6, 16, Spread::kWhite, 2.0, 60), level);
  for (const Spread spread : {Spread::kSlowHeavy, Spread::kFastOnly, Spread::kOne})
    check(omega, 500, prefix(16, 8), make_vectors(16, 16, spread, 1.0, 61), 0.5);
  check(geometric_grid(1e4, 128), 300, prefix(128, 60), make_vectors(3, 128, Spread::kWhite, 1.0, 62), 0.1);
}

TEST_CASE("barrier: coefficients near the ends of float64, with a barrier of their size") {
  const auto omega = geometric_grid(1e5, 8);
  for (const double size : {1e-300, 1e-200, 1e200, 1e280})
    check(omega, 200, prefix(8, 4), make_vectors(4, 8, Spread::kWhite, size, 63), 0.3 * size);
}

TEST_CASE("barrier: above and below all scores, and a score that equals it") {
  const auto omega = geometric_grid(1e4, 4);
  const std::vector<reference::Vector> vectors{{{{1, 0}, {0, 1}, {0.5, 0}, {0, 0}}, 0.25}};
  for (const double level : {-5.0, -1e300}) {
    const Found found = exceedance(omega, 100, prefix(4, 2), vectors, level);
    CHECK(found.exact[0] == 1.0);
    CHECK(found.gaussian[0] > 0.999);
  }
  for (const double level : {5.0, 1e300}) {
    const Found found = exceedance(omega, 100, prefix(4, 2), vectors, level);
    CHECK(found.exact[0] == 0.0);
    CHECK(found.gaussian[0] < 0.001);
  }
  // S(0) = 1.75 exactly; alone in its window it has no variance.
  for (const double level : {1.5, 1.75, 2.0}) {
    const Found found = exceedance(omega, 1, prefix(4, 0), vectors, level);
    const double expected = level < 1.75 ? 1.0 : 0.0;
    CHECK(found.exact[0] == expected);
    CHECK(found.gaussian[0] == expected);
    CHECK(found.limit[0] == expected);
  }
  // A still score: every distance equals the barrier, none exceeds it.
  CHECK(exceedance({1e-200}, 50, {0}, {{{{1, 1}}, 0}}, 1.0).exact[0] == 0.0);
  CHECK(exceedance({1e-200}, 50, {0}, {{{{1, 1}}, 0}}, 0.5).exact[0] == 1.0);
}

TEST_CASE("barrier: only S_0 - c_0 counts; both directions add up to one") {
  const auto omega = geometric_grid(1e6, 16);
  auto vectors = make_vectors(7, 16, Spread::kWhite, 2.0, 64);
  auto moved = vectors, turned = vectors;
  for (auto& v : vectors) v.constant = 0;
  for (auto& v : moved) v.constant = 3.0;
  for (auto& v : turned) {
    v.constant = 0;
    for (auto& z : v.z) z = -z;
  }
  const auto high = prefix(16, 9);
  const Found one = exceedance(omega, 777, high, vectors, 0.5),
              other = exceedance(omega, 777, high, moved, 3.5),
              back = exceedance(omega, 777, high, turned, -0.5);
  CHECK(one.exact == other.exact);
  CHECK(one.gaussian == other.gaussian);
  CHECK(one.limit == other.limit);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    CHECK(one.exact[v] + back.exact[v] == doctest::Approx(1.0).epsilon(1e-14));  // no ties here
    CHECK(one.gaussian[v] + back.gaussian[v] == doctest::Approx(1.0).epsilon(1e-12));
    CHECK(one.limit[v] + back.limit[v] == doctest::Approx(1.0).epsilon(1e-12));
  }
}

TEST_CASE("barrier: P's variance is the exact one without fast pairs, and its limit with all of them") {
  const auto omega = geometric_grid(1e6, 16);
  const auto vectors = make_vectors(7, 16, Spread::kWhite, 2.0, 65);
  const Found none = exceedance(omega, 400, prefix(16, 0), vectors, 0.4);
  CHECK(none.limit == none.gaussian);
  // The two fastest pairs over a long window: Var = U^2 / 2 to a few parts in 10^4.
  const std::vector<double> fast{1.0, 0.3};
  const auto few = make_vectors(5, 2, Spread::kWhite, 2.0, 66);
  const Found all = exceedance(fast, 20000, {1, 1}, few, 0.4);
  for (std::size_t v = 0; v < few.size(); ++v) {
    const double norm = static_cast<double>(reference::norm(few[v]));
    CHECK(std::abs(all.limit[v] - all.gaussian[v]) < 1e-3);
    CHECK(all.limit[v] ==
          doctest::Approx(reference::normal_cdf((few[v].constant - 0.4) / (norm * std::sqrt(0.5))))
              .epsilon(1e-3));
  }
  // One slow pair against another that cancels it, called fast: s^2 < 0 counts as certainty.
  const std::vector<double> pair{2e-3, 1.6e-3};
  const std::vector<reference::Vector> cancelling{{{{1, 0}, {-1.0994, -0.2906}}, 0}};
  const reference::Barrier r = reference::barrier(cancelling[0], pair, 1600, {1, 0}, 0.0);
  REQUIRE(r.limit_variance < 0);
  check(pair, 1600, {1, 0}, cancelling, 0.0);
  check(pair, 1600, {1, 0}, cancelling, -3.0);
}

TEST_CASE("barrier: lanes that are not finite give NaN and touch no other") {
  const auto omega = geometric_grid(1e5, 8);
  auto vectors = make_vectors(5, 8, Spread::kWhite, 1.0, 67);
  const Found fine = exceedance(omega, 100, prefix(8, 3), vectors, 0.1);
  vectors[1].z[0] = std::nan("");
  vectors[3].constant = HUGE_VAL;
  const Found found = exceedance(omega, 100, prefix(8, 3), vectors, 0.1);
  CHECK(std::isnan(found.gaussian[1]));
  CHECK(std::isnan(found.limit[1]));
  for (const std::size_t v : {0, 2, 4}) {
    CHECK(found.exact[v] == fine.exact[v]);
    CHECK(found.gaussian[v] == fine.gaussian[v]);
    CHECK(found.limit[v] == fine.limit[v]);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

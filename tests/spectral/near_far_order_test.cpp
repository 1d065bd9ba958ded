#include "spectral/near_far_order.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <numbers>

#include "reference/order_sums.hpp"
#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/score_rows.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::NearFarOrder;

NearFarOrder order(const std::vector<double>& omega, std::int64_t m,
                   const spectral::CoefficientBatch& batch) {
  const spectral::SweepBasis basis(omega);
  const spectral::WindowMoments moments(omega, m);
  return spectral::near_far_order(basis, moments, m, batch);
}

NearFarOrder order(const std::vector<double>& omega, std::int64_t m,
                   const std::vector<reference::Vector>& vectors) {
  return order(omega, m, make_batch(vectors, omega.size()));
}

struct OrderCase {
  std::string name;
  std::vector<double> omega;
  std::int64_t m;
  std::vector<reference::Vector> vectors;
};

// Around the pieces of ScoreRows (2048 distances), its blocks, and the smallest windows.
std::vector<OrderCase> order_cases() {
  std::vector<OrderCase> cases;
  const auto grid = geometric_grid(1e6, 16);
  for (const std::int64_t m : {1, 2, 3, 31, 32, 33, 64, 65, 200, 1023, 1024, 1025, 1100})
    cases.push_back({"white", grid, m, make_vectors(5, 16, Spread::kWhite, 2.0, 100 + m)});
  for (const Spread spread : {Spread::kSlowOnly, Spread::kSlowHeavy, Spread::kFastOnly, Spread::kOne})
    cases.push_back({"spread", grid, 150, make_vectors(16, 16, spread, 3.0, 7)});
  for (const double size : {1e-300, 1e-30, 1e30, 1e280})
    cases.push_back({"size", grid, 90, make_vectors(3, 16, Spread::kWhite, size, 8)});
  cases.push_back({"h = 1", {0.3}, 120, make_vectors(4, 1, Spread::kWhite, 1.0, 9)});
  cases.push_back({"h = 256", geometric_grid(1e4, 256), 70, make_vectors(2, 256, Spread::kWhite, 1.0, 10)});
  cases.push_back({"equal", {0.25, 0.25, 1e-4, 1e-4}, 130, make_vectors(4, 4, Spread::kWhite, 1.0, 11)});
  cases.push_back({"no order", {1e-3, 3.0, 0.02, 1e-6}, 130, make_vectors(4, 4, Spread::kWhite, 1.0, 12)});
  // Phases that cancel at the start of each side, and one coefficient far above the rest.
  cases.push_back(
      {"cancelling",
       {0.5, 0.25, 0.125},
       77,
       {{{{1, 0}, {-2, 0}, {1, 0}}, 0}, {{{0, 1}, {0, -2}, {0, 1}}, 5}, {{{1e6, 0}, {1, 1}, {0, 1}}, 0}}});
  return cases;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("near-far order: every SIMD target agrees with the double sum") {
  const auto cases = order_cases();
  std::vector<std::vector<reference::NearFar>> expected;
  for (const OrderCase& c : cases) {
    expected.emplace_back();
    for (const auto& vector : c.vectors) expected.back().push_back(reference::near_far(vector, c.omega, c.m));
  }
  for (const std::string& target : spectral::simd_available()) {
    spectral::select_simd(target);
    CAPTURE(target);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(cases[i].name);
      CAPTURE(cases[i].m);
      const NearFarOrder found = order(cases[i].omega, cases[i].m, cases[i].vectors);
      for (std::size_t v = 0; v < cases[i].vectors.size(); ++v) {
        const reference::NearFar& r = expected[i][v];
        CHECK(std::abs(found.exact[v] - r.exact) <= r.doubtful + 1e-15);
        CHECK(std::abs(found.gaussian[v] - r.gaussian) <= 2 * r.gaussian_room + 1e-11);
      }
    }
  }
  spectral::select_simd("auto");
}

TEST_CASE("near-far order: closed forms") {
  // Monotone scores: every far key above every near one, or below.
  const std::vector<double> slow{1e-6};
  const NearFarOrder rising = order(slow, 100, {{{{0, -1}}, 0}, {{{0, 1}}, 3}});
  CHECK(rising.exact == std::vector<double>{1, 0});
  CHECK(rising.gaussian[0] > 0.99);
  CHECK(rising.gaussian[1] < 0.01);
  // +1, -1, +1, ...: the far one is above for a quarter of the pairs of an even M, ties do not count.
  const std::vector<double> half_turn{std::numbers::pi};
  CHECK(order(half_turn, 100, {{{{1, 0}}, 0}}).exact[0] == 0.25);
  CHECK(order(half_turn, 101, {{{{1, 0}}, 0}}).exact[0] == 50.0 * 50.0 / (101.0 * 101.0));
}

TEST_CASE("near-far order: equal scores do not count") {
  // Scores that float64 cannot tell apart are ties, although real numbers would rise.
  const std::vector<double> still{1e-200};
  CHECK(order(still, 300, {{{{1, -1}}, 0}}).exact[0] == 0.0);
  CHECK(order(still, 300, {{{{0, -1}}, 0}}).exact[0] == 1.0);
  // S(m) = 1 + m 1e-17 in float64: plateaus of some twenty distances.
  const std::vector<double> plateaus{1e-17};
  const std::int64_t m = 300;
  std::int64_t above = 0;
  for (std::int64_t n = m + 1; n <= 2 * m; ++n)
    for (std::int64_t f = 2 * m + 1; f <= 3 * m; ++f)
      above += 1.0 + static_cast<double>(f) * 1e-17 > 1.0 + static_cast<double>(n) * 1e-17;
  CHECK(above < m * m);
  CHECK(order(plateaus, m, {{{{1, -1}}, 0}}).exact[0] ==
        static_cast<double>(above) / static_cast<double>(m * m));
  // A constant as large as you like changes no order.
  CHECK(order(std::vector<double>{1e-6}, 100, {{{{0, -1}}, 1e200}}).exact[0] == 1.0);
}

TEST_CASE("near-far order: scale, sign, and lanes that are no pairs") {
  const auto omega = geometric_grid(1e5, 12);
  const auto vectors = make_vectors(9, 12, Spread::kWhite, 2.0, 33);
  const NearFarOrder one = order(omega, 257, vectors);
  auto scaled = vectors, negative = vectors;
  for (auto& v : scaled)
    for (auto& z : v.z) z *= 0x1p-900;
  for (auto& v : negative)
    for (auto& z : v.z) z = -z;
  const NearFarOrder small = order(omega, 257, scaled), turned = order(omega, 257, negative);
  CHECK(small.exact == one.exact);
  CHECK(small.gaussian == one.gaussian);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    CHECK(std::abs(turned.exact[v] - (1 - one.exact[v])) < 1e-12);  // no ties here
    CHECK(std::abs(turned.gaussian[v] - (1 - one.gaussian[v])) < 1e-12);
  }
  auto odd = vectors;
  for (auto& z : odd[3].z) z = 0;
  odd[4].z[2] = std::nan("");
  odd[5].z[0] = HUGE_VAL;
  const NearFarOrder found = order(omega, 257, odd);
  CHECK(found.exact[3] == 0.0);
  CHECK(found.gaussian[3] == 0.0);
  for (const std::size_t v : {4, 5}) {
    CHECK(std::isnan(found.exact[v]));
    CHECK(std::isnan(found.gaussian[v]));
  }
  for (const std::size_t v : {0, 1, 2, 6, 7, 8}) {
    CHECK(found.exact[v] == one.exact[v]);
    CHECK(found.gaussian[v] == one.gaussian[v]);
  }
}

TEST_CASE("near-far order: the same for any threads and places in a batch; M is checked") {
  const auto omega = geometric_grid(1e6, 20);
  const auto vectors = make_vectors(37, 20, Spread::kWhite, 2.0, 41);
  const NearFarOrder all = order(omega, 1500, vectors);
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    const NearFarOrder again = order(omega, 1500, vectors);
    CHECK(again.exact == all.exact);
    CHECK(again.gaussian == all.gaussian);
  }
  omp_set_num_threads(omp_get_num_procs());
  for (const std::size_t v : {0, 1, 17, 36})
    for (const std::size_t first : {0, 3, 21}) {
      const NearFarOrder lone = order(omega, 1500, make_batch({vectors[v]}, 20, first + 2, first));
      CHECK(lone.exact[first] == all.exact[v]);
      CHECK(lone.gaussian[first] == all.gaussian[v]);
    }
  const spectral::SweepBasis basis(omega);
  const spectral::WindowMoments moments(omega, 5);
  const auto batch = make_batch(vectors, 20);
  CHECK_THROWS_AS(spectral::near_far_order(basis, moments, 0, batch), std::logic_error);
  CHECK_THROWS_AS(spectral::near_far_order(basis, moments, spectral::kMostNearFar + 1, batch),
                  std::logic_error);
}

TEST_CASE("near-far order: rows too long to be held for all lanes of a vector give the same") {
  // 32 MB of rows hold fewer than 8 lanes from M = 2^18 on.
  const std::vector<double> omega{0.7, 0.01};
  const auto vectors = make_vectors(3, 2, Spread::kWhite, 1.0, 3);
  const std::int64_t m = (std::int64_t{1} << 20) + 5;
  const NearFarOrder all = order(omega, m, vectors);
  const NearFarOrder lone = order(omega, m, std::vector{vectors[2]});
  CHECK(lone.exact[0] == all.exact[2]);
  // Far and near are alike in the long run.
  for (const double p : all.exact) CHECK(std::abs(p - 0.5) < 1e-3);
}

TEST_CASE("score rows: within their bound of long double sums, also far out") {
  const auto omega = geometric_grid(1e6, 16);
  const auto vectors = make_vectors(5, 16, Spread::kWhite, 2.0, 51);
  const auto batch = make_batch(vectors, 16);
  const spectral::SweepBasis basis(omega);
  spectral::ScoreRows rows(basis);
  double worst = 0;
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{777}, std::int64_t{1} << 24})
    for (const std::int64_t count : {1, 2, 127, 128, 129, 2048, 2049, 4100}) {
      std::vector<double> values(static_cast<std::size_t>(count));
      rows.evaluate(batch, 3, 1, first, count, values);
      const double bound =
          spectral::score_error_bound(omega, batch.re.data() + 3, batch.im.data() + 3, batch.stride);
      for (std::int64_t i = 0; i < count; i += 1 + count / 97) {
        long double sum = 0;
        for (std::size_t n = 0; n < omega.size(); ++n) {
          const long double angle = static_cast<long double>(first + i) * omega[n];
          // A product of 77 bits: the part that long double drops is put back.
          const long double rest =
              std::fma(static_cast<long double>(first + i), static_cast<long double>(omega[n]), -angle);
          const long double c = std::cos(angle) - rest * std::sin(angle),
                            s = std::sin(angle) + rest * std::cos(angle);
          sum += vectors[3].z[n].real() * c - vectors[3].z[n].imag() * s;
        }
        worst =
            std::max(worst, static_cast<double>(std::abs(values[static_cast<std::size_t>(i)] - sum)) / bound);
      }
    }
  MESSAGE("share of the bound used: " << worst);
  CHECK(worst < 0.5);
}

TEST_CASE("order counter: as the plain double loop, whatever the spread; doubt is seen") {
  std::mt19937_64 random(5);
  spectral::OrderCounter counter;
  for (const std::size_t size : {1, 2, 3, 63, 64, 65, 700})
    for (int kind = 0; kind < 7; ++kind) {
      const auto value = [&] {
        const double u = uniform(random);
        switch (kind) {
          case 0:
            return u;
          case 1:
            return std::floor(3 * u);  // many ties
          case 2:
            return std::exp(300 * u);  // almost all in one bucket
          case 3:
            return 1.0 + 1e-15 * u;
          case 4:
            return u * 1e-320;
          case 5:
            return u < 0.9 ? 1e-3 * u : 1e3 * u;
          default:
            return 7.0;
        }
      };
      std::vector<double> near(size), far(size);
      for (double& v : near) v = value();
      for (double& v : far) v = value();
      std::int64_t above = 0;
      double closest = HUGE_VAL;
      for (const double n : near)
        for (const double f : far) {
          above += f > n;
          closest = std::min(closest, std::abs(f - n));
        }
      CAPTURE(size);
      CAPTURE(kind);
      const auto exact = counter.count(near, far, 0.0);
      CHECK(exact.has_value() == (closest > 0));  // a tie is in doubt for any reach
      if (exact) CHECK(*exact == above);
      if (exact && closest > 1e-12) CHECK(counter.count(near, far, 0.5 * closest) == exact);
      CHECK(!counter.count(near, far, 1.001 * closest + 1e-300).has_value());
      std::sort(near.begin(), near.end());
      std::sort(far.begin(), far.end());
      CHECK(spectral::count_above(near, far) == above);
    }
}

TEST_CASE("count above: strict") {
  const std::vector<double> near{1, 1, 2, 5}, far{0, 1, 2, 2, 9};
  CHECK(spectral::count_above(near, far) == 0 + 0 + 2 + 2 + 4);
  CHECK(spectral::count_above(near, {}) == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

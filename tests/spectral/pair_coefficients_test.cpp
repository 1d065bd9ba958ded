#include "spectral/pair_coefficients.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "spectral/phase.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("lane map: layouts, still pairs and tail") {
  const std::vector<double> omega{1.0, 0.0, 0.25};
  const LaneMap half = make_lane_map(omega, PairLayout::kHalf, 8);
  CHECK(half.pair == std::vector<int>{0, 2});
  CHECK(half.a == std::vector<int>{0, 2});
  CHECK(half.b == std::vector<int>{3, 5});
  CHECK(half.still == std::vector<int>{1, 4});
  CHECK(half.tail == std::vector<int>{6, 7});
  CHECK(half.omega == std::vector<double>{1.0, 0.25});
  const LaneMap woven = make_lane_map(omega, PairLayout::kInterleaved, 6);
  CHECK(woven.a == std::vector<int>{0, 4});
  CHECK(woven.b == std::vector<int>{1, 5});
  CHECK(woven.still == std::vector<int>{2, 3});
  CHECK(woven.tail.empty());
  CHECK_THROWS_AS(make_lane_map(omega, PairLayout::kHalf, 5), std::logic_error);
  CHECK_THROWS_AS(make_lane_map(std::vector<double>{-1.0}, PairLayout::kHalf, 2), std::logic_error);
  CHECK_THROWS_AS(make_lane_map(std::vector<double>{std::nan("")}, PairLayout::kHalf, 2), std::logic_error);
}

TEST_CASE("coefficients: z, c_0 and lanes of two queries and three keys") {
  const std::vector<double> omega{1.0, 0.0};  // lanes (0, 2) turn, (1, 3) stand still, 4 is the tail
  const LaneMap map = make_lane_map(omega, PairLayout::kHalf, 5);
  std::vector<double> q{1, 2, 3, 4, 5, -1, 0.5, 2, 1, 0}, k(15);
  std::mt19937_64 random(3);
  for (double& x : k) x = uniform(random);
  CoefficientBatch batch;
  batch.reset(1, 9);
  const double c = 0.25, scale = 2.0;
  pair_coefficients(q.data(), 2, k.data(), 3, 5, map, scale, c, batch, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double *x = q.data() + 5 * i, *y = k.data() + 5 * j;
      const std::complex<double> z =
          scale * std::complex<double>(x[0], x[2]) * std::complex<double>(y[0], -y[2]);
      const std::size_t lane = 2 + 3 * i + j;
      CHECK(batch.re[lane] == doctest::Approx(z.real()).epsilon(1e-15));
      CHECK(batch.im[lane] == doctest::Approx(z.imag()).epsilon(1e-15));
      const double constant = scale * (x[1] * y[1] + x[3] * y[3]) + c * x[4] * y[4];
      CHECK(batch.constant[lane] == doctest::Approx(constant).epsilon(1e-15));
    }
  }
  for (std::size_t lane : {0, 1, 8, 9, 15}) CHECK(batch.re[lane] == 0.0);
  CHECK_THROWS_AS(pair_coefficients(q.data(), 2, k.data(), 3, 5, map, scale, c, batch, 4), std::logic_error);
  batch.reset(1, 3);
  CHECK(batch.re == AlignedVector(kLaneAlign, 0.0));
}

TEST_CASE("rotation: S(m) is the dot product of rotated vectors, and undoing it gives the vectors back") {
  const auto omega = geometric_grid(1e4, 8);
  std::mt19937_64 random(5);
  for (const PairLayout layout : {PairLayout::kHalf, PairLayout::kInterleaved}) {
    const LaneMap map = make_lane_map(omega, layout, 18);
    std::vector<double> q(18), k(18);
    for (double& x : q) x = uniform(random);
    for (double& x : k) x = uniform(random);
    CoefficientBatch batch;
    batch.reset(8, 1);
    pair_coefficients(q.data(), 1, k.data(), 1, 18, map, 1.0, 1.0, batch, 0);
    auto turned_q = q, turned_k = k;
    const std::vector<long long> at_q{120000}, at_k{7};
    rotate_rows(turned_q.data(), 1, 18, map, at_q, 1);
    rotate_rows(turned_k.data(), 1, 18, map, at_k, 1);
    double dot = 0, score = batch.constant[0];
    for (std::size_t lane = 0; lane < 18; ++lane) dot += turned_q[lane] * turned_k[lane];
    for (std::size_t n = 0; n < 8; ++n) {
      const Phase e = phase_at(120000 - 7, omega[n]);
      score += batch.re[n * batch.stride] * e.cos - batch.im[n * batch.stride] * e.sin;
    }
    CHECK(dot == doctest::Approx(score).epsilon(1e-13));
    rotate_rows(turned_q.data(), 1, 18, map, at_q, -1);
    CHECK_COMPARISON(compare_absolute("undone rotation", turned_q, q, 1e-15));
  }
}

TEST_CASE("phases keep float64 precision at large angles") {
  double worst = 0;
  for (double omega : {1.0, 0.7310585786300049, 3.0, 1e-3}) {
    for (double m : {1.0, 8191.5, 131071.0, 16777215.0}) {
      const long double angle = static_cast<long double>(m) * static_cast<long double>(omega);
      const Phase e = phase_at(m, omega);
      worst = std::max(worst, static_cast<double>(std::abs(e.cos - std::cos(angle))));
      worst = std::max(worst, static_cast<double>(std::abs(e.sin - std::sin(angle))));
    }
  }
  CHECK(worst < 4e-12);  // the long double angle itself is good to 3e-12 at 5e7
  const Phase far = phase_at(16777215.0, 0.1);
  // cos and sin of 16777215 * fl(0.1), from 60-digit arithmetic.
  CHECK(std::abs(far.cos - -0.4825433174946448) < 3e-16);
  CHECK(std::abs(far.sin - -0.8758721063838387) < 3e-16);
  CHECK(cos_minus_one(1e-9) == doctest::Approx(-5e-19).epsilon(1e-15));
}

TEST_CASE("norms neither underflow nor overflow, and a subset never exceeds the whole") {
  const std::size_t h = 5;
  const double sizes[] = {1.0, 1e-200, 1e200, 5e-324, 1e-310, 1e300, 0.0};
  std::mt19937_64 random(9);
  CoefficientBatch batch;
  batch.reset(h, 21);
  std::vector<double> expected(21), expected_subset(21);
  const std::vector<char> mask{1, 0, 1, 1, 0};
  for (std::size_t p = 0; p < 21; ++p) {
    long double all = 0, subset = 0;
    for (std::size_t n = 0; n < h; ++n) {
      const double re = uniform(random) * sizes[p % 7], im = uniform(random) * sizes[p % 7];
      batch.re[n * batch.stride + p] = re;
      batch.im[n * batch.stride + p] = im;
      const long double square = static_cast<long double>(re) * re + static_cast<long double>(im) * im;
      all += square;
      if (mask[n]) subset += square;
    }
    expected[p] = static_cast<double>(std::sqrt(all));
    expected_subset[p] = static_cast<double>(std::sqrt(subset));
  }
  std::vector<double> norm(21), subset(21), alone(21);
  pair_norms(batch, mask, norm, subset);
  pair_norms(batch, alone);
  CHECK(norm == alone);
  CHECK_COMPARISON(compare_relative("U", norm, expected, 4e-16));
  CHECK_COMPARISON(compare_relative("U_H", subset, expected_subset, 4e-16));
  for (std::size_t p = 0; p < 21; ++p) CHECK(subset[p] <= norm[p]);
  const std::vector<char> everything(h, 1);
  pair_norms(batch, everything, norm, subset);
  CHECK(norm == subset);
  batch.re[3] = HUGE_VAL;
  batch.im[4] = std::nan("");
  pair_norms(batch, norm);
  CHECK(std::isinf(norm[3]));
  CHECK(std::isnan(norm[4]));
  CHECK(norm[5] == subset[5]);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

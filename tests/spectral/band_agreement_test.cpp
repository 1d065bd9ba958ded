#include "spectral/band_agreement.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "reference/band.hpp"
#include "spectral/band_split.hpp"
#include "spectral/sweep_cases.hpp"
#include "spectral/window_moments.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

PrefixSums sums_of(const std::vector<double>& omega, std::int64_t window,
                   const std::vector<reference::Vector>& vectors) {
  const CoefficientBatch batch = make_batch(vectors, omega.size());
  PrefixSums sums;
  PrefixVariance(omega, window).add(batch, std::vector<char>(vectors.size(), 1), sums);
  return sums;
}

reference::Vector vector_of(std::vector<std::complex<double>> z) {
  reference::Vector vector;
  vector.z = std::move(z);
  return vector;
}

/// Var of every prefix beside the reference, in units of the energy U_{H_k}^2 / 2 of the prefix.
void check_prefixes(const std::string& name, const std::vector<double>& omega, std::int64_t window,
                    const std::vector<reference::Vector>& vectors, double bound) {
  CAPTURE(name);
  const PrefixSums sums = sums_of(omega, window, vectors);
  const reference::BandSums expected = reference::band_sums(vectors, omega, window);
  CHECK(sums.vectors == std::ssize(vectors));
  std::vector<double> r_var, r_expected, own, own_expected;
  const auto prefixes = prefix_agreement(sums);
  const auto pairs = pair_agreement(sums);
  for (std::size_t k = 0; k < omega.size(); ++k) {
    if (!(expected.half_square[k] > 0)) {
      CHECK(std::isnan(prefixes[k].r_var));
      CHECK(std::isnan(prefixes[k].agreement));
      continue;
    }
    r_var.push_back(prefixes[k].r_var);
    r_expected.push_back(expected.variance[k] / expected.half_square[k]);
    own.push_back(sums.own_variance[k]);
    own_expected.push_back(expected.pair_variance[k]);
    CHECK(prefixes[k].ratio == std::sqrt(prefixes[k].r_var));
    CHECK(prefixes[k].agreement == std::max(0.0, 1 - std::abs(prefixes[k].ratio - 1)));
    CHECK((std::isnan(pairs[k]) || pairs[k] >= 0));
  }
  CHECK_COMPARISON(compare_absolute("R_var", r_var, r_expected, bound));
  // A variance below 1e-17 of the energy is the reference's rounding.
  CHECK_COMPARISON(compare_relative("pairs", own, own_expected, 1e-9, 1e-8 * expected.half_square.back()));
  CHECK_COMPARISON(compare_absolute("energy", energy_shares(sums), expected.energy_share, 1e-14));
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("band agreement: the checks of theory §9") {
  CHECK(band_agreement(0.883744).ratio == doctest::Approx(0.940077).epsilon(1e-6));
  CHECK(band_agreement(0.883744).agreement == doctest::Approx(0.940077).epsilon(1e-6));
  CHECK(band_agreement(0.086922).ratio == doctest::Approx(0.294826).epsilon(2e-6));
  CHECK(band_agreement(1.21).agreement == doctest::Approx(0.9));  // 1 - |1.1 - 1|
  CHECK(band_agreement(9.0).agreement == 0);
  CHECK(band_agreement(0.0).agreement == 0);
  CHECK(std::isnan(band_agreement(std::nan("")).agreement));

  // Pair 51 of the grid of base 1e6 turns half a radian in 32768 tokens; what its variance is depends on its
  // phase.
  const double omega = std::pow(1e6, -51.0 / 64);
  CHECK(32768 * omega == doctest::Approx(0.54225).epsilon(1e-5));
  double least = 1, most = 0;
  for (int step = 0; step < 2000; ++step) {
    const double phase = std::numbers::pi * step / 2000;
    const auto prefixes = prefix_agreement(sums_of({omega}, 32768, {vector_of({std::polar(3.0, phase)})}));
    least = std::min(least, prefixes[0].r_var);
    most = std::max(most, prefixes[0].r_var);
  }
  CHECK(least == doctest::Approx(0.00024).epsilon(0.02));
  CHECK(most == doctest::Approx(0.0483).epsilon(0.002));
}

TEST_CASE("band agreement: every prefix of the case table against direct summation") {
  int checked = 0;
  for (const SweepCase& c : sweep_cases()) {
    const bool tiny = std::abs(c.vectors[0].z[0]) < 1e-100 && std::abs(c.vectors[0].z.back()) < 1e-100;
    if (c.window * std::ssize(c.omega) > 70'000 || tiny) continue;
    // Differences that cancel: the reference's sums in long double leave about 1e-19 of the energy.
    check_prefixes(c.name, c.omega, c.window, c.vectors, 1e-12);
    ++checked;
  }
  CHECK(checked > 40);
}

TEST_CASE("band agreement: adversarial vectors") {
  const std::vector<double> grid = geometric_grid(1e4, 16);
  for (const std::int64_t window : {2, 3, 64, 65, 1000}) {
    std::vector<reference::Vector> single, aligned, cancelling, dominant, slow, fast;
    for (std::size_t n = 0; n < 16; ++n) {
      std::vector<std::complex<double>> one(16), dominated(16, {1e-6, -1e-6});
      one[n] = std::polar(2.0, static_cast<double>(n));
      dominated[n] = {0.0, 1e3};
      single.push_back(vector_of(one));
      dominant.push_back(vector_of(dominated));
    }
    std::vector<std::complex<double>> all(16), alternate(16), low(16), high(16);
    for (std::size_t n = 0; n < 16; ++n) {
      all[n] = 1.0;
      alternate[n] = n % 2 ? -1.0 : 1.0;
      low[n] = n < 12 ? 0.0 : std::polar(1.0, 0.5 * static_cast<double>(n));
      high[n] = n < 3 ? std::polar(1.0, 2.0 * static_cast<double>(n)) : 0.0;
    }
    const std::string at = ", M = " + std::to_string(window);
    check_prefixes("single pairs" + at, grid, window, single, 1e-13);
    check_prefixes("aligned" + at, grid, window, {vector_of(all)}, 1e-13);
    check_prefixes("cancelling" + at, grid, window, {vector_of(alternate)}, 1e-13);
    check_prefixes("dominant" + at, grid, window, dominant, 1e-13);
    check_prefixes("all slow" + at, grid, window, {vector_of(low)}, 1e-13);
    check_prefixes("all fast" + at, grid, window, {vector_of(high)}, 1e-13);
  }
}

TEST_CASE("band agreement: a prefix's variance is the moments' of the vector cut there") {
  const std::vector<double> omega{0.01, 1.0, 0.1, 0.3, 1.0, 1e-4};  // no order, a tie
  const std::int64_t window = 777;
  const auto vectors = make_vectors(5, 6, Spread::kWhite, 1.0, 4);
  const std::vector<int> order = falling_order(omega);
  CHECK(order == std::vector<int>{1, 4, 3, 2, 0, 5});
  const PrefixVariance prefix(omega, window);
  for (std::size_t k = 0; k < 6; ++k) CHECK(prefix.order()[k] == static_cast<std::size_t>(order[k]));
  const auto agreement = prefix_agreement(sums_of(omega, window, vectors));
  const WindowMoments moments(omega, window);
  for (std::size_t size = 1; size <= 6; ++size) {
    auto cut = vectors;
    double square = 0, total = 0;
    for (auto& v : cut)
      for (std::size_t k = 0; k < 6; ++k) {
        auto& z = v.z[static_cast<std::size_t>(order[k])];
        if (k >= size) z = 0;
        square += std::norm(z);
      }
    std::vector<double> mean(5), variance(5);
    moments.evaluate(make_batch(cut, 6), mean, variance);
    for (const double v : variance) total += v;
    CHECK(agreement[size - 1].r_var == doctest::Approx(total / (0.5 * square)).epsilon(1e-12));
  }
}

TEST_CASE("band agreement: left-out lanes do not count, whatever they hold; sums add up") {
  const std::vector<double> omega = geometric_grid(1e4, 8);
  auto vectors = make_vectors(40, 8, Spread::kWhite, 1.0, 9);
  std::vector<char> use(40, 1);
  std::vector<reference::Vector> kept;
  for (std::size_t v = 0; v < 40; ++v) {
    if (v % 3 == 1) {
      use[v] = 0;
      vectors[v].z[v % 8] = {std::nan(""), INFINITY};
    } else {
      kept.push_back(vectors[v]);
    }
  }
  const PrefixVariance prefix(omega, 100);
  PrefixSums sums, halves, second;
  prefix.add(make_batch(vectors, 8), use, sums);
  const PrefixSums expected = sums_of(omega, 100, kept);
  CHECK(sums.vectors == std::ssize(kept));
  CHECK_COMPARISON(compare_relative("increments", sums.increment, expected.increment, 1e-12, 1e-3));
  prefix.add(make_batch({kept.begin(), kept.begin() + 10}, 8), std::vector<char>(10, 1), halves);
  prefix.add(make_batch({kept.begin() + 10, kept.end()}, 8), std::vector<char>(kept.size() - 10, 1), second);
  halves.add(second);
  CHECK(halves.vectors == sums.vectors);
  CHECK_COMPARISON(compare_relative("in halves", halves.increment, expected.increment, 1e-12, 1e-3));
  CHECK_COMPARISON(compare_relative("squares", halves.square, expected.square, 1e-14));
  PrefixSums none;
  none.add(sums);
  CHECK(none.increment == sums.increment);
  CHECK_THROWS_AS(none.add(sums_of({1.0}, 10, {vector_of({1.0})})), std::logic_error);
}

TEST_CASE("band agreement: where it breaks") {
  const double nan = std::nan("");
  const std::vector<BandAgreement> prefixes{{1, 1, 1.0}, {1, 1, nan}, {1, 1, 0.9}, {1, 1, 0.95}, {1, 1, 0.5}};
  CHECK(first_break(prefixes, 0.9) == 5);
  CHECK(first_break(prefixes, 0.93) == 3);
  CHECK(first_break(prefixes, 0.5) == 0);
  CHECK(first_break({}, 0.5) == 0);
}

// Prop. 1: on a certified H, |Var - U^2 / 2| <= epsilon U^2, so R_var is within 2 epsilon of 1, for every
// vector.
TEST_CASE("band agreement: certified prefixes agree, whatever the vectors") {
  const std::vector<double> omega = geometric_grid(100.0, 12);
  const double rho = std::pow(100.0, -1.0 / 12);
  std::mt19937_64 random(3);
  for (const char* split : {"certified", "custom:6.283185307179586,0.1", "separation"}) {
    const SplitRule rule = parse_split(split);
    for (const std::int64_t window : {4000, 10000, 30000}) {
      const auto mask = high_frequency_mask(rule, omega, rho, window);
      const auto size = static_cast<std::size_t>(std::count(mask.begin(), mask.end(), 1));
      CAPTURE(split);
      CAPTURE(window);
      for (const Spread spread : {Spread::kWhite, Spread::kFastOnly, Spread::kOne, Spread::kSlowHeavy})
        for (const auto& vector : make_vectors(6, 12, spread, 1.0, random())) {
          const auto prefixes = prefix_agreement(sums_of(omega, window, {vector}));
          for (std::size_t k = 0; k < size; ++k)
            if (!std::isnan(prefixes[k].r_var)) CHECK(std::abs(prefixes[k].r_var - 1) <= 2 * rule.epsilon);
        }
      if (window == 30000) CHECK(size > 0);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

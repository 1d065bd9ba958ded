#include "spectral/band_certificate.hpp"

#include <doctest/doctest.h>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/envelope.hpp"
#include "spectral/band_split.hpp"
#include "spectral/separation.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

constexpr double kTwoPi = 2 * std::numbers::pi;

std::vector<BandCertificate> certificates(const BandCertificates& band,
                                          const std::vector<reference::Vector>& v, std::size_t h,
                                          const std::vector<char>& high) {
  const auto batch = make_batch(v, h);
  std::vector<double> norm(v.size()), high_norm(v.size());
  pair_norms(batch, high, norm, high_norm);
  return band.evaluate(batch, high_norm);
}

/// Vectors that press on Prop. 1: all phases meet at an edge, the centre or a random place; one pair; one
/// dominant pair; neighbours against each other.
std::vector<reference::Vector> pressing_vectors(const std::vector<double>& omega, std::int64_t window) {
  std::vector<reference::Vector> vectors = make_vectors(40, omega.size(), Spread::kWhite, 1.0, 21);
  std::mt19937_64 random(5);
  const double m = static_cast<double>(window);
  for (const double centre : {0.0, 0.5 * (m - 1), m - 1, 0.25 * m, m * std::abs(uniform(random))}) {
    for (const double slope : {0.0, 0.5, 1.0, 2.0}) {  // weights from equal to nearly all on the slowest
      for (const double sign : {1.0, -1.0}) {
        reference::Vector v;
        double weight = 1;
        for (const double w : omega) {
          v.z.push_back(std::polar(std::pow(w, -slope) * weight, -centre * w));
          weight *= sign;
        }
        vectors.push_back(v);
      }
    }
  }
  for (std::size_t n = 0; n < omega.size(); ++n) {
    for (int k = 0; k < 4; ++k) {
      reference::Vector v;
      v.z.resize(omega.size());
      v.z[n] = std::polar(1.0, 0.25 * k * std::numbers::pi - 0.5 * (m - 1) * omega[n]);
      vectors.push_back(v);
    }
  }
  for (auto& v : vectors) v.constant = 0;
  return vectors;
}

/// The vectors that use most of the two bounds: the mean is g.x and the variance x'Cx with x = (Re z, Im z),
/// so g itself and the outermost eigenvectors of C are extremal. g and C by plain summation.
std::vector<reference::Vector> extremal_for_moments(const std::vector<double>& omega, std::int64_t window) {
  const auto k = static_cast<Eigen::Index>(omega.size());
  Eigen::VectorXd g = Eigen::VectorXd::Zero(2 * k), row(2 * k);
  Eigen::MatrixXd c = Eigen::MatrixXd::Zero(2 * k, 2 * k);
  for (std::int64_t m = 0; m < window; ++m) {
    for (Eigen::Index n = 0; n < k; ++n) {
      const double angle = static_cast<double>(m) * omega[static_cast<std::size_t>(n)];
      row(n) = std::cos(angle);
      row(n + k) = -std::sin(angle);
    }
    g += row;
    c += row * row.transpose();
  }
  g /= static_cast<double>(window);
  c = c / static_cast<double>(window) - g * g.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(c);
  std::vector<reference::Vector> vectors;
  for (const Eigen::VectorXd& x : {Eigen::VectorXd(g), Eigen::VectorXd(solver.eigenvectors().col(0)),
                                   Eigen::VectorXd(solver.eigenvectors().col(2 * k - 1))}) {
    reference::Vector v;
    for (Eigen::Index n = 0; n < k; ++n) v.z.emplace_back(x(n), x(n + k));
    vectors.push_back(v);
  }
  return vectors;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("Prop. 1: shares of the bounds equal the long-double reference") {
  const struct {
    std::vector<double> omega;
    std::vector<char> high;
    std::int64_t window;
  } cases[] = {{geometric_grid(1e4, 8), {1, 1, 1, 0, 0, 0, 0, 0}, 500},
               {geometric_grid(1e4, 8), {0, 1, 0, 1, 1, 0, 0, 1}, 77},
               {geometric_grid(1e4, 8), {1, 1, 1, 1, 1, 1, 1, 1}, 2},
               {{0.3, 1e-3, 0.3001}, {1, 0, 1}, 1500}};
  for (const auto& c : cases) {
    CAPTURE(c.window);
    const auto vectors = make_vectors(9, c.omega.size(), Spread::kWhite, 1.0, 31);
    const double epsilon = 0.05;
    const auto got =
        certificates(BandCertificates(c.omega, c.high, c.window, epsilon), vectors, c.omega.size(), c.high);
    std::vector<double> value, expected;
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      const auto f = reference::envelope_facts(vectors[v], c.omega, c.high, c.window);
      const long double u = f.high_norm;
      value.push_back(got[v].mean_share);
      expected.push_back(static_cast<double>(std::abs(f.band_mean) / (epsilon * u)));
      value.push_back(got[v].variance_share);
      expected.push_back(static_cast<double>(std::abs(f.band_variance - u * u / 2) / (epsilon * u * u)));
    }
    const auto comparison = compare_absolute("shares", value, expected, 1e-11);
    CHECK_MESSAGE(comparison.ok(), comparison.text());
  }
}

TEST_CASE("Prop. 1: holds for every vector where the separation says so") {
  const struct {
    std::string name;
    const char* split;
    std::vector<double> omega;
    double rho;
    std::int64_t window;
  } cases[] = {
      {"Qwen3", "certified", geometric_grid(1e6, 64), std::pow(1e6, -1.0 / 64), 32768},
      {"SmolLM2", "certified", geometric_grid(1e5, 32), std::pow(1e5, -1.0 / 32), 32768},
      {"the first pair", "certified", geometric_grid(1e5, 32), std::pow(1e5, -1.0 / 32), 4159},
      {"odd grid", "separation", {0.9, 2.1, 0.31, 3.0, 1e-5}, 0.5, 20000},
      {"band edge", "separation:6.283185307179586,0.3", geometric_grid(1e4, 32), 0.5, 700},
      {"wide epsilon", "separation:6.283185307179586,0.9", geometric_grid(1e4, 32), 0.5, 200},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    const SplitRule rule = parse_split(c.split);
    const auto high = high_frequency_mask(rule, c.omega, c.rho, c.window);
    const SeparationCheck check = check_separation(rule, c.omega, high, c.window);
    REQUIRE(check.proved);
    CHECK(check.is_prefix);
    const BandCertificates band(c.omega, high, c.window, band_constants(rule).epsilon);
    std::vector<double> own;
    for (std::size_t n = 0; n < c.omega.size(); ++n)
      if (high[n]) own.push_back(c.omega[n]);
    auto vectors = pressing_vectors(own, c.window);
    for (auto& v : extremal_for_moments(own, c.window)) vectors.push_back(std::move(v));
    for (auto& v : vectors) {  // back to all pairs, with something in N that must not matter
      std::vector<std::complex<double>> z(c.omega.size(), {5.0, -3.0});
      for (std::size_t n = 0, i = 0; n < z.size(); ++n)
        if (high[n]) z[n] = v.z[i++];
      v.z = z;
    }
    double mean = 0, variance = 0;
    const auto all = certificates(band, vectors, c.omega.size(), high);
    for (const BandCertificate& b : all) {
      CHECK(band.mean_holds(b));
      CHECK(band.variance_holds(b));
      mean = std::max(mean, b.mean_share);
      variance = std::max(variance, b.variance_share);
    }
    MESSAGE(c.name << ": |H| = " << check.size << ", largest share of the mean bound " << mean
                   << ", of the variance bound " << variance);
    // No vector uses more than the extremal ones, the last three.
    CHECK(mean == doctest::Approx(all[all.size() - 3].mean_share).epsilon(1e-9));
    CHECK(variance == doctest::Approx(std::max(all[all.size() - 2].variance_share, all.back().variance_share))
                          .epsilon(1e-9));
    CHECK(mean > 0.01);
    CHECK(variance > 0.005);
  }
}

TEST_CASE("Prop. 1: fails where frequencies are close or slow") {
  // Two frequencies closer than a turn in the window act as one of doubled size.
  const std::vector<double> close{0.5, 0.50001};
  const std::vector<char> both{1, 1};
  const BandCertificates band(close, both, 1000, 0.01);
  const auto c = certificates(band, {{{{1.0, 0.0}, {1.0, 0.0}}, 0}}, 2, both);
  CHECK_FALSE(band.variance_holds(c[0]));
  // A pair that does not complete a turn has a mean.
  const std::vector<double> slow{1e-5};
  const std::vector<char> one{1};
  const BandCertificates slow_band(slow, one, 1000, 0.01);
  CHECK_FALSE(slow_band.mean_holds(certificates(slow_band, {{{{1.0, 0.0}}, 0}}, 1, one)[0]));
  // U_H = 0: nothing to hold. Rounding is small against 1.
  CHECK(std::isnan(certificates(slow_band, {{{{0.0, 0.0}}, 0}}, 1, one)[0].mean_share));
  CHECK_FALSE(slow_band.mean_holds({std::nan(""), std::nan("")}));
  CHECK(band.rounding() < 1e-10);
  CHECK_THROWS_AS(BandCertificates(slow, std::vector<char>{0}, 10, 0.1), std::logic_error);
}

TEST_CASE("separation: delta equals the reference on the circle") {
  const std::vector<std::vector<double>> grids{{0.5},
                                               {3.0},
                                               {std::numbers::pi},
                                               {1.0, 0.99},
                                               {3.1, 0.05},
                                               {0.25, 0.25},
                                               {2.0, 1.0, 0.4, 1e-3},
                                               {3.0, 3.1},
                                               geometric_grid(1e6, 64)};
  for (const auto& omega : grids) {
    const double want = static_cast<double>(reference::circle_separation(omega));
    CHECK(std::abs(smallest_separation(omega) - want) <= 1e-14);
  }
  CHECK(std::isnan(smallest_separation({})));
}

TEST_CASE("separation: the hypothesis of Prop. 1 for the sets of every rule") {
  const auto qwen = geometric_grid(1e6, 64);
  const double rho = std::pow(1e6, -1.0 / 64);
  const auto check = [&](const char* split, std::int64_t window) {
    const SplitRule rule = parse_split(split);
    return check_separation(rule, qwen, high_frequency_mask(rule, qwen, rho, window), window);
  };
  const SeparationCheck certified = check("certified", 32768);
  CHECK(certified.size == 8);
  CHECK(certified.proved);
  CHECK(certified.needed == doctest::Approx(400 * std::numbers::pi));
  CHECK(certified.scaled == doctest::Approx(32768 * (qwen[6] - qwen[7])));
  CHECK(certified.largest_prefix >= certified.size);
  // The separation set is the largest prefix, and one pair more is not separated.
  const SeparationCheck separation = check("separation", 32768);
  CHECK(separation.proved);
  CHECK(separation.largest_prefix == separation.size);
  const auto with = [&](std::size_t k) { return check(("prefix:" + std::to_string(k)).c_str(), 32768); };
  CHECK(with(separation.size).proved);
  CHECK(with(separation.size).largest_prefix == separation.size);
  CHECK_FALSE(with(separation.size + 1).satisfied);
  // The operational constants are met by its own sets, but they are no theorem's.
  const SeparationCheck operational = check("operational", 32768);
  CHECK(operational.size == 40);
  CHECK(operational.satisfied);
  CHECK_FALSE(operational.proved);
  // Empty: nothing is satisfied.
  const SeparationCheck empty = check("certified", 100);
  CHECK(empty.size == 0);
  CHECK(std::isnan(empty.delta));
  CHECK_FALSE(empty.satisfied);
  CHECK_FALSE(empty.proved);
  CHECK(empty.is_prefix);
  CHECK_FALSE(
      check_separation(parse_split("omega:0.1"), std::vector<double>{0.5, 0.4}, std::vector<char>{0, 1}, 1000)
          .is_prefix);
  CHECK(band_constants(parse_split("custom:1,0.5")).c == 1);
  CHECK(band_constants(parse_split("periods:3")).c == kTwoPi);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

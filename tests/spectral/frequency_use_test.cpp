#include "spectral/frequency_use.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("usage: variation and centroid by hand") {
  CHECK(usage_variation(std::vector<double>{2.0, 2.0, 2.0}) == 0.0);
  CHECK(usage_variation(std::vector<double>{1.0, 3.0}) == doctest::Approx(0.5));
  CHECK(std::isnan(usage_variation(std::vector<double>{0.0, 0.0})));
  const std::vector<double> omega{1.0, std::exp(-2.0)};
  CHECK(usage_centroid(std::vector<double>{1.0, 3.0}, omega) == doctest::Approx(-1.5));
  CHECK(std::isnan(usage_centroid(std::vector<double>{0.0, 0.0}, omega)));
}

TEST_CASE("usage: sums over valid lanes, and frequency mass") {
  const std::size_t h = 6;
  const auto omega = geometric_grid(1e4, h);
  const auto vectors = make_vectors(9, h, Spread::kWhite, 1.5, 21);
  const auto batch = make_batch(vectors, h, 12, 2);
  const std::vector<std::int64_t> distances{0, 5, 17, 1000, 3, 3, 131071};
  const std::vector<char> valid{1, 1, 0, 1, 1, 1, 1};
  std::vector<double> usage(h), usage_norm(h), expected(h), expected_norm(h), mass(12), expected_mass;
  accumulate_usage(batch, 2, make_phase_table(omega, distances), valid, usage, usage_norm);
  for (std::size_t i = 0; i < distances.size(); ++i) {
    long double sum = 0, weighted = 0;
    for (std::size_t n = 0; n < h; ++n) {
      const std::complex<long double> z(vectors[i].z[n].real(), vectors[i].z[n].imag());
      const long double angle = static_cast<long double>(distances[i]) * omega[n];
      const auto turned = z * std::complex<long double>(std::cos(angle), std::sin(angle));
      if (valid[i]) {
        expected[n] += static_cast<double>(std::abs(turned.real()));
        expected_norm[n] += static_cast<double>(std::abs(z));
      }
      sum += std::abs(z);
      weighted += std::abs(z) * omega[n];
    }
    expected_mass.push_back(static_cast<double>(weighted / sum));
  }
  CHECK_COMPARISON(compare_relative("usage", usage, expected, 1e-14));
  CHECK_COMPARISON(compare_relative("usage without phase", usage_norm, expected_norm, 1e-14));
  frequency_mass(batch, omega, mass);
  CHECK(std::isnan(mass[0]));  // an empty lane
  const std::vector<double> masses(mass.begin() + 2, mass.begin() + 9);
  CHECK_COMPARISON(compare_relative("frequency mass", masses, expected_mass, 1e-14));
  // Mass does not see the scale, down to subnormal coefficients' neighbourhood.
  auto tiny = batch;
  for (double& x : tiny.re) x *= 0x1p-900;
  for (double& x : tiny.im) x *= 0x1p-900;
  std::vector<double> tiny_mass(12);
  frequency_mass(tiny, omega, tiny_mass);
  CHECK(std::equal(mass.begin() + 2, mass.end() - 1, tiny_mass.begin() + 2));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

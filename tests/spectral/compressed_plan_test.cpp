#include "spectral/compressed_plan.hpp"

#include <doctest/doctest.h>

#include <complex>

#include "spectral/phase.hpp"
#include "spectral/sweep_cases.hpp"

namespace rope::test {
namespace {

using spectral::CompressedPlan;

TEST_SUITE_BEGIN("spectral");

/// Row r of a tiled table times x.
double tiled_row(const std::vector<float>& table, std::size_t first, std::size_t row,
                 const std::vector<double>& x) {
  constexpr std::size_t kTile = spectral::kPlanTile;
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    sum += static_cast<double>(table[first + (row / kTile * x.size() + k) * kTile + row % kTile]) * x[k];
  return sum;
}

/// The two levels of the plan carried out in float64, from U at the outer centre.
struct TwoLevels {
  const CompressedPlan& plan;
  std::vector<std::complex<double>> u;  // sorted
  std::vector<double> a, b;
  double constant = 0;

  TwoLevels(const CompressedPlan& p, const std::vector<std::complex<double>>& at_centre) : plan(p) {
    for (std::size_t n : plan.order) u.push_back(at_centre[n]);
    std::vector<double> rest_re, rest_im;
    for (std::size_t n = plan.n_direct; n < plan.n_freq; ++n) {
      constant += u[n].real();
      const bool middle = n < plan.n_direct + plan.n_middle;
      (middle ? a : rest_re).push_back(u[n].real());
      (middle ? b : rest_im).push_back(-u[n].imag());
    }
    for (std::size_t q = 0; q < plan.outer_even; ++q)
      a.push_back(tiled_row(plan.project_even, 0, q, rest_re));
    for (std::size_t q = 0; q < plan.outer_odd; ++q) b.push_back(tiled_row(plan.project_odd, 0, q, rest_im));
  }

  /// S(C + sign * inner_shift(j) + t).
  double score(std::size_t j, int sign, int t) const {
    const std::size_t rows = CompressedPlan::tiles(plan.transfer_rows()) * spectral::kPlanTile;
    const std::size_t from_a = j * rows * a.size(), from_b = j * rows * b.size();
    const auto row = [&](std::size_t r, double sign_a, double sign_b) {
      return sign_a * tiled_row(plan.transfer_a, from_a, r, a) +
             sign_b * tiled_row(plan.transfer_b, from_b, r, b);
    };
    double score = constant + row(0, 1, sign);
    std::vector<double> even, odd;
    for (std::size_t n = 0; n < plan.n_direct; ++n) {
      const double c = plan.turn[2 * (j * plan.n_direct + n)], s = plan.turn[2 * (j * plan.n_direct + n) + 1];
      const double re = u[n].real(), im = -u[n].imag();
      even.push_back(re * c + sign * im * s);
      odd.push_back(im * c - sign * re * s);
      score += even.back();
    }
    for (std::size_t r = 0; r < plan.inner_even; ++r) even.push_back(row(1 + r, 1, sign));
    for (std::size_t r = 0; r < plan.inner_odd; ++r) odd.push_back(row(1 + plan.inner_even + r, sign, 1));
    if (t == 0) return score;
    const auto offset = static_cast<std::size_t>(std::abs(t) - 1);
    return score + tiled_row(plan.even_table, 0, offset, even) +
           (t > 0 ? 1 : -1) * tiled_row(plan.odd_table, 0, offset, odd);
  }
};

std::vector<double> uniform_grid(std::size_t h) {
  std::mt19937_64 random(h);
  std::vector<double> omega;
  for (std::size_t n = 0; n < h; ++n) omega.push_back(1e-7 + (uniform(random) + 1) * 1.57);
  return omega;
}

TEST_CASE("compressed plan: both levels give back the scores of an outer block") {
  std::vector<std::pair<std::string, std::vector<double>>> grids;
  for (std::size_t h : {1, 2, 5, 32, 64, 128}) {
    grids.emplace_back("1e6, " + std::to_string(h), geometric_grid(1e6, h));
    grids.emplace_back("1e4, " + std::to_string(h), geometric_grid(1e4, h));
    grids.emplace_back("uniform, " + std::to_string(h), uniform_grid(h));
  }
  grids.emplace_back("equal", std::vector<double>(7, 0.3));
  grids.emplace_back("pi", std::vector<double>{std::numbers::pi, 1e-12, 3.0});
  grids.emplace_back("very slow", std::vector<double>{1e-9, 1e-30, 1e-200});
  double worst = 0;
  for (const auto& [name, omega] : grids) {
    CAPTURE(name);
    const CompressedPlan plan(omega);
    CHECK(plan.n_direct + plan.n_middle + plan.n_rest() == omega.size());
    std::mt19937_64 random(7);
    std::vector<std::complex<double>> u(omega.size());
    double size = 0;
    for (auto& z : u) {
      z = {uniform(random), uniform(random)};
      size += std::abs(z);
    }
    const TwoLevels levels(plan, u);
    for (std::size_t j = 0; j < spectral::kInnerPairs; ++j) {
      for (int sign : {-1, 1}) {
        for (int t : {-64, -63, -37, -4, -1, 0, 1, 2, 3, 4, 5, 31, 60, 63, 64}) {
          const double tau = static_cast<double>(sign * spectral::inner_shift(j) + t);
          double expected = 0;
          for (std::size_t n = 0; n < u.size(); ++n) {
            const spectral::Phase e = spectral::phase_at(tau, omega[n]);
            expected += u[n].real() * e.cos - u[n].imag() * e.sin;
          }
          const double error = std::abs(levels.score(j, sign, t) - expected) / size;
          CHECK(error < 1e-6);
          worst = std::max(worst, error);
        }
      }
    }
  }
  MESSAGE("largest error " << worst << " of sum |z|, " << 100 * worst / 1e-6 << " % of the bound");
}

TEST_CASE("compressed plan: compression pays where it can and is left out where it cannot") {
  CHECK(CompressedPlan(geometric_grid(1e6, 64)).cost() < 20);
  CHECK(CompressedPlan(geometric_grid(1e6, 128)).cost() < 32);
  const CompressedPlan fast(uniform_grid(16));
  CHECK(fast.n_direct == 16);
  CHECK(fast.cost() < 17);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

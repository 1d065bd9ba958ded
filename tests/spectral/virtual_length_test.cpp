#include "spectral/virtual_length.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "reference/lengths.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::LengthOrders;

// S(m) of one vector, or with the pairs of H stopped.
std::vector<long double> scores(const reference::Vector& vector, const std::vector<double>& omega,
                                std::int64_t window, const std::vector<char>& stopped, double cap) {
  std::vector<long double> logits;
  for (std::int64_t m = 0; m < window; ++m) {
    long double s = vector.constant;
    for (std::size_t n = 0; n < omega.size(); ++n) {
      const long double angle = stopped[n] ? 0 : static_cast<long double>(m) * omega[n];
      s += vector.z[n].real() * std::cos(angle) - vector.z[n].imag() * std::sin(angle);
    }
    logits.push_back(cap > 0 ? cap * std::tanh(s / cap) : s);
  }
  return logits;
}

// Marks of H: the fastest k.
std::vector<char> fastest(std::size_t h, std::size_t k) {
  std::vector<char> mask(h, 0);
  std::fill_n(mask.begin(), k, char{1});
  return mask;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("virtual length: equal to direct sums on every case, whole and with H stopped") {
  const LengthOrders orders({1, 2, INFINITY, 0.5});
  for (const SweepCase& one : sweep_cases()) {
    const std::size_t h = one.omega.size();
    if (static_cast<std::size_t>(one.window) * h > 20000) continue;  // long double sums take their time
    double size = 0;
    for (const auto& vector : one.vectors)
      for (const auto& z : vector.z) size += std::abs(z);
    if (!(size < 1e10)) continue;  // e^S of larger scores is decided by rounding
    const std::size_t count = std::min<std::size_t>(one.vectors.size(), 2);
    const std::vector<reference::Vector> some(one.vectors.begin(),
                                              one.vectors.begin() + static_cast<std::ptrdiff_t>(count));
    const auto batch = make_batch(some, h);
    for (const std::size_t high : {std::size_t{0}, h / 2, h})
      for (const double cap : {0.0, 3.0}) {
        const std::vector<char> mask = fastest(h, high), none(h, 0);
        const spectral::VirtualLengthPlan plan(one.omega, mask);
        const spectral::VirtualLengths found = virtual_lengths(plan, batch, one.window, orders, cap);
        std::vector<double> all, slow, all_expected, slow_expected;
        for (std::size_t i = 0; i < orders.size(); ++i)
          for (std::size_t v = 0; v < count; ++v) {
            const auto length = [&](const std::vector<char>& stopped) {
              return static_cast<double>(std::exp(reference::log_effective_length(
                  scores(some[v], one.omega, one.window, stopped, cap), orders.beta()[i])));
            };
            all.push_back(found.all[i][v]);
            slow.push_back(found.slow[i][v]);
            all_expected.push_back(length(none));
            slow_expected.push_back(length(mask));
          }
        const double bound = 1e-12 + 1e-14 * size;
        CAPTURE(one.name);
        CHECK(compare_relative("whole", all, all_expected, bound).ok());
        CHECK(compare_relative("H stopped", slow, slow_expected, bound).ok());
      }
  }
}

TEST_CASE("virtual length: E_2 agrees with the fast sweep") {
  const auto omega = geometric_grid(1e6, 64);
  const auto batch = make_batch(make_vectors(20, 64, Spread::kWhite, 5.0, 3), 64);
  const spectral::SweepPlan sweep(omega, 8999);
  spectral::SweepRequest request;
  request.effective_length = true;
  spectral::SweepResult swept;
  sweep_cpu(sweep, batch, request, swept);
  const spectral::VirtualLengthPlan plan(omega, fastest(64, 20));
  const auto found = virtual_lengths(plan, batch, 8999, LengthOrders({2}), 0.0);
  CHECK_COMPARISON(compare_relative("E_2", found.all[0], swept.effective_length, 1e-5));
}

TEST_CASE("virtual length: bounds, order and limits") {
  const auto omega = geometric_grid(1e4, 12);
  const LengthOrders orders({0, 0.5, 1, 2, 5, INFINITY});
  for (const Spread spread : {Spread::kWhite, Spread::kSlowOnly, Spread::kFastOnly, Spread::kOne})
    for (const double size : {1e-6, 2.0, 300.0})
      for (const std::int64_t window : {1, 2, 3, 255, 256, 257, 258, 700}) {
        const auto batch = make_batch(make_vectors(6, 12, spread, size, 5), 12);
        const auto found =
            virtual_lengths(spectral::VirtualLengthPlan(omega, fastest(12, 5)), batch, window, orders, 0.0);
        for (const auto* lengths : {&found.all, &found.slow})
          for (std::size_t lane = 0; lane < 6; ++lane) {
            double before = static_cast<double>(window) * (1 + 1e-12);
            for (std::size_t i = 0; i < orders.size(); ++i) {
              CHECK((*lengths)[i][lane] >= 1);
              CHECK((*lengths)[i][lane] <= before);
              before = (*lengths)[i][lane] * (1 + 1e-11);
              if (size < 1e-5) CHECK((*lengths)[i][lane] > 0.999 * static_cast<double>(window));
            }
            CHECK((*lengths)[0][lane] == doctest::Approx(static_cast<double>(window)).epsilon(1e-13));
          }
      }
}

TEST_CASE("virtual length: fast pairs stopped leave no trace of them; a lane does not see its neighbours") {
  const auto omega = geometric_grid(1e4, 12);
  const LengthOrders orders;
  auto vectors = make_vectors(7, 12, Spread::kWhite, 4.0, 8);
  const spectral::VirtualLengthPlan plan(omega, fastest(12, 5));
  const auto before = virtual_lengths(plan, make_batch(vectors, 12), 900, orders, 0.0);
  for (auto& vector : vectors)
    for (std::size_t n = 0; n < 5; ++n) vector.z[n] *= -3.0;
  const auto after = virtual_lengths(plan, make_batch(vectors, 12), 900, orders, 0.0);
  CHECK_COMPARISON(compare_relative("H stopped", before.slow[1], after.slow[1], 1e-12));
  CHECK_FALSE(compare_relative("whole", before.all[1], after.all[1], 1e-3).ok());
  auto bad = vectors;
  bad[3].z[2] = {NAN, 0.0};
  bad[4].z[9] = {INFINITY, 0.0};
  const auto with_bad = virtual_lengths(plan, make_batch(bad, 12), 900, orders, 0.0);
  for (std::size_t i = 0; i < orders.size(); ++i)
    for (std::size_t lane = 0; lane < 7; ++lane) {
      if (lane == 3 || lane == 4)
        CHECK(std::isnan(with_bad.all[i][lane]));
      else
        CHECK(with_bad.all[i][lane] == after.all[i][lane]);
    }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

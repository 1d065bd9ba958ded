#include "spectral/score_trace.hpp"

#include <doctest/doctest.h>

#include "spectral/sweep_cases.hpp"

namespace rope::test {
namespace {

struct Parts {
  long double score = 0, step = 0, high = 0, low = 0;
};

/// Plain long double sums; the angle's part beyond long double is put back.
Parts plain(const reference::Vector& v, const std::vector<double>& omega, const std::vector<char>& high,
            std::int64_t m) {
  Parts p;
  const auto turned = [&](std::size_t n, std::int64_t at) {
    const long double x = static_cast<long double>(at), w = omega[n], angle = x * w,
                      rest = std::fma(x, w, -angle);
    const long double c = std::cos(angle) - rest * std::sin(angle),
                      s = std::sin(angle) + rest * std::cos(angle);
    return v.z[n].real() * c - v.z[n].imag() * s;
  };
  for (std::size_t n = 0; n < omega.size(); ++n) {
    (high[n] ? p.high : p.low) += turned(n, m);
    p.step += turned(n, m + 1) - turned(n, m);
  }
  p.score = p.high + p.low + v.constant;
  return p;
}

spectral::TraceVector trace_vector(const reference::Vector& v, const std::vector<double>& omega,
                                   const std::vector<char>& high) {
  spectral::TraceVector t{omega, high, {}, {}, v.constant};
  for (const auto& z : v.z) {
    t.re.push_back(z.real());
    t.im.push_back(z.imag());
  }
  return t;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("score trace: score, step and bands within 4 roundings of their coefficients, near and far") {
  const auto omega = geometric_grid(1e6, 64);
  std::vector<char> high(64, 0);
  for (std::size_t n = 0; n < 64; n += 3) high[n] = 1;
  double worst = 0;
  for (const Spread spread :
       {Spread::kWhite, Spread::kSlowHeavy, Spread::kFastOnly, Spread::kOne, Spread::kSlowOnly})
    for (const auto& v : make_vectors(6, 64, spread, 2.0, 70)) {
      const spectral::ScoreTrace trace(trace_vector(v, omega, high));
      double size = std::abs(v.constant), steps = 0;
      for (std::size_t n = 0; n < 64; ++n) {
        size += std::abs(v.z[n]);
        steps += std::abs(v.z[n]) * 2 * std::sin(omega[n] / 2);
      }
      for (const std::int64_t m : {0, 1, 2, 777, 8191, 131071, 16777215}) {
        const Parts p = plain(v, omega, high, m);
        const spectral::TracePoint t = trace.at(m);
        const double bound = 4 * 0x1p-53;
        for (const auto& [value, expected] : {std::pair(t.score, p.score), {t.high, p.high}, {t.low, p.low}})
          worst = std::max(worst, static_cast<double>(std::abs(value - expected)) / (bound * size));
        // The reference's own differences round, too: long double, of the size of the scores.
        CHECK(std::abs(t.step - p.step) <= bound * steps + 1e-17 * size);
      }
    }
  MESSAGE("share of the bound used: " << worst);
  CHECK(worst < 1);
}

TEST_CASE("score trace: tiny steps of large scores are right") {
  // Re z (e^{i w} - 1) e^{i m w} with w = 1e-12: differences of S in float64 would be noise.
  const spectral::ScoreTrace trace({{1e-12}, {0}, {1e6}, {1.0}, 1e6});
  for (const std::int64_t m : {0, 1000}) {
    const double expected = -1e6 * 1e-24 * (static_cast<double>(m) + 0.5) - 1e-12;
    CHECK(std::abs(trace.at(m).step - expected) <= 1e-14 * std::abs(expected));
  }
}

TEST_CASE("score trace: nothing rotates, and constants") {
  const spectral::ScoreTrace still({{}, {}, {}, {}, -2.5});
  const spectral::TracePoint t = still.at(99);
  CHECK(t.score == -2.5);
  CHECK(t.step == 0);
  CHECK(t.high == 0);
  CHECK(t.low == 0);
  // Terms that cancel to the last bit: a plain sum would leave 1e-17.
  const spectral::ScoreTrace cancelling({{0.5, 0.25, 0.125}, {1, 1, 1}, {0.1, 0.2, -0.3}, {0, 0, 0}, 0});
  const long double left =
      static_cast<long double>(0.1) + static_cast<long double>(0.2) - static_cast<long double>(0.3);
  CHECK(cancelling.at(0).score == static_cast<double>(left));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "spectral/response_envelope.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/envelope.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/band_split.hpp"
#include "spectral/envelope_cases.hpp"
#include "spectral/exact_response.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

struct Computed {
  std::vector<EnvelopeTerms> terms;
  std::vector<double> zeta;
};

Computed compute(const EnvelopeCase& c) {
  CoefficientBatch batch = make_batch(c.vectors, c.omega.size());
  scale_lanes(batch);
  Computed result;
  result.terms = envelope_terms(batch, response_factors(c.omega), c.high);
  std::vector<std::size_t> lanes(c.vectors.size());
  std::iota(lanes.begin(), lanes.end(), std::size_t{0});
  result.zeta = ExactResponse(c.omega, c.window).largest(batch, lanes);
  for (std::size_t v = 0; v < lanes.size(); ++v) result.zeta[v] /= result.terms[v].norm;
  return result;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("envelope: every quantity of theory §8 equals the long-double reference") {
  double worst = 0;
  for (const EnvelopeCase& c : envelope_cases()) {
    CAPTURE(c.name);
    const Computed computed = compute(c);
    std::vector<double> value, expected;
    for (std::size_t v = 0; v < c.vectors.size(); ++v) {
      const auto f = reference::envelope_facts(c.vectors[v], c.omega, c.high, c.window);
      const EnvelopeTerms& t = computed.terms[v];
      for (const auto& [got, want] : {std::pair<double, long double>{t.low_response(), f.w_low},
                                      {t.high_slope(), f.kappa},
                                      {t.norm_share(), f.norm_share},
                                      {t.envelope(), f.envelope}}) {
        value.push_back(got);
        expected.push_back(static_cast<double>(want));
      }
      const double error = std::abs(computed.zeta[v] - static_cast<double>(f.zeta));
      CHECK(error <= 1e-14 * static_cast<double>(f.envelope));
      worst = std::max(worst, error / static_cast<double>(f.envelope));
      CHECK(t.has_floor() == (f.high_norm > 0));
      if (t.has_floor()) {
        const double floor_error =
            std::abs(t.norm_floor(computed.zeta[v]) - static_cast<double>(f.norm_floor));
        CHECK(floor_error * t.high_slope() <= 2e-14 * t.envelope());
      }
    }
    const auto comparison = compare_relative(c.name, value, expected, 1e-13);
    CHECK_MESSAGE(comparison.ok(), comparison.text());
  }
  MESSAGE("largest error of zeta over T: " << worst);
}

TEST_CASE("envelope: zeta <= T and f_pos <= r_H for random and adversarial vectors") {
  double most = 0, most_floor = 0;
  for (const EnvelopeCase& c : envelope_cases()) {
    CAPTURE(c.name);
    const std::size_t h = c.omega.size();
    const Computed computed = compute(c);
    for (std::size_t v = 0; v < c.vectors.size(); ++v) {
      CAPTURE(v);
      const EnvelopeTerms& t = computed.terms[v];
      const double zeta = computed.zeta[v];
      CHECK_FALSE(t.breaks_envelope(zeta, h));
      CHECK_FALSE(t.breaks_norm_floor(zeta, h));
      // T = w_N + kappa_H r_H under any division, and r_H in [0, 1].
      CHECK(t.envelope() ==
            doctest::Approx(t.low_response() + t.high_slope() * t.norm_share()).epsilon(1e-14));
      CHECK(t.norm_share() >= 0);
      CHECK(t.norm_share() <= 1);
      most = std::max(most, (zeta / t.envelope() - 1) / response_rounding(h));
      if (!t.has_floor()) continue;
      const double slack = norm_floor_rounding(h) * t.envelope() / t.high_slope();
      most_floor = std::max(most_floor, (t.norm_floor(zeta) - t.norm_share()) / slack);
    }
  }
  MESSAGE("share of the rounding bound used: " << most << " of zeta <= T, " << most_floor
                                               << " of f_pos <= r_H");
  CHECK(most > 0);  // rounding does carry extremal vectors beyond T, and the bound is what forgives it
  CHECK(most < 1);
  CHECK(most_floor < 1);
}

TEST_CASE("envelope: extremal vectors reach it, and a smaller envelope is seen to be broken") {
  for (const EnvelopeCase& c : envelope_cases()) {
    CAPTURE(c.name);
    const std::size_t h = c.omega.size(), extremal = extremal_vectors(c.omega, c.window).size();
    const Computed computed = compute(c);
    for (std::size_t v = c.vectors.size() - extremal; v < c.vectors.size(); ++v) {
      CAPTURE(v);
      EnvelopeTerms t = computed.terms[v];
      const double zeta = computed.zeta[v], bound = response_rounding(h);
      // Phases are stored to 2^-53, so that zeta falls short of T by a square of that.
      CHECK(zeta >= t.envelope() * (1 - bound));
      if (t.has_floor()) {
        CHECK(t.norm_floor(zeta) >= t.norm_share() - norm_floor_rounding(h) * t.envelope() / t.high_slope());
      }
      t.low_step *= 1 - 3 * bound;
      t.high_step *= 1 - 3 * bound;
      CHECK(t.breaks_envelope(zeta, h));
    }
  }
}

TEST_CASE("envelope: a norm floor above the share is seen, NaN breaks everything") {
  EnvelopeTerms t;
  t.norm = 2;
  t.high_norm = 1;
  t.low_step = 0.5;
  t.high_step = 1.5;
  CHECK(t.norm_share() == 0.5);
  CHECK(t.low_response() == 0.25);
  CHECK(t.high_slope() == 1.5);
  CHECK(t.envelope() == 1.0);
  CHECK(t.norm_floor(1.0) == 0.5);
  CHECK(t.norm_floor(0.2) == 0.0);
  for (const std::size_t h : {1, 64, 512}) {
    CHECK_FALSE(t.breaks_envelope(1.0, h));
    CHECK_FALSE(t.breaks_norm_floor(1.0, h));
    CHECK_FALSE(t.breaks_envelope(1.0 + 0.9 * response_rounding(h), h));
    CHECK(t.breaks_envelope(1.0 + 1.1 * response_rounding(h), h));
    CHECK(t.breaks_norm_floor(1.0 + 1.1 * norm_floor_rounding(h), h));
    CHECK_FALSE(t.breaks_norm_floor(1.0 + 0.9 * norm_floor_rounding(h), h));
    CHECK(t.breaks_envelope(std::nan(""), h));
    CHECK(t.breaks_norm_floor(std::nan(""), h));
  }
  t.high_norm = t.high_step = 0;
  CHECK_FALSE(t.has_floor());
  CHECK(t.high_slope() == 0.0);
  CHECK_FALSE(t.breaks_norm_floor(100.0, 4));  // f_pos does not exist
  // The bounds that the header derives, from its constants.
  CHECK(response_rounding(32) == 84 * 0x1p-53);
  CHECK(norm_floor_rounding(32) == 126 * 0x1p-53);
}

TEST_CASE("envelope: R_F of theory §10 is the norm of the response factors") {
  const auto norm = [](const std::vector<double>& f) {
    return std::sqrt(std::inner_product(f.begin(), f.end(), f.begin(), 0.0));
  };
  CHECK(norm(response_factors(geometric_grid(1e6, 64))) == doctest::Approx(1.64675).epsilon(4e-6));
}

TEST_CASE("envelope: size does not matter, zero lanes have norm 0") {
  const auto omega = geometric_grid(1e5, 16);
  std::vector<char> high(16, 0);
  std::fill_n(high.begin(), 6, char{1});
  std::vector<reference::Vector> vectors = make_vectors(5, 16, Spread::kWhite, 1.0, 3);
  const auto terms_of = [&](double factor) {
    CoefficientBatch batch = make_batch(vectors, 16);
    for (auto* values : {&batch.re, &batch.im})
      for (double& x : *values) x *= factor;
    scale_lanes(batch);
    for (const double c : batch.constant) CHECK(c == 0);
    return envelope_terms(batch, response_factors(omega), high);
  };
  const auto plain = terms_of(1.0);
  for (const double factor : {0x1p-900, 0x1p-40, 0x1p+900}) {
    const auto scaled = terms_of(factor);
    for (std::size_t v = 0; v < plain.size(); ++v) {
      CHECK(scaled[v].envelope() == plain[v].envelope());
      CHECK(scaled[v].norm_share() == plain[v].norm_share());
      CHECK(scaled[v].high_slope() == plain[v].high_slope());
    }
  }
  vectors.assign(1, {});
  vectors[0].z.resize(16);
  CHECK(terms_of(1.0)[0].norm == 0);
}

TEST_CASE("exact response: a lane's bytes depend on that lane alone; nearly the fast sweep's value") {
  const auto omega = geometric_grid(1e6, 64);
  const auto vectors = make_vectors(21, 64, Spread::kWhite, 1.0, 12);
  const auto batch = make_batch(vectors, 64);
  const ExactResponse exact(omega, 3000);
  std::vector<std::size_t> all(vectors.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto together = exact.largest(batch, all);
  for (const std::size_t p : {std::size_t{0}, std::size_t{7}, std::size_t{20}}) {
    const std::size_t one[] = {p};
    CHECK(exact.largest(batch, one)[0] == together[p]);
  }
  CHECK(exact.largest(batch, {}).empty());
  SweepRequest request;
  request.response_max = true;
  SweepResult fast;
  sweep_cpu(SweepPlan(omega, 3000), batch, request, fast);
  CHECK_COMPARISON(compare_relative("fast sweep", fast.response_max, together, 1e-5));
  CHECK_THROWS_AS(ExactResponse(omega, 1), std::logic_error);
}

TEST_CASE("exact response: far positions keep their phase") {
  // One pair: the step at m is -gamma sin((m + 1/2) omega + phase); the window's last step is the largest.
  for (const std::int64_t window : {std::int64_t{1} << 20, (std::int64_t{1} << 20) + 77}) {
    const std::vector<double> omega{2e-6};
    auto v = aligned_steps(omega, {1.0}, window - 2);
    const auto batch = make_batch({v}, 1);
    const std::size_t one[] = {0};
    const double top = ExactResponse(omega, window).largest(batch, one)[0];
    CHECK(top == doctest::Approx(2 * std::sin(1e-6)).epsilon(1e-14));
    // One distance fewer misses the top by (omega^2)/2 only: not seen; half the window is.
    CHECK(ExactResponse(omega, window / 2).largest(batch, one)[0] < 0.9 * top);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "reference/direct.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "reference/direct_sums.hpp"

namespace rope::test {
namespace {

using reference::HeadInput;

/// One query, two keys, one pair of frequency `omega`: every figure can be worked out by hand.
HeadInput tiny(double omega, std::int64_t window) {
  HeadInput in;
  in.omega = {omega};
  in.high = {1};
  in.window = window;
  in.query.rows = {{1.0, 0.0}};
  in.query.position = {5};
  in.key.rows = {{2.0, 0.0}, {0.0, 1.0}};
  in.key.position = {5, 3};
  return in;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("reference: a head worked out by hand") {
  // z = 2 and -i: S = 2 cos(m pi/2) = 2, 0, -2, 0 and sin(m pi/2) = 0, 1, 0, -1.
  const auto r = reference::score_head(tiny(std::numbers::pi / 2, 4));
  CHECK(r.pairs == 2);
  CHECK(r.triplets == 1);
  CHECK(r.ties == 0);
  CHECK(r.positional == doctest::Approx(1.0).epsilon(1e-14));  // |steps| 2, 2, 2 over U = 2; 1, 1, 1 over 1
  CHECK(r.response_max == doctest::Approx(1.0).epsilon(1e-14));
  CHECK(r.norm_share == 1.0);
  CHECK(r.high_pairs == 1);
  // D = 2 cos - sin: 2, -1, -2, 1: mean 0, two of four reversed.
  CHECK(r.semantic == doctest::Approx(0.5).epsilon(1e-12));
  CHECK(r.exact_semantic == 0.5);
  CHECK(r.reversal_gap < 1e-12);
  // Own distances 0 and 2: |Re 2| and |sin(pi)|.
  CHECK(r.usage[0] == doctest::Approx(1.0).epsilon(1e-14));
  CHECK(r.usage_norm[0] == doctest::Approx(1.5).epsilon(1e-14));
  CHECK(r.usage_cov == 0.0);
  CHECK(r.frequency_mass == doctest::Approx(std::numbers::pi / 2).epsilon(1e-14));
  const double e = std::exp(2.0), f = std::exp(-2.0), g = std::exp(1.0), k = std::exp(-1.0);
  const double first = (e + f + 2) * (e + f + 2) / (e * e + f * f + 2);
  const double second = (g + k + 2) * (g + k + 2) / (g * g + k * k + 2);
  CHECK(r.effective_length == doctest::Approx((first + second) / 2).epsilon(1e-13));
}

TEST_CASE("reference: post rows are turned back, and what is left out is counted") {
  HeadInput in = tiny(0.3, 50);
  const auto plain = reference::score_head(in);
  in.key.post = true;
  for (std::size_t t = 0; t < 2; ++t) {
    const double angle = 0.3 * static_cast<double>(in.key.position[t]);
    const double a = in.key.rows[t][0], b = in.key.rows[t][1];
    in.key.rows[t] = {a * std::cos(angle) - b * std::sin(angle), a * std::sin(angle) + b * std::cos(angle)};
  }
  const auto turned = reference::score_head(in);
  CHECK(turned.semantic == doctest::Approx(plain.semantic).epsilon(1e-13));
  CHECK(turned.positional == doctest::Approx(plain.positional).epsilon(1e-13));
  CHECK(turned.usage[0] == doctest::Approx(plain.usage[0]).epsilon(1e-13));

  in = tiny(0.3, 50);
  in.key.rows[1] = in.key.rows[0];
  CHECK(reference::score_head(in).ties == 1);
  CHECK(std::isnan(reference::score_head(in).semantic));
  in.key.rows[1] = {0.0, 0.0};
  CHECK(reference::score_head(in).undefined_triplets == 1);
  CHECK(reference::score_head(in).undefined_pairs == 1);
  in.key.rows[1] = {HUGE_VAL, 0.0};
  CHECK(reference::score_head(in).non_finite_triplets == 1);
  CHECK(reference::score_head(in).non_finite_pairs == 1);
}

TEST_CASE("reference: float16 rounding") {
  CHECK(reference::to_float16(1.0 + 0x1p-11) == 1.0);               // tie to even
  CHECK(reference::to_float16(1.0 + 3 * 0x1p-11) == 1.0 + 0x1p-9);  // tie to even, upwards
  CHECK(reference::to_float16(1.0 + 0x1p-11 + 0x1p-40) == 1.0 + 0x1p-10);
  CHECK(reference::to_float16(0x1p-25) == 0.0);
  CHECK(reference::to_float16(1.5 * 0x1p-24) == 0x1p-23);
  CHECK(reference::to_float16(65519.0) == 65504.0);
  CHECK(reference::to_float16(-65520.0) == -HUGE_VAL);
}

TEST_CASE("reference: bfloat16 rounding") {
  CHECK(reference::to_bfloat16(1.0 + 0x1p-8) == 1.0);               // tie to even
  CHECK(reference::to_bfloat16(1.0 + 3 * 0x1p-8) == 1.0 + 0x1p-6);  // tie to even, upwards
  CHECK(reference::to_bfloat16(1.0 + 0x1p-8 + 0x1p-40) == 1.0 + 0x1p-7);
  CHECK(reference::to_bfloat16(0x1p-134) == 0.0);
  CHECK(reference::to_bfloat16(1.5 * 0x1p-133) == 0x1p-132);
  CHECK(std::isinf(reference::to_bfloat16(0x1.ffp127)));
  CHECK(reference::to_bfloat16(0x1.fep127) == 0x1.fep127);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

#include "spectral/frequency_grid.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "support/compare.hpp"

// Check values of ../shared/reference/rope_types.md, printed there with 12 digits at most.

using rope::spectral::FrequencyGrid;
using rope::spectral::make_frequency_grid;
using rope::spectral::RopeParameters;
using rope::spectral::RopeType;

namespace {

RopeParameters plain(int head_dim, double theta, RopeType type = RopeType::kDefault) {
  RopeParameters p;
  p.type = type;
  p.theta = theta;
  p.head_dim = p.rotary_dim = head_dim;
  return p;
}

/// `digits` significant digits of the expected value are known.
void check_value(double value, double expected, int digits = 12) {
  INFO("value " << value << ", expected " << expected);
  CHECK(std::abs(value - expected) <= 0.51 * std::pow(10.0, 1 - digits) * std::abs(expected) + 1e-300);
}

void check_pairs(const RopeParameters& p, std::int64_t length,
                 std::initializer_list<std::pair<std::size_t, double>> expected, int digits = 12) {
  const FrequencyGrid grid = make_frequency_grid(p, length);
  for (const auto& [pair, omega] : expected) {
    CAPTURE(pair);
    REQUIRE(pair < grid.omega.size());
    check_value(grid.omega[pair], omega, digits);
  }
}

double attention_factor(const RopeParameters& p, std::int64_t length = 2) {
  return make_frequency_grid(p, length).attention_factor;
}

RopeParameters yarn(int r, double theta, double factor, double original) {
  RopeParameters p = plain(r, theta, RopeType::kYarn);
  p.factor = factor;
  p.original_max_position = original;
  p.max_position = factor * original;
  return p;
}

}  // namespace

TEST_SUITE_BEGIN("spectral");

TEST_CASE("frequency grid: default") {
  check_pairs(plain(128, 1e4), 2, {{0, 1.0}, {1, 0.86596432336}, {32, 0.01}, {63, 1.15478198469e-4}});
  check_pairs(plain(128, 5e5), 2, {{1, 0.814617233857}, {32, 1.41421356237e-3}, {63, 2.45514079113e-6}});
  RopeParameters phi2 = plain(80, 1e4);
  phi2.rotary_dim = 32;
  check_pairs(phi2, 2, {{1, 0.56234132519}, {8, 0.01}, {15, 1.77827941004e-4}});
  const FrequencyGrid grid = make_frequency_grid(phi2, 2);
  CHECK(grid.omega.size() == 16);
  CHECK(grid.rotary_dim() == 32);
  CHECK(grid.attention_factor == 1.0);
  check_value(grid.rho, std::pow(1e4, -2.0 / 32.0), 15);
}

TEST_CASE("frequency grid: an odd partial width rounds up, its exponent does not") {
  RopeParameters p = plain(64, 1e4);
  p.rotary_dim = 21;
  const FrequencyGrid grid = make_frequency_grid(p, 2);
  REQUIRE(grid.omega.size() == 11);
  CHECK(grid.omega[10] == doctest::Approx(std::pow(1e4, -20.0 / 21.0)).epsilon(1e-14));
  CHECK(grid.rho == doctest::Approx(std::pow(1e4, -2.0 / 21.0)).epsilon(1e-14));
  p = plain(21, 1e4);
  CHECK_THROWS_AS(make_frequency_grid(p, 2), std::invalid_argument);
}

TEST_CASE("frequency grid: linear") {
  RopeParameters p = plain(256, 1e6, RopeType::kLinear);
  p.factor = 8.0;
  check_pairs(p, 2, {{0, 0.125}, {1, 0.112210891556}, {64, 1.25e-4}, {127, 1.39246732499e-7}});
  p = plain(128, 1e4, RopeType::kLinear);
  p.factor = 4.0;
  check_pairs(p, 2, {{0, 0.25}, {1, 0.21649108084}, {63, 2.88695496172e-5}});
  p.factor = 1.0;
  CHECK(make_frequency_grid(p, 2).omega == make_frequency_grid(plain(128, 1e4), 2).omega);
  CHECK(make_frequency_grid(p, 2).attention_factor == 1.0);
}

TEST_CASE("frequency grid: dynamic follows the length beyond max_position") {
  RopeParameters p = plain(128, 1e4, RopeType::kDynamic);
  p.factor = 2.0;
  p.max_position = 4096;
  CHECK(rope::spectral::depends_on_length(p));
  check_pairs(p, 100, {{1, 0.86596432336}, {32, 0.01}, {63, 1.15478198469e-4}});
  check_pairs(p, 4096, {{1, 0.86596432336}, {32, 0.01}, {63, 1.15478198469e-4}});
  check_pairs(p, 8192, {{1, 0.850994291341}, {32, 5.72338150838e-3}, {63, 3.8492732823e-5}});
  check_pairs(p, 16384, {{1, 0.839625742564}, {32, 3.72172134021e-3}, {63, 1.64968854956e-5}});
  // rho stays that of the unscaled base (theory §5).
  check_value(make_frequency_grid(p, 16384).rho, std::pow(1e4, -1.0 / 64.0), 15);
  p.factor = 4.0;
  p.max_position = 2048;
  check_pairs(p, 8192, {{1, 0.831415964685}, {32, 2.71761232561e-3}, {63, 8.88293834377e-6}});
  check_value(std::pow(make_frequency_grid(p, 8192).omega[1], -64.0), 135401.973042, 11);

  RopeParameters narrow = p;
  narrow.rotary_dim = 2;
  CHECK_THROWS_WITH_AS(make_frequency_grid(narrow, 2), doctest::Contains("rotary width"),
                       std::invalid_argument);
}

TEST_CASE("frequency grid: HunYuan's alpha is independent of the length and of factor") {
  RopeParameters p = plain(128, 1e4, RopeType::kDynamic);
  p.dynamic_alpha = 1000.0;
  CHECK_FALSE(rope::spectral::depends_on_length(p));
  const FrequencyGrid grid = make_frequency_grid(p, 1 << 20);
  check_value(std::pow(grid.omega[1], -64.0), 11158839.9251, 11);
  CHECK(grid.omega == make_frequency_grid(p, 2).omega);
}

TEST_CASE("frequency grid: yarn") {
  RopeParameters qwen = yarn(128, 1e6, 4.0, 32768);
  check_pairs(qwen, 2, {{16, 3.16227766017e-2}, {31, 8.02959727545e-4}, {63, 3.10234440188e-7}});
  check_value(attention_factor(qwen), 1.13862943611);
  check_value(std::pow(attention_factor(qwen), 2), 1.29647699278);
  check_value(make_frequency_grid(qwen, 2).rho, std::pow(1e6, -1.0 / 64.0), 15);

  RopeParameters gpt_oss = yarn(64, 150000, 32.0, 4096);
  gpt_oss.truncate = false;
  check_pairs(gpt_oss, 2, {{8, 5.08132748155e-2}, {15, 1.05260210139e-3}, {17, 1.29318701245e-4}});
  check_value(attention_factor(gpt_oss), 1.34657359028);
  gpt_oss.truncate = true;
  check_pairs(gpt_oss, 2, {{15, 1.20613096904e-3}, {17, 2.27947795795e-4}});

  RopeParameters v3 = yarn(64, 1e4, 40.0, 4096);
  v3.mscale = v3.mscale_all_dim = 1.0;
  check_pairs(v3, 2, {{8, 0.1}, {16, 5.5e-3}, {31, 3.33380358041e-6}});
  CHECK(attention_factor(v3) == 1.0);
  v3.mscale_all_dim = 0.707;
  check_value(attention_factor(v3), 1.08572639926);
  v3.mscale = 0.707;
  v3.mscale_all_dim = 0.0;
  check_value(attention_factor(v3), 1.36888794541);
  v3.mscale_all_dim.reset();
  check_value(attention_factor(v3), 1.36888794541);
  v3.attention_factor = 1.25;
  CHECK(attention_factor(v3) == 1.25);

  RopeParameters kimi = yarn(64, 5e4, 64.0, 4096);
  kimi.mscale = kimi.mscale_all_dim = 1.0;
  check_pairs(kimi, 2, {{15, 2.670203391e-3}}, 10);
  check_pairs(kimi, 2, {{31, 4.38220645579e-7}});
  CHECK(attention_factor(kimi) == 1.0);

  RopeParameters ministral = yarn(128, 1e6, 16.0, 16384);
  check_pairs(ministral, 2, {{31, 4.88163016178e-4}, {63, 7.7558610047e-8}}, 11);

  RopeParameters olmo = yarn(128, 5e5, 8.0, 8192);
  check_pairs(olmo, 2, {{31, 5.74427217632e-4}, {63, 3.06892598891e-7}});
  check_value(attention_factor(olmo), 1.20794415417);
}

TEST_CASE("frequency grid: yarn at its edges") {
  // Both ends of the ramp below 0: index 0 keeps its frequency, the rest is stretched.
  const RopeParameters degenerate = yarn(8, 1e4, 4.0, 6);
  const FrequencyGrid grid = make_frequency_grid(degenerate, 2);
  const std::vector<double> expected = {1.0, 0.025, 0.0025, 0.00025};
  CHECK_COMPARISON(rope::test::compare_relative("degenerate yarn", grid.omega, expected, 1e-14));
  check_value(grid.attention_factor, 1.13862943611);

  // The factor follows from the positions where it is not given; f <= 1 leaves A at 1 but divides.
  RopeParameters derived = yarn(128, 1e6, 4.0, 32768);
  const std::vector<double> given = make_frequency_grid(derived, 2).omega;
  derived.factor.reset();
  CHECK(make_frequency_grid(derived, 2).omega == given);
  derived.factor = 0.5;
  CHECK(attention_factor(derived) == 1.0);
  CHECK(make_frequency_grid(derived, 2).omega[63] == doctest::Approx(2 * std::pow(1e6, -126.0 / 128.0)));

  // Shorter than one slow turn: the upper end stays negative and nothing is scaled.
  const RopeParameters shorter = yarn(64, 1e4, 4.0, 1.0);
  const FrequencyGrid unscaled = make_frequency_grid(shorter, 2);
  CHECK(unscaled.omega == make_frequency_grid(plain(64, 1e4), 2).omega);
}

TEST_CASE("frequency grid: longrope") {
  RopeParameters p = plain(128, 1e4, RopeType::kLongrope);
  p.rotary_dim = 96;
  p.max_position = 131072;
  p.original_max_position = 4096;
  p.short_factor.assign(48, 1.0);
  for (int i = 0; i < 48; ++i) p.long_factor.push_back(1.0 + i);
  CHECK(rope::spectral::depends_on_length(p));
  check_pairs(p, 4096, {{1, 0.825404185268}, {24, 0.01}, {47, 1.21152765863e-4}});
  check_pairs(p, 4097, {{1, 0.412702092634}, {24, 4.0e-4}, {47, 2.52401595548e-6}});
  check_value(attention_factor(p, 4096), 1.19023807142);
  check_value(attention_factor(p, 4097), 1.19023807142);
  check_value(std::pow(attention_factor(p), 2), 1.41666666667);
  p.factor = 4.0;
  check_value(attention_factor(p), 1.08012344973);
  p.factor = 1.0;
  CHECK(attention_factor(p) == 1.0);
  p.attention_factor = 1.5;
  CHECK(attention_factor(p) == 1.5);
  p.long_factor = p.short_factor;
  CHECK_FALSE(rope::spectral::depends_on_length(p));
  p.short_factor.pop_back();
  CHECK_THROWS_WITH_AS(make_frequency_grid(p, 2), doctest::Contains("short_factor"), std::invalid_argument);
}

TEST_CASE("frequency grid: llama3") {
  RopeParameters p = plain(128, 5e5, RopeType::kLlama3);
  p.factor = 8.0;
  p.low_freq_factor = 1.0;
  p.high_freq_factor = 4.0;
  p.original_max_position = 8192;
  check_pairs(p, 2,
              {{28, 3.21144599475e-3},
               {32, 5.24846160993e-4},
               {34, 1.78507812768e-4},
               {35, 9.55621235396e-5},
               {63, 3.06892598891e-7}});
  check_pairs(p, 2, {{29, 2.1665707635e-3}}, 11);
  const std::vector<double> divisors = {1, 1.207484, 1.553415, 2.026313, 2.69453, 3.684253, 5.257327};
  const std::vector<double> unscaled = make_frequency_grid(plain(128, 5e5), 2).omega;
  const std::vector<double> omega = make_frequency_grid(p, 2).omega;
  for (std::size_t i = 0; i < divisors.size(); ++i)
    check_value(unscaled[28 + i] / omega[28 + i], divisors[i], 6);
  for (std::size_t i = 35; i < 64; ++i) check_value(unscaled[i] / omega[i], 8.0, 15);

  p.head_dim = p.rotary_dim = 64;
  p.factor = 32.0;
  check_pairs(p, 2,
              {{14, 3.21144599475e-3},
               {15, 1.29054792821e-3},
               {16, 4.29556796559e-4},
               {17, 9.70828780263e-5},
               {18, 1.94616381848e-5},
               {31, 9.41830672543e-8}});
  p.high_freq_factor = 1.0;
  CHECK_THROWS_WITH_AS(make_frequency_grid(p, 2), doctest::Contains("high_freq_factor"),
                       std::invalid_argument);
}

TEST_CASE("frequency grid: proportional pairs over the whole head") {
  RopeParameters p = plain(512, 1e6, RopeType::kProportional);
  p.partial_factor = 0.25;
  check_pairs(p, 2, {{1, 0.947463525655}, {63, 3.33762469429e-2}});
  const FrequencyGrid grid = make_frequency_grid(p, 2);
  CHECK(grid.omega.size() == 256);
  for (std::size_t i = 64; i < 256; ++i) CHECK(grid.omega[i] == 0.0);
  check_value(grid.rho, std::pow(1e6, -2.0 / 512.0), 15);
  p.factor = 8.0;
  check_pairs(p, 2, {{0, 0.125}, {1, 0.118432940707}, {63, 4.17203086787e-3}});
  p = plain(256, 1e6, RopeType::kProportional);
  p.partial_factor = 0.3;
  check_pairs(p, 2, {{1, 0.897687132447}, {37, 1.84342299241e-2}});
  CHECK(make_frequency_grid(p, 2).omega[38] == 0.0);
  p = plain(96, 1e4, RopeType::kProportional);
  p.partial_factor = 0.1;
  CHECK(make_frequency_grid(p, 2).omega[3] > 0.0);
  CHECK(make_frequency_grid(p, 2).omega[4] == 0.0);
  // Contrast: a partial factor under `default` has another denominator.
  RopeParameters contrast = plain(512, 1e6);
  contrast.rotary_dim = 128;
  check_pairs(contrast, 2, {{1, 0.805842187761}, {63, 1.24093776075e-6}});
}

TEST_CASE("frequency grid: what cannot be a grid is refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double theta : {0.0, -1.0, 1.0, nan, std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH_AS(make_frequency_grid(plain(64, theta), 2), doctest::Contains("rope_theta"),
                         std::invalid_argument);
  RopeParameters p = plain(64, 1e4, RopeType::kLinear);
  CHECK_THROWS_WITH_AS(make_frequency_grid(p, 2), doctest::Contains("factor"), std::invalid_argument);
  for (const double factor : {0.0, -2.0, nan, 0.1}) {  // 0.1 would turn pair 0 by 10 radians
    p.factor = factor;
    CHECK_THROWS_AS(make_frequency_grid(p, 2), std::invalid_argument);
  }
  p = plain(64, 1e4);
  p.rotary_dim = 66;
  CHECK_THROWS_AS(make_frequency_grid(p, 2), std::invalid_argument);
  p.rotary_dim = 0;
  CHECK_THROWS_AS(make_frequency_grid(p, 2), std::invalid_argument);
}

TEST_SUITE_END();

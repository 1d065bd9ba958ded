#include "spectral/band_split.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "spectral/sweep_cases.hpp"
#include "spectral/window_moments.hpp"

namespace rope::test {
namespace {

using namespace spectral;
constexpr double kTwoPi = 2 * std::numbers::pi;

/// Llama-3.1's grid, from its published rule: base 5e5, factor 8, low 1, high 4, original length 8192.
std::vector<double> llama_grid() {
  std::vector<double> omega = geometric_grid(5e5, 64);
  for (double& w : omega) {
    const double periods = 8192 * w / kTwoPi;  // in the original length
    if (periods < 1) {
      w /= 8;
    } else if (periods <= 4) {
      const double smooth = (periods - 1) / 3;
      w = (1 - smooth) * w / 8 + smooth * w;
    }
  }
  return omega;
}

std::int64_t size_of(const char* split, const std::vector<double>& omega, double rho, std::int64_t window) {
  const auto mask = high_frequency_mask(parse_split(split), omega, rho, window);
  return std::count(mask.begin(), mask.end(), 1);
}

std::string refusal(const char* text) {
  try {
    parse_split(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("split: the sizes of theory §5") {
  const auto qwen = geometric_grid(1e6, 64), llama = llama_grid();
  const double rho_qwen = std::pow(1e6, -1.0 / 64), rho_llama = std::pow(5e5, -1.0 / 64);
  const std::int64_t windows[] = {8192, 32768, 131072};
  const struct {
    const char* split;
    std::int64_t qwen[3], llama[3];
  } rows[] = {{"operational", {34, 40, 47}, {32, 34, 39}}, {"intervention", {35, 41, 47}, {32, 35, 40}}};
  for (const auto& row : rows) {
    for (int i = 0; i < 3; ++i) {
      CAPTURE(row.split);
      CAPTURE(windows[i]);
      CHECK(size_of(row.split, qwen, rho_qwen, windows[i]) == row.qwen[i]);
      CHECK(size_of(row.split, llama, rho_llama, windows[i]) == row.llama[i]);
    }
  }
  CHECK(size_of("certified", qwen, rho_qwen, 32768) == 8);
  CHECK(size_of("separation", llama, rho_llama, 32768) == 9);
  CHECK(size_of("custom:0.06,0.1", qwen, rho_qwen, 8192) == 34);
  // Certified sets are empty at short windows (theory §8): SmolLM2, base 1e5, h = 32, needs M >= 4159.
  const auto smol = geometric_grid(1e5, 32);
  CHECK(size_of("certified", smol, std::pow(1e5, -1.0 / 32), 4158) == 0);
  CHECK(size_of("certified", smol, std::pow(1e5, -1.0 / 32), 4159) == 1);
}

TEST_CASE("split: thresholds, prefixes, zeros and ties") {
  const std::vector<double> omega{0.0, 0.5, 1.0, 0.5, 0.0, 0.01};
  const auto mask = [&](const char* split) {
    return high_frequency_mask(parse_split(split), omega, 0.5, 100);
  };
  CHECK(mask("omega:0.5") == std::vector<char>{0, 1, 1, 1, 0, 0});
  CHECK(mask("omega:0") == std::vector<char>{0, 1, 1, 1, 0, 1});
  CHECK(mask("prefix:0") == std::vector<char>(6, 0));
  CHECK(mask("prefix:2") == std::vector<char>{0, 1, 1, 0, 0, 0});  // ties by index
  CHECK(mask("prefix:99") == std::vector<char>{0, 1, 1, 1, 0, 1});
  CHECK(mask("periods:0.1") == std::vector<char>{0, 1, 1, 1, 0, 1});
  CHECK(mask("periods:1") == std::vector<char>{0, 1, 1, 1, 0, 0});
  CHECK(mask("custom:0.5,0.04") == std::vector<char>{0, 1, 1, 1, 0, 0});  // gamma = 50
  // Equal frequencies have distance 0: the prefix ends before the second of them.
  CHECK(mask("separation:1,0.9") == std::vector<char>{0, 1, 1, 0, 0, 0});
  // pi and -pi are the same frequency.
  CHECK(high_frequency_mask(parse_split("separation"), std::vector<double>{std::numbers::pi}, 0.5, 1 << 24) ==
        std::vector<char>{0});
  CHECK(high_frequency_mask(parse_split("operational"), std::vector<double>{}, 0.5, 100).empty());
}

TEST_CASE("split: spelling") {
  for (const char* name : {"operational", "intervention", "certified", "separation", "separation:0.05,0.2",
                           "custom:0.05,0.2", "omega:0.001", "periods:3", "prefix:12"}) {
    CHECK(parse_split(name).name() == name);
  }
  CHECK(parse_split("custom:1e-3,.5").name() == "custom:0.001,0.5");
  for (const char* wrong : {"",
                            "Operational",
                            "operational:1",
                            "custom",
                            "custom:",
                            "custom:1",
                            "custom:0,0.1",
                            "custom:1,0",
                            "custom:1,1",
                            "custom:1,0.5,2",
                            "custom:nan,0.5",
                            "custom:1,inf",
                            "custom:0x1,0.5",
                            "custom:1 ,0.5",
                            "omega",
                            "omega:",
                            "omega:-1",
                            "omega:x",
                            "omega:1e999",
                            "periods:-0.5",
                            "periods:inf",
                            "prefix:-1",
                            "prefix:1.5",
                            "prefix:",
                            "prefix:99999999999999999999",
                            "prefix:3x",
                            "separation:1"}) {
    CAPTURE(wrong);
    CHECK(refusal(wrong) == "unknown split \"" + std::string(wrong) +
                                "\"; valid are operational, intervention, certified, separation, "
                                "separation:C,EPSILON, custom:C,EPSILON, omega:X, periods:X and prefix:K "
                                "(C > 0, 0 < EPSILON < 1, X >= 0, K a whole number >= 0)");
  }
}

TEST_CASE("split: geometric grids are told from others") {
  CHECK(is_geometric(geometric_grid(1e6, 64)));
  CHECK(is_geometric(std::vector<double>{1.0, 0.5, 0.25, 0.0, 0.0}));
  CHECK(is_geometric(std::vector<double>{0.25, 0.5, 1.0}));
  CHECK_FALSE(is_geometric(llama_grid()));
  CHECK_FALSE(is_geometric(std::vector<double>{1.0, 0.5, 0.3}));
  CHECK_FALSE(is_geometric(std::vector<double>{0.5, 0.5, 0.5}));
  CHECK_FALSE(is_geometric(std::vector<double>{3.0, 1.5}));
  std::vector<double> rounded = geometric_grid(1e6, 64);
  for (double& w : rounded) w = static_cast<float>(w);
  CHECK(is_geometric(rounded));
  CHECK(rho_of_grid(geometric_grid(1e6, 64)) == doctest::Approx(std::pow(1e6, -1.0 / 64)).epsilon(1e-14));
  CHECK(rho_of_grid(std::vector<double>{0.0, 1.0, 0.25, 0.5}) == doctest::Approx(0.5));
  CHECK(rho_of_grid(std::vector<double>{1.0, 0.0}) == 0.0);
}

/// Prop. 1 (theory §5): |mean| <= eps U and |Var - U^2/2| <= eps U^2 for every vector on the set.
void check_band(const std::vector<double>& omega, const std::vector<char>& mask, std::int64_t window,
                double eps) {
  std::vector<double> band;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (mask[n]) band.push_back(omega[n]);
  }
  REQUIRE(!band.empty());
  auto vectors = make_vectors(200, band.size(), Spread::kWhite, 1.0, 77);
  std::mt19937_64 random(78);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    vectors[v].constant = 0;
    // The second half: all phases meet at one distance, edge or centre, where the bound is nearest.
    const double centre =
        v % 4 == 0 ? 0.0 : (v % 4 == 1 ? 0.5 * static_cast<double>(window - 1) : 1000.0 * uniform(random));
    if (v < 100) continue;
    for (std::size_t n = 0; n < band.size(); ++n)
      vectors[v].z[n] = std::polar(v % 8 < 4 ? 1.0 : 1.0 / band[n], -centre * band[n]);
  }
  const auto batch = make_batch(vectors, band.size());
  std::vector<double> mean(200), variance(200), norm(200);
  WindowMoments(band, window).evaluate(batch, mean, variance);
  pair_norms(batch, norm);
  double worst = 0;
  for (std::size_t v = 0; v < 200; ++v) {
    worst = std::max(worst, std::abs(mean[v]) / norm[v]);
    worst = std::max(worst, std::abs(variance[v] / (norm[v] * norm[v]) - 0.5));
  }
  MESSAGE("Prop. 1 at M = " << window << ", " << band.size() << " pairs: " << 100 * worst / eps
                            << " % of epsilon");
  CHECK(worst <= eps);
  CHECK(worst > 0);
}

TEST_CASE("split: Prop. 1 holds on certified and separation sets") {
  const auto qwen = geometric_grid(1e6, 64);
  for (std::int64_t window : {32768, 131072}) {
    check_band(qwen, high_frequency_mask(parse_split("certified"), qwen, std::pow(1e6, -1.0 / 64), window),
               window, 0.01);
    check_band(llama_grid(), high_frequency_mask(parse_split("separation"), llama_grid(), 0.5, window),
               window, 0.01);
  }
  const std::vector<double> odd{0.9, 2.1, 0.31, 3.0, 1e-5};
  check_band(odd, high_frequency_mask(parse_split("separation"), odd, 0.5, 20000), 20000, 0.01);
}

TEST_CASE(
    "band split: equal frequencies (rho = 1) have an empty H, out-of-range rho is a bug of the caller") {
  const std::vector<double> omega(4, 0.5);
  CHECK(rope::spectral::rho_of_grid(omega) == 1.0);
  for (const char* split : {"operational", "intervention", "certified", "custom:1,0.1"}) {
    const auto mask =
        rope::spectral::high_frequency_mask(rope::spectral::parse_split(split), omega, 1.0, 1 << 20);
    CHECK(std::count(mask.begin(), mask.end(), char{1}) == 0);
    CHECK_THROWS_AS(rope::spectral::high_frequency_mask(rope::spectral::parse_split(split), omega, 1.5, 100),
                    std::logic_error);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

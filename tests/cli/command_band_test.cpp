#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reference/band.hpp"
#include "support/cache_vectors.hpp"
#include "support/compare.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

using Json = nlohmann::json;

Json band_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "band");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  Json json = Json::parse(result.out);
  check_schema("band", json);
  return json;
}

RandomCache small() {
  RandomCache sizes;
  sizes.type = ElementType::kFloat64;
  return sizes;
}

/// Sums over the margins, and standardised scores of the pairs, of chosen heads of all tasks and examples.
struct Expected {
  std::vector<double> variance, half_square;
  std::vector<std::vector<double>> scores;
};
Expected expected_of(const CacheSpec& cache, const std::vector<std::pair<int, int>>& heads,
                     std::int64_t window, std::size_t high) {
  const std::vector<double>& omega = cache.omega[0];
  Expected expected{std::vector<double>(omega.size()), std::vector<double>(omega.size()), {}};
  std::vector<int> pairs;
  for (std::size_t n = 0; n < high; ++n) pairs.push_back(static_cast<int>(n));
  for (const TaskSpec& task : cache.tasks)
    for (std::int64_t e = 0; e < std::ssize(task.window); ++e)
      for (const auto& [layer, head] : heads) {
        const std::int64_t m = window > 0 ? window : task.window[static_cast<std::size_t>(e)];
        const CacheVectors vectors = cache_vectors(task, e, layer, head);
        const auto sums = reference::band_sums(vectors.margins, omega, m);
        for (std::size_t k = 0; k < omega.size(); ++k) {
          expected.variance[k] += sums.variance[k];
          expected.half_square[k] += sums.half_square[k];
        }
        for (const auto& z : vectors.pairs)
          expected.scores.push_back(reference::standardised_scores(z, omega, pairs, m));
      }
  return expected;
}

void check_group(const Json& json, int group, const Expected& expected, const std::string& set) {
  std::vector<double> found, wanted;
  for (const Json& prefix : json["prefixes"]) {
    if (prefix["group"] != group) continue;
    const std::size_t k = prefix["size"].get<std::size_t>() - 1;
    found.push_back(prefix["r_var"]);
    wanted.push_back(expected.variance[k] / expected.half_square[k]);
    const double a = std::sqrt(wanted.back());
    CHECK(prefix["agreement"].get<double>() == doctest::Approx(std::max(0.0, 1 - std::abs(a - 1))));
    CHECK(prefix["ratio"].get<double>() == doctest::Approx(a));
  }
  CHECK(found.size() == expected.variance.size());
  CHECK_COMPARISON(compare_absolute("R_var", found, wanted, 1e-12));
  for (const Json& energy : json["energy_share"]) {
    if (energy["group"] != group) continue;
    const std::size_t k = energy["pair"];
    const double before = k > 0 ? expected.half_square[k - 1] : 0;
    CHECK(energy["share"].get<double>() ==
          doctest::Approx((expected.half_square[k] - before) / expected.half_square.back()).epsilon(1e-10));
  }
  const double exact = reference::kolmogorov_distance(expected.scores);
  int laws = 0;
  for (const Json& law : json["laws"]) {
    if (law["group"] != group || law["set"] != set) continue;
    ++laws;
    CHECK(law["vectors"] == std::ssize(expected.scores));
    const double distance = law["kolmogorov"], error = law["kolmogorov_error"];
    CHECK(std::abs(exact - distance) <= error);
    CHECK(error < 0.02);
  }
  CHECK(laws == 1);
  double sum = 0;
  int bins = 0;
  for (const Json& bin : json["score_law"]) {
    if (bin["group"] != group || bin["set"] != set) continue;
    double share = 0;
    for (const auto& one : expected.scores) {
      double inside = 0;
      for (const double x : one)
        inside += (bin["low"].is_null() || x >= bin["low"].get<double>()) &&
                  (bin["high"].is_null() || x < bin["high"].get<double>());
      share += inside / static_cast<double>(one.size()) / static_cast<double>(expected.scores.size());
    }
    CHECK(std::abs(bin["share"].get<double>() - share) < 1e-4);
    sum += bin["share"].get<double>();
    ++bins;
  }
  CHECK(bins == 34);
  CHECK(std::abs(sum - 1) < 1e-9);
}

std::vector<std::pair<int, int>> heads_of(std::vector<int> layers, std::vector<int> heads) {
  std::vector<std::pair<int, int>> list;
  for (const int layer : layers)
    for (const int head : heads) list.emplace_back(layer, head);
  return list;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("band: pooled, every margin and pair at its own window") {
  TempDir folder;
  const CacheSpec cache = random_cache(small());
  write_cache(folder / "c.h5", cache);
  const Json json = band_json({folder / "c.h5", "--prefix", "2"});
  REQUIRE(json["groups"].size() == 1);
  CHECK(json["groups"][0]["layers"] == "0,1");
  CHECK(json["groups"][0]["window_min"] == 200);
  CHECK(json["groups"][0]["window_max"] == 220);
  CHECK(json["groups"][0]["margins"] == 2 * 3 * 2 * 4 * 2 * 3);
  check_group(json, 0, expected_of(cache, heads_of({0, 1}, {0, 1, 2, 3}), 0, 2), "prefix:2");
}

TEST_CASE("band: per layer and per head, at windows of their own, each heads' vectors alone") {
  TempDir folder;
  const CacheSpec cache = random_cache(small());
  write_cache(folder / "c.h5", cache);
  const Json layers =
      band_json({folder / "c.h5", "--by", "layer", "--window", "64,150", "--split", "prefix:3"});
  REQUIRE(layers["groups"].size() == 4);
  for (int g = 0; g < 4; ++g) {
    CHECK(layers["groups"][g]["layer"] == g % 2);
    CHECK(layers["groups"][g]["window"] == (g < 2 ? 64 : 150));
    check_group(layers, g, expected_of(cache, heads_of({g % 2}, {0, 1, 2, 3}), g < 2 ? 64 : 150, 3), "H(M)");
  }
  const Json heads =
      band_json({folder / "c.h5", "--by", "head", "--heads", "0.1,1.3", "--split", "prefix:1"});
  REQUIRE(heads["groups"].size() == 2);
  CHECK(heads["groups"][1]["layer"] == 1);
  CHECK(heads["groups"][1]["head"] == 3);
  check_group(heads, 0, expected_of(cache, {{0, 1}}, 0, 1), "H(M)");
  check_group(heads, 1, expected_of(cache, {{1, 3}}, 0, 1), "H(M)");
}

TEST_CASE("band: where the agreement breaks is named") {
  TempDir folder;
  const CacheSpec cache = random_cache(small());
  write_cache(folder / "c.h5", cache);
  const Json json =
      band_json({folder / "c.h5", "--window", "100", "--threshold", "0.8", "--law-stride", "0"});
  const Expected expected = expected_of(cache, heads_of({0, 1}, {0, 1, 2, 3}), 100, 1);
  std::size_t k = 0;
  while (std::sqrt(expected.variance[k] / expected.half_square[k]) >= 0.8) ++k;
  REQUIRE(json["breaks"].size() == 1);
  CHECK(json["breaks"][0]["size"] == k + 1);
  CHECK(json["breaks"][0]["pair"] == k);
  CHECK(json["breaks"][0]["omega"] == cache.omega[0][k]);
  CHECK(json["breaks"][0]["turn_max"].get<double>() == doctest::Approx(100 * cache.omega[0][k]));
  CHECK(json["laws"].empty());
  const ProgramResult table =
      run_program({"band", folder / "c.h5", "--window", "100", "--threshold", "0.8", "--law-stride", "0"});
  CHECK(table.out.find("R falls below 0.8 at k = " + std::to_string(k + 1) + ": pair " + std::to_string(k)) !=
        std::string::npos);
}

TEST_CASE("band: grids are kept apart, and alike layers pooled by group") {
  TempDir folder;
  RandomCache sizes = small();
  sizes.num_layers = 3;
  CacheSpec cache = random_cache(sizes);
  cache.model.config = R"({"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 8192,
    "query_pre_attn_scalar": 16, "rope_theta": 10000.0, "rope_local_base_freq": 100.0, "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})";
  cache.omega.clear();
  write_cache(folder / "c.h5", cache);
  for (const char* by : {"pooled", "group"}) {
    const Json json = band_json({folder / "c.h5", "--by", by, "--law-stride", "0"});
    REQUIRE(json["groups"].size() == 2);
    CHECK(json["groups"][0]["layers"] == "0,2");
    CHECK(json["groups"][0]["window_max"] == 64);
    CHECK(json["groups"][1]["layers"] == "1");
    CHECK(json["groups"][1]["window_min"] == 200);
  }
  // Many groups: a line each.
  const ProgramResult lines = run_program({"band", folder / "c.h5", "--by", "head", "--law-stride", "7"});
  CHECK(lines.exit_code == 0);
  CHECK(lines.out.find("head 2.3") != std::string::npos);
  for (std::size_t at = 0; at < lines.out.size();) {
    const std::size_t end = lines.out.find('\n', at);
    CHECK(end - at <= 110);
    at = end + 1;
  }
}

TEST_CASE("band: a stride takes every so-manyth pair of a head") {
  TempDir folder;
  write_cache(folder / "c.h5", random_cache(small()));
  const Json json = band_json({folder / "c.h5", "--law-stride", "5", "--prefix", "3"});
  // Of 12 pairs of each of 8 heads in 6 examples, numbers 0, 5 and 10.
  CHECK(json["laws"][1]["vectors"] == 6 * 8 * 3);
  CHECK(json["laws"][1]["stride"] == 5);
}

TEST_CASE("band: neither threads nor the order of files change a byte") {
  TempDir folder;
  const CacheSpec whole = random_cache();
  CacheSpec a = whole, b = whole;
  a.tasks = {select_examples(whole.tasks[0], {0, 2}), whole.tasks[1]};
  b.tasks = {select_examples(whole.tasks[0], {1})};
  write_cache(folder / "a.h5", a);
  write_cache(folder / "b.h5", b);
  const auto run = [&](const char* first, const char* second, const char* threads) {
    const auto result = run_program({"band", folder / first, folder / second, "--json", "--by", "layer",
                                     "--prefix", "4", "--threads", threads});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string once = run("a.h5", "b.h5", "1");
  CHECK(once == run("b.h5", "a.h5", "1"));
  CHECK(once == run("a.h5", "b.h5", "3"));
}

TEST_CASE("band: an empty H, caches without triplets, and what is refused") {
  TempDir folder;
  write_cache(folder / "c.h5", random_cache(small()));
  const ProgramResult empty = run_program({"band", folder / "c.h5", "--split", "certified"});
  CHECK(empty.exit_code == 0);
  CHECK(empty.err.find("H(M) is empty under the split certified") != std::string::npos);
  CHECK(empty.out.find("no score law") != std::string::npos);
  const Json json = band_json({folder / "c.h5", "--split", "certified"});
  CHECK(json["laws"][0]["kolmogorov"].is_null());
  CHECK(json["score_law"].empty());

  RandomCache one = small();
  one.key_slots = 1;
  write_cache(folder / "one.h5", random_cache(one));
  const Json without = band_json({folder / "one.h5", "--split", "prefix:2"});
  CHECK(without["groups"][0]["margins"] == 0);
  CHECK(without["prefixes"].empty());
  CHECK(without["laws"][0]["vectors"] == 2 * 3 * 2 * 4 * 2);
  CHECK(run_program({"band", folder / "one.h5"}).err.find("no margins") != std::string::npos);

  const auto fails = [&](const std::vector<std::string>& more, int code,
                         const std::vector<std::string>& parts) {
    std::vector<std::string> arguments{"band", folder / "c.h5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    check_failure(run_program(arguments), code, parts);
  };
  fails({"--threshold", "0"}, 2, {"--threshold", "above 0"});
  fails({"--threshold", "nan"}, 2, {"--threshold"});
  fails({"--prefix", "0"}, 2, {"--prefix", "from 1 to 512"});
  fails({"--prefix", "1:17:1"}, 2, {"--prefix", "at most 16"});
  fails({"--window", "1"}, 2, {"--window", "from 2 to 16777216"});
  fails({"--window", "2:100:1"}, 2, {"--window", "at most 64"});
  fails({"--law-stride", "-1"}, 2, {"--law-stride"});
  fails({"--by", "file"}, 2, {"--by"});
  fails({"--heads", "9.9"}, 2, {"layer 9 head 9"});
  fails({"--split", "bad"}, 2, {"--split"});
  check_failure(run_program({"band"}), 2, {"FILE"});
  check_failure(run_program({"band", folder / "none.h5"}), 3, {"none.h5"});
}

TEST_SUITE_END();

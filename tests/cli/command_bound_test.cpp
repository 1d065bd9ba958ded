#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/digest.hpp"
#include "reference/context_bound.hpp"
#include "support/cache_writer.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

using Json = nlohmann::json;

Json bound_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bound");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  Json json = Json::parse(result.out);
  check_schema("bound", json);
  return json;
}

const std::vector<std::string> kQwen{"--theta", "1e6", "--head-dim", "128"};

std::vector<std::string> with(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

std::string write(const TempDir& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

constexpr const char* kLlama31 = R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
  "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
  "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})";

constexpr const char* kGemma = R"({"model_type": "gemma3_text", "hidden_size": 640, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 32768,
  "query_pre_attn_scalar": 256, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 512,
  "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]})";

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("bound: the oracles, from numbers and from a config") {
  TempDir folder;
  const Json qwen = bound_json(with(kQwen, {"--zeta", "1", "--window", "5e9:5.4e9:1e6"}));
  CHECK(std::abs(qwen["grids"][0]["response_limit"].get<double>() - 1.64675) < 5e-6);
  // The first positive floor lies near 5e9 tokens.
  const double first = qwen["first_excluded"], last = qwen["last_allowed"];
  CHECK(first == last + 1e6);
  CHECK(qwen["sufficient_window"].get<double>() <= first);
  CHECK(qwen["sufficient_window"].get<double>() > last);
  CHECK(qwen["delta_star"].get<double>() > 0.49);
  CHECK(qwen["delta_star"] == qwen["rows"].back()["p_floor"]);

  const std::string config = write(folder, "config.json", kLlama31);
  const Json llama = bound_json({"--config", config, "--zeta", "1"});
  CHECK(std::abs(llama["grids"][0]["response_limit"].get<double>() - 1.68155) < 5e-6);
  CHECK(llama["grids"][0]["geometric"] == false);
  CHECK(llama["grids"][0]["layers"] == "0,1");
  CHECK(llama["inputs"][0]["sha256"] == sha256_of_file(config));
  REQUIRE(llama["warnings"].size() == 1);
  CHECK(llama["warnings"][0].get<std::string>().find("proved for geometric grids") != std::string::npos);
}

TEST_CASE("bound: rows are the formulas, over the product of the lists") {
  const Json json =
      bound_json({"--theta", "1e4", "--pairs", "8", "--zeta", "0.01,0.5,1.01", "--tau", "0,0.05", "--delta",
                  "0.1,0.3", "--c", "0.06,1", "--epsilon", "0.1", "--window", "2:1e15:x10"});
  REQUIRE(json["rows"].size() == 3 * 2 * 2 * 15);
  REQUIRE(json["crossings"].size() == 3 * 2 * 2 * 2);
  CHECK(json["first_excluded"].is_null());
  CHECK(json["delta_star"].is_null());
  reference::ContextBound slow;
  for (int n = 0; n < 8; ++n) slow.omega.push_back(std::pow(1e4, -n / 8.0));
  slow.rho = std::pow(1e4, -1 / 8.0);
  slow.epsilon = 0.1;
  int positive = 0;
  for (const Json& row : json["rows"]) {
    slow.c = row["c"];
    const std::int64_t window = row["window"];
    const double zeta = row["zeta"], tau = row["tau"];
    const long double share = slow.response_floor(window, zeta);
    CHECK(row["k_n"] == slow.slow_pairs(window));
    CHECK(row["response_floor"].get<double>() == doctest::Approx(static_cast<double>(share)).epsilon(1e-12));
    CHECK(row["mean_bound"].get<double>() ==
          doctest::Approx(static_cast<double>(slow.mean_bound(row["k_n"], share))).epsilon(1e-9));
    CHECK(std::abs(row["deviation_floor"].get<double>() -
                   static_cast<double>(slow.deviation_floor(row["k_n"], share))) < 1e-9);
    CHECK(std::abs(row["p_floor"].get<double>() - static_cast<double>(slow.p_floor(window, zeta, tau))) <
          1e-9);
    positive += row["p_floor"] > 0;
  }
  CHECK(positive > 20);
  for (const Json& crossing : json["crossings"]) {
    slow.c = crossing["c"];
    const double zeta = crossing["zeta"], tau = crossing["tau"], delta = crossing["delta"];
    Json first = nullptr, last = nullptr;
    for (std::int64_t window = 2; window < 1'000'000'000'000'000; window *= 10) {
      if (slow.p_floor(window, zeta, tau) > delta) {
        if (first.is_null()) first = window;
      } else {
        last = window;
      }
    }
    CHECK(crossing["first_excluded"] == first);
    CHECK(crossing["last_allowed"] == last);
    CHECK(crossing["sufficient_window"] == slow.sufficient_window(zeta));
    CHECK(std::abs(crossing["delta_star"].get<double>() - static_cast<double>(slow.delta_star(tau))) < 1e-12);
  }
}

TEST_CASE("bound: where nothing is excluded it says so, with M_suff and no number") {
  const auto arguments = with(kQwen, {"--zeta", "1", "--window", "1024:1048576:x2"});
  const ProgramResult table = run_program(with({"bound"}, arguments));
  CHECK(table.exit_code == 0);
  CHECK(table.out.find("δ 0.1: no exclusion within the windows given\n") != std::string::npos);
  const Json json = bound_json(arguments);
  CHECK(table.out.find("reached from M_suff = " + json["sufficient_window"].dump() + " on") !=
        std::string::npos);
  CHECK(json["first_excluded"].is_null());
  CHECK(json["last_allowed"] == 1048576);
  CHECK(json["crossings"][0]["verdict"] == "no exclusion within the windows given");
  // delta above delta*: never, whatever the window.
  const Json never = bound_json(with(kQwen, {"--zeta", "1", "--delta", "0.495", "--window", "1e12"}));
  CHECK(never["first_excluded"].is_null());
  CHECK(never["crossings"][0]["verdict"].get<std::string>().find("no window is ever excluded") !=
        std::string::npos);
  CHECK(never["rows"][0]["k_n"] == 0);
  CHECK(never["rows"][0]["p_floor"] == never["delta_star"]);
}

TEST_CASE("bound: a table per window, on at most 100 columns") {
  const ProgramResult table =
      run_program({"bound", "--theta", "1e4", "--pairs", "4", "--window", "64,2000000"});
  CHECK(table.exit_code == 0);
  CHECK(table.out.find("M  k_N") != std::string::npos);
  CHECK(table.out.find("p_floor") != std::string::npos);
  CHECK(table.out.find("\n2000000    0") != std::string::npos);
  CHECK(table.out.find("R_F 0.96") != std::string::npos);
}

TEST_CASE("bound: a config with several grids has a bound for each") {
  TempDir folder;
  const std::string config = write(folder, "config.json", kGemma);
  const Json json = bound_json({"--config", config, "--zeta", "2.5,0.5", "--window", "4096"});
  REQUIRE(json["grids"].size() == 2);
  CHECK(json["grids"][0]["layers"] == "0,1");
  CHECK(json["grids"][0]["layer_window"] == 512);
  CHECK(json["grids"][1]["layers"] == "2");
  CHECK(json["grids"][1]["layer_window"].is_null());
  REQUIRE(json["rows"].size() == 4);
  // zeta = 2.5 is below R_F of the local layers only: the other row says so.
  CHECK(json["rows"][0]["note"].is_null());
  CHECK(json["rows"][2]["note"] == "zeta is not below R_F");
  CHECK(json["rows"][2]["p_floor"].is_null());
  CHECK(json["crossings"][2]["verdict"] == "zeta is not below R_F");
  const ProgramResult table = run_program({"bound", "--config", config, "--zeta", "2.5", "--window", "4096"});
  CHECK(table.out.find("zeta is not below R_F = 2.2177") != std::string::npos);
  CHECK(table.out.find("look back over 512 tokens") != std::string::npos);
}

TEST_CASE("bound: frequencies that follow the length need --seq-len") {
  TempDir folder;
  std::string text = kLlama31;
  text.replace(text.find("\"rope_scaling\""), std::string::npos,
               R"("rope_scaling": {"rope_type": "dynamic", "factor": 4.0}})");
  text.replace(text.find("131072"), 6, "2048");
  const std::string config = write(folder, "config.json", text);
  check_failure(run_program({"bound", "--config", config}), 2, {"--seq-len", "config.json", "dynamic"});
  const Json brief = bound_json({"--config", config, "--seq-len", "2048"});
  const Json lengthy = bound_json({"--config", config, "--seq-len", "65536"});
  CHECK(lengthy["grids"][0]["omega_min"] < brief["grids"][0]["omega_min"]);
  // Where nothing follows it, a warning.
  const Json other = bound_json({"--config", write(folder, "g.json", kGemma), "--seq-len", "4096"});
  CHECK(other["warnings"].back().get<std::string>().find("--seq-len changes nothing") != std::string::npos);
}

TEST_CASE("bound: caches give tau and zeta of every task") {
  TempDir folder;
  RandomCache sizes;
  sizes.type = ElementType::kFloat32;
  write_cache(folder / "c.h5", random_cache(sizes));
  const Json json = bound_json({folder / "c.h5", "--window", "1024:2e12:x1000"});
  CHECK(json["model"]["name"] == "random test model");
  REQUIRE(json["measured"].size() == 2);
  REQUIRE(json["crossings"].size() == 6);
  REQUIRE(json["rows"].size() == 6 * 4);
  for (std::size_t i = 0; i < 6; ++i) {
    const Json& measured = json["measured"][i / 3];
    const Json& crossing = json["crossings"][i];
    CHECK(crossing["task"] == measured["task"]);
    CHECK(crossing["tau"] == measured["tau"]);
    CHECK(crossing["zeta_quantile"] == std::vector{0.1, 0.5, 0.9}[i % 3]);
    CHECK(crossing["zeta"] == measured[std::vector{"zeta_10", "zeta_50", "zeta_90"}[i % 3]]);
    CHECK(json["rows"][4 * i]["task"] == measured["task"]);
  }
  CHECK(json["measured"][0]["margins"] == 3 * 2 * 4 * 2 * 3);
  CHECK(json["settings"]["zeta"] == "measured");
  // Given values replace measured ones.
  const Json given = bound_json({folder / "c.h5", "--tasks", "beta", "--zeta", "0.5", "--tau", "0.01"});
  REQUIRE(given["crossings"].size() == 1);
  CHECK(given["crossings"][0]["task"] == "beta");
  CHECK(given["crossings"][0]["tau"] == 0.01);
  CHECK(given["crossings"][0]["zeta_quantile"].is_null());
  // One line per task and quantile, and the words where nothing is excluded.
  const ProgramResult table = run_program({"bound", folder / "c.h5", "--window", "1024"});
  CHECK(table.out.find("\nalpha ") != std::string::npos);
  CHECK(table.out.find("no exclusion within the windows given") != std::string::npos);
}

TEST_CASE("bound: neither threads nor the order of files change a byte") {
  TempDir folder;
  RandomCache sizes;
  const CacheSpec whole = random_cache(sizes);
  CacheSpec a = whole, b = whole;
  a.tasks = {select_examples(whole.tasks[0], {0, 2}), whole.tasks[1]};
  b.tasks = {select_examples(whole.tasks[0], {1})};
  write_cache(folder / "a.h5", a);
  write_cache(folder / "b.h5", b);
  const auto run = [&](const char* first, const char* second, const char* threads) {
    const auto result =
        run_program({"bound", folder / first, folder / second, "--json", "--threads", threads});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string once = run("a.h5", "b.h5", "1");
  CHECK(once == run("b.h5", "a.h5", "1"));
  CHECK(once == run("a.h5", "b.h5", "3"));
}

TEST_CASE("bound refuses what it cannot use") {
  TempDir folder;
  const auto fails = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    check_failure(run_program(with({"bound"}, more)), 2, parts);
  };
  fails({}, {"expected frequencies", "--theta"});
  fails({"--theta", "1e6"}, {"expected frequencies"});
  fails({"--pairs", "4"}, {"expected frequencies"});
  fails({"--theta", "1", "--pairs", "4"}, {"--theta", "above 1"});
  fails({"--theta", "nan", "--pairs", "4"}, {"--theta"});
  fails({"--theta", "1e4", "--head-dim", "7"}, {"--head-dim", "even"});
  fails({"--theta", "1e4", "--head-dim", "8", "--pairs", "4"}, {"--pairs"});
  fails({"--theta", "1e4", "--pairs", "0"}, {"--pairs"});
  fails(with(kQwen, {"--zeta", "1.65"}), {"--zeta", "below R_F = 1.64675", "1.65"});
  fails(with(kQwen, {"--zeta", "0"}), {"--zeta", "above 0"});
  fails(with(kQwen, {"--delta", "1"}), {"--delta"});
  fails(with(kQwen, {"--tau", "-0.1"}), {"--tau"});
  fails(with(kQwen, {"--epsilon", "0.5"}), {"--epsilon", "below 0.5"});
  fails(with(kQwen, {"--c", "0"}), {"--c", "above 0"});
  fails(with(kQwen, {"--window", "1"}), {"--window", "from 2 to 9007199254740992"});
  fails(with(kQwen, {"--window", "9007199254740993"}), {"--window"});
  fails(with(kQwen, {"--window", "2:4"}), {"--window"});
  fails(with(kQwen, {"--window", "2:90000:1", "--zeta", "0.1:1.2:0.1"}), {"more than 1000000 rows"});
  fails(with(kQwen, {"--heads", "0.0"}), {"--heads", "needs activation caches"});
  fails(with(kQwen, {"--seq-len", "10"}), {"--seq-len needs --config"});
  fails({"c.h5", "--theta", "1e4"}, {"--theta", "exclude each other"});
  fails({"c.h5", "--seq-len", "10"}, {"--seq-len", "exclude each other"});
  const std::string config = write(folder, "config.json", kGemma);
  fails({"--config", config, "--theta", "1e4", "--pairs", "4"}, {"--config", "exclude each other"});

  check_failure(run_program({"bound", "--config", folder / "none.json"}), 3, {"none.json"});
  check_failure(run_program({"bound", folder / "none.h5"}), 3, {"none.h5"});
  check_failure(run_program({"bound", "--config", write(folder, "x.json", "{")}), 3, {"x.json"});
  // A model that does not rotate, and caches without triplets.
  const std::string still = write(folder, "still.json", R"({"model_type": "smollm3", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512,
    "rope_theta": 10000.0, "no_rope_layers": [0, 0]})");
  check_failure(run_program({"bound", "--config", still}), 3, {"still.json", "rotary attention"});
  RandomCache sizes;
  sizes.key_slots = 1;
  write_cache(folder / "one.h5", random_cache(sizes));
  check_failure(run_program({"bound", folder / "one.h5"}), 3, {"one.h5", "triplets"});
}

TEST_SUITE_END();

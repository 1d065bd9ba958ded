#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "support/full_cache.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;
using Json = nlohmann::json;

namespace {

const std::string kShipped = std::string(ROPE_SOURCE_DIR) + "/examples/data/";

struct Caches {
  TempDir folder;
  std::string full = folder / "full.h5", sampled = folder / "sampled.h5";
  Caches() {
    write_cache(full, full_cache());
    write_cache(sampled, random_cache({.head_dim = 8}));
  }
};

Json json_of(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  Json json = Json::parse(result.out);
  check_schema("adarope", json);
  return json;
}

std::vector<std::string> numbers_alone() {
  return {"adarope", "--window-task", "64", "--a-star", "20", "--norm-product", "0.5", "--length", "1001"};
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("adarope prints a fit and the frequency use of every head, and writes adarope.json") {
  Caches caches;
  const std::string path = caches.folder / "adarope.json";
  const ProgramResult result = run_program({"adarope", caches.full, "-o", path});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  for (const char* part : {"lambda(L)", "gamma", "0.3", "frequency use", "Theta"})
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, part);
  CHECK(result.err.find("wrote " + path) != std::string::npos);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);

  const Json json = Json::parse(read_file(path));
  check_schema("adarope", json);
  CHECK(json["format"] == "rope-profiler/adarope");
  CHECK(json["settings"]["reference_length"] == "first group");
  CHECK(json["settings"]["frozen_pairs"] == "16");
  CHECK(json["model"]["num_layers"] == 1);
  CHECK(json["inputs"][0]["sha256"].get<std::string>().size() == 64);
  REQUIRE(json["heads"].size() == 4);
  REQUIRE(json["use"].size() == 4);
  CHECK_FALSE(json.contains("bounds"));
  const Json& head = json["heads"][3];
  CHECK(head["head"] == 3);
  CHECK(head["reason"].is_null());
  CHECK(head["lengths"] == Json({16.0, 32.0, 64.0, 128.0}));
  CHECK(head["lambda"][0] == 1.0);
  CHECK(head["lambda"].size() == 4);
  CHECK(head["xi"].size() == 4);
  CHECK(json_of({"adarope", caches.full})["heads"] == json["heads"]);
}

TEST_CASE("adarope -o - writes JSON to standard output and the table to standard error") {
  Caches caches;
  const ProgramResult result = run_program({"adarope", caches.full, "-o", "-"});
  check_schema("adarope", Json::parse(result.out));
  CHECK(result.err.find("lambda(L)") != std::string::npos);
  CHECK(run_program({"adarope", caches.full, "-o", "-", "--quiet"}).err.empty());
}

TEST_CASE("adarope: heads, tasks and reference length decide what is fitted") {
  Caches caches;
  const Json one = json_of({"adarope", caches.full, "--heads", "0.2", "--tasks", "beta"});
  REQUIRE(one["heads"].size() == 1);
  CHECK(one["heads"][0]["head"] == 2);
  CHECK(one["rows"] == 8);
  const Json both = json_of({"adarope", caches.full, "--heads", "0.2"});
  CHECK(one["heads"][0]["lambda"] != both["heads"][0]["lambda"]);
  const Json late = json_of({"adarope", caches.full, "--heads", "0.2", "--reference-length", "30"});
  CHECK(late["heads"][0]["reference_length"] == 32.0);
  CHECK(late["heads"][0]["lengths"] == Json({32.0, 64.0, 128.0}));
  // 46 is nearer to 32 in L, nearer to 64 in ln L.
  CHECK(json_of({"adarope", caches.full, "--heads", "0.2", "--reference-length",
                 "46"})["heads"][0]["reference_length"] == 64.0);
  // 64 leaves two groups: no fit, which is said and is no error.
  const ProgramResult few =
      run_program({"adarope", caches.full, "--heads", "0.2", "--reference-length", "64"});
  CHECK(few.exit_code == 0);
  CHECK(few.out.find("no fit: 0.2: 2 of the 3 groups") != std::string::npos);
  // A window bounds the keys of a row.
  CHECK(json_of({"adarope", caches.full, "--window", "40"})["heads"][0]["lengths"] ==
        Json({16.0, 32.0, 40.0, 40.0}));
}

TEST_CASE("adarope --use reads sampled keys, and freezes as many pairs as it is told") {
  Caches caches;
  const Json json = json_of({"adarope", caches.sampled, "--use"});
  CHECK_FALSE(json.contains("heads"));
  REQUIRE(json["use"].size() == 8);
  CHECK(json["use"][0]["usage"].size() == 4);
  CHECK(json["use"][0]["effective_base"].get<double>() == doctest::Approx(10000));
  CHECK(json["use"][0]["length_change"][0].is_number());
  const Json none = json_of({"adarope", caches.sampled, "--use", "--frozen-pairs", "0"});
  CHECK(none["use"][0]["length_change"][0].is_null());
  CHECK(none["use"][0]["usage"] == json["use"][0]["usage"]);
  CHECK(json_of({"adarope", caches.sampled, "--use", "--frozen-pairs", "all"})["use"][0]["length_change"] ==
        json["use"][0]["length_change"]);  // 12 pairs in all
  CHECK(json_of({"adarope", caches.sampled, "--use", "--frozen-pairs", "2"})["use"][0]["length_change"] !=
        json["use"][0]["length_change"]);
  CHECK(run_program({"adarope", caches.sampled, "--use"}).out.find("CoV") != std::string::npos);
}

TEST_CASE("adarope --window-task from numbers alone") {
  const Json json = json_of(numbers_alone());
  CHECK(json["model"].is_null());
  CHECK(json["inputs"].empty());
  CHECK(json["window_task"] == Json({{"window", 64.0}, {"r", 0.0}, {"epsilon", 0.1}}));
  REQUIRE(json["bounds"].size() == 1);
  const Json& bound = json["bounds"][0];
  const double odds = std::log(9.0), pi = std::numbers::pi;
  CHECK(bound["lower"].get<double>() == doctest::Approx(0.1 * (odds - 0.5)));
  CHECK(bound["upper"].get<double>() ==
        doctest::Approx(pi / 65 + pi * (1 - (std::log(1000.0) + odds - 0.5) / 20)));
  CHECK(bound["possible"] == true);
  CHECK(json_of(with(numbers_alone(), {"--r", "0.25"}))["bounds"][0]["lower"].get<double>() ==
        doctest::Approx(bound["lower"].get<double>() / 9));
  CHECK(json_of(with(numbers_alone(), {"--max-omega", "0.04"}))["bounds"][0]["upper"].get<double>() ==
        doctest::Approx(pi / 65));
  const ProgramResult table = run_program(numbers_alone());
  CHECK(table.out.find("1.838") != std::string::npos);
}

TEST_CASE("adarope --window-task of measured heads, alone or with the use") {
  Caches caches;
  const Json json = json_of({"adarope", caches.sampled, "--window-task", "10"});
  REQUIRE(json["bounds"].size() == 8);
  CHECK_FALSE(json.contains("use"));
  CHECK(json["bounds"][7]["layer"] == 1);
  CHECK(json["bounds"][7]["a_star"].get<double>() > 0);
  CHECK(json["bounds"][7]["length"] == 210.0);
  const Json both = json_of({"adarope", caches.sampled, "--window-task", "10", "--use", "--length", "50"});
  CHECK(both["use"].size() == 8);
  CHECK(both["bounds"][0]["length"] == 50.0);
  CHECK(both["bounds"][0]["frequency_mass"] == both["use"][0]["frequency_mass"]);
  CHECK(both["bounds"][0]["a_star"] == both["use"][0]["amplitude"]);
}

TEST_CASE("adarope: bad input") {
  Caches caches;
  check_failure(run_program({"adarope", caches.sampled}), 3,
                {caches.sampled, "/tasks/alpha", "key_coverage", "\"full\"", "\"sampled\""});
  check_failure(run_program({"adarope", caches.full, "--heads", "0.9"}), 2, {"layer 0 head 9"});
  check_failure(run_program({"adarope", caches.folder / "none.h5"}), 3, {"none.h5"});
  check_failure(run_program({"adarope"}), 2, {"activation caches"});
  check_failure(run_program({"adarope", "--use"}), 2, {"activation caches"});
  check_failure(run_program({"adarope", caches.full, "--epsilon", "0.2"}), 2, {"--epsilon", "--window-task"});
  check_failure(run_program({"adarope", caches.full, "--use", "--reference-length", "9"}), 2,
                {"--reference-length"});
  check_failure(run_program({"adarope", caches.full, "--window-task", "9", "--frozen-pairs", "2"}), 2,
                {"--frozen-pairs"});
  check_failure(run_program({"adarope", caches.full, "--split", "certified"}), 2, {"--split", "top:F"});
  check_failure(run_program({"adarope", caches.full, "--use", "--frozen-pairs", "-1"}), 2,
                {"--frozen-pairs"});
  check_failure(run_program({"adarope", caches.full, "--use", "--frozen-pairs", "some"}), 2, {"some"});
  check_failure(run_program({"adarope", caches.full, "--reference-length", "0"}), 2, {"--reference-length"});
  check_failure(run_program({"adarope", "--window-task", "9", "--a-star", "3", "--length", "9"}), 2,
                {"--norm-product"});
  check_failure(run_program(with(numbers_alone(), {"--heads", "all"})), 2, {"--heads", "activation caches"});
  for (const auto& [option, value, name] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"--epsilon", "0", "epsilon"},
                                                                      {"--epsilon", "1", "epsilon"},
                                                                      {"--epsilon", "nan", "epsilon"},
                                                                      {"--r", "-0.1", "r must"},
                                                                      {"--max-omega", "4", "frequency"}})
    check_failure(run_program(with(numbers_alone(), {option, value})), 2, {name});
  check_failure(run_program({"adarope", "--window-task", "-1", "--a-star", "3", "--norm-product", "0",
                             "--length", "9"}),
                2, {"--window-task"});
  check_failure(run_program({"adarope", caches.sampled, "--window-task", "9", "--a-star", "0"}), 2, {"A*"});
  check_failure(run_program({"adarope", caches.sampled, "--window-task", "9", "--length", "1"}), 2,
                {"length"});
  // An existing file stays.
  const std::string path = caches.folder / "out.json";
  std::ofstream(path) << "mine";
  check_failure(run_program({"adarope", caches.full, "-o", path}), 2, {"out.json"});
  CHECK(read_file(path) == "mine");
  check_failure(run_program({"adarope", caches.full, "--reference-length", "nan"}), 2,
                {"--reference-length"});
  // Nor do inputs become outputs.
  const std::string before = read_file(caches.full), config = caches.folder / "config.json";
  check_failure(run_program({"adarope", caches.full, "-o", caches.full, "--force"}), 2,
                {"the output is the input"});
  CHECK(read_file(caches.full) == before);
  std::ofstream(config) << "{}";
  check_failure(run_program({"adarope", caches.full, "--config", config, "-o", config, "--force"}), 2,
                {"the output is the input"});
  CHECK(read_file(config) == "{}");
}

TEST_CASE("adarope: a head that does not turn cannot be asked for, and is left out of all") {
  TempDir folder;
  CacheSpec cache = full_cache({.num_layers = 2});
  cache.model.config.reset();
  cache.model.inv_freq_shape = {2, 4};
  cache.model.inv_freq = {0, 0, 0, 0, 1.0, 0.5, 0.1, 0.0};
  write_cache(folder / "still.h5", cache);
  const Json json = json_of({"adarope", folder / "still.h5"});
  REQUIRE(json["heads"].size() == 4);
  CHECK(json["heads"][0]["layer"] == 1);
  CHECK(json["heads"][0]["xi"][3].is_null());
  check_failure(run_program({"adarope", folder / "still.h5", "--heads", "0.1"}), 2,
                {"layer 0 head 1", "rotate"});
}

TEST_CASE("adarope on a real model with every key") {
  const Json json = json_of({"adarope", kShipped + "smollm2_full.h5"});
  REQUIRE(json["heads"].size() == 18);
  for (const Json& head : json["heads"]) {
    CHECK(head["reason"].is_null());
    CHECK(head["lengths"].size() == 8);
  }
  for (const Json& use : json["use"]) CHECK(use["effective_base"].get<double>() == doctest::Approx(1e5));
}

TEST_SUITE_END();

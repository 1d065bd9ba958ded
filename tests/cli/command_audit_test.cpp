#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/audit_table.hpp"
#include "profiler/digest.hpp"
#include "support/cache_writer.hpp"
#include "support/csv_table.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const std::string kShipped = ROPE_SOURCE_DIR "/examples/data/smollm2.h5";

std::string cache_in(const TempDir& folder, const RandomCache& sizes = {}) {
  write_cache(folder / "c.h5", random_cache(sizes));
  return folder / "c.h5";
}

nlohmann::json audit_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "audit");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const auto json = nlohmann::json::parse(result.out);
  check_schema("audit", json);
  return json;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("audit prints what holds, the sets and the nearest pair") {
  const ProgramResult result = run_program({"audit", kShipped, "--window", "32768", "--no-window-cap",
                                            "--tasks", "list_index", "--heads", "0.0,3.4,29.8"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  for (const char* part :
       {"SmolLM2", "of 3 heads", "split certified", "zeta <= T", "f_pos <= r_H", "|mean X_H|", "0, 3, 29",
        "full_attention", "32768", "1256.6", "proved", "Spearman of r_H with zeta", "nearest to its envelope",
        "task list_index", "rounding allowed"})
    CHECK_MESSAGE(has(result.out, part), part);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  const ProgramResult layers = run_program({"audit", kShipped, "--tasks", "list_index", "--split", "prefix:8",
                                            "--heads", "0.0,3.4,29.8", "--by", "layer"});
  CHECK(has(layers.out, "\n    3 "));
  CHECK(has(layers.out, "not claimed"));
  const ProgramResult heads = run_program({"audit", kShipped, "--tasks", "list_index", "--split", "prefix:8",
                                           "--heads", "0.0,3.4,29.8", "--by", "head"});
  CHECK(has(heads.out, "rho(r_H,zeta)"));
  CHECK(has(heads.out, "\n   29     8 "));
}

TEST_CASE("audit --json follows the schema and has the names of the contract") {
  TempDir folder;
  const std::string cache = cache_in(folder);
  const auto json = audit_json({cache, "--split", "prefix:3"});
  CHECK(json["format"] == "rope-profiler/audit");
  CHECK(json["settings"]["split"] == "prefix:3");
  CHECK(json["settings"]["heads"] == "all");
  CHECK(json["inputs"][0]["sha256"] == sha256_of_file(cache));
  CHECK(json["pairs"] == 2 * 3 * 8 * 12);
  CHECK(json["violations_response"] == 0);
  CHECK(json["violations_norm_floor"] == 0);
  for (const char* name : {"median_response_ratio", "median_norm_floor_ratio", "spearman_share_response",
                           "spearman_share_envelope", "largest_response_ratio"})
    CHECK_MESSAGE(json[name].is_number(), name);
  CHECK(json["bins"].size() == 32);
  CHECK(json["quantiles"] == "exact");
  CHECK(json["quantile_pairs"] == json["pairs"]);
  CHECK(json["layers"].size() == 2);
  CHECK(json["heads"].size() == 8);
  CHECK(json["heads"][5]["layer"] == 1);
  CHECK(json["heads"][5]["head"] == 1);
  CHECK(json["worst"].is_null());
  CHECK(json["nearest"]["response_ratio"].get<double>() < 1);
  CHECK(json["grids"][0]["layers"] == "0, 1");
  CHECK(json["grids"][0]["high_pairs_max"] == 3);
  // The schema does say no.
  auto broken = json;
  broken["violations_response"] = -1;
  CHECK_FALSE(schema_violations("audit", broken).empty());
  broken = json;
  broken["bins"][3].erase("share_low");
  CHECK_FALSE(schema_violations("audit", broken).empty());

  // An empty H, and one that holds every pair: no correlations, no bins, in JSON and in words.
  const auto empty = audit_json({cache});
  CHECK(empty["settings"]["split"] == "certified");
  CHECK(empty["bins"].empty());
  CHECK(empty["spearman_share_response"].is_null());
  CHECK(empty["median_norm_floor_ratio"].is_null());
  CHECK(empty["pairs_without_floor"] == empty["pairs"]);
  CHECK(empty["grids"][0]["separation"].is_null());
  CHECK_FALSE(empty["grids"][0]["hypothesis_holds"].get<bool>());
  CHECK(has(run_program({"audit", cache}).out, "r_H is 0 for all pairs"));
  CHECK(has(run_program({"audit", cache}).out, "H is empty"));
  const auto all = audit_json({cache, "--split", "omega:0"});
  CHECK(all["bins"].empty());
  CHECK(all["median_norm_floor_ratio"].is_number());
  CHECK(has(run_program({"audit", cache, "--split", "omega:0"}).out, "r_H is the same for all pairs"));
}

TEST_CASE("audit accepts every split rule and the shortest window") {
  TempDir folder;
  const std::string cache = cache_in(folder, {.examples = 1, .tasks = {"one"}});
  for (const char* split : {"operational", "intervention", "certified", "separation", "separation:1,0.3",
                            "custom:0.05,0.2", "omega:0.1", "periods:2", "prefix:4"}) {
    CAPTURE(split);
    CHECK(audit_json({cache, "--split", split})["violations_response"] == 0);
    CHECK(audit_json({cache, "--split", split, "--window", "2"})["violations_response"] == 0);
  }
  const auto constants = audit_json({cache, "--split", "custom:0.05,0.2"});
  CHECK(constants["band_C"] == 0.05);
  CHECK(constants["band_epsilon"] == 0.2);
}

TEST_CASE("audit --bins writes the figure's table, whole or not at all") {
  TempDir folder;
  const std::string cache = cache_in(folder), bins = folder / "bins.csv";
  const auto json = audit_json({cache, "--split", "prefix:3", "--bins", bins});
  const CsvTable table = read_table(bins);
  CHECK(table.columns == std::vector<std::string>{"bin", "pairs", "share_low", "share_median", "share_high",
                                                  "response_low", "response_median", "response_high",
                                                  "envelope_low", "envelope_median", "envelope_high"});
  REQUIRE(table.rows.size() == 32);
  for (std::size_t b = 0; b < 32; ++b)
    for (const std::string& column : table.columns)
      CHECK(table.number(b, column) == json["bins"][b][column].get<double>());
  const std::string before = read_file(bins);
  check_failure(run_program({"audit", cache, "--bins", bins}), 2, {bins, "exists"});
  CHECK(read_file(bins) == before);
  const ProgramResult replaced =
      run_program({"audit", cache, "--bins", bins, "--force", "--split", "prefix:2"});
  CHECK(replaced.exit_code == 0);
  CHECK(replaced.err == "wrote " + bins + "\n");  // once, and no other note
  CHECK(read_file(bins) != before);
  CHECK(run_program({"audit", cache, "--bins", bins, "--force"}).exit_code == 0);  // r_H = 0: no bins
  CHECK(read_table(bins).rows.empty());
  check_failure(run_program({"audit", cache, "--bins", cache, "--force"}), 2, {cache});
  check_failure(run_program({"audit", cache, "--bins", "-"}), 2, {"--bins"});
  check_failure(run_program({"audit", cache, "--bins", folder / "none/b.csv"}), 3, {"none"});
  CHECK(run_program({"audit", folder / "missing.h5", "--bins", folder / "n.csv"}).exit_code == 3);
  CHECK_FALSE(std::filesystem::exists(folder / "n.csv"));
}

TEST_CASE("audit warns where certified proves nothing, and where nothing is left to audit") {
  TempDir folder;
  CacheSpec cache = random_cache();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {8};
  cache.model.inv_freq = {1.0, 0.5, 0.4, 0.1, 0.05, 0.01, 1e-3, 1e-4};
  cache.omega = {cache.model.inv_freq};
  write_cache(folder / "odd.h5", cache);
  const ProgramResult odd = run_program({"audit", folder / "odd.h5", "--window", "100000"});
  CHECK(odd.exit_code == 0);
  CHECK(has(odd.err, "proved for geometric grids only"));
  CHECK(odd.err.find("rho") != std::string::npos);
  const auto json = audit_json({folder / "odd.h5", "--window", "100000"});
  CHECK_FALSE(json["grids"][0]["geometric"].get<bool>());
  CHECK(json["warnings"].size() >= 1);

  for (auto& position : cache.tasks[0].key_position) position = -1;
  for (auto& position : cache.tasks[1].key_position) position = -1;
  write_cache(folder / "unused.h5", cache);
  const ProgramResult unused = run_program({"audit", folder / "unused.h5", "--quiet"});
  CHECK(unused.exit_code == 0);
  CHECK(has(unused.out, "nothing to audit"));
  const auto none = audit_json({folder / "unused.h5"});
  CHECK(none["pairs"] == 0);
  CHECK(none["median_response_ratio"].is_null());
  CHECK(none["nearest"].is_null());
}

TEST_CASE("audit leaves heads without rotation out") {
  TempDir folder;
  CacheSpec cache = random_cache();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {2, 8};
  cache.model.inv_freq = {1.0, 0.5, 0.25, 0.1, 0.05, 0.01, 1e-3, 1e-4, 0, 0, 0, 0, 0, 0, 0, 0};
  cache.omega = {};
  write_cache(folder / "c.h5", cache);
  const auto json = audit_json({folder / "c.h5", "--split", "prefix:2"});
  CHECK(json["pairs"] == 2 * 3 * 4 * 12);
  CHECK(json["layers"].size() == 1);
  CHECK(json["grids"].size() == 1);
  check_failure(run_program({"audit", folder / "c.h5", "--heads", "1.0"}), 2,
                {"layer 1 head 0 does not rotate"});
}

TEST_CASE("audit: bad input is one line") {
  TempDir folder;
  const std::string cache = cache_in(folder);
  check_failure(run_program({"audit"}), 2, {"FILE"});
  check_failure(run_program({"audit", folder / "missing.h5"}), 3, {"missing.h5"});
  std::ofstream(folder / "text.h5") << "no HDF5";
  check_failure(run_program({"audit", folder / "text.h5"}), 3, {"text.h5"});
  check_failure(run_program({"audit", cache, "--split", "sharp"}), 2, {"--split", "sharp"});
  check_failure(run_program({"audit", cache, "--window", "1"}), 2, {"--window", "found 1"});
  check_failure(run_program({"audit", cache, "--window", "16777217"}), 2, {"--window"});
  check_failure(run_program({"audit", cache, "--heads", "9.9"}), 2, {"layer 9 head 9"});
  check_failure(run_program({"audit", cache, "--by", "task"}), 2, {"--by"});
  check_failure(run_program({"audit", cache, "--tasks", "nothing*"}), 2, {"--tasks"});
}

TEST_CASE("audit exits 1 and names the worst pair when an inequality is broken") {
  // Vectors cannot break it, so the result is made up.
  AuditResult result;
  result.all.tally.pairs = 10;
  std::string printed;
  const auto verdict = [&](std::string& err) {
    std::ostringstream out, errors;
    cli::Console console({&out, &errors, false, false, 100}, false, false);
    const int code = cli::audit_verdict(console, result);
    cli::print_audit(console, result, "title", cli::AuditRows::kNone);
    err = errors.str();
    printed = out.str();
    return code;
  };
  std::string err;
  CHECK(verdict(err) == 0);
  CHECK(err.empty());
  result.all.tally.violations_norm_floor = 1;
  CHECK(verdict(err) == 1);
  result.all.tally.violations_norm_floor = 0;
  result.all.tally.band.violations = 1;
  CHECK(verdict(err) == 1);
  result.all.tally.violations_response = 2;
  result.worst.values = {3, 1.25, 1.0, 0.5, 0.75, true, false};
  result.worst.task = "tasque";
  result.worst.example_id = "e-7";
  result.worst.layer = 4;
  result.worst.head = 11;
  result.worst.query_slot = 2;
  result.worst.key_slot = 9;
  CHECK(verdict(err) == 1);
  for (const char* part : {"zeta <= T 2 times", "task tasque, example e-7, layer 4, head 11, query 2",
                           "key 9", "zeta 1.25, T 1, f_pos 0.75, r_H 0.5"})
    CHECK_MESSAGE(has(err, part), err);

  // A sample is said to be one, with its error; many layers do not widen the table.
  CHECK_FALSE(has(printed, "sample"));
  result.exact = false;
  result.sampled = 6'000'000;
  result.rank_error = 0.00134;
  result.grids.resize(1);
  for (int layer = 0; layer < 60; layer += 2) result.grids[0].layers.push_back(layer);
  CHECK(verdict(err) == 1);
  CHECK(has(printed, "from a sample of 6000000 pairs: ranks within 0.0013 of all"));
  CHECK(has(printed, "30 layers"));
}

TEST_SUITE_END();

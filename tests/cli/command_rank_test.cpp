#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/digest.hpp"
#include "support/csv.hpp"
#include "support/make_profile.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const double kNaN = std::nan("");

std::string profile_in(const TempDir& folder) {
  make_profile(folder / "p.h5", ProfileRecipe{});
  return folder / "p.h5";
}

/// Task d lacks a score.
std::string incomplete_profile_in(const TempDir& folder) {
  ScoreTable table;
  table.tasks = {"a", "b", "c", "d"};
  table.scores = {{Score::kSemantic, {{{0.1}}, {{0.9}}, {{0.5}}, {{0.4}}}},
                  {Score::kPositional, {{{5}}, {{1}}, {{4}}, {{kNaN}}}}};
  make_profile(folder / "i.h5", table);
  return folder / "i.h5";
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("rank prints the tasks by falling w_S") {
  TempDir folder;
  const ProgramResult result = run_program({"rank", incomplete_profile_in(folder), "--resamples", "10"});
  CHECK(result.exit_code == 0);
  const auto place = [&](const std::string& task) { return result.out.find("\n" + task + " "); };
  CHECK(result.out.find("w_S") != std::string::npos);
  CHECK(place("a") < place("c"));
  CHECK(place("c") < place("b"));
  CHECK(place("b") < place("d"));
  CHECK(place("d") != std::string::npos);
  CHECK(result.err.find("not ranked, a score is missing: d") != std::string::npos);
  CHECK(run_program({"rank", folder / "i.h5", "--resamples", "0"}).out.find("95 %") == std::string::npos);
}

TEST_CASE("rank -o writes JSON that follows the schema and records what it was made from") {
  TempDir folder;
  const std::string profile = profile_in(folder), path = folder / "r.json";
  CHECK(run_program({"rank", profile, "-o", path, "--resamples", "50", "--seed", "5"}).exit_code == 0);
  const auto json = nlohmann::json::parse(read_file(path));
  check_schema("ranking", json);
  CHECK(json["seed"] == 5);
  CHECK(json["resamples"] == 50);
  CHECK(json["split"] == "operational");
  CHECK(json["backend"] == "cpu");
  CHECK(json["profile"]["sha256"] == sha256_of_file(profile));
  CHECK(json["inputs"][0]["sha256"] == std::string(64, 'a'));
  CHECK(json["inputs"][1]["sha256"].is_null());
  CHECK(json["tasks"].size() == 3);
  CHECK(json["selection"]["heads"] == 2);

  // Missing scores, and no intervals.
  CHECK(run_program({"rank", incomplete_profile_in(folder), "-o", path, "--force", "--resamples", "0"})
            .exit_code == 0);
  const auto incomplete = nlohmann::json::parse(read_file(path));
  check_schema("ranking", incomplete);
  CHECK(incomplete["tasks"][3]["task"] == "d");
  CHECK(incomplete["tasks"][3]["w_s"].is_null());
  CHECK(incomplete["tasks"][3]["semantic_score"] == 0.4);
  CHECK(incomplete["tasks"][0]["w_s_low"].is_null());
  // The schema does say no.
  auto broken = json;
  broken["tasks"][0]["r_s"] = 1.5;
  CHECK_FALSE(schema_violations("ranking", broken).empty());
}

TEST_CASE("rank -o - sends JSON to standard output and the table to standard error") {
  TempDir folder;
  const std::string profile = profile_in(folder);
  const ProgramResult result = run_program({"rank", profile, "-o", "-"});
  CHECK(result.exit_code == 0);
  check_schema("ranking", nlohmann::json::parse(result.out));
  CHECK(result.err.find("w_S") != std::string::npos);
  const ProgramResult quiet = run_program({"rank", profile, "-o", "-", "--quiet"});
  CHECK(quiet.out == result.out);
  CHECK(quiet.err.empty());
}

TEST_CASE("rank is the same for any number of threads") {
  TempDir folder;
  const std::string profile = profile_in(folder);
  const auto with = [&](const char* threads) {
    return run_program({"rank", profile, "-o", "-", "--threads", threads}).out;
  };
  CHECK(with("1") == with("2"));
  CHECK(with("1") == with("5"));
}

TEST_CASE("rank refuses what it cannot use") {
  TempDir folder;
  check_failure(run_program({"rank", folder / "none.h5"}), 3, {"none.h5", "cannot open"});
  std::ofstream(folder / "t.csv") << "task,w_s\n";
  check_failure(run_program({"rank", folder / "t.csv"}), 3, {"t.csv", "an HDF5 file"});
  const std::string profile = profile_in(folder);
  check_failure(run_program({"rank", profile, "--resamples", "-1"}), 2, {"--resamples"});
  check_failure(run_program({"rank", profile, "--seed", "x"}), 2, {"--seed"});
  std::ofstream(folder / "r.json") << "old";
  check_failure(run_program({"rank", profile, "-o", folder / "r.json"}), 2, {"r.json", "exists"});
  CHECK(read_file(folder / "r.json") == "old");
  check_failure(run_program({"rank", folder / "none.h5", "-o", folder / "new.json"}), 3, {"none.h5"});
  CHECK_FALSE(std::filesystem::exists(folder / "new.json"));
}

TEST_CASE("export: the ranking is the same from the profile and from R.json") {
  TempDir folder;
  const std::string profile = profile_in(folder), json = folder / "r.json";
  REQUIRE(run_program({"rank", profile, "-o", json}).exit_code == 0);
  const ProgramResult direct = run_program({"export", profile, "--table", "ranking"});
  const ProgramResult through = run_program({"export", json, "--table", "ranking"});
  CHECK(direct.exit_code == 0);
  CHECK(through.exit_code == 0);
  CHECK(direct.out == through.out);
  REQUIRE(run_program({"rank", incomplete_profile_in(folder), "-o", json, "--force"}).exit_code == 0);
  CHECK(run_program({"export", json, "--table", "ranking"}).out ==
        run_program({"export", folder / "i.h5", "--table", "ranking"}).out);
}

TEST_CASE("export: every table and format, to a file and to standard output") {
  TempDir folder;
  const std::string profile = profile_in(folder);
  for (const char* table : {"tasks", "heads", "examples", "frequencies", "selection", "ranking"})
    for (const char* format : {"csv", "jsonl", "npy"}) {
      CAPTURE(table);
      CAPTURE(format);
      const std::string path = folder / (std::string(table) + "." + format);
      const ProgramResult out = run_program({"export", profile, "--table", table, "--format", format});
      CHECK(out.exit_code == 0);
      CHECK(out.err.empty());
      CHECK(run_program({"export", profile, "--table", table, "--format", format, "-o", path}).exit_code ==
            0);
      CHECK(out.out.size() > 100);
      CHECK(read_file(path) == out.out);
    }
  // The form follows from the name where --format does not say it.
  CHECK(run_program({"export", profile, "--table", "tasks", "-o", folder / "by-name.npy"}).exit_code == 0);
  CHECK(read_file(folder / "by-name.npy").substr(1, 5) == "NUMPY");
  CHECK(run_program({"export", profile, "--table", "tasks", "-o", folder / "by-name.jsonl"}).exit_code == 0);
  CHECK(read_file(folder / "by-name.jsonl").front() == '{');
  CHECK(run_program({"export", profile, "--table", "tasks", "-o", "-"}).out ==
        run_program({"export", profile, "--table", "tasks"}).out);
}

TEST_CASE("export refuses what it cannot use") {
  TempDir folder;
  const std::string profile = profile_in(folder), json = folder / "r.json";
  REQUIRE(run_program({"rank", profile, "-o", json}).exit_code == 0);
  check_failure(run_program({"export", profile}), 2, {"--table"});
  check_failure(run_program({"export", profile, "--table", "nonsense"}), 2, {"nonsense"});
  check_failure(run_program({"export", profile, "--table", "tasks", "--format", "xml"}), 2, {"xml"});
  check_failure(run_program({"export", json, "--table", "tasks"}), 2, {"r.json", "tasks"});
  check_failure(run_program({"export", folder / "none", "--table", "ranking"}), 3, {"none"});
}

TEST_CASE("export: damaged rankings are refused or read, nothing else") {
  TempDir folder;
  const std::string profile = profile_in(folder), json = folder / "r.json", bad = folder / "bad.json";
  REQUIRE(run_program({"rank", profile, "-o", json, "--resamples", "20"}).exit_code == 0);
  const std::string whole = read_file(json);
  const auto refused = [&](const std::string& text) {
    std::ofstream(bad, std::ios::binary) << text;
    const ProgramResult result = run_program({"export", bad, "--table", "ranking"});
    if (result.exit_code != 0) check_failure(result, 3, {"bad.json"});
    return result.exit_code != 0;
  };
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    auto document = nlohmann::json::parse(whole);
    document[nlohmann::json::json_pointer(pointer)] = value;
    return document.dump();
  };
  CHECK_FALSE(refused(whole));
  CHECK(refused(changed("/format", "other")));
  CHECK(refused(changed("/format_version", 2)));
  CHECK(refused(changed("/tasks", 5)));
  CHECK(refused(changed("/tasks/0", "x")));
  CHECK(refused(changed("/tasks/0/task", 1)));
  CHECK(refused(changed("/tasks/0/r_s", 1.5)));
  CHECK(refused(changed("/tasks/0/r_s", 1e300)));
  CHECK(refused(changed("/tasks/0/w_s", "0.5")));
  CHECK(refused(changed("/tasks/0/direction", "left")));
  CHECK(refused(changed("/seed", -1)));
  CHECK(refused("{"));
  CHECK(refused("{}"));
  CHECK(refused("{" + std::string(100000, '[')));
  std::mt19937_64 generator(1);
  for (int round = 0; round < 100; ++round) {
    std::string damaged = whole;
    damaged[1 + generator() % (damaged.size() - 1)] = static_cast<char>(generator());
    refused(damaged);
  }
  for (std::size_t size = 1; size < whole.size() - 2; size += whole.size() / 20)
    CHECK(refused(whole.substr(0, size)));
}

TEST_SUITE_END();

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "interventions/outcome_json.hpp"
#include "interventions/plan_json.hpp"
#include "profiler/digest.hpp"
#include "support/csv_table.hpp"
#include "support/make_profile.hpp"
#include "support/paper_records.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

std::string write(const TempDir& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

/// Two tasks at stage 5, one at 10; one example of a lacks 0.5.
const std::string kRecords =
    "task,example_id,candidate,correct,stage\n"
    "a,1,baseline,0,5\na,1,NR,1,5\na,1,0.5,1,5\n"
    "a,2,baseline,1,5\na,2,NR,1,5\na,2,0.5,0,5\n"
    "a,3,baseline,0,5\na,3,NR,1,5\na,3,0.5,0,5\n"
    "a,\"4 \"\"x\"\"\n\",baseline,0,5\na,\"4 \"\"x\"\"\n\",NR,1,5\n"
    "b,1,baseline,1,5\nb,1,2,0,5\nb,2,baseline,1,5\nb,2,2,1,5\n"
    "b,1,baseline,1,10\nb,1,1.25,1,10\n";

nlohmann::json outcome_of(const std::string& path, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"outcome", path, "-o", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run_program(arguments);
  CHECK(result.exit_code == 0);
  return nlohmann::json::parse(result.out);
}

/// A small plan: a and b semantic at stage 5.
std::string plan_text() {
  Plan plan;
  plan.tool_version = "0";
  plan.model.name = "m";
  plan.model.num_layers = 1;
  plan.model.rope_layout = "half";
  plan.model.layers = {{0, 1, 1, 4, 4, false}};
  PlanFrequencies frequencies;
  frequencies.layers = {0};
  frequencies.rope_type = "default";
  frequencies.grids = {{0, {1.0, 0.01}, 0.01}};
  plan.model.frequencies = {frequencies};
  plan.profile_digest = std::string(64, '0');
  plan.profile = {"p.h5", plan.profile_digest, 1};
  plan.heads_rule = "top:0.05";
  for (const char* name : {"a", "b"}) {
    PlanTask task;
    task.task = name;
    task.direction = Direction::kSemantic;
    task.w_s = 0.5;
    task.heads = {{0, 0}};
    task.candidates = stage_candidates(5, Direction::kSemantic);
    plan.tasks.push_back(task);
  }
  return plan_json(plan);
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("outcome prints a row per task and stage, totals, and names what is not matched") {
  TempDir folder;
  const ProgramResult result = run_program({"outcome", write(folder, "r.csv", kRecords), "--sweep"});
  CHECK(result.exit_code == 0);
  for (const char* part :
       {"NR: +66.7, 0.5: 0.0", "3/4", "stage 5: 1 of 2 tasks improved, 0 of them",
        "stage 10: 0 of 1 task improved", "both stages: 1 of 2 tasks improved", "optimism"}) {
    CAPTURE(part);
    CHECK(result.out.find(part) != std::string::npos);
  }
  CHECK(result.err.find("task \"a\", stage 5: 1 of 4 examples not matched: \"4 \\x22x") == std::string::npos);
  CHECK(result.err.find("1 of 4 examples not matched: \"4 \"x\"\\x0a\" (no 0.5)") != std::string::npos);
}

TEST_CASE("outcome -o writes JSON that follows the schema and records what it was made from") {
  TempDir folder;
  const std::string path = write(folder, "r.csv", kRecords), out = folder / "o.json";
  CHECK(run_program({"outcome", path, "-o", out, "--seed", "9", "--resamples", "64"}).exit_code == 0);
  const auto json = nlohmann::json::parse(read_file(out));
  check_schema("outcome", json);
  CHECK(json["seed"] == 9);
  CHECK(json["resamples"] == 64);
  CHECK(json["plans"].empty());
  CHECK(json["inputs"][0]["sha256"] == sha256_of_file(path));
  CHECK(json["inputs"][0]["records"] == 17);
  CHECK(json["tasks"].size() == 3);
  CHECK(json["tasks"][0]["unmatched"][0]["example_id"] == "4 \"x\"\n");
  CHECK(json["tasks"][0]["unmatched"][0]["missing"][0] == "0.5");
  CHECK(json["tasks"][0]["best_candidate"] == "NR");
  CHECK(json["tasks"][0]["p_value"] == 0.5);
  CHECK(json["tasks"][2]["stage"] == 10);
  CHECK(json["tasks"][2]["held_out_change"].is_null());
  auto broken = json;
  broken["tasks"][0]["p_value"] = 1.5;
  CHECK_FALSE(schema_violations("outcome", broken).empty());
  check_schema("outcome", outcome_of(path, {"--resamples", "0", "--quiet"}));

  // Read back and written again: the same numbers.
  const Outcome read = read_outcome_json(out);
  OutcomeSource source;
  const auto again = nlohmann::json::parse(outcome_json(read, source));
  for (const char* name : {"tasks", "left_out", "stages", "seed", "resamples", "improved_tasks"})
    CHECK(again[name] == json[name]);
}

TEST_CASE("outcome: the same bytes for any threads, order of records and order of files") {
  TempDir folder;
  auto records = paper_records(paper_rows("Qwen3-8B"), 3);
  const std::string whole = write(folder, "w.csv", csv_of(records));
  const auto text = [&](const std::vector<std::string>& files, const char* threads) {
    std::vector<std::string> arguments{"outcome",     "-o",  "-",         "--quiet",
                                       "--resamples", "300", "--threads", threads};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const ProgramResult result = run_program(arguments);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string one = text({whole}, "1");
  CHECK(one == text({whole}, "3"));
  std::mt19937_64 generator(8);
  shuffle(records, generator);
  const auto half = static_cast<std::ptrdiff_t>(records.size() / 2);
  const std::string first = write(folder, "1.csv", csv_of({records.begin(), records.begin() + half}));
  const std::string second = write(folder, "2.csv", csv_of({records.begin() + half, records.end()}));
  const std::string split = text({first, second}, "2");
  CHECK(split == text({second, first}, "1"));
  auto a = nlohmann::json::parse(one), b = nlohmann::json::parse(split);
  a.erase("inputs");
  b.erase("inputs");
  CHECK(a == b);
  CHECK(a["stages"][0]["improved"] == 24);
  CHECK(a["improved_tasks"] == 31);
}

TEST_CASE("outcome --plan: directions, order, and what the plan does not name") {
  TempDir folder;
  const std::string plan = write(folder, "p.json", plan_text());
  const std::string records = write(folder, "r.csv",
                                    "task,example_id,candidate,score\n"
                                    "a,1,baseline,0\na,1,0.5,1\na,1,NR,1\na,1,7,1\n"
                                    "z,1,baseline,0\nz,1,NR,1\n");
  const ProgramResult result = run_program({"outcome", records, "--plan", plan, "-o", folder / "o.json"});
  CHECK(result.exit_code == 0);
  const auto json = nlohmann::json::parse(read_file(folder / "o.json"));
  check_schema("outcome", json);
  CHECK(json["plans"][0]["sha256"] == sha256_of_file(plan));
  REQUIRE(json["tasks"].size() == 1);
  CHECK(json["tasks"][0]["direction"] == "semantic");
  CHECK(json["tasks"][0]["candidates"][0]["candidate"] == "NR");
  CHECK(json["tasks"][0]["best_candidate"] == "NR");
  // A second plan for the other stage; the same one twice is a mistake.
  auto later = nlohmann::ordered_json::parse(plan_text());
  for (auto& task : later["tasks"]) task["stage"] = 10;
  const std::string second = write(folder, "second.json", later.dump());
  const std::string more =
      write(folder, "r10.csv", "task,example_id,candidate,score,stage\na,1,baseline,0,10\na,1,NR,1,10\n");
  const std::vector<std::string> both{
      "outcome", records, more, "--plan", plan, "--plan", second, "-o", folder / "both.json"};
  REQUIRE(run_program(both).exit_code == 0);
  const auto stages = nlohmann::json::parse(read_file(folder / "both.json"));
  check_schema("outcome", stages);
  CHECK(stages["plans"].size() == 2);
  REQUIRE(stages["tasks"].size() == 2);
  CHECK(stages["tasks"][1]["stage"] == 10);
  CHECK(stages["tasks"][1]["direction"] == "semantic");
  check_failure(run_program({"outcome", records, "--plan", plan, "--plan", plan}), 2,
                {"--plan", "stage 5", "\"a\""});
  CHECK(json["left_out"].size() == 5);
  for (const char* part :
       {"no such candidate: task \"a\", stage 5, candidate \"7\"", "no such task: task \"z\"",
        "not measured: task \"a\", stage 5, candidate \"0\"", "not measured: task \"b\""}) {
    CAPTURE(part);
    CHECK(result.err.find(part) != std::string::npos);
  }
  // Hostile plans.
  const std::string whole = read_file(plan);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    check_failure(run_program({"outcome", records, "--plan", write(folder, "bad.json", text)}), 3,
                  {"bad.json"});
  };
  refused("rope-profiler/plan-1", "rope-profiler/plan-99");
  refused("\"alpha\": 0.5", "\"alpha\": NaN");
  refused("\"alpha\": 0.5", "\"alpha\": 1e999");
  refused("\"stage\": 5", "\"stage\": 6");
  refused("\"stage\": 5", "\"stage\": 5, \"stage\": 10");
  check_failure(run_program({"outcome", records, "--plan", records}), 3, {"r.csv"});
}

TEST_CASE("outcome: runs of lm-evaluation-harness as CANDIDATE=FILE") {
  TempDir folder;
  const auto samples = [&](const std::string& name, const std::string& scores) {
    std::string text;
    for (std::size_t i = 0; i < scores.size(); ++i)
      text += "{\"doc_id\": " + std::to_string(i) + ", \"filter\": \"none\", \"acc\": " + scores[i] + ".0}\n";
    std::filesystem::create_directories(folder / name);
    return write(folder, name + "/samples_arc_2025-01-02T03-04-05.678.jsonl", text);
  };
  const ProgramResult result = run_program(
      {"outcome", "baseline=" + samples("b", "01010"), "0.5=" + samples("h", "11110"), "-o", "-"});
  CHECK(result.exit_code == 0);
  const auto json = nlohmann::json::parse(result.out);
  check_schema("outcome", json);
  CHECK(json["tasks"][0]["task"] == "arc");
  CHECK(json["tasks"][0]["matched"] == 5);
  CHECK(json["tasks"][0]["best_change"] == 0.4);
  CHECK(json["inputs"][0]["format"] == "lm-eval");
  CHECK(json["settings"]["metric"] == "acc");
}

TEST_CASE("outcome refuses what it cannot use") {
  TempDir folder;
  const std::string records = write(folder, "r.csv", kRecords);
  check_failure(run_program({"outcome"}), 2, {"RESULTS"});
  check_failure(run_program({"outcome", folder / "none.csv"}), 3, {"none.csv", "cannot open"});
  check_failure(run_program({"outcome", records, records}), 3,
                {"r.csv:2", "expected one record", "found another"});
  check_failure(run_program({"outcome", records, "--task", "t"}), 2, {"--task"});
  check_failure(run_program({"outcome", records, "--candidate", "t"}), 2, {"--candidate"});
  check_failure(run_program({"outcome", records, "--stage", "5"}), 2, {"--stage"});
  check_failure(run_program({"outcome", records, "--metric", "acc"}), 2, {"--metric"});
  check_failure(run_program({"outcome", records, "--filter", "none"}), 2, {"--filter"});
  check_failure(run_program({"outcome", records, "--stage", "7"}), 2, {"--stage"});
  check_failure(run_program({"outcome", records, "--task-column", "stage"}), 2, {"same column"});
  check_failure(run_program({"outcome", records, "--resamples", "200000"}), 2, {"--resamples"});
  check_failure(run_program({"outcome", records, "-o", records, "--force"}), 2, {"r.csv"});
  check_failure(run_program({"outcome", records, "--plan", folder / "none.json"}), 3, {"none.json"});
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_failure(run_program({"outcome", folder / "pipe"}), 3, {"pipe", "a regular file"});
  check_failure(run_program({"compare", folder / "pipe", records}), 3, {"pipe", "a regular file"});
  write(folder, "o.json", "old");
  check_failure(run_program({"outcome", records, "-o", folder / "o.json"}), 2, {"exists"});
  check_failure(run_program({"outcome", folder / "none.csv", "-o", folder / "n.json"}), 3, {"none.csv"});
  CHECK_FALSE(std::filesystem::exists(folder / "n.json"));
}

TEST_CASE("export --table outcome: the columns of the contract in every format") {
  TempDir folder;
  const std::string json = folder / "o.json";
  REQUIRE(run_program(
              {"outcome", write(folder, "r.csv", kRecords + "c,1,baseline,1,5\nc,2,NR,1,5\n"), "-o", json})
              .exit_code == 0);
  const ProgramResult result = run_program({"export", json, "--table", "outcome"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find(
            "task,direction,stage,matched,baseline_accuracy,best_candidate,best_accuracy,best_change,"
            "held_out_change,p_value,improved,p_holm,") == 0);
  const CsvTable table = parse_table(result.out);
  REQUIRE(table.rows.size() == 4);
  CHECK(table.text(0, "task") == "a");
  CHECK(table.text(0, "direction").empty());
  CHECK(table.number(0, "best_change") == 2.0 / 3);
  CHECK(table.text(0, "improved") == "true");
  CHECK(table.text(1, "improved") == "false");
  CHECK(table.text(2, "task") == "c");  // nothing matched: every number is empty
  for (const char* column :
       {"baseline_accuracy", "best_candidate", "best_change", "p_value", "improved", "p_holm"})
    CHECK(table.text(2, column).empty());
  CHECK(table.text(2, "planned") == "2");
  for (const char* format : {"jsonl", "npy"})
    CHECK(run_program({"export", json, "--table", "outcome", "--format", format}).exit_code == 0);
  check_failure(run_program({"export", json, "--table", "ranking"}), 2,
                {"o.json: an outcome has no table \"ranking\""});
  check_failure(run_program({"export", json, "--table", "tasks"}), 2, {"o.json", "tasks"});
  make_profile(folder / "p.h5", ProfileRecipe{});
  check_failure(run_program({"export", folder / "p.h5", "--table", "outcome"}), 2,
                {"p.h5: a profile has no table"});
}

TEST_CASE("export: damaged outcomes are refused or read, nothing else") {
  TempDir folder;
  const std::string json = folder / "o.json";
  REQUIRE(run_program({"outcome", write(folder, "r.csv", kRecords), "-o", json}).exit_code == 0);
  const std::string whole = read_file(json);
  const auto refused = [&](const std::string& text) {
    const ProgramResult result =
        run_program({"export", write(folder, "bad.json", text), "--table", "outcome"});
    if (result.exit_code != 0) check_failure(result, 3, {"bad.json"});
    return result.exit_code != 0;
  };
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    auto document = nlohmann::json::parse(whole);
    document[nlohmann::json::json_pointer(pointer)] = value;
    return document.dump();
  };
  CHECK_FALSE(refused(whole));
  CHECK(refused(changed("/format", "rope-profiler/outcomes")));
  write(folder, "ranking.json", changed("/format", "rope-profiler/ranking"));
  check_failure(run_program({"export", folder / "ranking.json", "--table", "outcome"}), 2,
                {"ranking.json: a ranking has no table"});
  CHECK(refused(changed("/format_version", 2)));
  CHECK(refused(changed("/tasks/0/stage", 7)));
  CHECK(refused(changed("/tasks/0/matched", -1)));
  CHECK(refused(changed("/tasks/0/matched", 1e30)));
  CHECK(refused(changed("/tasks/0/improved", "yes")));
  CHECK(refused(changed("/tasks/0/best_candidate", "none")));
  CHECK(refused(changed("/tasks/0/direction", "up")));
  CHECK(refused(changed("/tasks/0/unmatched", 5)));
  CHECK(refused(changed("/tasks/0/candidates/0", 5)));
  CHECK(refused(changed("/left_out", nlohmann::json::array({5}))));
  CHECK(refused("{\"format\": \"rope-profiler/outcome\", " + whole.substr(1)));  // a key twice
  CHECK(refused("{\"x\": " + std::string(100'000, '[')));
  std::mt19937_64 generator(1);
  for (int round = 0; round < 100; ++round) {
    std::string damaged = whole;
    damaged[1 + generator() % (damaged.size() - 1)] = static_cast<char>(generator());
    refused(damaged);
  }
  for (std::size_t size = 1; size < whole.size() - 2; size += whole.size() / 20)
    CHECK(refused(whole.substr(0, size)));
}

TEST_CASE("outcome: a million records take seconds, not hours") {
  TempDir folder;
  {
    std::ofstream out(folder / "big.csv");
    out << "task,example_id,candidate,correct\n";
    std::mt19937_64 generator(6);
    const char* const names[] = {"baseline", "NR", "0", "0.5"};
    for (int example = 0; example < 250'000; ++example)
      for (const char* name : names)
        out << "t" << example % 3 << ",id" << example << ',' << name << ',' << generator() % 2 << '\n';
  }
  const auto start = std::chrono::steady_clock::now();
  const auto json = outcome_of(folder / "big.csv", {"--resamples", "50", "--quiet"});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE("1,000,000 records: ", seconds, " s");
  CHECK(seconds < 60);
  CHECK(json["tasks"].size() == 3);
  CHECK(json["tasks"][0]["matched"].get<int>() + json["tasks"][1]["matched"].get<int>() +
            json["tasks"][2]["matched"].get<int>() ==
        250'000);
}

TEST_SUITE_END();

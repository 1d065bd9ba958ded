// `plan --preview` and `export --table preview` as a user meets them.

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "interventions/plan_json.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"
#include "support/cache_writer.hpp"
#include "support/csv_table.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

struct Files {
  Files() {
    write_cache(cache, random_cache({.examples = 4, .tasks = {"alpha", "beta", "gamma"}}));
    REQUIRE(run_program({"profile", cache, "-o", profile, "--heads", "all"}).exit_code == 0);
  }
  ProgramResult plan(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"plan", profile, "-o", path, "--force", "--heads", "0.1,1.2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  nlohmann::json json() const { return nlohmann::json::parse(read_file(path)); }

  TempDir folder;
  std::string cache = folder / "cache.h5", profile = folder / "p.h5", path = folder / "plan.json";
};

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("plan --preview: rows in the plan, on the terminal and as a table agree") {
  Files files;
  const ProgramResult result = files.plan({"--strengths", "NR,0.5", "--alpha-sweep", "0:3:0.1", "--resamples",
                                           "100", "--seed", "77", "--preview", files.cache});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("changes by alpha, mean over 3 tasks (16 of 31 points") != std::string::npos);
  CHECK(result.out.find("baseline") != std::string::npos);
  const auto json = files.json();
  check_schema("plan", json);
  CHECK(json["preview"]["seed"] == 77);
  CHECK(json["preview"]["resamples"] == 100);
  CHECK(json["preview"]["share_split"] == "operational");
  CHECK(json["preview"]["inputs"][0]["name"] == files.cache);
  CHECK(json["preview"]["inputs"][0]["sha256"] == sha256_of_file(files.cache));
  const ProgramResult exported = run_program({"export", files.path, "--table", "preview"});
  REQUIRE(exported.exit_code == 0);
  const CsvTable table = parse_table(exported.out);
  const std::vector<std::string> fixed{"stage",
                                       "task",
                                       "candidate",
                                       "semantic_score",
                                       "semantic_score_change",
                                       "positional_score",
                                       "positional_score_change",
                                       "norm_share",
                                       "norm_share_change",
                                       "effective_length_virtual",
                                       "effective_length_virtual_change",
                                       "logit_spread",
                                       "logit_spread_change",
                                       "positional_score_fixed_norm",
                                       "positional_score_fixed_norm_change"};
  REQUIRE(table.columns.size() > fixed.size());
  CHECK(std::vector<std::string>(table.columns.begin(), table.columns.begin() + std::ssize(fixed)) == fixed);
  REQUIRE(table.rows.size() == 3 * (1 + 2 + 30));
  std::size_t row = 0;
  for (const auto& task : json["tasks"])
    for (const auto& preview : task["preview"]) {
      CHECK(table.text(row, "stage") == "5");
      CHECK(table.text(row, "task") == task["task"]);
      CHECK(table.text(row, "candidate") == preview["candidate"]);
      CHECK(table.number(row, "semantic_score") == preview["semantic_score"]["value"]);
      CHECK(table.text(row, "in_sweep") == (preview["in_sweep"] ? "true" : "false"));
      if (preview["candidate"] == "baseline") {
        CHECK(table.text(row, "logit_spread_change").empty());
        CHECK(preview["logit_spread"]["change"].is_null());
      } else {
        CHECK(table.number(row, "logit_spread_change_high") == preview["logit_spread"]["change_high"]);
        CHECK(table.number(row, "logit_spread_change_low") <= preview["logit_spread"]["change"]);
      }
      ++row;
    }
  CHECK(row == table.rows.size());
  for (const char* format : {"jsonl", "npy"})
    CHECK(run_program(
              {"export", files.path, "--table", "preview", "--format", format, "-o", files.folder / format})
              .exit_code == 0);
  const std::string lines = read_file(files.folder / "jsonl");
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  CHECK(first["candidate"] == "baseline");
  CHECK(first["semantic_score_change"].is_null());
}

TEST_CASE("plan --preview: the plan reads back, and its bytes follow from inputs, seed and options alone") {
  Files files;
  CHECK(files.plan({"--preview", files.cache, "--threads", "1"}).exit_code == 0);
  const std::string once = read_file(files.path);
  const Plan plan = read_plan_json(files.path);
  REQUIRE(plan.preview);
  CHECK(plan_json(plan) == once);
  CHECK(plan.tasks[0].preview.size() == 4);
  CHECK(files.plan({"--preview", files.cache, "--threads", "3", "--memory", "64M"}).exit_code == 0);
  CHECK(read_file(files.path) == once);
  CHECK(files.plan({"--preview", files.cache, "--seed", "18446744073709551615"}).exit_code == 0);
  CHECK(read_plan_json(files.path).preview->seed == 18446744073709551615u);
  CHECK(files.plan({}).exit_code == 0);
  CHECK(!read_plan_json(files.path).preview);
  check_failure(run_program({"export", files.path, "--table", "preview"}), 3, {"a plan without a preview"});
}

TEST_CASE("plan --preview: wrong command lines") {
  Files files;
  for (const std::vector<std::string>& extra :
       std::vector<std::vector<std::string>>{{"--alpha-sweep", "0:3:0.1"},
                                             {"--resamples", "10"},
                                             {"--memory", "1G"},
                                             {"--backend", "cpu"},
                                             {"--trust", "config"},
                                             {"--seed", "1"}})
    check_failure(files.plan(extra), 2, {extra[0] + " belongs to --preview"});
  const auto preview = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--preview", files.cache});
    return files.plan(more);
  };
  check_failure(preview({"--alpha-sweep", "0:3:nan"}), 2, {"--alpha-sweep", "FROM:TO:STEP"});
  check_failure(preview({"--alpha-sweep", "-1:3:1"}), 2, {"--alpha-sweep", "0 <= FROM"});
  check_failure(preview({"--alpha-sweep", "0:3:0.0001"}), 2, {"30001 points, more than 1000"});
  check_failure(preview({"--strengths", "nan"}), 2, {"--strengths"});
  check_failure(preview({"--strengths", "-0.5"}), 2, {"--strengths"});
  check_failure(preview({"--memory", "1K"}), 2, {"--memory"});
  check_failure(preview({"--resamples", "-1"}), 2, {"--resamples"});
  check_failure(preview({"--seed", "-1"}), 2, {"--seed"});
  CHECK(!std::filesystem::exists(files.path));
  check_failure(run_program({"plan", files.profile, "-o", files.cache, "--force", "--preview", files.cache}),
                2, {files.cache});
  check_failure(run_program({"plan", files.profile, "--preview", files.folder / "none.h5"}), 3, {"none.h5"});
  check_failure(run_program({"plan", files.profile, "--preview", files.profile}), 3, {"p.h5"});
}

TEST_CASE("plan --preview: caches of another model leave no plan") {
  Files files;
  CacheSpec other = random_cache({.examples = 4, .tasks = {"alpha", "beta", "gamma"}});
  other.model.name = "another model";
  const std::string path = files.folder / "other.h5";
  write_cache(path, other);
  check_failure(files.plan({"--preview", path}), 3, {"other.h5", "/model", "another model"});
  CHECK(!std::filesystem::exists(files.path));
}

TEST_CASE("plan --preview: preview rows of a damaged plan are refused with their place") {
  Files files;
  REQUIRE(files.plan({"--preview", files.cache}).exit_code == 0);
  const auto whole = nlohmann::ordered_json::parse(read_file(files.path));
  const auto refusal = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto json = whole;
    change(json);
    std::ofstream(files.path) << json;
    const ProgramResult result = run_program({"export", files.path, "--table", "preview"});
    CHECK(result.exit_code == 3);
    return result.err;
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto row = [](nlohmann::ordered_json& json) -> nlohmann::ordered_json& {
    return json["tasks"][1]["preview"][2];
  };
  says(refusal([&](auto& json) { row(json)["alpha"] = -1; }), "/tasks/1/preview/2/alpha");
  says(refusal([&](auto& json) { row(json)["alpha"] = 1e9; }), "/tasks/1/preview/2/alpha");
  says(refusal([&](auto& json) { row(json)["candidate"] = "x\ny"; }), "/tasks/1/preview/2/candidate");
  says(refusal([&](auto& json) { row(json)["operation"] = "explode"; }), "/tasks/1/preview/2/operation");
  says(refusal([&](auto& json) { row(json)["examples"] = -3; }), "/tasks/1/preview/2/examples");
  says(refusal([&](auto& json) { row(json)["norm_share"] = 3; }), "/tasks/1/preview/2/norm_share");
  says(refusal([&](auto& json) { row(json)["norm_share"]["value"] = "much"; }),
       "/tasks/1/preview/2/norm_share/value");
  says(refusal([&](auto& json) { row(json).erase("logit_spread"); }), "/tasks/1/preview/2");
  says(refusal([&](auto& json) { row(json) = json["tasks"][1]["preview"][1]; }), "again");
  says(refusal([&](auto& json) { json["tasks"][0]["preview"] = "none"; }), "/tasks/0/preview");
  says(refusal([&](auto& json) { json["preview"]["seed"] = -1; }), "/preview/seed");
  says(refusal([&](auto& json) { json["preview"]["inputs"] = 1; }), "/preview/inputs");
  says(refusal([&](auto& json) { json.erase("preview"); }), "a plan without a preview");
}

TEST_SUITE_END();

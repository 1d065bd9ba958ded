#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/digest.hpp"
#include "support/make_profile.hpp"
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

nlohmann::json comparison_of(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"compare", a, b, "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run_program(arguments);
  CHECK(result.exit_code == 0);
  auto json = nlohmann::json::parse(result.out);
  check_schema("compare", json);
  return json;
}

/// A profile of tasks a, b, ... with the given semantic scores and rising positional ones.
std::string profile_in(const TempDir& folder, const std::string& name, const std::vector<double>& semantic,
                       std::vector<char> selected = {}) {
  ScoreTable table;
  table.heads = 4;
  table.selected = std::move(selected);
  ScoreCube s, p;
  for (std::size_t t = 0; t < semantic.size(); ++t) {
    table.tasks.push_back(std::string(1, static_cast<char>('a' + t)));
    s.push_back({std::vector<double>(4, semantic[t])});
    p.push_back({std::vector<double>(4, static_cast<double>(t + 1))});
  }
  table.scores = {{Score::kSemantic, s}, {Score::kPositional, p}};
  make_profile(folder / name, table);
  return folder / name;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("compare: the paper's two models from CSV") {
  const std::string folder = ROPE_SOURCE_DIR "/examples/rankings/";
  const std::string a = folder + "qwen3-8b.csv", b = folder + "llama-3.1-8b.csv";
  const auto json = comparison_of(a, b, {"--seed", "3"});
  CHECK(std::abs(json["spearman"].get<double>() - 0.6579834722700924) < 1e-15);
  CHECK(json["tasks"].size() == 49);
  CHECK(json["low"] < json["spearman"]);
  CHECK(json["high"] > json["spearman"]);
  CHECK(json["resamples"] == 10'000);
  CHECK(json["seed"] == 3);
  CHECK(json["a"]["sha256"] == sha256_of_file(a));
  CHECK(json["a"]["model"].is_null());
  CHECK(json["head_overlap"].is_null());
  CHECK(json["head_overlap_note"].get<std::string>().find("no profile") != std::string::npos);
  // 24 and 23 semantic settings, as the paper has them.
  int semantic_a = 0, semantic_b = 0;
  double last = 2;
  for (const auto& task : json["tasks"]) {
    semantic_a += task["direction_a"] == "semantic";
    semantic_b += task["direction_b"] == "semantic";
    CHECK(task["difference"].get<double>() == task["w_s_b"].get<double>() - task["w_s_a"].get<double>());
    CHECK(task["w_s_a"].get<double>() <= last);
    last = task["w_s_a"].get<double>();
  }
  CHECK(semantic_a == 24);
  CHECK(semantic_b == 23);
  const ProgramResult text = run_program({"compare", a, b});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("over 49 shared tasks: 0.657983") != std::string::npos);
  // The other way round: the same rho and p, the differences' signs turned.
  const auto back = comparison_of(b, a);
  CHECK(back["spearman"] == json["spearman"]);
  CHECK(comparison_of(a, b, {"--threads", "1"}) == comparison_of(a, b, {"--threads", "3"}));
}

TEST_CASE("compare: rankings, profiles and CSV of the same scores agree") {
  TempDir folder;
  const std::string one = profile_in(folder, "1.h5", {0.1, 0.9, 0.5, 0.4, 0.7}, {1, 1, 0, 0});
  const std::string two = profile_in(folder, "2.h5", {0.2, 0.8, 0.9, 0.1, 0.3}, {0, 1, 1, 0});
  const std::string ranking = folder / "1.json";
  REQUIRE(run_program({"rank", one, "-o", ranking}).exit_code == 0);
  const auto direct = comparison_of(one, two);
  CHECK(direct["head_overlap"]["selected_a"] == 2);
  CHECK(direct["head_overlap"]["common"] == 1);
  CHECK(direct["head_overlap"]["jaccard"] == 1 / 3.0);
  CHECK(direct["head_overlap_note"].is_null());
  CHECK(direct["exact"] == true);
  CHECK(direct["permutations"] == 120);
  const auto through = comparison_of(ranking, two);
  CHECK(through["tasks"] == direct["tasks"]);
  CHECK(through["low"] == direct["low"]);
  CHECK(through["a"]["kind"] == "ranking");
  CHECK(through["a"]["model"] == direct["a"]["model"]);
  CHECK(through["head_overlap"].is_null());
  std::string csv = "w_s,task,extra\n";
  for (const auto& task : direct["tasks"])
    csv += task["w_s_b"].dump() + "," + task["task"].get<std::string>() + ",x\n";
  const auto mixed = comparison_of(one, write(folder, "2.csv", csv));
  CHECK(mixed["tasks"] == direct["tasks"]);
  CHECK(mixed["p_value"] == direct["p_value"]);

  // Other models: no overlap of heads.
  ProfileRecipe recipe;
  make_profile(folder / "other.h5", recipe);
  const auto other = comparison_of(one, folder / "other.h5");
  CHECK(other["head_overlap"].is_null());
  CHECK(other["head_overlap_note"].get<std::string>().find("the models differ") == 0);
  CHECK(run_program({"compare", one, two}).out.find("2 in A, 2 in B, 1 in both, Jaccard index 0.3333") !=
        std::string::npos);
}

TEST_CASE("compare: tasks of one side, tasks without w_S, too few tasks") {
  TempDir folder;
  const std::string a = write(folder, "a.csv", "task,w_s\n\"x\n1\",0.5\ny,0.25\nz,\nonly a,1\n");
  const std::string b =
      write(folder, "b.csv", "task,w_s\nz,0.5\ny,0.25\n\"x\n1\",0.75\n\"only \"\"b\"\"\",0\n");
  const auto json = comparison_of(a, b);
  CHECK(json["tasks"].size() == 2);
  CHECK(json["only_in_a"] == nlohmann::json{"only a"});
  CHECK(json["only_in_b"] == nlohmann::json{"only \"b\"", "z"});
  CHECK(json["a"]["without_w_s"] == nlohmann::json{"z"});
  for (const char* name : {"spearman", "low", "high", "p_value"}) CHECK(json[name].is_null());
  const ProgramResult text = run_program({"compare", a, b});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("Spearman's rho: none, 2 shared tasks (3 are needed)") != std::string::npos);
  CHECK(text.out.find("only in A: only a") != std::string::npos);
  CHECK(text.out.find("without w_S: z") != std::string::npos);
  const std::string flat = write(folder, "f.csv", "task,w_s\ny,1\nz,1\nonly a,1\n\"x\n1\",1\n");
  CHECK(comparison_of(a, flat)["spearman"].is_null());
  const ProgramResult none = run_program({"compare", a, write(folder, "n.csv", "task,w_s\nq,1\n")});
  CHECK(none.exit_code == 0);
  CHECK(none.err.find("no task is in both") != std::string::npos);
  CHECK(comparison_of(a, b, {"--resamples", "0"})["low"].is_null());
}

TEST_CASE("compare refuses what it cannot use") {
  TempDir folder;
  const std::string good = write(folder, "g.csv", "task,w_s\na,1\nb,0.5\nc,0\n");
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    check_failure(run_program({"compare", good, write(folder, "bad.csv", text)}), 3, parts);
  };
  refused("", {"bad.csv", "empty"});
  refused("task,score\na,1\n", {"bad.csv:1", "\"w_s\"", "\"score\""});
  refused("task,w_s\na,nan\n", {"bad.csv:2", "a fraction from 0 to 1"});
  refused("task,w_s\na,1e999\n", {"bad.csv:2", "a fraction from 0 to 1"});
  refused("task,w_s\na,inf\n", {"bad.csv:2", "a fraction from 0 to 1"});
  refused("task,w_s\na,-3\n", {"bad.csv:2", "a fraction from 0 to 1"});
  refused("task,w_s\na,101\n", {"bad.csv:2", "a percentage up to 100"});
  refused("task,w_s\na,100\nb,50\nc,0\n", {"bad.csv", "per cent", "fractions"});
  refused("task,w_s\na,1\na,2\n", {"bad.csv", "\"a\" twice"});
  refused("task,w_s\na,1\na,\n", {"bad.csv", "\"a\" twice"});
  refused("task,w_s\n,1\n", {"bad.csv:2", "\"task\""});
  refused("task,w_s\na\n", {"bad.csv:2", "2 fields"});
  refused(std::string("task,w_s\na\0b,1\n", 15), {"bad.csv:2", "NUL"});
  refused("{\"format\": \"rope-profiler/outcome\"}", {"bad.csv", "format"});
  refused("{}", {"bad.csv"});
  refused("{\"a\": 1, \"a\": 2}", {"bad.csv", "\"a\" twice"});
  refused("\x89HDF\r\n\x1a\n", {"bad.csv"});
  std::string many = "task,w_s\n";
  for (int i = 0; i <= 10'000; ++i) many += "t" + std::to_string(i) + ",1\n";
  refused(many, {"bad.csv:10002", "10,000"});
  check_failure(run_program({"compare", good, folder / "none"}), 3, {"none", "cannot open"});
  check_failure(run_program({"compare", good, folder.path().string()}), 3, {"found a folder"});
  check_failure(run_program({"compare", good}), 2, {"B"});
  check_failure(run_program({"compare", good, good, "--resamples", "-1"}), 2, {"--resamples"});
}

TEST_SUITE_END();

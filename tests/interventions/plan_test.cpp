#include "interventions/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "interventions/plan_json.hpp"
#include "interventions/plan_warnings.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"
#include "support/cache_writer.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

/// A profile of a small random cache of three tasks.
std::string profile_in(const TempDir& folder, const RandomCache& sizes,
                       std::vector<std::string> options = {}) {
  write_cache(folder / "c.h5", random_cache(sizes));
  std::vector<std::string> command{"profile", folder / "c.h5", "-o", folder / "p.h5", "--force"};
  command.insert(command.end(), options.begin(), options.end());
  REQUIRE(run_program(command).exit_code == 0);
  return folder / "p.h5";
}

RandomCache three_tasks() {
  RandomCache sizes;
  sizes.num_layers = 5;
  sizes.tasks = {"alpha", "beta", "gamma"};
  return sizes;
}

std::vector<std::string> ids(const PlanTask& task) {
  std::vector<std::string> result;
  for (const Intervention& candidate : task.candidates) result.push_back(candidate.id());
  return result;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("candidates of the stages are those of the paper") {
  const auto names = [](int stage, Direction direction) {
    Ids result;
    for (const Intervention& candidate : stage_candidates(stage, direction)) result.push_back(candidate.id());
    return result;
  };
  CHECK(names(5, Direction::kSemantic) == Ids{"NR", "0", "0.5"});
  CHECK(names(5, Direction::kPositional) == Ids{"1.5", "2", "2.5"});
  CHECK(names(10, Direction::kSemantic) == Ids{"NR", "0.25", "0.5", "0.75"});
  CHECK(names(10, Direction::kPositional) == Ids{"1.25", "1.5", "1.75", "2"});
  CHECK(names(5, Direction::kNone).empty());
}

TEST_CASE("strengths: ids are the shortest decimals; what is no candidate is refused") {
  const auto parsed = parse_strengths("NR,0.50,2.0,1e-3,-0");
  REQUIRE(parsed.size() == 5);
  CHECK(parsed[0].operation == Operation::kFreeze);
  CHECK(parsed[1].id() == "0.5");
  CHECK(parsed[2].id() == "2");
  CHECK(parsed[3].id() == "0.001");
  CHECK(parsed[4].id() == "0");
  for (const char* wrong :
       {"", "nan", "inf", "-0.5", "1", "1.0", "0.5,0.50", "NR,NR", "0.5,", "x", "1e5", "0x2", " 2"})
    CHECK_THROWS_AS(parse_strengths(wrong), UserError);
}

TEST_CASE("a plan takes heads, masks and candidates from profile and ranking") {
  TempDir folder;
  const ProfileReader profile(profile_in(folder, three_tasks()));
  const Plan plan = make_plan(profile, {});
  const Ranking ranking = rank_profile(profile, {.resamples = 0});
  REQUIRE(plan.tasks.size() == 3);
  // 5 layers of 4 heads: 5 % keeps the first head of the order, 10 % two.
  const auto first = static_cast<std::size_t>(profile.selection().order[0]);
  for (std::size_t t = 0; t < 3; ++t) {
    const PlanTask& task = plan.tasks[t];
    CHECK(task.task == ranking.tasks[t].task);
    CHECK(task.direction == ranking.tasks[t].direction);
    CHECK(task.w_s == ranking.tasks[t].w_s);
    CHECK(task.stage == 5);
    const ProfileHead& head = profile.header().heads[first];
    CHECK(task.heads == std::vector<HeadIndex>{{head.layer, head.head}});
    CHECK(ids(task) ==
          (task.direction == Direction::kSemantic ? Ids{"NR", "0", "0.5"} : Ids{"1.5", "2", "2.5"}));
    // Examples of 200, 210, 220 tokens.
    REQUIRE(task.prompts.size() == 3);
    for (std::size_t p = 0; p < 3; ++p) {
      const PlanPrompt& prompt = task.prompts[p];
      CHECK(prompt.length == 200 + 10 * static_cast<std::int64_t>(p));
      REQUIRE(prompt.layers.size() == 1);
      const PlanPromptLayer& layer = prompt.layers[0];
      CHECK(layer.layer == head.layer);
      CHECK(layer.heads == std::vector<int>{head.head});
      // H(M) by hand: M omega_n >= 2 C / ((1 - rho) epsilon), h = 8, base 1e4, C = 0.05, epsilon = 0.1.
      const double rho = std::pow(1e4, -1.0 / 8), gamma = 1.0 / (1 - rho);
      std::vector<int> expected;
      for (int n = 0; n < 8; ++n)
        if (static_cast<double>(prompt.length) * std::pow(1e4, -n / 8.0) >= gamma) expected.push_back(n);
      CHECK(layer.pairs == expected);
      CHECK(!expected.empty());
      for (int n = 0; n < 8; ++n) {
        const bool frozen = task.direction == Direction::kSemantic && n < static_cast<int>(expected.size());
        CHECK(layer.inv_freq[static_cast<std::size_t>(n)] ==
              doctest::Approx(frozen ? 0.0 : std::pow(1e4, -n / 8.0)).epsilon(1e-12));
      }
    }
  }
  PlanOptions later;
  later.stage = 10;
  CHECK(make_plan(profile, later).tasks[0].heads.size() == 2);
}

TEST_CASE("the steps of a grid give the same masks as the rule, at every length, under every split") {
  std::vector<double> omega;
  for (int n = 0; n < 24; ++n) omega.push_back(std::pow(5e5, -n / 24.0));
  omega[7] = omega[6];  // a tie
  omega.push_back(0.0);
  for (const char* name : {"operational", "intervention", "certified", "separation:0.5,0.2", "omega:0.01",
                           "periods:2", "prefix:5", "prefix:0", "custom:0.3,0.05"}) {
    const auto split = spectral::parse_split(name);
    for (const std::int64_t window : {std::int64_t{0}, std::int64_t{700}}) {
      const auto steps = mask_steps(split, omega, 0.6, window);
      const auto order = spectral::falling_order(omega);
      for (std::int64_t length : {1, 2, 3, 5, 17, 100, 699, 700, 701, 5000, 1 << 20, 1 << 24}) {
        std::size_t size = 0;
        for (const MaskStep& step : steps)
          if (step.length <= length) size = static_cast<std::size_t>(step.pairs);
        std::vector<int> pairs(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(size));
        std::sort(pairs.begin(), pairs.end());
        CHECK_MESSAGE(pairs == masked_pairs(split, omega, 0.6, length, window), name, " ", length, " ",
                      window);
      }
      for (std::size_t i = 0; i < steps.size(); ++i) {  // each step begins just there
        CHECK(steps[i].length >= 1);
        if (steps[i].length > 1)
          CHECK(static_cast<int>(masked_pairs(split, omega, 0.6, steps[i].length - 1, window).size()) <
                steps[i].pairs);
      }
    }
  }
}

TEST_CASE("options of plan: tasks, direction, strengths, heads, outcomes") {
  TempDir folder;
  const ProfileReader profile(profile_in(folder, three_tasks()));
  PlanOptions options;
  options.task_globs = {"b*"};
  options.direction = Direction::kSemantic;
  options.strengths = parse_strengths("0.3,NR");
  options.heads = parse_heads("1.2,3.0");
  const Plan plan = make_plan(profile, options);
  REQUIRE(plan.tasks.size() == 1);
  CHECK(plan.tasks[0].task == "beta");
  CHECK(ids(plan.tasks[0]) == Ids{"0.3", "NR"});
  CHECK(plan.tasks[0].heads == std::vector<HeadIndex>{{1, 2}, {3, 0}});
  CHECK(plan.heads_rule == "list");
  options.task_globs = {"nothing"};
  CHECK_THROWS_AS(make_plan(profile, options), UserError);
  PlanOptions later;
  later.stage = 10;
  later.not_improved = {"gamma", "unknown"};
  const Plan second = make_plan(profile, later);
  REQUIRE(second.tasks.size() == 1);
  CHECK(second.tasks[0].task == "gamma");
  CHECK(std::any_of(second.warnings.begin(), second.warnings.end(),
                    [](const std::string& warning) { return warning.find("unknown") != std::string::npos; }));
}

TEST_CASE("heads that share their keys with heads that are not chosen are found") {
  PlanModel model;
  model.layers = {{0, 6, 2, 8, 8, false}, {4, 2, 2, 8, 8, false}};
  using Heads = std::vector<HeadIndex>;
  CHECK(heads_with_shared_keys(model, {{0, 0}, {0, 1}, {0, 2}}).empty());
  CHECK(heads_with_shared_keys(model, {{0, 0}, {0, 3}, {0, 4}, {0, 5}}) == Heads{{0, 0}});
  CHECK(heads_with_shared_keys(model, {{4, 1}}).empty());
}

TEST_CASE("one task: no direction, so no candidates without --direction, and it says so") {
  TempDir folder;
  RandomCache sizes;
  sizes.tasks = {"only"};
  const ProfileReader profile(profile_in(folder, sizes));
  const Plan plan = make_plan(profile, {});
  CHECK(plan.tasks[0].direction == Direction::kNone);
  CHECK(plan.tasks[0].candidates.empty());
  CHECK(plan.tasks[0].heads.size() == 8);  // no variance: every head
  CHECK(plan.warnings.size() >= 2);
  PlanOptions options;
  options.direction = Direction::kPositional;
  CHECK(make_plan(profile, options).tasks[0].candidates.size() == 3);
}

TEST_CASE("sliding layers are masked by their own window, per-head grids by their own frequencies") {
  TempDir folder;
  CacheSpec cache = random_cache(three_tasks());
  auto config = nlohmann::json::parse(*cache.model.config);
  config["model_type"] = "mistral";
  config["sliding_window"] = 20;
  cache.model.config = config.dump();
  write_cache(folder / "c.h5", cache);
  REQUIRE(run_program({"profile", folder / "c.h5", "-o", folder / "p.h5"}).exit_code == 0);
  const ProfileReader sliding(folder / "p.h5");
  const Plan plan = make_plan(sliding, {});
  CHECK(plan.model.frequencies[0].window == 20);
  const double gamma = 1.0 / (1 - std::pow(1e4, -1.0 / 8));
  std::size_t expected = 0;
  for (int n = 0; n < 8; ++n) expected += 20 * std::pow(1e4, -n / 8.0) >= gamma;
  CHECK(plan.tasks[0].prompts[0].layers[0].pairs.size() == expected);

  cache = random_cache(three_tasks());
  cache.model.config.reset();
  cache.model.inv_freq_shape = {5, 4, 8};
  for (int i = 0; i < 20; ++i)
    for (int n = 0; n < 8; ++n) cache.model.inv_freq.push_back(std::pow(i % 4 < 2 ? 1e4 : 10.0, -n / 8.0));
  write_cache(folder / "h.h5", cache);
  REQUIRE(run_program({"profile", folder / "h.h5", "-o", folder / "q.h5"}).exit_code == 0);
  const ProfileReader per_head(folder / "q.h5");
  PlanOptions all;
  all.heads = parse_heads("all");
  const Plan split = make_plan(per_head, all);
  const auto& layers = split.tasks[0].prompts[0].layers;
  REQUIRE(layers.size() == 10);  // two grids in each of five layers
  CHECK(layers[0].heads == std::vector<int>{0, 1});
  CHECK(layers[1].heads == std::vector<int>{2, 3});
  CHECK(layers[1].pairs.size() > layers[0].pairs.size());
  const Plan back = [&] {
    REQUIRE(run_program({"plan", folder / "q.h5", "-o", folder / "plan.json", "--heads", "all"}).exit_code ==
            0);
    return read_plan_json(folder / "plan.json");
  }();
  CHECK(back.tasks == split.tasks);
}

TEST_CASE("dynamic grids: frequencies per prompt length, no steps") {
  TempDir folder;
  CacheSpec cache = random_cache(three_tasks());
  auto config = nlohmann::json::parse(*cache.model.config);
  config["max_position_embeddings"] = 205;
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  cache.model.config = config.dump();
  write_cache(folder / "c.h5", cache);
  REQUIRE(run_program({"profile", folder / "c.h5", "-o", folder / "p.h5"}).exit_code == 0);
  const ProfileReader profile(folder / "p.h5");
  const Plan plan = make_plan(profile, {});
  const PlanFrequencies& frequencies = plan.model.frequencies[0];
  CHECK(frequencies.steps.empty());
  REQUIRE(frequencies.grids.size() == 3);
  CHECK(frequencies.grids[0].window == 200);
  CHECK(frequencies.grids[0].inv_freq != frequencies.grids[2].inv_freq);
  REQUIRE(run_program({"plan", folder / "p.h5", "-o", folder / "plan.json"}).exit_code == 0);
  check_schema("plan", nlohmann::json::parse(read_file(folder / "plan.json")));
  CHECK(read_plan_json(folder / "plan.json").model == plan.model);
}

TEST_CASE("plan.json: follows its schema, reads back the same, and depends on nothing else") {
  TempDir folder;
  const std::string profile = profile_in(folder, three_tasks());
  REQUIRE(run_program({"plan", profile, "-o", folder / "a.json", "--threads", "1"}).exit_code == 0);
  REQUIRE(run_program({"plan", profile, "-o", folder / "b.json", "--threads", "3"}).exit_code == 0);
  CHECK(read_file(folder / "a.json") == read_file(folder / "b.json"));
  const auto json = nlohmann::json::parse(read_file(folder / "a.json"));
  check_schema("plan", json);
  CHECK(json["profile_digest"] == sha256_of_file(profile));
  CHECK(json["split"]["name"] == "intervention");
  const Plan back = read_plan_json(folder / "a.json");
  const Plan made = make_plan(ProfileReader(profile), {});
  CHECK(back.model == made.model);
  CHECK(back.tasks == made.tasks);
  CHECK(back.warnings == made.warnings);
  CHECK(back.settings == made.settings);
  auto wrong = json;
  wrong["tasks"][0]["stage"] = 7;
  CHECK(!schema_violations("plan", wrong).empty());
}

TEST_CASE("a profile from before frequencies were kept is refused with what to do") {
  TempDir folder;
  ProfileHeader header;
  header.tool_version = "0.0-test";
  header.model_name = "old";
  header.num_layers = 1;
  header.heads = {{0, 0, true}};
  {
    ProfileWriter writer(folder / "p.h5", true, header);
    writer.add_task({"t", "", "", 0, {0}, 1});
    writer.put_example("t", 0, "0", 100);
    const std::vector<double> value{0.5};
    writer.put("t", Score::kSemantic, 0, value);
    writer.put_selection({"all", {1}, {0.0}, {0}, 1, {0}});
    writer.commit();
  }
  check_failure(run_program({"plan", folder / "p.h5"}), 3, {"p.h5", "/grids", "frequencies"});
}

TEST_CASE("hostile plans are refused with the place") {
  TempDir folder;
  const std::string profile = profile_in(folder, three_tasks());
  REQUIRE(run_program({"plan", profile, "-o", folder / "plan.json", "--direction", "semantic"}).exit_code ==
          0);
  const auto good = nlohmann::ordered_json::parse(read_file(folder / "plan.json"));
  const auto complaint = [&](const char* pointer, const nlohmann::ordered_json& value) {
    auto bad = good;
    bad[nlohmann::ordered_json::json_pointer(pointer)] = value;
    std::ofstream(folder / "bad.json") << bad.dump();
    try {
      read_plan_json(folder / "bad.json");
    } catch (const UserError& error) {
      CHECK(error.code() == ExitCode::kInput);
      const std::string text = error.what();
      CHECK_MESSAGE(text.find("bad.json: /") != std::string::npos, text);
      CHECK(text.find('\n') == std::string::npos);
      return true;
    }
    return false;
  };
  CHECK(complaint("/schema", "rope-profiler/plan-2"));
  CHECK(complaint("/model/num_layers", -1));
  CHECK(complaint("/model/num_layers", 18446744073709551615ULL));
  CHECK(complaint("/model/rope_layout", "diagonal"));
  CHECK(complaint("/model/frequencies/0/inv_freq/0", -1.0));
  CHECK(complaint("/model/frequencies/0/inv_freq/0", nullptr));
  CHECK(complaint("/model/frequencies/0/layers", {3, 2}));
  CHECK(complaint("/model/frequencies/0/steps/0/length", 0));
  CHECK(complaint("/split/name", "sideways"));
  CHECK(complaint("/tasks/0/direction", "upwards"));
  CHECK(complaint("/tasks/0/stage", 7));
  CHECK(complaint("/tasks/0/heads/0", {0, 99}));
  CHECK(complaint("/tasks/0/heads/0", {1e300, 0}));
  CHECK(complaint("/tasks/0/candidates/1/alpha", nullptr));
  CHECK(complaint("/tasks/0/candidates/1/alpha", -1));
  CHECK(complaint("/tasks/0/candidates/1/alpha", 1e9));
  CHECK(complaint("/tasks/0/candidates/1/id", "0.1\n2"));
  CHECK(complaint("/tasks/0/candidates/1", good["tasks"][0]["candidates"][0]));
  CHECK(complaint("/tasks/0/candidates/0/alpha", 0.5));
  CHECK(complaint("/tasks/0/prompts/0/length", 1 << 30));
  CHECK(complaint("/tasks/0/prompts/0/layers/0/pairs", {0, 0}));
  CHECK(complaint("/tasks/0/prompts/0/layers/0/pairs", {99}));
  CHECK(complaint("/tasks/0/prompts/0/layers/0/inv_freq", {1.0}));
  // What does not fit together: it would make an adapter that changes less than the plan says.
  const auto layer = good["tasks"][0]["prompts"][0]["layers"][0];
  CHECK(complaint("/tasks/0/prompts/0/layers", {layer, layer}));
  CHECK(complaint("/tasks/0/prompts/0/layers", nlohmann::ordered_json::array()));
  CHECK(complaint("/tasks/0/prompts/0/layers/0/heads", nlohmann::ordered_json::array()));
  CHECK(complaint("/tasks/0/prompts/0/layers/0/inv_freq/7", 0.0));  // no pair of H
  CHECK(complaint("/tasks/0/prompts/0/layers/0/inv_freq/0", 0.5));
  CHECK(complaint("/model/layers/0/kv_heads", 3));
  CHECK(complaint("/model/layers/0/kv_heads", 0));
  CHECK(complaint("/model/layers/0/rotary_dim", 15));
  CHECK(complaint("/model/layers/0/rotary_dim", 14));
  CHECK(complaint("/model/layers/0/query_heads", 1 << 20));
  CHECK(complaint("/model/frequencies/0/steps/0/pairs", 9));
  CHECK(complaint("/model/frequencies/0/steps/1", good["model"]["frequencies"][0]["steps"][0]));
  CHECK(complaint("/model/frequencies/1", good["model"]["frequencies"][0]));
  CHECK(complaint("/tasks/0/w_s", 7));
  CHECK(complaint("/tasks", nlohmann::ordered_json::array()));
  CHECK(complaint("/tasks/1", good["tasks"][0]));
  CHECK(complaint("/tasks", "none"));
  CHECK(complaint("/settings", 5));
  for (const char* text : {"", "[]", "{", "null", "{\"schema\": 5}", "\xff\xfe"}) {
    std::ofstream(folder / "bad.json") << text;
    CHECK_THROWS_AS(read_plan_json(folder / "bad.json"), UserError);
  }
  CHECK_THROWS_AS(read_plan_json(folder / "missing.json"), UserError);
}

TEST_CASE("plan: usage errors") {
  TempDir folder;
  const std::string profile = profile_in(folder, three_tasks());
  check_failure(run_program({"plan", profile, "--stage", "7"}), 2, {"--stage"});
  check_failure(run_program({"plan", profile, "--strengths", "nan"}), 2, {"--strengths"});
  check_failure(run_program({"plan", profile, "--split", "x"}), 2, {"--split"});
  check_failure(run_program({"plan", profile, "--outcomes", "o.json"}), 2, {"--outcomes", "--stage 10"});
  check_failure(run_program({"plan", profile, "--heads", "9.9"}), 2, {"layer 9"});
  check_failure(run_program({"plan", profile, "-o", profile, "--force"}), 2, {"p.h5"});
  check_failure(run_program({"plan", folder / "c.h5"}), 3, {"c.h5", "rope-profiler/profile"});
}

TEST_SUITE_END();

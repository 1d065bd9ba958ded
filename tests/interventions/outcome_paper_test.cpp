// The paper's result tables (tests/data/reference) through `outcome`: shared reference README, "Oracles".
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "interventions/outcome.hpp"
#include "support/compare.hpp"
#include "support/paper_records.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const char* const kQwen = "Qwen3-8B";
const char* const kLlama = "Llama-3.1-8B-Instruct";

Outcome outcome_of(const std::vector<PaperRow>& rows, bool with_plan, std::uint64_t seed = 1) {
  OutcomeOptions options;
  options.resamples = 0;
  std::optional<OutcomePlan> plan;
  if (with_plan) plan = paper_plan(rows);
  return measure_outcome(table_of(paper_records(rows, seed)), plan, options);
}

struct ModelOracle {
  const char* model;
  std::int64_t improved_5, tasks_10, improved_10, improved_in_all, matched_5, matched_10, without_baseline_10;
  double best_change;
  const char *best_task, *best_candidate;
  int best_stage;
  std::set<std::string> added;
};

const ModelOracle kOracles[] = {
    {kQwen,
     24,
     25,
     7,
     31,
     2171,
     945,
     16,
     0.20,
     "babilong_qa7_16k",
     "0",
     5,
     {"ruler2_mv_basic", "ruler2_qa_basic", "ruler2_qa_hard", "flenqa_ruletaker_500", "babilong_qa2_8k",
      "babilong_qa4_8k", "babilong_qa8_16k"}},
    {kLlama,
     26,
     23,
     6,
     32,
     2074,
     1071,
     78,
     0.25,
     "lifbench_offset_3k",
     "1.75",
     10,
     {"ruler2_mv_easy", "ruler2_mv_hard", "longbench_qasper", "adaleval_tsort_1k", "flenqa_monorel_3000",
      "lifbench_offset_3k"}},
};

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("outcome on the paper's results: improved settings of both stages, best gains, matched examples") {
  for (const ModelOracle& oracle : kOracles)
    for (const bool with_plan : {false, true}) {
      CAPTURE(oracle.model);
      CAPTURE(with_plan);
      const Outcome outcome = outcome_of(paper_rows(oracle.model), with_plan);
      CHECK(outcome.left_out.empty());
      const auto totals = stage_totals(outcome);
      REQUIRE(totals.size() == 2);
      CHECK(totals[0].stage == 5);
      CHECK(totals[0].tasks == 49);
      CHECK(totals[0].measured == 49);
      CHECK(totals[0].improved == oracle.improved_5);
      CHECK(totals[1].stage == 10);
      CHECK(totals[1].tasks == oracle.tasks_10);
      CHECK(totals[1].improved == oracle.improved_10);
      CHECK(improved_tasks(outcome) == oracle.improved_in_all);
      CHECK(distinct_tasks(outcome) == 49);

      // Stage 10 was run exactly where stage 5 did not improve.
      std::vector<std::string> second_stage;
      for (const TaskOutcome& task : outcome.tasks)
        if (task.stage == 10) second_stage.push_back(task.task);
      CHECK(tasks_not_improved(outcome, 5) == second_stage);

      std::int64_t matched[2] = {0, 0}, unmatched[2] = {0, 0}, partly = 0;
      std::set<std::string> added;
      const TaskOutcome* best = &outcome.tasks[0];
      for (const TaskOutcome& task : outcome.tasks) {
        const int stage = task.stage == 10;
        matched[stage] += task.matched;
        unmatched[stage] += static_cast<std::int64_t>(task.unmatched.size());
        CHECK(task.planned == task.matched + static_cast<std::int64_t>(task.unmatched.size()));
        for (const auto& example : task.unmatched)
          CHECK(example.missing == std::vector<std::string>{kBaseline});
        partly += task.stage == 5 && !task.unmatched.empty();
        if (task.stage == 10 && *task.improved) added.insert(task.task);
        if (task.best_change > best->best_change) best = &task;
        CHECK(task.direction.has_value() == with_plan);
      }
      CHECK(matched[0] == oracle.matched_5);
      CHECK(matched[1] == oracle.matched_10);
      CHECK(unmatched[1] == oracle.without_baseline_10);
      CHECK(partly == 7);
      CHECK(added == oracle.added);
      CHECK(best->task == oracle.best_task);
      CHECK(best->stage == oracle.best_stage);
      CHECK(best->candidates[static_cast<std::size_t>(best->best)].candidate == oracle.best_candidate);
      CHECK(std::abs(best->best_change - oracle.best_change) < 1e-12);
    }
}

TEST_CASE("outcome on the paper's results: every printed change, and the means of each fixed candidate") {
  // (model, direction, stage, candidate) to the mean change in points, from the reference README.
  const std::map<std::tuple<std::string, std::string, int, std::string>, double> means{
      {{kQwen, "semantic", 5, "NR"}, -0.50},        {{kQwen, "semantic", 5, "0"}, 0.07},
      {{kQwen, "semantic", 5, "0.5"}, -1.17},       {{kQwen, "semantic", 10, "NR"}, -6.15},
      {{kQwen, "semantic", 10, "0.25"}, -5.24},     {{kQwen, "semantic", 10, "0.5"}, -5.06},
      {{kQwen, "semantic", 10, "0.75"}, -1.91},     {{kQwen, "positional", 5, "1.5"}, -0.63},
      {{kQwen, "positional", 5, "2"}, -0.77},       {{kQwen, "positional", 5, "2.5"}, -1.03},
      {{kQwen, "positional", 10, "1.25"}, -2.38},   {{kQwen, "positional", 10, "1.5"}, -2.90},
      {{kQwen, "positional", 10, "1.75"}, -3.93},   {{kQwen, "positional", 10, "2"}, -5.53},
      {{kLlama, "semantic", 5, "NR"}, 2.36},        {{kLlama, "semantic", 5, "0"}, -0.02},
      {{kLlama, "semantic", 5, "0.5"}, 1.66},       {{kLlama, "semantic", 10, "NR"}, -11.33},
      {{kLlama, "semantic", 10, "0.25"}, -10.00},   {{kLlama, "semantic", 10, "0.5"}, -8.00},
      {{kLlama, "semantic", 10, "0.75"}, -4.67},    {{kLlama, "positional", 5, "1.5"}, -2.17},
      {{kLlama, "positional", 5, "2"}, -20.45},     {{kLlama, "positional", 5, "2.5"}, -37.34},
      {{kLlama, "positional", 10, "1.25"}, -6.72},  {{kLlama, "positional", 10, "1.5"}, -9.21},
      {{kLlama, "positional", 10, "1.75"}, -12.55}, {{kLlama, "positional", 10, "2"}, -23.31}};
  for (const char* model : {kQwen, kLlama}) {
    CAPTURE(model);
    const auto rows = paper_rows(model);
    const Outcome outcome = outcome_of(rows, true, 7);
    std::map<std::tuple<std::string, int, std::string>, double> changes;  // points
    std::map<std::tuple<std::string, std::string, int, std::string>, std::pair<double, int>> sums;
    for (const TaskOutcome& task : outcome.tasks)
      for (const CandidateOutcome& c : task.candidates) {
        changes[{task.task, task.stage, c.candidate}] = 100 * c.change;
        auto& [sum, count] = sums[{model, direction_name(*task.direction), task.stage, c.candidate}];
        sum += 100 * c.change;
        ++count;
      }
    std::vector<double> found, printed;
    for (const PaperRow& row : rows) {
      found.push_back(changes.at({row.setting, row.stage, row.candidate}));
      printed.push_back(row.change_points);
    }
    CHECK(changes.size() == rows.size());
    CHECK_COMPARISON(compare_absolute("changes, points", found, printed, 0.005001));
    std::vector<double> own, expected;
    for (const auto& [key, value] : means) {
      if (std::get<0>(key) != model) continue;
      const auto& [sum, count] = sums.at(key);
      own.push_back(sum / count);
      expected.push_back(value);
    }
    CHECK(own.size() == 14);
    CHECK_COMPARISON(compare_absolute("means of fixed candidates, points", own, expected, 0.01));
  }
}

TEST_SUITE_END();

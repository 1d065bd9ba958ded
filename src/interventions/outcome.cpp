#include "interventions/outcome.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "interventions/mcnemar.hpp"
#include "interventions/outcome_join.hpp"
#include "interventions/outcome_statistics.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

/// p_holm of the tasks of each stage; `tasks` come by stage.
void adjust_p_values(std::vector<TaskOutcome>& tasks) {
  for (std::size_t first = 0, last = 0; first < tasks.size(); first = last) {
    std::vector<double> p_values;
    for (; last < tasks.size() && tasks[last].stage == tasks[first].stage; ++last)
      p_values.push_back(tasks[last].p_value);
    const auto adjusted = holm(p_values);
    for (std::size_t i = first; i < last; ++i) tasks[i].p_holm = adjusted[i - first];
  }
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(values.size());
}

std::set<std::string> names_of(const Outcome& outcome, bool improved_only) {
  std::set<std::string> names;
  for (const TaskOutcome& task : outcome.tasks)
    if (!improved_only || task.improved.value_or(false)) names.insert(task.task);
  return names;
}

}  // namespace

Outcome measure_outcome(const RecordTable& table, const std::optional<OutcomePlan>& plan,
                        const OutcomeOptions& options) {
  if (options.resamples < 0 || options.resamples > kMaxOutcomeResamples)
    throw usage_error("--resamples must lie between 0 and " + std::to_string(kMaxOutcomeResamples));
  Outcome outcome;
  outcome.resamples = options.resamples;
  outcome.seed = options.seed;
  detail::JoinedRecords joined = detail::join_records(table, plan);
  outcome.left_out = std::move(joined.left_out);
  for (auto& group : joined.groups) {
    detail::add_statistics(group.task, group.runs, options);
    outcome.tasks.push_back(std::move(group.task));
    group.runs = {};
  }
  adjust_p_values(outcome.tasks);
  return outcome;
}

std::vector<StageTotals> stage_totals(const Outcome& outcome) {
  std::vector<StageTotals> all;
  for (const int stage : {5, 10}) {
    StageTotals totals;
    totals.stage = stage;
    std::vector<double> best, held_out;
    for (const TaskOutcome& task : outcome.tasks) {
      if (task.stage != stage) continue;
      ++totals.tasks;
      totals.measured += task.matched > 0;
      totals.improved += task.improved.value_or(false);
      totals.significant += task.improved.value_or(false) && task.p_holm <= 0.05;
      if (!std::isnan(task.best_change)) best.push_back(task.best_change);
      if (!std::isnan(task.held_out_change)) held_out.push_back(task.held_out_change);
    }
    totals.mean_best_change = mean_of(best);
    totals.mean_held_out_change = mean_of(held_out);
    if (totals.tasks > 0) all.push_back(totals);
  }
  return all;
}

std::int64_t improved_tasks(const Outcome& outcome) {
  return static_cast<std::int64_t>(names_of(outcome, true).size());
}

std::int64_t distinct_tasks(const Outcome& outcome) {
  return static_cast<std::int64_t>(names_of(outcome, false).size());
}

std::vector<std::string> tasks_not_improved(const Outcome& outcome, int stage) {
  std::vector<std::string> names;
  for (const TaskOutcome& task : outcome.tasks)
    if (task.stage == stage && task.improved == false) names.push_back(task.task);
  return names;
}

const char* reason_name(LeftOut::Reason reason) {
  switch (reason) {
    case LeftOut::Reason::kTaskNotInPlan:
      return "task_not_in_plan";
    case LeftOut::Reason::kCandidateNotInPlan:
      return "candidate_not_in_plan";
    case LeftOut::Reason::kNoCandidate:
      return "no_candidate";
    case LeftOut::Reason::kNotMeasured:
      break;
  }
  return "not_measured";
}

}  // namespace rope

#include "cli/outcome_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/ranking_table.hpp"
#include "profiler/clean_text.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kShownTasks = 8, kShownIds = 5;

std::string per_cent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f}", 100 * share); }
/// Points with their sign; 0 has none.
std::string points(double change) {
  if (std::isnan(change)) return "-";
  const std::string text = fmt::format("{:+.1f}", 100 * change);
  return text == "+0.0" || text == "-0.0" ? "0.0" : text;
}
std::string interval(double low, double high) {
  return std::isnan(low) ? "-" : points(low) + " to " + points(high);
}
std::string p_text(double p) {
  if (std::isnan(p)) return "-";
  return p < 0.0001 ? fmt::format("{:.0e}", p) : fmt::format("{:.4f}", p);
}

std::string all_changes(const TaskOutcome& task) {
  std::string text;
  for (const auto& c : task.candidates)
    text += (text.empty() ? "" : ", ") + c.candidate + ": " + points(c.change);
  return text;
}

std::string direction_text(const TaskOutcome& task) {
  return task.direction ? direction_name(*task.direction) : "-";
}

Style style_of(const TaskOutcome& task) {
  if (!task.improved) return Style::kDim;
  return *task.improved ? Style::kGreen : Style::kPlain;
}

void print_totals(const Outcome& outcome, std::ostream& to) {
  const auto stages = stage_totals(outcome);
  for (const StageTotals& t : stages)
    to << fmt::format(
        "stage {}: {} of {} improved, {} of them with Holm's p <= 0.05; mean of the best changes {} points, "
        "held out {}\n",
        t.stage, t.improved, counted(static_cast<std::size_t>(t.measured), "task"), t.significant,
        points(t.mean_best_change), points(t.mean_held_out_change));
  if (stages.size() > 1)
    to << fmt::format("both stages: {} of {} improved\n", improved_tasks(outcome),
                      counted(static_cast<std::size_t>(distinct_tasks(outcome)), "task"));
}

std::string shown_examples(const TaskOutcome& task) {
  std::string text;
  for (std::size_t i = 0; i < std::min(task.unmatched.size(), kShownIds); ++i) {
    const UnmatchedExample& example = task.unmatched[i];
    text += (i > 0 ? ", " : "") + quoted(example.example_id) + " (no ";
    for (std::size_t m = 0; m < std::min(example.missing.size(), kShownIds); ++m)
      text += (m > 0 ? ", " : "") + example.missing[m];
    text += example.missing.size() > kShownIds ? ", ...)" : ")";
  }
  if (task.unmatched.size() > kShownIds)
    text += fmt::format(" and {} more", task.unmatched.size() - kShownIds);
  return text;
}

std::string sentence_of(const LeftOut& left) {
  const std::string where = fmt::format("task {}, stage {}", quoted(left.task), left.stage);
  const std::string candidate = "candidate " + quoted(left.candidate);
  switch (left.reason) {
    case LeftOut::Reason::kTaskNotInPlan:
      return fmt::format("left out, the plan has no such task: {}, {}, records: {}", where, candidate,
                         left.records);
    case LeftOut::Reason::kCandidateNotInPlan:
      return fmt::format("left out, the plan has no such candidate: {}, {}, records: {}", where, candidate,
                         left.records);
    case LeftOut::Reason::kNoCandidate:
      return fmt::format("left out, the baseline alone: {}, records: {}", where, left.records);
    case LeftOut::Reason::kNotMeasured:
      break;
  }
  return "planned and not measured: " + where + (left.candidate.empty() ? "" : ", " + candidate);
}

}  // namespace

void print_outcome(const Outcome& outcome, Console& console, std::ostream& to, bool for_err) {
  Table table({{"task"},
               {"direction"},
               {"stage", true},
               {"matched", true},
               {"baseline", true},
               {"changes"},
               {"best"},
               {"change", true},
               {"95 %", true},
               {"p", true},
               {"p Holm", true},
               {"held out", true},
               {"optimism", true}});
  for (const TaskOutcome& task : outcome.tasks) {
    const CandidateOutcome* best =
        task.best >= 0 ? &task.candidates[static_cast<std::size_t>(task.best)] : nullptr;
    table.row({task.task, direction_text(task), std::to_string(task.stage),
               fmt::format("{}/{}", task.matched, task.planned), per_cent(task.baseline_accuracy),
               all_changes(task), best ? best->candidate : "-", points(task.best_change),
               best ? interval(best->change_low, best->change_high) : "-", p_text(task.p_value),
               p_text(task.p_holm), points(task.held_out_change), points(task.optimism)},
              style_of(task));
  }
  table.print(console, to, for_err);
  print_totals(outcome, to);
}

void print_sweep(const Outcome& outcome, Console& console, std::ostream& to, bool for_err) {
  Table table({{"task"},
               {"stage", true},
               {"candidate"},
               {"accuracy", true},
               {"change", true},
               {"95 %", true},
               {"gained", true},
               {"lost", true},
               {"p", true}});
  for (const TaskOutcome& task : outcome.tasks) {
    table.row({task.task, std::to_string(task.stage), kBaseline, per_cent(task.baseline_accuracy), "-", "-",
               "-", "-", "-"},
              Style::kDim);
    for (const CandidateOutcome& c : task.candidates)
      table.row({task.task, std::to_string(task.stage), c.candidate, per_cent(c.accuracy), points(c.change),
                 interval(c.change_low, c.change_high), std::to_string(c.gained), std::to_string(c.lost),
                 p_text(c.p_value)});
  }
  table.print(console, to, for_err);
}

void warn_of_gaps(const Outcome& outcome, Console& console) {
  std::size_t gaps = 0;
  for (const TaskOutcome& task : outcome.tasks) {
    if (task.unmatched.empty() || ++gaps > kShownTasks) continue;
    console.warning(fmt::format(
        "task {}, stage {}: {} of {} not matched: {}", quoted(task.task), task.stage, task.unmatched.size(),
        counted(static_cast<std::size_t>(task.planned), "example"), shown_examples(task)));
  }
  if (gaps > kShownTasks)
    console.warning(fmt::format("examples not matched in {} more; -o FILE lists every one",
                                counted(gaps - kShownTasks, "task")));
  for (std::size_t i = 0; i < std::min(outcome.left_out.size(), kShownTasks); ++i)
    console.warning(sentence_of(outcome.left_out[i]));
  if (outcome.left_out.size() > kShownTasks)
    console.warning(fmt::format("{} more left out or not measured; -o FILE lists every one",
                                outcome.left_out.size() - kShownTasks));
}

}  // namespace rope::cli

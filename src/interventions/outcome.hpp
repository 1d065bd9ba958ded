#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interventions/record_table.hpp"
#include "profiler/ranking.hpp"

namespace rope {

/// What `outcome` needs of a plan.
struct OutcomePlanTask {
  std::string task;
  int stage = 5;
  Direction direction = Direction::kNone;
  std::vector<std::string> candidates;  ///< ids, in the plan's order
};
using OutcomePlan = std::vector<OutcomePlanTask>;  ///< each (task, stage) once

/// One candidate against the baseline on the matched examples. NaN throughout where there are none.
struct CandidateOutcome {
  std::string candidate;
  double accuracy = 0;                     ///< share solved
  double change = 0;                       ///< accuracy - the baseline's
  double change_low = 0, change_high = 0;  ///< middle 95 % of the bootstrap resamples
  std::int64_t gained = 0, lost = 0;       ///< examples that only the candidate, only the baseline solved
  double p_value = 0;                      ///< McNemar, exact, two-sided
};

/// An example that lacks the baseline or a candidate.
struct UnmatchedExample {
  std::string example_id;
  std::vector<std::string> missing;  ///< baseline first, then in candidate order
};

/// One task at one stage.
struct TaskOutcome {
  std::string task;
  int stage = 5;
  std::optional<Direction> direction;  ///< of the plan
  std::int64_t planned = 0;            ///< examples with any record of this (task, stage)
  std::int64_t matched = 0;            ///< of these, with the baseline and every candidate
  double baseline_accuracy = 0;
  std::vector<CandidateOutcome> candidates;  ///< in candidate order
  std::vector<UnmatchedExample> unmatched;   ///< planned - matched, by id

  // NaN (best: -1, improved: nothing) where matched = 0.
  int best = -1;                                     ///< index of the largest change, the first of equal ones
  double best_change = 0;                            ///< its change
  double best_change_low = 0, best_change_high = 0;  ///< 95 % of the resamples' own largest changes
  double held_out_change = 0;    ///< chosen on all examples but one, scored on it; needs 2
  double optimism = 0;           ///< best_change - held_out_change
  double p_value = 0;            ///< of the best; not corrected for having been chosen
  double p_holm = 0;             ///< Holm over the tasks of the stage
  std::optional<bool> improved;  ///< best_change > 0
};

/// Records or parts of the plan that no row stands for.
struct LeftOut {
  enum class Reason {
    kTaskNotInPlan,       ///< no row: the plan has no such task at any stage
    kCandidateNotInPlan,  ///< the plan's (task, stage) has no such candidate
    kNoCandidate,         ///< baseline alone
    kNotMeasured,         ///< in the plan, without a record; candidate "" = none of the task's
  };
  Reason reason;
  std::string task;
  int stage = 5;
  std::string candidate;
  std::int64_t records = 0;
};
const char* reason_name(LeftOut::Reason reason);  ///< "task_not_in_plan", ...

struct Outcome {
  std::vector<TaskOutcome> tasks;  ///< by stage, then task in byte order
  std::vector<LeftOut> left_out;   ///< by stage, task, candidate
  std::int64_t resamples = 0;
  std::uint64_t seed = 0;
};

/// Sums over the tasks of a stage.
struct StageTotals {
  int stage = 5;
  std::int64_t tasks = 0, measured = 0;  ///< measured: with matched examples
  std::int64_t improved = 0;
  std::int64_t significant = 0;     ///< improved with p_holm <= 0.05
  double mean_best_change = 0;      ///< over the measured tasks, equal weights; NaN for none
  double mean_held_out_change = 0;  ///< over those that have one
};
std::vector<StageTotals> stage_totals(const Outcome& outcome);  ///< rising stage
/// Tasks, each counted once, that some stage improved; and how many there are.
std::int64_t improved_tasks(const Outcome& outcome);
std::int64_t distinct_tasks(const Outcome& outcome);

/// Tasks that were measured at `stage` and not improved, in byte order: those that stage 10 is for after 5.
std::vector<std::string> tasks_not_improved(const Outcome& outcome, int stage);

struct OutcomeOptions {
  std::int64_t resamples = 2000;  ///< 0: no intervals
  std::uint64_t seed = 20260910;
  int threads = 0;
};
inline constexpr std::int64_t kMaxOutcomeResamples = 100'000;

/// Joins records by (task, stage, example) and measures every candidate against the baseline (P G.2.3; the
/// held-out choice is ours, theory §7). A record without a stage belongs to the plan's only stage of that
/// task with that candidate, else to 5; a baseline record without one also serves a stage of its task that
/// has no baseline records of its own. Candidates are ordered as in the plan; without one NR first, then
/// rising alpha, then other names in byte order. With a plan, what it does not name is left out and listed.
/// The same for any order of records and any number of threads. Throws UserError where a (task, stage,
/// candidate, example) comes twice.
Outcome measure_outcome(const RecordTable& table, const std::optional<OutcomePlan>& plan,
                        const OutcomeOptions& options);

/// Whether candidate `a` comes before `b` where no plan orders them.
bool candidate_before(const std::string& a, const std::string& b);

}  // namespace rope

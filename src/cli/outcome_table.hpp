#pragma once

#include <ostream>

#include "cli/console.hpp"
#include "interventions/outcome.hpp"

namespace rope::cli {

/// One row per task and stage: changes of every candidate, the best, its interval and p, the held-out choice.
/// Accuracies in per cent, changes in points. Then the totals of each stage.
void print_outcome(const Outcome& outcome, Console& console, std::ostream& to, bool for_err);
/// One row per task, stage and candidate.
void print_sweep(const Outcome& outcome, Console& console, std::ostream& to, bool for_err);
/// Warnings that name unmatched examples and what was left out; long lists are cut.
void warn_of_gaps(const Outcome& outcome, Console& console);

}  // namespace rope::cli

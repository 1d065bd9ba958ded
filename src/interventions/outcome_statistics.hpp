#pragma once

#include <cstddef>
#include <vector>

#include "interventions/outcome.hpp"

namespace rope::detail {

/// Matched examples of a (task, stage), in order of their ids.
struct PairedRuns {
  std::size_t candidates = 0;  ///< C
  std::vector<char> correct;   ///< [E, C + 1], the baseline first
  std::size_t examples() const { return correct.size() / (candidates + 1); }
};

/// Fills accuracies, changes, intervals, p, best, held-out change and optimism of `task`, whose candidates
/// are named; p_holm needs the other tasks. Everything is NaN or nothing where no example is matched.
void add_statistics(TaskOutcome& task, const PairedRuns& runs, const OutcomeOptions& options);

}  // namespace rope::detail

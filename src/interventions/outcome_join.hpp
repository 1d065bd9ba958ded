#pragma once

#include <optional>
#include <vector>

#include "interventions/outcome_statistics.hpp"

namespace rope::detail {

/// One (task, stage): names and counts filled, the statistics not yet.
struct JoinedGroup {
  TaskOutcome task;
  PairedRuns runs;
};
struct JoinedRecords {
  std::vector<JoinedGroup> groups;  ///< by stage, then task
  std::vector<LeftOut> left_out;    ///< by stage, task, candidate
};

/// The join of measure_outcome().
JoinedRecords join_records(const RecordTable& table, const std::optional<OutcomePlan>& plan);

}  // namespace rope::detail

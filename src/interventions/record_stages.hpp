#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interventions/outcome.hpp"

namespace rope::detail {

/// Decides which stage a record counts for, and whether the plan knows it (measure_outcome()).
class RecordStages {
 public:
  RecordStages(const RecordTable& table, const std::optional<OutcomePlan>& plan);

  /// Stages that the record counts for: one, or both for a baseline record that does not say.
  std::span<const int> of(const AccuracyRecord& record) const;
  /// Place of the record's candidate in the order of its (task, stage): 0 for the baseline, else from 1.
  /// Where there is no plan, `otherwise` + 1. Nothing, and remembered, where the plan does not have it.
  std::optional<std::uint32_t> place(const AccuracyRecord& record, int stage, std::uint32_t otherwise);
  std::optional<Direction> direction(std::uint32_t task, int stage) const;
  /// Appends what place() refused and what the plan has without a record.
  void list_left_out(std::vector<LeftOut>& to) const;

 private:
  using ByStage = std::array<const OutcomePlanTask*, 2>;  // stage 5, 10; null = not in the plan
  using Places = std::array<std::uint32_t, 2>;            // from 1; 0 = not in the plan
  struct TaskStages {
    ByStage plan{};
    std::uint8_t candidates = 0, baselines = 0;  // sets of stages that the records name, as bits
  };

  Places places_of(std::uint32_t task, std::uint32_t candidate);
  int default_stage(std::uint32_t task, std::uint32_t candidate);
  std::uint8_t baseline_stages(const TaskStages& task) const;

  const RecordTable& table_;
  const std::optional<OutcomePlan>& plan_;
  std::vector<char> is_baseline_;                     // [candidates]
  std::vector<TaskStages> tasks_;                     // [tasks]
  std::unordered_map<std::uint64_t, Places> places_;  // by task and candidate, as they are asked for
  std::map<std::pair<const OutcomePlanTask*, std::uint32_t>, std::int64_t> measured_;  // plan entry, place
  std::map<std::tuple<std::uint32_t, int, std::uint32_t>, std::int64_t> refused_;  // task, stage, candidate
};

}  // namespace rope::detail

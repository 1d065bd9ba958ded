#include "interventions/record_stages.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace rope::detail {
namespace {

constexpr int kStages[] = {5, 10};
constexpr std::uint8_t kFive = 1, kTen = 2;  // sets of stages

std::size_t index_of(int stage) { return stage == 5 ? 0 : 1; }
std::uint8_t set_of(int stage) { return stage == 5 ? kFive : kTen; }
std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

std::span<const int> stages_in(std::uint8_t set) {
  const std::span<const int> all(kStages);
  return set == kFive ? all.first(1) : set == kTen ? all.last(1) : all;
}

}  // namespace

RecordStages::RecordStages(const RecordTable& table, const std::optional<OutcomePlan>& plan)
    : table_(table), plan_(plan), tasks_(table.tasks.size()) {
  for (std::size_t c = 0; c < table.candidates.size(); ++c)
    is_baseline_.push_back(table.candidates.text(static_cast<std::uint32_t>(c)) == kBaseline);
  if (plan) {
    std::unordered_map<std::string_view, ByStage> by_name;
    for (const OutcomePlanTask& task : *plan) by_name[task.task][index_of(task.stage)] = &task;
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      const auto found = by_name.find(table.tasks.text(static_cast<std::uint32_t>(t)));
      if (found != by_name.end()) tasks_[t].plan = found->second;
    }
  }
  for (const AccuracyRecord& record : table.records) {
    TaskStages& task = tasks_[record.task];
    if (is_baseline_[record.candidate]) {
      if (record.stage != 0) task.baselines |= set_of(record.stage);
      continue;
    }
    const int stage = record.stage != 0 ? record.stage : default_stage(record.task, record.candidate);
    if (!plan || places_of(record.task, record.candidate)[index_of(stage)] > 0)
      task.candidates |= set_of(stage);
  }
}

RecordStages::Places RecordStages::places_of(std::uint32_t task, std::uint32_t candidate) {
  const auto [found, fresh] = places_.emplace(pair_key(task, candidate), Places{});
  if (!fresh) return found->second;
  for (std::size_t s = 0; s < 2; ++s) {
    const OutcomePlanTask* entry = tasks_[task].plan[s];
    if (!entry) continue;
    const auto at =
        std::find(entry->candidates.begin(), entry->candidates.end(), table_.candidates.text(candidate));
    if (at != entry->candidates.end())
      found->second[s] = static_cast<std::uint32_t>(at - entry->candidates.begin()) + 1;
  }
  return found->second;
}

/// The plan's only stage of the task with that candidate, else 5.
int RecordStages::default_stage(std::uint32_t task, std::uint32_t candidate) {
  if (!plan_) return 5;
  const Places places = places_of(task, candidate);
  return places[0] == 0 && places[1] > 0 ? 10 : 5;
}

/// Stages that baseline records without one count for: their default, and those of the task that have no
/// baseline records of their own.
std::uint8_t RecordStages::baseline_stages(const TaskStages& task) const {
  const std::uint8_t fallback = task.plan[0] == nullptr && task.plan[1] != nullptr ? kTen : kFive;
  const auto set =
      static_cast<std::uint8_t>(task.candidates & (fallback | static_cast<std::uint8_t>(~task.baselines)));
  return set != 0 ? set : fallback;
}

std::span<const int> RecordStages::of(const AccuracyRecord& record) const {
  if (record.stage != 0) return stages_in(set_of(record.stage));
  if (is_baseline_[record.candidate]) return stages_in(baseline_stages(tasks_[record.task]));
  const auto found = places_.find(pair_key(record.task, record.candidate));
  const bool only_ten = found != places_.end() && found->second[0] == 0 && found->second[1] > 0;
  return stages_in(only_ten ? kTen : kFive);
}

std::optional<std::uint32_t> RecordStages::place(const AccuracyRecord& record, int stage,
                                                 std::uint32_t otherwise) {
  const bool baseline = is_baseline_[record.candidate] != 0;
  if (!plan_) return baseline ? 0 : otherwise + 1;
  const ByStage& entries = tasks_[record.task].plan;
  const bool known_task = entries[0] || entries[1];
  if (known_task && baseline) return 0;
  const std::uint32_t place = places_of(record.task, record.candidate)[index_of(stage)];
  if (place > 0) {
    ++measured_[{entries[index_of(stage)], place}];
    return place;
  }
  ++refused_[{record.task, stage, record.candidate}];
  return std::nullopt;
}

std::optional<Direction> RecordStages::direction(std::uint32_t task, int stage) const {
  const OutcomePlanTask* entry = tasks_[task].plan[index_of(stage)];
  return entry ? std::optional(entry->direction) : std::nullopt;
}

void RecordStages::list_left_out(std::vector<LeftOut>& to) const {
  for (const auto& [key, records] : refused_) {
    const auto& [task, stage, candidate] = key;
    const bool known_task = tasks_[task].plan[0] || tasks_[task].plan[1];
    to.push_back({known_task ? LeftOut::Reason::kCandidateNotInPlan : LeftOut::Reason::kTaskNotInPlan,
                  table_.tasks.text(task), stage, table_.candidates.text(candidate), records});
  }
  if (!plan_) return;
  for (const OutcomePlanTask& task : *plan_) {
    std::vector<std::string> missing;
    for (std::size_t c = 0; c < task.candidates.size(); ++c)
      if (!measured_.contains({&task, static_cast<std::uint32_t>(c) + 1}))
        missing.push_back(task.candidates[c]);
    if (missing.size() == task.candidates.size() && !missing.empty()) missing = {""};
    for (const std::string& candidate : missing)
      to.push_back({LeftOut::Reason::kNotMeasured, task.task, task.stage, candidate, 0});
  }
}

}  // namespace rope::detail

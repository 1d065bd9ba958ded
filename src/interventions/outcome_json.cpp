#include "interventions/outcome_json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "profiler/clean_text.hpp"
#include "profiler/json_document.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json input_json(const ProfileInput& input) {
  return {{"name", input.name}, {"sha256", input.sha256}, {"bytes", input.bytes}};
}

/// The real members of a task and of a candidate, in the order of the document.
struct TaskMember {
  const char* name;
  double TaskOutcome::*value;
};
constexpr TaskMember kTaskMembers[] = {
    {"best_change", &TaskOutcome::best_change},
    {"held_out_change", &TaskOutcome::held_out_change},
    {"p_value", &TaskOutcome::p_value},
    {"p_holm", &TaskOutcome::p_holm},
    {"optimism", &TaskOutcome::optimism},
    {"best_change_low", &TaskOutcome::best_change_low},
    {"best_change_high", &TaskOutcome::best_change_high},
};
struct CandidateMember {
  const char* name;
  double CandidateOutcome::*value;
};
constexpr CandidateMember kCandidateMembers[] = {
    {"accuracy", &CandidateOutcome::accuracy},     {"change", &CandidateOutcome::change},
    {"change_low", &CandidateOutcome::change_low}, {"change_high", &CandidateOutcome::change_high},
    {"p_value", &CandidateOutcome::p_value},
};

Json candidate_json(const CandidateOutcome& candidate) {
  Json json = {{"candidate", candidate.candidate}};
  for (const auto& member : kCandidateMembers) json[member.name] = json_number(candidate.*member.value);
  json["gained"] = candidate.gained;
  json["lost"] = candidate.lost;
  return json;
}

Json task_json(const TaskOutcome& task) {
  const CandidateOutcome* best =
      task.best >= 0 ? &task.candidates[static_cast<std::size_t>(task.best)] : nullptr;
  Json json = {{"task", task.task},
               {"direction", task.direction ? Json(direction_name(*task.direction)) : Json(nullptr)},
               {"stage", task.stage},
               {"planned", task.planned},
               {"matched", task.matched},
               {"baseline_accuracy", json_number(task.baseline_accuracy)},
               {"best_candidate", best ? Json(best->candidate) : Json(nullptr)},
               {"best_accuracy", best ? json_number(best->accuracy) : Json(nullptr)},
               {"improved", task.improved ? Json(*task.improved) : Json(nullptr)}};
  for (const auto& member : kTaskMembers) json[member.name] = json_number(task.*member.value);
  json["candidates"] = Json::array();
  for (const auto& candidate : task.candidates) json["candidates"].push_back(candidate_json(candidate));
  json["unmatched"] = Json::array();
  for (const auto& example : task.unmatched)
    json["unmatched"].push_back({{"example_id", example.example_id}, {"missing", example.missing}});
  return json;
}

Json left_out_json(const LeftOut& left) {
  return {{"reason", reason_name(left.reason)},
          {"task", left.task},
          {"stage", left.stage},
          {"candidate", left.candidate.empty() ? Json(nullptr) : Json(left.candidate)},
          {"records", left.records}};
}

// ---- reading ---------------------------------------------------------------------------------------------

std::int64_t count(const JsonDocument& document, const Json& object, const std::string& place,
                   const char* name) {
  return document.integer(object, place, name, 0, std::numeric_limits<std::int64_t>::max());
}

int stage_of(const JsonDocument& document, const Json& object, const std::string& place) {
  const std::int64_t stage = document.integer(object, place, "stage");
  if (stage != 5 && stage != 10) document.fail(place + "/stage", "5 or 10", std::to_string(stage));
  return static_cast<int>(stage);
}

CandidateOutcome read_candidate(const JsonDocument& document, const Json& json, const std::string& place) {
  CandidateOutcome candidate;
  candidate.candidate = document.text(json, place, "candidate");
  for (const auto& member : kCandidateMembers)
    candidate.*member.value = document.number_or_nan(json, place, member.name);
  candidate.gained = count(document, json, place, "gained");
  candidate.lost = count(document, json, place, "lost");
  return candidate;
}

std::optional<Direction> read_direction(const JsonDocument& document, const Json& json,
                                        const std::string& place) {
  const Json& value = document.member(json, place, "direction");
  if (value.is_null()) return std::nullopt;
  for (const Direction direction : {Direction::kNone, Direction::kSemantic, Direction::kPositional})
    if (value == direction_name(direction)) return direction;
  document.fail(place + "/direction", "semantic, positional, none or null", value.type_name());
}

void read_best(const JsonDocument& document, const Json& json, const std::string& place, TaskOutcome& task) {
  const Json& best = document.member(json, place, "best_candidate");
  if (best.is_null()) return;
  for (std::size_t i = 0; i < task.candidates.size() && task.best < 0; ++i)
    if (best == task.candidates[i].candidate) task.best = static_cast<int>(i);
  if (task.best < 0) document.fail(place + "/best_candidate", "one of the candidates", best.type_name());
}

/// Accuracies and p from 0 to 1, changes from -1 to 1.
void require_shares(const JsonDocument& document, const std::string& place, const TaskOutcome& task) {
  const auto within = [&](double value, double low, const char* name) {
    if (value < low || value > 1)
      document.fail(place + "/" + name, low == 0 ? "0 to 1" : "-1 to 1", std::to_string(value));
  };
  within(task.baseline_accuracy, 0, "baseline_accuracy");
  within(task.p_value, 0, "p_value");
  within(task.p_holm, 0, "p_holm");
  within(task.best_change, -1, "best_change");
  within(task.held_out_change, -1, "held_out_change");
}

TaskOutcome read_task(const JsonDocument& document, const Json& json, const std::string& place) {
  TaskOutcome task;
  task.task = document.text(json, place, "task");
  task.direction = read_direction(document, json, place);
  task.stage = stage_of(document, json, place);
  task.planned = count(document, json, place, "planned");
  task.matched = count(document, json, place, "matched");
  task.baseline_accuracy = document.number_or_nan(json, place, "baseline_accuracy");
  for (const auto& member : kTaskMembers)
    task.*member.value = document.number_or_nan(json, place, member.name);
  require_shares(document, place, task);
  const Json& improved = document.member(json, place, "improved");
  if (improved.is_boolean())
    task.improved = improved.get<bool>();
  else if (!improved.is_null())
    document.fail(place + "/improved", "true, false or null", improved.type_name());
  const Json& candidates = document.array(json, place, "candidates");
  for (std::size_t i = 0; i < candidates.size(); ++i)
    task.candidates.push_back(
        read_candidate(document, candidates[i], place + "/candidates/" + std::to_string(i)));
  read_best(document, json, place, task);
  const Json& unmatched = document.array(json, place, "unmatched");
  for (std::size_t i = 0; i < unmatched.size(); ++i) {
    const std::string at = place + "/unmatched/" + std::to_string(i);
    UnmatchedExample example{document.text(unmatched[i], at, "example_id"), {}};
    for (const Json& name : document.array(unmatched[i], at, "missing")) {
      if (!name.is_string()) document.fail(at + "/missing", "names", name.type_name());
      example.missing.push_back(name.get<std::string>());
    }
    task.unmatched.push_back(std::move(example));
  }
  return task;
}

LeftOut read_left_out(const JsonDocument& document, const Json& json, const std::string& place) {
  LeftOut left{LeftOut::Reason::kNotMeasured, document.text(json, place, "task"),
               stage_of(document, json, place), "", count(document, json, place, "records")};
  const Json& candidate = document.member(json, place, "candidate");
  if (!candidate.is_null()) left.candidate = document.text(json, place, "candidate");
  const std::string reason = document.text(json, place, "reason");
  for (const auto known : {LeftOut::Reason::kTaskNotInPlan, LeftOut::Reason::kCandidateNotInPlan,
                           LeftOut::Reason::kNoCandidate, LeftOut::Reason::kNotMeasured})
    if (reason == reason_name(known)) {
      left.reason = known;
      return left;
    }
  document.fail(place + "/reason", "a known reason", "another one");
}

}  // namespace

std::string outcome_json(const Outcome& outcome, const OutcomeSource& source) {
  Json json = {{"format", "rope-profiler/outcome"},     {"format_version", 1},
               {"tool_version", ROPE_PROFILER_VERSION}, {"seed", outcome.seed},
               {"resamples", outcome.resamples},        {"plans", Json::array()}};
  for (const ProfileInput& plan : source.plans) json["plans"].push_back(input_json(plan));
  json["inputs"] = Json::array();
  for (const auto& input : source.inputs) {
    Json entry = input_json(input.file);
    entry["format"] = input.format;
    entry["records"] = input.records;
    json["inputs"].push_back(std::move(entry));
  }
  json["settings"] = Json::object();
  for (const auto& [key, value] : source.settings) json["settings"][key] = value;
  json["stages"] = Json::array();
  for (const StageTotals& totals : stage_totals(outcome))
    json["stages"].push_back({{"stage", totals.stage},
                              {"tasks", totals.tasks},
                              {"measured", totals.measured},
                              {"improved", totals.improved},
                              {"significant", totals.significant},
                              {"mean_best_change", json_number(totals.mean_best_change)},
                              {"mean_held_out_change", json_number(totals.mean_held_out_change)}});
  json["distinct_tasks"] = distinct_tasks(outcome);
  json["improved_tasks"] = improved_tasks(outcome);
  json["tasks"] = Json::array();
  for (const auto& task : outcome.tasks) json["tasks"].push_back(task_json(task));
  json["left_out"] = Json::array();
  for (const auto& left : outcome.left_out) json["left_out"].push_back(left_out_json(left));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Outcome read_outcome_json(const std::string& path) {
  const JsonDocument document(path, "outcome -o");
  document.require_format("rope-profiler/outcome", 1);
  const Json& root = document.root();
  Outcome outcome;
  outcome.resamples = count(document, root, "", "resamples");
  outcome.seed = document.unsigned_integer(root, "", "seed");
  const Json& tasks = document.array(root, "", "tasks");
  std::set<std::pair<std::string, int>> seen;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::string place = "/tasks/" + std::to_string(i);
    outcome.tasks.push_back(read_task(document, tasks[i], place));
    if (!seen.emplace(outcome.tasks.back().task, outcome.tasks.back().stage).second)
      document.fail(place + "/task", "every task and stage once",
                    rope::quoted(outcome.tasks.back().task) + " again");
  }
  const Json& left = document.array(root, "", "left_out");
  for (std::size_t i = 0; i < left.size(); ++i)
    outcome.left_out.push_back(read_left_out(document, left[i], "/left_out/" + std::to_string(i)));
  return outcome;
}

}  // namespace rope

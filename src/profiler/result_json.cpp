#include "profiler/result_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "profiler/error.hpp"
#include "profiler/json_document.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Json whole(double value) {
  return std::isfinite(value) ? Json(static_cast<std::int64_t>(value)) : Json(nullptr);
}

Json setting(const Settings& settings, const std::string& name) {
  for (const auto& [key, value] : settings)
    if (key == name) return value;
  return nullptr;
}

/// The real members of a task, in the order of the document.
struct Member {
  const char* name;
  double RankedTask::*value;
  bool is_rank;
};
constexpr Member kMembers[] = {
    {"semantic_score", &RankedTask::semantic_score, false},
    {"positional_score", &RankedTask::positional_score, false},
    {"r_s", &RankedTask::r_s, true},
    {"r_p", &RankedTask::r_p, true},
    {"w_s", &RankedTask::w_s, false},
    {"w_p", &RankedTask::w_p, false},
    {"w_s_low", &RankedTask::w_s_low, false},
    {"w_s_high", &RankedTask::w_s_high, false},
    {"r_s_low", &RankedTask::r_s_low, false},
    {"r_s_high", &RankedTask::r_s_high, false},
    {"r_p_low", &RankedTask::r_p_low, false},
    {"r_p_high", &RankedTask::r_p_high, false},
    {"direction_probability", &RankedTask::direction_probability, false},
    {"window_mean", &RankedTask::window_mean, false},
};

Json task_json(const RankedTask& task, bool ranked) {
  Json json = {{"task", task.task}};
  for (const Member& member : kMembers) {
    json[member.name] = member.is_rank ? whole(task.*member.value) : json_number(task.*member.value);
    if (std::string_view(member.name) == "w_p")
      json["direction"] = ranked ? Json(direction_name(task.direction)) : Json(nullptr);
  }
  json["family"] = task.family;
  json["examples"] = task.examples;
  return json;
}

double read_number(const JsonDocument& document, const Json& task, const std::string& place,
                   const Member& member, bool required) {
  const auto found = task.find(member.name);
  if (found == task.end() && !required) return kNaN;
  const Json& value = document.member(task, place, member.name);
  if (value.is_null()) return kNaN;
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    document.fail(place + "/" + member.name, "a number or null", value.type_name());
  const double result = value.get<double>();
  if (member.is_rank && !(result >= 1 && result < 1e9 && result == std::floor(result)))
    document.fail(place + "/" + member.name, "a rank from 1 upwards", value.dump());
  return result;
}

RankedTask read_task(const JsonDocument& document, const Json& json, const std::string& place) {
  if (!json.is_object()) document.fail(place, "an object", json.type_name());
  RankedTask task;
  task.task = document.text(json, place, "task");
  for (const Member& member : kMembers) {
    const bool required = &member - kMembers < 8;  // the columns of `export --table ranking`
    task.*member.value = read_number(document, json, place, member, required);
  }
  if (json.contains("family")) task.family = document.text(json, place, "family");
  if (json.contains("examples")) task.examples = document.integer(json, place, "examples");
  const Json& direction = document.member(json, place, "direction");
  if (direction == "semantic")
    task.direction = Direction::kSemantic;
  else if (direction == "positional")
    task.direction = Direction::kPositional;
  else if (!direction.is_null() && direction != "none")
    document.fail(place + "/direction", "semantic, positional, none or null", direction.type_name());
  return task;
}

}  // namespace

nlohmann::ordered_json input_json(const ProfileInput& input) {
  return {{"name", input.name},
          {"sha256", input.sha256.empty() ? Json(nullptr) : Json(input.sha256)},
          {"bytes", input.bytes}};
}

std::string ranking_json(const Ranking& ranking, const ProfileReader& profile, const ProfileInput& file) {
  const ProfileHeader& header = profile.header();
  const auto& selected = profile.selection().selected;
  Json json = {{"format", "rope-profiler/ranking"},
               {"format_version", 1},
               {"tool_version", ROPE_PROFILER_VERSION},
               {"model", {{"name", header.model_name}, {"model_type", header.model_type}}},
               {"split", setting(header.settings, "split")},
               {"backend", setting(header.settings, "backend")},
               {"seed", ranking.seed},
               {"resamples", ranking.resamples},
               {"profile", input_json(file)}};
  json["inputs"] = Json::array();
  for (const auto& input : profile.inputs()) json["inputs"].push_back(input_json(input));
  json["selection"] = {{"rule", profile.selection().rule},
                       {"heads", std::count(selected.begin(), selected.end(), char{1})}};
  json["settings"] = Json::object();
  for (const auto& [key, value] : header.settings) json["settings"][key] = value;
  json["warnings"] = header.warnings;
  json["tasks"] = Json::array();
  for (const auto& task : ranking.tasks) json["tasks"].push_back(task_json(task, true));
  for (const auto& task : ranking.unranked_tasks) json["tasks"].push_back(task_json(task, false));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Ranking read_ranking_json(const std::string& path) {
  const JsonDocument document(path, "rank");
  const Json& root = document.root();
  document.require_format("rope-profiler/ranking", 1);
  Ranking ranking;
  ranking.model_name = document.text(document.member(root, "", "model"), "/model", "name");
  ranking.resamples = document.integer(root, "", "resamples");
  ranking.seed = document.unsigned_integer(root, "", "seed");
  const Json& tasks = document.array(root, "", "tasks");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    RankedTask task = read_task(document, tasks[i], "/tasks/" + std::to_string(i));
    if (std::isnan(task.w_s)) {
      ranking.unranked.push_back(task.task);
      ranking.unranked_tasks.push_back(std::move(task));
    } else {
      ranking.tasks.push_back(std::move(task));
    }
  }
  return ranking;
}

}  // namespace rope

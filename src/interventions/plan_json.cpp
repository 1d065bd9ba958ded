#include "interventions/plan_json.hpp"
#include "interventions/preview_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/json_text.hpp"
#include "profiler/result_json.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json heads_json(const std::vector<HeadIndex>& heads) {
  Json json = Json::array();
  for (const auto& [layer, head] : heads) json.push_back(Json::array({layer, head}));
  return json;
}

Json frequencies_json(const PlanFrequencies& entry) {
  Json json = {{"layers", entry.layers},
               {"heads", entry.heads.empty() ? Json(nullptr) : Json(entry.heads)},
               {"rope_type", entry.rope_type},
               {"window", entry.window > 0 ? Json(entry.window) : Json(nullptr)},
               {"rho", entry.grids.front().rho}};
  if (entry.grids.front().window == 0) {
    json["inv_freq"] = entry.grids.front().inv_freq;
    json["steps"] = Json::array();
    for (const MaskStep& step : entry.steps)
      json["steps"].push_back({{"length", step.length}, {"pairs", step.pairs}});
  } else {
    json["inv_freq"] = Json::array();
    for (const PlanGrid& grid : entry.grids)
      json["inv_freq"].push_back({{"window", grid.window}, {"inv_freq", grid.inv_freq}});
    json["steps"] = nullptr;
  }
  return json;
}

Json task_json(const PlanTask& task) {
  Json json = {{"task", task.task},
               {"direction", direction_name(task.direction)},
               {"w_s", json_number(task.w_s)},
               {"stage", task.stage},
               {"heads", heads_json(task.heads)}};
  json["candidates"] = Json::array();
  for (const Intervention& candidate : task.candidates)
    json["candidates"].push_back(plan_candidate_json(candidate));
  json["prompts"] = plan_prompts_json(task.prompts);
  if (!task.preview.empty()) json["preview"] = preview_rows_json(task.preview);
  return json;
}

}  // namespace

Json plan_model_json(const PlanModel& model) {
  Json json = {{"name", model.name},
               {"model_type", model.model_type},
               {"num_layers", model.num_layers},
               {"rope_layout", model.rope_layout}};
  json["layers"] = Json::array();
  for (const PlanLayerShape& shape : model.layers)
    json["layers"].push_back({{"layer", shape.layer},
                              {"query_heads", shape.query_heads},
                              {"kv_heads", shape.kv_heads},
                              {"head_dim", shape.head_dim},
                              {"rotary_dim", shape.rotary_dim},
                              {"norm_after_rotation", shape.norm_after_rotation}});
  json["frequencies"] = Json::array();
  for (const PlanFrequencies& entry : model.frequencies)
    json["frequencies"].push_back(frequencies_json(entry));
  return json;
}

Json plan_split_json(const spectral::SplitRule& split) {
  return {{"name", split.name()}, {"C", split.c}, {"epsilon", split.epsilon}};
}

Json plan_candidate_json(const Intervention& candidate) {
  const bool freeze = candidate.operation == Operation::kFreeze;
  return {{"id", candidate.id()},
          {"operation", operation_name(candidate.operation)},
          {"alpha", freeze ? Json(nullptr) : Json(candidate.alpha)}};
}

Json plan_prompts_json(const std::vector<PlanPrompt>& prompts) {
  Json json = Json::array();
  for (const PlanPrompt& prompt : prompts) {
    Json layers = Json::array();
    for (const PlanPromptLayer& layer : prompt.layers)
      layers.push_back({{"layer", layer.layer},
                        {"heads", layer.heads},
                        {"pairs", layer.pairs},
                        {"inv_freq", layer.inv_freq}});
    json.push_back({{"length", prompt.length}, {"layers", std::move(layers)}});
  }
  return json;
}

std::string plan_json(const Plan& plan) {
  Json json = {{"schema", kPlanSchema},
               {"tool_version", plan.tool_version},
               {"model", plan_model_json(plan.model)},
               {"split", plan_split_json(plan.split)},
               {"heads_rule", plan.heads_rule},
               {"profile_digest", plan.profile_digest},
               {"profile", input_json(plan.profile)},
               {"outcomes", plan.outcomes ? input_json(*plan.outcomes) : Json(nullptr)}};
  json["inputs"] = Json::array();
  for (const ProfileInput& input : plan.inputs) json["inputs"].push_back(input_json(input));
  json["settings"] = Json::object();
  for (const auto& [key, value] : plan.settings) json["settings"][key] = value;
  json["warnings"] = plan.warnings;
  if (plan.preview) json["preview"] = preview_facts_json(*plan.preview);
  json["tasks"] = Json::array();
  for (const PlanTask& task : plan.tasks) json["tasks"].push_back(task_json(task));
  return json_text(json);
}

}  // namespace rope

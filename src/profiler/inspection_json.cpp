#include <cmath>

#include "profiler/inspection.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(double value, bool given) { return given && std::isfinite(value) ? Json(value) : Json(); }

Json model_json(const Inspection& file) {
  if (!file.model) return {};
  const ModelHeader& model = *file.model;
  const auto rotation = [](Rotation r) { return r == Rotation::kPre ? "pre" : "post"; };
  return {{"name", model.name},
          {"model_type", file.model_type.empty() ? Json() : Json(file.model_type)},
          {"num_layers", model.num_layers},
          {"num_query_heads", model.num_query_heads},
          {"num_kv_heads", model.num_kv_heads},
          {"head_dim", model.head_dim},
          {"rope_layout", model.layout == spectral::PairLayout::kHalf ? "half" : "interleaved"},
          {"rope_direction", model.reversed ? "reversed" : "forward"},
          {"query_rotation", rotation(model.query_rotation)},
          {"key_rotation", rotation(model.key_rotation)},
          {"attention_scale", model.attention_scale ? Json(*model.attention_scale) : Json()},
          {"config", model.config.has_value()},
          {"inv_freq", !model.inv_freq_shape.empty()},
          {"sink_logit", !model.sink_logit.empty()},
          {"created_by", file.created_by}};
}

Json inv_freq_json(const InspectedLayer& layer) {
  if (layer.grids.empty()) return Json::array();
  const bool by_length = layer.grids.size() > 1 || spectral::depends_on_length(layer.facts.rope);
  if (!by_length) return layer.grids[0].grid.omega;
  Json list = Json::array();
  for (const auto& entry : layer.grids)
    list.push_back({{"window", entry.window},
                    {"attention_factor", entry.grid.attention_factor},
                    {"inv_freq", entry.grid.omega}});
  return list;
}

Json layer_json(const InspectedLayer& layer) {
  const LayerModel& facts = layer.facts;
  const bool rotates = facts.rotates && !layer.grids.empty();
  Json json = {
      {"layer", facts.layer},
      {"stored", layer.stored},
      {"kind", facts.kind},
      {"rope_type", facts.rope_type},
      {"theta", number_or_null(facts.rope.theta, rotates && facts.rope.theta > 0)},
      {"pairs", layer.pairs},
      {"rotary_dim", rotates ? layer.grids[0].grid.rotary_dim() : 0},
      {"attention_factor", number_or_null(rotates ? layer.grids.back().grid.attention_factor : 0, rotates)},
      {"logit_scale", number_or_null(facts.logit_scale, facts.has_attention)},
      {"softcap", number_or_null(facts.softcap, facts.softcap > 0)},
      {"window", facts.window > 0 ? Json(facts.window) : Json()},
      {"grid_per_head", !layer.shared_by_heads},
      {"inv_freq", inv_freq_json(layer)},
      {"high_pairs", Json()}};
  if (rotates && layer.split_window > 0)
    json["high_pairs"] = {{"window", layer.split_window},
                          {"operational", layer.operational},
                          {"intervention", layer.intervention},
                          {"certified", layer.certified},
                          {"separation", layer.separation}};
  return json;
}

Json side_json(const VectorScan::Side& side) {
  return {{"used_slots", side.slots},
          {"vectors", side.vectors},
          {"zero", side.zero},
          {"non_finite", side.non_finite}};
}

Json task_json(const InspectedTask& task) {
  const TaskHeader& header = task.header;
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  Json json = {{"task", header.name},
               {"family", text(header.family)},
               {"source", text(header.source)},
               {"nominal_length", header.nominal_length > 0 ? Json(header.nominal_length) : Json()},
               {"key_coverage", header.full_coverage ? "full" : "sampled"},
               {"examples", header.examples},
               {"layers", header.layers},
               {"query_heads", header.query_heads},
               {"kv_heads", header.kv_heads},
               {"head_dim", header.head_dim},
               {"query_slots", header.query_slots},
               {"key_slots", header.key_slots},
               {"triplet_slots", header.triplet_slots},
               {"example_id", header.has_example_id},
               {"query_type", element_name(header.query_type)},
               {"key_type", element_name(header.key_type)},
               {"window", Json()},
               {"query", task.scan ? side_json(task.scan->query) : Json()},
               {"key", task.scan ? side_json(task.scan->key) : Json()}};
  if (task.windows_known)
    json["window"] = {{"min", task.window_min}, {"mean", task.window_mean}, {"max", task.window_max}};
  return json;
}

}  // namespace

Json inspection_json(const std::vector<Inspection>& files) {
  Json list = Json::array();
  for (const Inspection& file : files) {
    Json layers = Json::array(), tasks = Json::array(), checks = Json::array();
    for (const InspectedLayer& layer : file.layers) layers.push_back(layer_json(layer));
    for (const InspectedTask& task : file.tasks) tasks.push_back(task_json(task));
    for (const CheckResult& check : file.checks)
      checks.push_back(
          {{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}, {"hint", check.hint}});
    list.push_back({{"file", file.file},
                    {"passed", file.passed()},
                    {"model", model_json(file)},
                    {"layers", layers},
                    {"tasks", tasks},
                    {"checks", checks},
                    {"warnings", file.warnings}});
  }
  return {{"format", "rope-profiler/inspection"},
          {"format_version", 1},
          {"tool_version", ROPE_PROFILER_VERSION},
          {"files", list}};
}

}  // namespace rope

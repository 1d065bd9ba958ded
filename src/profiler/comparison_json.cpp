#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/comparison.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json side_json(const RankedSide& side, const ProfileInput& file) {
  return {{"name", file.name},
          {"sha256", file.sha256},
          {"bytes", file.bytes},
          {"kind", kind_name(side.kind)},
          {"model", side.kind == RankedSide::Kind::kCsv ? Json(nullptr) : Json(side.model_name)},
          {"tasks", side.tasks.size()},
          {"without_w_s", side.without_w_s}};
}

Json task_json(const ComparedTask& task) {
  return {{"task", task.task},
          {"w_s_a", task.w_s_a},
          {"w_s_b", task.w_s_b},
          {"difference", json_number(task.w_s_b - task.w_s_a)},
          {"rank_a", task.rank_a},
          {"rank_b", task.rank_b},
          {"direction_a", direction_name(task.direction_a)},
          {"direction_b", direction_name(task.direction_b)}};
}

}  // namespace

std::string comparison_json(const Comparison& comparison, const RankedSide& a, const RankedSide& b,
                            const std::pair<ProfileInput, ProfileInput>& files,
                            const CorrelationOptions& options) {
  const RankCorrelation& correlation = comparison.correlation;
  Json json = {{"format", "rope-profiler/compare"},
               {"format_version", 1},
               {"tool_version", ROPE_PROFILER_VERSION},
               {"seed", options.seed},
               {"resamples", options.resamples},
               {"a", side_json(a, files.first)},
               {"b", side_json(b, files.second)},
               {"spearman", json_number(correlation.rho)},
               {"low", json_number(correlation.low)},
               {"high", json_number(correlation.high)},
               {"p_value", json_number(correlation.p_value)},
               {"permutations", correlation.permutations},
               {"exact", correlation.exact},
               {"same_direction", comparison.same_direction}};
  if (comparison.heads)
    json["head_overlap"] = {{"selected_a", comparison.heads->selected_a},
                            {"selected_b", comparison.heads->selected_b},
                            {"common", comparison.heads->common},
                            {"jaccard", json_number(comparison.heads->jaccard)}};
  else
    json["head_overlap"] = nullptr;
  json["head_overlap_note"] = comparison.heads ? Json(nullptr) : Json(comparison.no_heads);
  json["tasks"] = Json::array();
  for (const ComparedTask& task : comparison.tasks) json["tasks"].push_back(task_json(task));
  json["only_in_a"] = comparison.only_in_a;
  json["only_in_b"] = comparison.only_in_b;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rope

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/context_bounds.hpp"
#include "profiler/json_text.hpp"
#include "spectral/band_split.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json whole(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(nullptr); }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json grid_json(const GridFacts& grid, std::size_t index) {
  std::string layers;
  for (const int layer : grid.layers) layers += (layers.empty() ? "" : ",") + std::to_string(layer);
  const auto [low, high] = std::minmax_element(grid.omega.begin(), grid.omega.end());
  return {{"grid", index},
          {"layers", text_or_null(layers)},
          {"rope_type", grid.rope_type},
          {"theta", grid.theta > 0 ? Json(grid.theta) : Json(nullptr)},
          {"pairs", grid.omega.size()},
          {"omega_max", *high},
          {"omega_min", *low},
          {"rho", grid.rho},
          {"geometric", spectral::is_geometric(grid.omega)},
          {"response_limit", spectral::ContextBound(grid.omega, grid.rho, {}).response_limit()},
          {"layer_window", grid.layer_window > 0 ? Json(grid.layer_window) : Json(nullptr)}};
}

void add_setting(const BoundSeries& series, Json& to) {
  to["task"] = text_or_null(series.task);
  to["zeta_quantile"] = json_number(series.quantile);
  to["grid"] = series.grid;
  to["c"] = series.c;
  to["epsilon"] = series.epsilon;
  to["tau"] = series.tau;
}

Json row_json(const BoundRequest& request, const BoundSeries& series, std::size_t i) {
  const bool given = series.note.empty();
  const auto value = [&](double number) { return given ? json_number(number) : Json(nullptr); };
  const spectral::BoundPoint point = given ? series.points[i] : spectral::BoundPoint{};
  Json row = {{"window", request.windows[i]},
              {"zeta", series.zeta},
              {"k_n", series.slow_pairs[i]},
              {"response_floor", value(point.response_floor)},
              {"mean_bound", value(point.mean_bound)},
              {"deviation_floor", value(point.deviation_floor)},
              {"p_floor", value(given ? series.p_floor[i] : 0)},
              {"note", text_or_null(series.note)}};
  add_setting(series, row);
  return row;
}

Json crossing_json(const BoundRequest& request, const BoundSeries& series, std::size_t d) {
  const bool given = series.note.empty();
  Json crossing = {{"zeta", series.zeta},
                   {"delta", request.delta[d]},
                   {"first_excluded", given ? whole(series.crossings[d].first_excluded) : Json(nullptr)},
                   {"last_allowed", given ? whole(series.crossings[d].last_allowed) : Json(nullptr)},
                   {"delta_star", series.delta_star},
                   {"sufficient_window", whole(series.sufficient_window)},
                   {"gamma", json_number(series.gamma)},
                   {"verdict", crossing_sentence(series, d, request.delta[d])}};
  add_setting(series, crossing);
  return crossing;
}

Json measured_json(const MeasuredTask& task) {
  Json measured = {{"task", task.task}, {"grid", task.grid}, {"margins", task.margins}, {"tau", task.tau}};
  for (const auto& [quantile, zeta] : task.response)
    measured["zeta_" + std::to_string(std::lround(100 * quantile))] = zeta;
  return measured;
}

}  // namespace

Json bound_record(const std::vector<ProfileInput>& inputs) {
  Json list = Json::array();
  for (const ProfileInput& input : inputs)
    list.push_back({{"name", input.name}, {"sha256", input.sha256}, {"bytes", input.bytes}});
  return {{"format", "rope-profiler/bound"},
          {"format_version", 1},
          {"tool_version", ROPE_PROFILER_VERSION},
          {"model", nullptr},
          {"settings", {{"seed", nullptr}}},
          {"inputs", std::move(list)},
          {"warnings", Json::array()}};
}

void add_bounds(const BoundRequest& request, std::span<const BoundSeries> series, Json& to) {
  to["grids"] = Json::array();
  for (std::size_t g = 0; g < request.grids.size(); ++g)
    to["grids"].push_back(grid_json(request.grids[g], g));
  to["measured"] = Json::array();
  for (const MeasuredTask& task : request.measured) to["measured"].push_back(measured_json(task));
  to["rows"] = Json::array();
  to["crossings"] = Json::array();
  for (const BoundSeries& one : series) {
    for (std::size_t i = 0; i < request.windows.size(); ++i) to["rows"].push_back(row_json(request, one, i));
    for (std::size_t d = 0; d < request.delta.size(); ++d)
      to["crossings"].push_back(crossing_json(request, one, d));
  }
  for (const char* figure : {"first_excluded", "last_allowed", "delta_star", "sufficient_window"})
    to[figure] = to["crossings"].size() == 1 ? to["crossings"][0][figure] : Json(nullptr);
}

}  // namespace rope

#include "profiler/context_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> rotating(const std::vector<double>& omega) {
  std::vector<double> kept;
  std::copy_if(omega.begin(), omega.end(), std::back_inserter(kept), [](double w) { return w > 0; });
  return kept;
}

/// Which tasks, tau and zeta go with a grid.
struct Margin {
  std::string task;
  double quantile, tau, zeta;
};

std::vector<Margin> margins_on(const BoundRequest& request, std::size_t grid) {
  std::vector<Margin> margins;
  const auto add = [&](const std::string& task, std::span<const double> taus,
                       std::span<const std::pair<double, double>> zetas) {
    for (const double tau : taus)
      for (const auto& [quantile, zeta] : zetas) margins.push_back({task, quantile, tau, zeta});
  };
  std::vector<std::pair<double, double>> given;
  for (const double zeta : request.zeta) given.emplace_back(kNaN, zeta);
  if (request.measured.empty()) add("", request.tau, given);
  for (const MeasuredTask& task : request.measured) {
    if (task.grid != grid) continue;
    const std::vector<double> measured{task.tau};
    add(task.task, request.tau.empty() ? measured : request.tau,
        request.zeta.empty() ? task.response : given);
  }
  return margins;
}

BoundSeries make_series(const BoundRequest& request, std::size_t grid, const spectral::ContextBound& bound,
                        const Margin& margin) {
  BoundSeries series;
  series.task = margin.task;
  series.quantile = margin.quantile;
  series.grid = grid;
  series.c = bound.constants().c;
  series.epsilon = bound.constants().epsilon;
  series.tau = margin.tau;
  series.zeta = margin.zeta;
  series.gamma = bound.gamma();
  series.response_limit = bound.response_limit();
  series.delta_star = spectral::floor_above(bound.largest_reversal(), margin.tau);
  for (const std::int64_t window : request.windows) series.slow_pairs.push_back(bound.slow_pairs(window));
  if (!bound.in_range(margin.zeta)) {
    series.note = margin.zeta > 0 ? "zeta is not below R_F" : "zeta is not above 0";
    return series;
  }
  for (const std::int64_t window : request.windows) {
    series.points.push_back(bound.at(window, margin.zeta));
    series.p_floor.push_back(spectral::floor_above(series.points.back().reversal_floor, margin.tau));
  }
  series.sufficient_window = bound.sufficient_window(margin.zeta);
  for (const double delta : request.delta)
    series.crossings.push_back(spectral::find_crossing(request.windows, series.p_floor, delta));
  return series;
}

/// A zeta that no grid allows is a slip of the user; one that only some allow gets a note in its rows.
void require_possible(const BoundRequest& request) {
  double largest = 0;
  for (const GridFacts& grid : request.grids)
    largest = std::max(largest, spectral::ContextBound(grid.omega, grid.rho, {}).response_limit());
  for (const double zeta : request.zeta)
    if (!(zeta < largest))
      throw usage_error(fmt::format("--zeta: expected numbers below R_F = {:.6g}, found {}", largest, zeta),
                        "R_F = sqrt(sum over the pairs of 4 sin(omega/2)^2) is the largest response per norm "
                        "that these frequencies allow");
}

}  // namespace

GridFacts grid_of_numbers(double theta, int pairs) {
  spectral::RopeParameters parameters;
  parameters.theta = theta;
  parameters.head_dim = parameters.rotary_dim = 2 * pairs;
  const spectral::FrequencyGrid grid = spectral::make_frequency_grid(parameters, 1);
  GridFacts bound;
  bound.omega = rotating(grid.omega);
  bound.rho = grid.rho;
  bound.rope_type = "default";
  bound.theta = theta;
  return bound;
}

std::vector<GridFacts> grids_of_config(const ModelConfig& config, const std::string& where,
                                       std::optional<std::int64_t> seq_len) {
  if (!config.refusal.empty())
    throw UserError(where + ": " + config.refusal, "the bound says nothing about this model");
  std::vector<GridFacts> grids;
  for (const LayerModel& layer : config.layers) {
    if (!layer.has_attention || !layer.rotates) continue;
    if (spectral::depends_on_length(layer.rope) && !seq_len)
      throw usage_error(
          fmt::format("--seq-len is needed: the frequencies of {} (rope type {}) follow the length", where,
                      layer.rope_type),
          "for example --seq-len 32768");
    const spectral::FrequencyGrid grid = spectral::make_frequency_grid(layer.rope, seq_len.value_or(1));
    GridFacts bound;
    bound.omega = rotating(grid.omega);
    bound.rho = grid.rho;
    bound.rope_type = layer.rope_type;
    bound.theta = layer.rope.theta;
    bound.layer_window = layer.window;
    if (bound.omega.empty()) continue;
    const auto known = std::find_if(grids.begin(), grids.end(), [&](const GridFacts& other) {
      return other.omega == bound.omega && other.rho == bound.rho && other.rope_type == bound.rope_type;
    });
    GridFacts& to = known == grids.end() ? grids.emplace_back(std::move(bound)) : *known;
    if (known != grids.end() && (to.layer_window == 0 || layer.window == 0))
      to.layer_window = 0;
    else
      to.layer_window = std::max(to.layer_window, layer.window);
    to.layers.push_back(layer.layer);
  }
  if (grids.empty()) throw UserError(where + ": expected layers with rotary attention, found none");
  return grids;
}

std::vector<BoundSeries> bound_series(const BoundRequest& request) {
  require_possible(request);
  std::size_t series_count = 0;
  for (std::size_t g = 0; g < request.grids.size(); ++g) series_count += margins_on(request, g).size();
  const std::size_t constants = request.c.size() * request.epsilon.size();
  const std::size_t lines = std::max(request.windows.size(), request.delta.size());
  if (series_count > kMostBoundRows / std::max<std::size_t>(1, constants * lines))
    throw usage_error(fmt::format("the lists make more than {} rows", kMostBoundRows),
                      "ask for fewer values");
  std::vector<BoundSeries> series;
  for (std::size_t g = 0; g < request.grids.size(); ++g)
    for (const double c : request.c)
      for (const double epsilon : request.epsilon) {
        const spectral::ContextBound bound(request.grids[g].omega, request.grids[g].rho, {c, epsilon});
        for (const Margin& margin : margins_on(request, g))
          series.push_back(make_series(request, g, bound, margin));
      }
  return series;
}

std::string crossing_sentence(const BoundSeries& series, std::size_t delta, double value) {
  if (!series.note.empty()) return series.note;
  const spectral::BoundCrossing& crossing = series.crossings[delta];
  if (crossing.first_excluded)
    return fmt::format(
        "excluded from M = {} on{}", *crossing.first_excluded,
        crossing.last_allowed ? fmt::format(", allowed up to {}", *crossing.last_allowed) : "");
  return std::string("no exclusion within the windows given") +
         (value < series.delta_star ? "" : "; delta is not below delta*, so no window is ever excluded");
}

}  // namespace rope

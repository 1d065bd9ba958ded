#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/model_config.hpp"
#include "profiler/profile_file.hpp"
#include "profiler/scanned_grids.hpp"
#include "spectral/context_bound.hpp"

namespace rope {

/// The grid B^(-n/h) of h pairs.
GridFacts grid_of_numbers(double theta, int pairs);
/// The distinct grids of a config's rotating layers, in the order of their first layers. seq_len: for
/// frequencies that follow the length. Throws UserError where it is missing, the config is refused, or
/// nothing rotates; `where` names the config.
std::vector<GridFacts> grids_of_config(const ModelConfig& config, const std::string& where,
                                       std::optional<std::int64_t> seq_len);

/// Margins of one task on one grid: what theory §10 calls measured.
struct MeasuredTask {
  std::string task;
  std::size_t grid = 0;
  std::int64_t margins = 0;
  double tau = 0;                                   ///< largest gap of Gaussian and exact reversal
  std::vector<std::pair<double, double>> response;  ///< (quantile, zeta)
};

/// What the table runs over: the product of the lists, in this order of loops. With measured tasks, an empty
/// list of zeta or tau stands for what was measured.
struct BoundRequest {
  std::vector<GridFacts> grids;
  std::vector<double> c, epsilon, tau, zeta, delta;
  std::vector<std::int64_t> windows;  ///< rising
  std::vector<MeasuredTask> measured;
};

/// One grid, C, epsilon, tau and zeta over all windows.
struct BoundSeries {
  std::string task;      ///< empty: from numbers
  double quantile = 0;   ///< of the task's zeta; NaN: zeta was given
  std::size_t grid = 0;  ///< index into the request's grids
  double c = 0, epsilon = 0, tau = 0, zeta = 0;
  double gamma = 0, response_limit = 0;      ///< Gamma, R_F
  std::string note;                          ///< why there is no bound: zeta is not in (0, R_F); else empty
  std::vector<int> slow_pairs;               ///< [windows] k_N
  std::vector<spectral::BoundPoint> points;  ///< [windows]; empty where there is a note
  std::vector<double> p_floor;               ///< [windows]
  double delta_star = 0;
  std::optional<std::int64_t> sufficient_window;
  std::vector<spectral::BoundCrossing> crossings;  ///< [delta]
};

/// Rows that a run may have; more is a usage error.
inline constexpr std::size_t kMostBoundRows = 1'000'000;

/// Throws UserError (usage) where a given zeta is below R_F on no grid, or the product is too large.
std::vector<BoundSeries> bound_series(const BoundRequest& request);

/// What a crossing says in words: "no exclusion within the windows given" and the like.
std::string crossing_sentence(const BoundSeries& series, std::size_t delta, double delta_value);

/// The record of a run without caches, as CacheRun::record.
nlohmann::ordered_json bound_record(const std::vector<ProfileInput>& inputs);
/// Adds grids, rows, crossings and the four figures of a single crossing to the record of a run
/// (schemas/bound.schema.json).
void add_bounds(const BoundRequest& request, std::span<const BoundSeries> series, nlohmann::ordered_json& to);

}  // namespace rope

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "profiler/band_run.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;
using spectral::ScoreLaw;

constexpr int kShownWidth = ScoreLaw::kPerUnit / 4;  // bins of 0.25 from -4 to 4
constexpr int kShownFrom = (ScoreLaw::kReach - 4) * ScoreLaw::kPerUnit;
constexpr int kShownTo = (ScoreLaw::kReach + 4) * ScoreLaw::kPerUnit;

Json or_null(int number) { return number < 0 ? Json(nullptr) : Json(number); }

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

/// The members by which rows of all tables name their group.
Json group_key(const BandGroup& group, std::size_t index) {
  return {{"group", index},
          {"layer", or_null(group.layer)},
          {"head", or_null(group.head)},
          {"grid", group.grid},
          {"window", group.window > 0 ? Json(group.window) : Json(nullptr)}};
}

Json group_json(const BandGroup& group, std::size_t index) {
  Json json = group_key(group, index);
  json["layers"] = list_of(group.layers);
  json["window_min"] = group.window_min;
  json["window_max"] = group.window_max;
  json["margins"] = group.sums.vectors;
  json["left_out"] = group.left_out;
  return json;
}

void add_prefixes(const BandResult& result, const BandGroup& group, std::size_t index, double threshold,
                  Json& to) {
  const std::vector<BandPlace> places = band_places(result.grids[group.grid]);
  const auto prefixes = spectral::prefix_agreement(group.sums);
  const auto pairs = spectral::pair_agreement(group.sums);
  const auto shares = spectral::energy_shares(group.sums);
  const auto turn = [&](std::size_t k, std::int64_t window) {
    return static_cast<double>(window) * places[k].omega;
  };
  for (std::size_t k = 0; k < prefixes.size(); ++k) {
    Json prefix = {{"size", k + 1},
                   {"r_var", json_number(prefixes[k].r_var)},
                   {"agreement", json_number(prefixes[k].agreement)},
                   {"ratio", json_number(prefixes[k].ratio)},
                   {"pair", places[k].pair},
                   {"omega", places[k].omega}};
    prefix.update(group_key(group, index));
    to["prefixes"].push_back(std::move(prefix));
    Json energy = {{"pair", places[k].pair},
                   {"omega", places[k].omega},
                   {"share", json_number(shares[k])},
                   {"pair_r_var", json_number(pairs[k])}};
    energy.update(group_key(group, index));
    to["energy_share"].push_back(std::move(energy));
  }
  const std::size_t size = spectral::first_break(prefixes, threshold);
  Json broken = {{"threshold", threshold}, {"size", nullptr},     {"pair", nullptr},     {"omega", nullptr},
                 {"turn_min", nullptr},    {"turn_max", nullptr}, {"agreement", nullptr}};
  if (size > 0) {
    broken["size"] = size;
    broken["pair"] = places[size - 1].pair;
    broken["omega"] = places[size - 1].omega;
    broken["turn_min"] = turn(size - 1, group.window_min);
    broken["turn_max"] = turn(size - 1, group.window_max);
    broken["agreement"] = prefixes[size - 1].agreement;
  }
  broken.update(group_key(group, index));
  to["breaks"].push_back(std::move(broken));
}

void add_law(const BandLaw& one, const BandOptions& options, const Json& key, Json& to) {
  const ScoreLaw::Kolmogorov distance = one.law.kolmogorov();
  Json law = {{"set", one.set},
              {"size_min", one.size_min},
              {"size_max", one.size_max},
              {"vectors", one.law.vectors()},
              {"left_out", one.left_out},
              {"stride", options.law_stride},
              {"kolmogorov", json_number(distance.distance)},
              {"kolmogorov_error", json_number(distance.error)}};
  law.update(key);
  to["laws"].push_back(std::move(law));
  if (one.law.vectors() == 0) return;
  const auto normal = [](int edge) {
    return spectral::normal_below(-ScoreLaw::kReach + static_cast<double>(edge) / ScoreLaw::kPerUnit);
  };
  const auto bin = [&](int from, int end) {  // -1: no end
    const auto edge = [](int e) {
      return e < 0 ? Json(nullptr) : Json(-ScoreLaw::kReach + static_cast<double>(e) / ScoreLaw::kPerUnit);
    };
    const double low = from < 0 ? 0 : one.law.share_below(from),
                 high = end < 0 ? 1 : one.law.share_below(end);
    Json row = {{"set", one.set},
                {"low", edge(from)},
                {"high", edge(end)},
                {"share", std::max(0.0, high - low)},
                {"normal", (end < 0 ? 1 : normal(end)) - (from < 0 ? 0 : normal(from))}};
    row.update(key);
    to["score_law"].push_back(std::move(row));
  };
  bin(-1, kShownFrom);
  for (int edge = kShownFrom; edge < kShownTo; edge += kShownWidth) bin(edge, edge + kShownWidth);
  bin(kShownTo, -1);
}

Json grid_json(const GridFacts& grid, std::size_t index) {
  return {{"grid", index},
          {"layers", list_of(grid.layers)},
          {"rope_type", grid.rope_type},
          {"theta", grid.theta > 0 ? Json(grid.theta) : Json(nullptr)},
          {"pairs", grid.omega.size()},
          {"rho", grid.rho}};
}

}  // namespace

void add_bands(const BandResult& result, const BandOptions& options, double threshold, Json& to) {
  for (const char* table : {"grids", "groups", "prefixes", "energy_share", "breaks", "laws", "score_law"})
    to[table] = Json::array();
  for (std::size_t g = 0; g < result.grids.size(); ++g) to["grids"].push_back(grid_json(result.grids[g], g));
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    const BandGroup& group = result.groups[g];
    to["groups"].push_back(group_json(group, g));
    add_prefixes(result, group, g, threshold, to);
    for (const BandLaw& law : group.laws) add_law(law, options, group_key(group, g), to);
  }
}

}  // namespace rope

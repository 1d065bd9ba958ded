#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/audit.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json pair_json(const NamedPair& pair) {
  if (pair.values.pair < 0) return nullptr;
  const AuditedPair& v = pair.values;
  return {{"task", pair.task},
          {"example_id", pair.example_id},
          {"layer", pair.layer},
          {"head", pair.head},
          {"query", pair.query_slot},
          {"key", pair.key_slot},
          {"query_position", pair.query_position},
          {"key_position", pair.key_position},
          {"response", json_number(v.response)},
          {"envelope", json_number(v.envelope)},
          {"response_ratio", json_number(v.ratio())},
          {"norm_share", json_number(v.norm_share)},
          {"norm_floor", json_number(v.norm_floor)},
          {"breaks_response", v.breaks_response},
          {"breaks_norm_floor", v.breaks_norm_floor}};
}

void append_group(const AuditGroup& group, Json& to) {
  const EnvelopeTally& t = group.tally;
  const AuditStatistics& s = group.statistics;
  const bool floors = t.pairs > t.without_floor, bands = t.band.vectors > 0;
  to["pairs"] = t.pairs;
  to["pairs_without_floor"] = t.without_floor;
  to["violations_response"] = t.violations_response;
  to["violations_norm_floor"] = t.violations_norm_floor;
  to["median_response_ratio"] = json_number(s.median_response_ratio);
  to["median_norm_floor_ratio"] = json_number(s.median_norm_floor_ratio);
  to["largest_response_ratio"] = t.pairs > 0 ? json_number(t.largest_response_ratio) : Json(nullptr);
  to["largest_norm_floor_ratio"] = floors ? json_number(t.largest_norm_floor_ratio) : Json(nullptr);
  to["spearman_share_response"] = json_number(s.spearman_share_response);
  to["spearman_share_envelope"] = json_number(s.spearman_share_envelope);
  to["band_vectors"] = t.band.vectors;
  to["band_mean_holds"] = t.band.mean_holds;
  to["band_variance_holds"] = t.band.variance_holds;
  to["band_largest_mean_share"] = bands ? json_number(t.band.mean_share) : Json(nullptr);
  to["band_largest_variance_share"] = bands ? json_number(t.band.variance_share) : Json(nullptr);
  to["band_violations"] = t.band.violations;
}

Json bins_json(const std::vector<ShareBin>& bins) {
  Json rows = Json::array();
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const ShareBin& bin = bins[b];
    rows.push_back({{"bin", b},
                    {"pairs", bin.pairs},
                    {"share_low", bin.share_low},
                    {"share_median", bin.share_median},
                    {"share_high", bin.share_high},
                    {"response_low", bin.response_low},
                    {"response_median", bin.response_median},
                    {"response_high", bin.response_high},
                    {"envelope_low", bin.envelope_low},
                    {"envelope_median", bin.envelope_median},
                    {"envelope_high", bin.envelope_high}});
  }
  return rows;
}

Json grid_json(const AuditLayers& g, double needed) {
  return {{"layers", number_ranges(g.layers)},
          {"kind", g.kind},
          {"pairs_min", g.pairs_min},
          {"pairs_max", g.pairs_max},
          {"window_min", g.window_min},
          {"window_max", g.window_max},
          {"high_pairs_min", g.high_min},
          {"high_pairs_max", g.high_max},
          {"geometric", g.geometric},
          {"separation", json_number(g.delta_min)},
          {"window_separation", json_number(g.scaled_min)},
          {"window_separation_needed", needed},
          {"hypothesis_holds", g.satisfied},
          {"proposition_applies", g.proved},
          {"largest_prefix_min", g.prefix_min},
          {"largest_prefix_max", g.prefix_max}};
}

}  // namespace

std::string number_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last + 1) {
    for (last = first; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[first]);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(numbers[last]);
  }
  return text;
}

void append_audit(const AuditResult& result, Json& record) {
  record["all_pairs"] = result.all_pairs;
  record["undefined"] = result.undefined;
  record["non_finite"] = result.non_finite;
  record["without_distance"] = result.without_distance;
  append_group(result.all, record);
  record["share_varies"] = result.all.statistics.share_varies;
  record["quantiles"] = result.exact ? "exact" : "sample";
  record["quantile_pairs"] = result.sampled;
  record["quantile_rank_error"] = result.rank_error;
  record["evaluated_again"] = result.evaluated_again;
  record["rounding_response"] = result.rounding_response;
  record["rounding_norm_floor"] = result.rounding_norm_floor;
  record["band_C"] = result.c;
  record["band_epsilon"] = result.epsilon;
  record["nearest"] = pair_json(result.nearest);
  record["worst"] = pair_json(result.worst);
  record["bins"] = bins_json(result.all.statistics.bins);
  Json grids = Json::array(), layers = Json::array(), heads = Json::array();
  for (const AuditLayers& grid : result.grids) grids.push_back(grid_json(grid, result.needed));
  for (const AuditGroup& group : result.layers) {
    Json row = {{"layer", group.layer}};
    append_group(group, row);
    layers.push_back(std::move(row));
  }
  for (const AuditGroup& group : result.heads) {
    Json row = {{"layer", group.layer}, {"head", group.head}};
    append_group(group, row);
    heads.push_back(std::move(row));
  }
  record["grids"] = std::move(grids);
  record["layers"] = std::move(layers);
  record["heads"] = std::move(heads);
}

}  // namespace rope

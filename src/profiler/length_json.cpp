#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiler/json_text.hpp"
#include "profiler/length_run.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

// Members of a growth fit; all null without one.
void add_growth(Json& row, const HeadGrowth& growth, const std::string& suffix) {
  const auto number = [&](double spectral::GrowthFit::*member) {
    return growth.fit ? json_number((*growth.fit).*member) : Json();
  };
  row["slope" + suffix] = number(&spectral::GrowthFit::slope);
  row["slope_low" + suffix] = number(&spectral::GrowthFit::low);
  row["slope_high" + suffix] = number(&spectral::GrowthFit::high);
  row["intercept" + suffix] = number(&spectral::GrowthFit::intercept);
  row["class" + suffix] = spectral::growth_class_name(growth.growth);
}

// Flat: the same members in every row, null where there is nothing.
Json head_json(const LengthHeadRow& head, const spectral::LengthOrders& orders) {
  const auto two = std::find(orders.beta().begin(), orders.beta().end(), 2.0) - orders.beta().begin();
  const auto at_two = [&](const std::vector<double>& lengths) {
    const auto i = static_cast<std::size_t>(two);
    return i < lengths.size() ? json_number(lengths[i]) : Json();
  };
  Json row = {{"layer", head.layer},
              {"head", head.head},
              {"layer_window", head.window > 0 ? Json(head.window) : Json()},
              {"softcap", head.softcap},
              {"effective_length_virtual", at_two(head.length)},
              {"effective_length_virtual_slow", at_two(head.slow)}};
  const HeadAttention none;
  const HeadAttention& attention = head.attention ? *head.attention : none;
  const auto number = [&](double value) { return head.attention ? json_number(value) : Json(); };
  row["rows"] = attention.rows;
  row["undefined_rows"] = attention.undefined;
  row["groups"] = attention.groups;
  row["shortest"] = number(attention.shortest);
  row["longest"] = number(attention.longest);
  row["effective_length"] = number(attention.effective_length);
  add_growth(row, attention.growth, "");
  row["effective_length_without_first"] = number(attention.effective_length_without_first);
  add_growth(row, attention.without_first, "_without_first");
  row["entropy"] = number(attention.entropy);
  row["sink"] = number(attention.sink);
  row["previous_token"] = number(attention.previous);
  row["slash"] = number(attention.slash);
  row["slash_offset"] = attention.offset >= 0 ? Json(attention.offset) : Json();
  row["local_mass"] = number(attention.local);
  return row;
}

}  // namespace

std::string length_json(const LengthReport& report, const CacheRun& run, const LengthOptions& options) {
  Json json = run.record("rope-profiler/length");
  const auto beta = [&](std::size_t order) { return spectral::order_name(options.orders.beta()[order]); };
  Json& settings = json["settings"];
  settings["beta"] = Json::array();
  for (std::size_t i = 0; i < options.orders.size(); ++i) settings["beta"].push_back(beta(i));
  settings["local"] = options.local;
  settings["offsets"] = options.offsets;
  settings["retrieval_below"] = options.retrieval_below;
  settings["aggregation_above"] = options.aggregation_above;
  settings["attention"] =
      options.attention == LengthOptions::Attention::kRequired ? "required" : "where covered";
  settings["virtual"] = options.virtual_lengths;
  json["tasks_with_all_keys"] = report.covered;
  json["tasks_with_some_keys"] = report.sampled;
  json["heads"] = Json::array();
  for (const LengthHeadRow& head : report.heads) json["heads"].push_back(head_json(head, options.orders));
  json["virtual"] = Json::array();
  for (const VirtualLengthRow& row : report.lengths)
    json["virtual"].push_back({{"task", run.set().tasks()[static_cast<std::size_t>(row.task)].name},
                               {"layer", row.layer},
                               {"head", row.head},
                               {"beta", beta(row.order)},
                               {"pairs", row.pairs},
                               {"effective_length", json_number(row.length)},
                               {"effective_length_slow", json_number(row.slow)}});
  json["lengths"] = Json::array();
  for (const LengthGroupRow& row : report.groups)
    json["lengths"].push_back(
        {{"layer", row.layer},
         {"head", row.head},
         {"group", row.group},
         {"examples", row.examples},
         {"length", json_number(row.keys)},
         {"length_without_first", json_number(row.keys_without_first)},
         {"beta", beta(row.order)},
         {"log_effective_length", json_number(row.log_length)},
         {"log_effective_length_without_first", json_number(row.log_length_without_first)}});
  return json_text(json);
}

}  // namespace rope

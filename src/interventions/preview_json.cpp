#include "interventions/preview_json.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "profiler/clean_text.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = JsonDocument::Json;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

constexpr std::pair<const char*, double PreviewValue::*> kValues[] = {
    {"value", &PreviewValue::value},
    {"change", &PreviewValue::change},
    {"change_low", &PreviewValue::change_low},
    {"change_high", &PreviewValue::change_high}};

Json row_json(const PreviewRow& row) {
  const bool rescale = row.intervention && row.intervention->operation == Operation::kRescale;
  Json json = {
      {"candidate", row.candidate()},
      {"operation", row.intervention ? Json(operation_name(row.intervention->operation)) : Json(nullptr)},
      {"alpha", rescale ? Json(row.intervention->alpha) : Json(nullptr)},
      {"in_plan", row.in_plan},
      {"in_sweep", row.in_sweep},
      {"examples", row.examples}};
  for (std::size_t s = 0; s < kPreviewScores; ++s) {
    Json values = Json::object();
    for (const auto& [name, member] : kValues) values[name] = json_number(row.score[s].*member);
    json[preview_score_name(static_cast<PreviewScore>(s))] = std::move(values);
  }
  return json;
}

std::optional<Intervention> read_intervention(const JsonDocument& document, const Json& json,
                                              const std::string& place) {
  const Json& operation = document.member(json, place, "operation");
  const Json& alpha = document.member(json, place, "alpha");
  std::optional<Intervention> result;
  if (operation == "rescale") {
    result = Intervention{Operation::kRescale, document.number(json, place, "alpha")};
    if (!(result->alpha >= 0 && result->alpha <= kLargestStrength))
      document.fail(place + "/alpha", "0 to 10000", alpha.dump());
  } else if (operation == "freeze") {
    result = Intervention{Operation::kFreeze, 1.0};
  } else if (!operation.is_null()) {
    document.fail(place + "/operation", "rescale, freeze or null", operation.dump());
  }
  if (operation != "rescale" && !alpha.is_null())
    document.fail(place + "/alpha", "null without a rescaling", alpha.dump());
  return result;
}

PreviewRow read_row(const JsonDocument& document, const Json& json, const std::string& place) {
  PreviewRow row;
  row.intervention = read_intervention(document, json, place);
  if (const std::string id = document.text(json, place, "candidate"); id != row.candidate())
    document.fail(place + "/candidate", row.candidate(), rope::quoted(id));
  row.in_plan = document.boolean(json, place, "in_plan");
  row.in_sweep = document.boolean(json, place, "in_sweep");
  row.examples = document.integer(json, place, "examples", 0, kMost);
  for (std::size_t s = 0; s < kPreviewScores; ++s) {
    const char* name = preview_score_name(static_cast<PreviewScore>(s));
    const Json& values = document.member(json, place, name);
    for (const auto& [member_name, member] : kValues)
      row.score[s].*member = document.number_or_nan(values, place + "/" + name, member_name);
  }
  return row;
}

}  // namespace

bool PreviewValue::operator==(const PreviewValue& other) const {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  return same(value, other.value) && same(change, other.change) && same(change_low, other.change_low) &&
         same(change_high, other.change_high);
}

const char* preview_score_name(PreviewScore score) {
  switch (score) {
    case PreviewScore::kSemantic:
      return "semantic_score";
    case PreviewScore::kPositional:
      return "positional_score";
    case PreviewScore::kNormShare:
      return "norm_share";
    case PreviewScore::kEffectiveLength:
      return "effective_length_virtual";
    case PreviewScore::kLogitSpread:
      return "logit_spread";
    case PreviewScore::kPositionalFixedNorm:
      return "positional_score_fixed_norm";
    case PreviewScore::kCount:
      break;
  }
  throw std::logic_error("preview_score_name: no such score");
}

Json preview_rows_json(const std::vector<PreviewRow>& rows) {
  Json json = Json::array();
  for (const PreviewRow& row : rows) json.push_back(row_json(row));
  return json;
}

Json preview_facts_json(const PreviewFacts& facts) {
  Json json = {{"share_split", facts.share_split}, {"window", facts.window},
               {"window_cap", facts.window_cap},   {"trust", facts.trust},
               {"backend", facts.backend},         {"simd", facts.simd},
               {"resamples", facts.resamples},     {"seed", facts.seed}};
  json["inputs"] = Json::array();
  for (const ProfileInput& input : facts.inputs)
    json["inputs"].push_back({{"name", input.name},
                              {"sha256", input.sha256.empty() ? Json(nullptr) : Json(input.sha256)},
                              {"bytes", input.bytes}});
  return json;
}

std::vector<PreviewRow> read_preview_rows(const JsonDocument& document, const Json& json,
                                          const std::string& place) {
  if (!json.is_array()) document.fail(place, "an array", json.type_name());
  std::vector<PreviewRow> rows;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string where = place + "/" + std::to_string(i);
    rows.push_back(read_row(document, json[i], where));
    if (!seen.insert(rows.back().candidate()).second)
      document.fail(where + "/candidate", "every candidate once", rows.back().candidate() + " again");
  }
  return rows;
}

PreviewFacts read_preview_facts(const JsonDocument& document, const Json& json, const std::string& place) {
  PreviewFacts facts;
  for (const auto& [name, member] :
       {std::pair{"share_split", &PreviewFacts::share_split}, std::pair{"window", &PreviewFacts::window},
        std::pair{"window_cap", &PreviewFacts::window_cap}, std::pair{"trust", &PreviewFacts::trust},
        std::pair{"backend", &PreviewFacts::backend}, std::pair{"simd", &PreviewFacts::simd}})
    facts.*member = document.text(json, place, name);
  facts.resamples = document.integer(json, place, "resamples", 0, kMost);
  const Json& seed = document.member(json, place, "seed");
  if (!seed.is_number_unsigned()) document.fail(place + "/seed", "a whole number from 0", seed.dump());
  facts.seed = seed.get<std::uint64_t>();
  const Json& inputs = document.array(json, place, "inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string where = place + "/inputs/" + std::to_string(i);
    ProfileInput input;
    input.name = document.text(inputs[i], where, "name");
    if (!document.member(inputs[i], where, "sha256").is_null())
      input.sha256 = document.text(inputs[i], where, "sha256");
    input.bytes = document.integer(inputs[i], where, "bytes", 0, kMost);
    facts.inputs.push_back(std::move(input));
  }
  return facts;
}

}  // namespace rope

#include "profiler/adarope_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(json_number(value));
  return list;
}

Json fit_json(const HeadFit& fit) {
  return {{"layer", fit.layer},
          {"head", fit.head},
          {"tau", json_number(fit.tau)},
          {"gamma", json_number(fit.gamma)},
          {"reference_length", json_number(fit.reference_length)},
          {"residual", json_number(fit.residual)},
          {"logit_variance", json_number(fit.logit_variance)},
          {"reason", fit.fitted() ? Json(nullptr) : Json(fit.reason)},
          {"lengths", numbers(fit.lengths)},
          {"effective_length", numbers(fit.effective_length)},
          {"lambda", numbers(fit.lambda)},
          {"nope_scale", numbers(fit.nope_scale)},
          {"xi", numbers(fit.xi)}};
}

Json use_json(const HeadUse& use) {
  Json pairs = Json::array();
  for (std::size_t n = 0; n < use.omega.size(); ++n) pairs.push_back(n);
  return {{"layer", use.layer},
          {"head", use.head},
          {"usage_cov", json_number(use.usage_cov)},
          {"usage_centroid", json_number(use.usage_centroid)},
          {"usage_norm_cov", json_number(use.usage_norm_cov)},
          {"usage_norm_centroid", json_number(use.usage_norm_centroid)},
          {"frequency_mass", json_number(use.frequency_mass)},
          {"effective_base", json_number(use.effective_base)},
          {"amplitude", json_number(use.amplitude)},
          {"effective_length_virtual", json_number(use.effective_length)},
          {"logit_variance", json_number(use.logit_variance)},
          {"pair", pairs},
          {"omega", numbers(use.omega)},
          {"usage", numbers(use.usage)},
          {"usage_norm", numbers(use.usage_norm)},
          {"length_change", numbers(use.length_change)},
          {"variance_change", numbers(use.variance_change)}};
}

Json task_json(const HeadWindowTask& head) {
  const auto index = [](int value) { return value < 0 ? Json(nullptr) : Json(value); };
  const auto bound = [&](double spectral::WindowTaskBounds::*value) {
    return head.bounds ? json_number((*head.bounds).*value) : Json(nullptr);
  };
  const auto flag = [&](bool spectral::WindowTaskBounds::*value) {
    return head.bounds ? Json((*head.bounds).*value) : Json(nullptr);
  };
  return {{"layer", index(head.layer)},
          {"head", index(head.head)},
          {"a_star", json_number(head.task.amplitude)},
          {"norm_product", json_number(head.task.norm_product)},
          {"length", json_number(head.task.length)},
          {"max_omega", json_number(head.task.max_omega)},
          {"needed_logit", bound(&spectral::WindowTaskBounds::needed)},
          {"c1", bound(&spectral::WindowTaskBounds::c1)},
          {"c2", bound(&spectral::WindowTaskBounds::c2)},
          {"lower", bound(&spectral::WindowTaskBounds::lower)},
          {"upper", bound(&spectral::WindowTaskBounds::upper)},
          {"frequency_mass", json_number(head.frequency_mass)},
          {"has_fast_pairs", flag(&spectral::WindowTaskBounds::has_fast)},
          {"possible", flag(&spectral::WindowTaskBounds::possible)}};
}

// What CacheRun::record gives, for a run without caches.
Json bare_record(const std::string& format) {
  return {{"format", format},         {"format_version", 1},        {"tool_version", ROPE_PROFILER_VERSION},
          {"model", nullptr},         {"settings", Json::object()}, {"inputs", Json::array()},
          {"warnings", Json::array()}};
}

}  // namespace

std::string adarope_json(const AdaropeResult& result, const CacheRun* run) {
  Json json = run != nullptr ? run->record("rope-profiler/adarope") : bare_record("rope-profiler/adarope");
  if (run != nullptr) json["model"]["num_layers"] = run->set().files()[0].model().num_layers;
  for (const auto& [name, value] : result.settings) json["settings"][name] = value;
  if (result.fit) {
    for (const std::string& warning : result.fit->warnings) json["warnings"].push_back(warning);
    json["rows"] = result.fit->rows;
    json["rows_left_out"] = result.fit->left_out;
    json["heads"] = Json::array();
    for (const HeadFit& fit : result.fit->heads) json["heads"].push_back(fit_json(fit));
  }
  if (result.use) {
    json["use"] = Json::array();
    for (const HeadUse& use : *result.use) json["use"].push_back(use_json(use));
  }
  if (result.window_task) {
    const WindowTaskRequest& task = result.window_task->request;
    json["window_task"] = {{"window", task.window}, {"r", task.slack}, {"epsilon", task.epsilon}};
    json["bounds"] = Json::array();
    for (const HeadWindowTask& head : result.window_task->heads) json["bounds"].push_back(task_json(head));
  }
  return json_text(json);
}

}  // namespace rope

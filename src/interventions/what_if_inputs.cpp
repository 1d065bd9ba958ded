#include "interventions/what_if_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "profiler/error.hpp"

namespace rope::detail {
namespace {

constexpr double kAgreement = 1e-5;  // as between a config and stored frequencies
constexpr std::int64_t kRows = 65536;
constexpr const char* kHint = "--preview reads caches of the model that the profile was made from";

bool close(double a, double b) { return std::abs(a - b) <= kAgreement * std::max(std::abs(a), std::abs(b)); }

std::set<HeadIndex> all_heads(const Plan& plan) {
  std::set<HeadIndex> heads;
  for (const PlanTask& task : plan.tasks) heads.insert(task.heads.begin(), task.heads.end());
  return heads;
}

const std::string& path_of(const ActivationSet& set, int layer) {
  return set.files()[static_cast<std::size_t>(set.file_of_layer(layer))].path();
}

void require_grid(const ActivationSet& set, const HeadIndex& where, const PlanGrid& planned) {
  const auto [layer, head] = where;
  const auto grid =
      set.model(set.file_of_layer(layer)).grid(layer, head, std::max<std::int64_t>(planned.window, 2));
  const std::string place = fmt::format("/model: frequencies of layer {} head {}", layer, head);
  if (grid.omega.size() != planned.inv_freq.size())
    throw input_error(path_of(set, layer), place, fmt::format("the plan's {} pairs", planned.inv_freq.size()),
                      fmt::format("{}", grid.omega.size()), kHint);
  for (std::size_t n = 0; n < grid.omega.size(); ++n)
    if (!close(grid.omega[n], planned.inv_freq[n]))
      throw input_error(path_of(set, layer), place,
                        fmt::format("{} for pair {}, as in the plan", planned.inv_freq[n], n),
                        fmt::format("{}", grid.omega[n]), kHint);
  if (!close(grid.rho, planned.rho))
    throw input_error(path_of(set, layer), place,
                      fmt::format("a decay ratio rho of {}, as in the plan", planned.rho),
                      fmt::format("{}", grid.rho), kHint);
}

void require_layer(const Plan& plan, const ProfileReader& profile, const ActivationSet& set, int layer) {
  const LayerModel& facts = set.layer(layer);
  const auto check = [&](const char* what, double planned, double found) {
    if (!close(planned, found))
      throw input_error(path_of(set, layer), fmt::format("/model: {} of layer {}", what, layer),
                        fmt::format("{}, as in the profile", planned), fmt::format("{}", found), kHint);
  };
  if (const PlanLayerShape* shape = plan.model.shape(layer)) {
    const auto stored = std::count_if(set.heads().begin(), set.heads().end(),
                                      [&](const SetHead& head) { return head.layer == layer; });
    check("query heads", shape->query_heads, static_cast<double>(stored));
    check("head_dim", shape->head_dim,
          set.files()[static_cast<std::size_t>(set.file_of_layer(layer))].model().head_dim);
  }
  for (const ProfileLayer& known : profile.header().layers) {
    if (known.layer != layer) continue;
    check("sliding window", static_cast<double>(known.window), static_cast<double>(facts.window));
    check("softmax scale", known.logit_scale, facts.logit_scale);
    check("softcap", known.softcap, facts.softcap);
  }
}

}  // namespace

void require_plan_model(const Plan& plan, const ProfileReader& profile, const ActivationSet& set) {
  const ModelHeader& header = set.files()[0].model();
  if (header.name != plan.model.name)
    throw input_error(set.files()[0].path(), "/model: attribute name",
                      fmt::format("\"{}\" as in the plan", plan.model.name),
                      fmt::format("\"{}\"", header.name), kHint);
  if (header.num_layers != plan.model.num_layers)
    throw input_error(set.files()[0].path(), "/model: attribute num_layers",
                      fmt::format("{} as in the plan", plan.model.num_layers),
                      std::to_string(header.num_layers), kHint);
  for (const ActivationFile& file : set.files()) {
    const char* layout = file.model().layout == spectral::PairLayout::kHalf ? "half" : "interleaved";
    if (layout != plan.model.rope_layout)
      throw input_error(file.path(), "/model: attribute rope_layout",
                        fmt::format("\"{}\" as in the plan", plan.model.rope_layout),
                        fmt::format("\"{}\"", layout), kHint);
  }
  int last = -1;
  for (const HeadIndex& place : all_heads(plan)) {
    const auto [layer, head] = place;
    if (set.first_head(layer) < 0) continue;  // told by preview_warnings
    if (layer != last) require_layer(plan, profile, set, layer);
    last = layer;
    const PlanFrequencies* frequencies = plan.model.of(layer, head);
    if (frequencies == nullptr) continue;
    const bool by_length = frequencies->grids.front().window != 0;
    if (set.model(set.file_of_layer(layer)).depends_on_length(layer) != by_length)
      throw input_error(path_of(set, layer),
                        fmt::format("/model: frequencies of layer {} head {}", layer, head),
                        by_length ? "ones that depend on the length, as in the plan"
                                  : "ones for any length, as in the plan",
                        "the other kind", kHint);
    for (const PlanGrid& grid : frequencies->grids) require_grid(set, place, grid);
  }
}

MatchedExamples match_examples(const ProfileReader& profile, const ActivationSet& set,
                               const std::string& name) {
  MatchedExamples matched;
  std::unordered_map<std::string, std::int64_t> windows;
  const bool own_window =
      std::find(profile.header().settings.begin(), profile.header().settings.end(),
                std::pair<std::string, std::string>("window", "example")) != profile.header().settings.end();
  for (const ProfileTask& task : profile.tasks()) {
    if (task.name != name) continue;
    for (std::int64_t first = 0; first < task.examples; first += kRows) {
      const std::int64_t count = std::min(kRows, task.examples - first);
      const auto ids = profile.example_ids(task, first, count);
      const auto lengths = profile.windows(task, first, count);
      for (std::size_t i = 0; i < ids.size(); ++i) windows.emplace(ids[i], lengths[i]);
    }
  }
  matched.not_in_caches = std::ssize(windows);
  for (const SetTask& task : set.tasks()) {
    if (task.name != name) continue;
    matched.task_in_caches = true;
    for (const SetExample& example : task.examples) {
      const auto known = windows.find(example.id);
      if (known == windows.end()) {
        ++matched.not_in_profile;
        continue;
      }
      if (own_window && known->second != example.window) {
        const ExamplePart& part = example.parts.front();
        throw input_error(
            set.files()[static_cast<std::size_t>(part.file)].path(),
            fmt::format("/tasks/{}/window[{}]", name, part.row),
            fmt::format("{} tokens, as example \"{}\" has in the profile", known->second, example.id),
            std::to_string(example.window), kHint);
      }
      --matched.not_in_caches;
      matched.examples.push_back(&example);
    }
  }
  return matched;
}

std::vector<std::string> preview_warnings(const Plan& plan, const ActivationSet& set,
                                          const std::vector<MatchedExamples>& matched) {
  std::vector<std::string> warnings;
  std::set<std::string> absent, seen;
  for (std::size_t t = 0; t < matched.size(); ++t) {
    const std::string& task = plan.tasks[t].task;
    if (!seen.insert(task).second) continue;
    if (matched[t].examples.empty()) {
      absent.insert(task);
      continue;
    }
    if (matched[t].not_in_caches > 0)
      warnings.push_back(
          fmt::format("preview of {}: over {} of the profile's {} examples, the others are not in the caches",
                      task, matched[t].examples.size(),
                      matched[t].examples.size() + static_cast<std::size_t>(matched[t].not_in_caches)));
    if (matched[t].not_in_profile > 0)
      warnings.push_back(fmt::format(
          "preview of {}: left out are {} of the caches' {} examples, which the profile does not have", task,
          matched[t].not_in_profile,
          matched[t].examples.size() + static_cast<std::size_t>(matched[t].not_in_profile)));
  }
  if (!absent.empty())
    warnings.push_back(fmt::format("no preview: the caches hold no example of {}", fmt::join(absent, ", ")));
  std::set<int> layers;
  for (const auto& [layer, head] : all_heads(plan))
    if (set.first_head(layer) < 0) layers.insert(layer);
  if (!layers.empty())
    warnings.push_back(
        fmt::format("preview: the caches hold no vectors of layer {}, whose heads are left out",
                    fmt::join(layers, ", ")));
  return warnings;
}

}  // namespace rope::detail

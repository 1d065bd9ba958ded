#include "interventions/plan_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "profiler/task_globs.hpp"

namespace rope {
namespace {

template <class Items>
std::string listed(const Items& items, std::size_t most = 8) {
  std::string text;
  std::size_t count = 0;
  for (const auto& item : items) {
    if (++count > most) return text + fmt::format(" and {} more", items.size() - most);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", item);
  }
  return text;
}

bool has_freeze(const Plan& plan) {
  return std::any_of(plan.tasks.begin(), plan.tasks.end(), [](const PlanTask& task) {
    return std::any_of(task.candidates.begin(), task.candidates.end(),
                       [](const Intervention& one) { return one.operation == Operation::kFreeze; });
  });
}

std::string setting(const Settings& settings, const std::string& name) {
  for (const auto& [key, value] : settings)
    if (key == name) return value;
  return {};
}

void warn_of_layers(const Plan& plan, const ProfileReader& profile, std::vector<std::string>& warnings) {
  std::set<int> still, normed;
  for (const ProfileHead& head : profile.header().heads)
    if (!head.rotates) still.insert(head.layer);
  for (const PlanLayerShape& shape : plan.model.layers)
    if (shape.norm_after_rotation) normed.insert(shape.layer);
  if (!still.empty())
    warnings.push_back(fmt::format(
        "layers without rotation have nothing to rescale or freeze and stay as they are: {}", listed(still)));
  if (!normed.empty())
    warnings.push_back(fmt::format(
        "queries and keys are normalised after the rotation in layers {}: apply a rescaling after that norm",
        listed(normed)));
  const std::size_t chosen = plan.tasks.front().heads.size();
  const std::vector<HeadIndex> shared = heads_with_shared_keys(plan.model, plan.tasks.front().heads);
  if (has_freeze(plan) && !shared.empty()) {
    std::set<int> layers;
    for (const HeadIndex& head : shared) layers.insert(head.first);
    warnings.push_back(fmt::format(
        "{} of the {} chosen heads share their keys with heads that are not chosen (layers {}): a freeze "
        "needs keys of its own for them, so the KV cache of these layers grows",
        shared.size() == chosen ? "all" : std::to_string(shared.size()), chosen, listed(layers, 40)));
  }
}

void warn_of_tasks(const Plan& plan, const ProfileReader& profile, const PlanOptions& options,
                   std::vector<std::string>& warnings) {
  std::vector<std::string> without, empty;
  for (const PlanTask& task : plan.tasks) {
    if (task.candidates.empty()) without.push_back(task.task);
    const auto masks_nothing = [](const PlanPrompt& prompt) {
      return std::all_of(prompt.layers.begin(), prompt.layers.end(),
                         [](const PlanPromptLayer& layer) { return layer.pairs.empty(); });
    };
    if (std::any_of(task.prompts.begin(), task.prompts.end(), masks_nothing)) empty.push_back(task.task);
  }
  if (!without.empty())
    warnings.push_back(
        fmt::format("no direction, so no candidates (--direction gives them): {}", listed(without)));
  if (!empty.empty())
    warnings.push_back(fmt::format(
        "H(M) is empty at some prompt length, where the candidates change nothing: {}", listed(empty)));
  if (options.not_improved) {
    std::vector<std::string> unknown;
    for (const std::string& task : *options.not_improved)
      if (std::none_of(profile.tasks().begin(), profile.tasks().end(),
                       [&](const ProfileTask& known) { return known.name == task; }))
        unknown.push_back(task);
    std::vector<std::string> unmeasured;
    for (const ProfileTask& task : profile.tasks())
      if (matches_any_glob(task.name, options.task_globs) &&
          std::find(options.measured.begin(), options.measured.end(), task.name) == options.measured.end())
        unmeasured.push_back(task.name);
    if (!unmeasured.empty())
      warnings.push_back(
          fmt::format("not planned, stage 5 was not measured on them: {}", listed(unmeasured)));
    if (!unknown.empty())
      warnings.push_back(
          fmt::format("the outcomes name tasks that the profile does not have: {}", listed(unknown)));
  }
  if (options.stage == 10 && !options.not_improved)
    warnings.emplace_back(
        "stage 10 is meant for tasks that stage 5 did not improve; without --outcomes every task is planned");
}

}  // namespace

std::vector<HeadIndex> heads_with_shared_keys(const PlanModel& model, const std::vector<HeadIndex>& heads) {
  std::vector<HeadIndex> shared;
  for (const HeadIndex& head : heads) {
    const PlanLayerShape* shape = model.shape(head.first);
    if (!shape || shape->kv_heads <= 0 || shape->query_heads % shape->kv_heads != 0) continue;
    const int group = shape->query_heads / shape->kv_heads, first = head.second / group * group;
    for (int other = first; other < first + group; ++other)
      if (std::find(heads.begin(), heads.end(), HeadIndex{head.first, other}) == heads.end()) {
        shared.push_back(head);
        break;
      }
  }
  return shared;
}

std::vector<std::string> plan_warnings(const Plan& plan, const ProfileReader& profile,
                                       const PlanOptions& options) {
  std::vector<std::string> warnings;
  const HeadSelection& selection = profile.selection();
  if (profile.tasks().size() == 1)
    warnings.emplace_back(
        "the profile holds one task: no variance over tasks ranks the heads, and w_S is 1/2");
  else if (!selection.order.empty() &&
           selection.variance[static_cast<std::size_t>(selection.order.front())] == 0)
    warnings.emplace_back(
        "the norm share of no head varies over the tasks: the ranking of heads means nothing");
  if (const std::string window = setting(plan.settings, "window"); !window.empty() && window != "example")
    warnings.push_back(
        fmt::format("the profile was made with --window {}: masks and prompt lengths are of that window, not "
                    "of the prompts",
                    window));
  warn_of_layers(plan, profile, warnings);
  warn_of_tasks(plan, profile, options, warnings);
  return warnings;
}

}  // namespace rope

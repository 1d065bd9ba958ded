#include "interventions/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "interventions/plan_warnings.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"
#include "profiler/task_globs.hpp"

namespace rope {
namespace {

constexpr std::int64_t kRows = 65536;

const ProfileLayer& layer_facts(const ProfileReader& profile, int layer) {
  const auto& layers = profile.header().layers;
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const ProfileLayer& facts) { return facts.layer == layer; });
  if (found == layers.end())
    throw input_error(profile.path(), "/layers/layer", fmt::format("a row of layer {}", layer), "none");
  return *found;
}

// Equal frequencies of several layers, or of several heads of one layer, become one entry.
std::vector<PlanFrequencies> frequencies_of(const ProfileReader& profile, const spectral::SplitRule& split) {
  const ProfileHeader& header = profile.header();
  std::vector<PlanFrequencies> entries;
  for (std::size_t i = 0; i < header.grid_uses.size();) {
    const GridUse& first = header.grid_uses[i];
    const ProfileLayer& facts = layer_facts(profile, first.layer);
    PlanFrequencies entry;
    entry.layers = {first.layer};
    if (first.head >= 0) entry.heads = {first.head};
    entry.rope_type = facts.rope_type;
    entry.window = facts.window;
    for (; i < header.grid_uses.size() && header.grid_uses[i].layer == first.layer &&
           header.grid_uses[i].head == first.head;
         ++i) {
      const GridUse& use = header.grid_uses[i];
      const ProfileGrid& grid = header.grids[static_cast<std::size_t>(use.grid)];
      entry.grids.push_back({use.window, grid.omega, grid.rho});
    }
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const PlanFrequencies& other) {
      const bool alike = other.rope_type == entry.rope_type && other.window == entry.window &&
                         other.grids == entry.grids && other.heads.empty() == entry.heads.empty();
      return alike && (entry.heads.empty() || other.layers == entry.layers);
    });
    if (same == entries.end())
      entries.push_back(std::move(entry));
    else if (entry.heads.empty())
      same->layers.push_back(first.layer);
    else
      same->heads.push_back(first.head);
  }
  for (PlanFrequencies& entry : entries)
    if (const PlanGrid& grid = entry.grids.front(); grid.window == 0)
      entry.steps = mask_steps(split, grid.inv_freq, grid.rho, entry.window);
  return entries;
}

PlanModel model_of(const ProfileReader& profile, const PlanOptions& options,
                   const std::vector<HeadIndex>& heads) {
  const ProfileHeader& header = profile.header();
  if (std::none_of(header.heads.begin(), header.heads.end(), [](const ProfileHead& h) { return h.rotates; }))
    throw input_error(profile.path(), "/heads/rotates", "a head that rotates", "none",
                      "there is nothing to rescale or freeze");
  if (header.grids.empty() || header.rope_layout.empty())
    throw input_error(profile.path(), "/grids", "the model's frequencies", "none",
                      "profile the caches again: older versions did not keep them");
  PlanModel model;
  model.name = header.model_name;
  model.model_type = header.model_type;
  model.num_layers = header.num_layers;
  model.rope_layout = header.rope_layout;
  model.frequencies = frequencies_of(profile, options.split);
  for (const HeadIndex& head : heads) {
    if (!model.layers.empty() && model.layers.back().layer == head.first) continue;
    const ProfileLayer& facts = layer_facts(profile, head.first);
    model.layers.push_back({facts.layer, facts.query_heads, facts.kv_heads, facts.head_dim, facts.rotary_dim,
                            facts.norm_after_rotation});
  }
  return model;
}

std::vector<HeadIndex> chosen_heads(const ProfileReader& profile, const PlanOptions& options) {
  const HeadRequest stage_share{
      HeadRequest::Kind::kTop, parse_fraction(options.stage == 5 ? "0.05" : "0.1"), {}};
  const HeadRequest& request = options.heads ? *options.heads : stage_share;
  if (request.kind == HeadRequest::Kind::kTop) return ranked_heads(profile, request.fraction);
  const std::vector<char> wanted = requested_heads(profile.header().heads, request);
  std::vector<HeadIndex> heads;
  for (std::size_t n = 0; n < wanted.size(); ++n)
    if (wanted[n]) heads.emplace_back(profile.header().heads[n].layer, profile.header().heads[n].head);
  return heads;
}

std::string heads_rule(const PlanOptions& options) {
  if (!options.heads) return options.stage == 5 ? "top:0.05" : "top:0.1";
  switch (options.heads->kind) {
    case HeadRequest::Kind::kAll:
      return "all";
    case HeadRequest::Kind::kList:
      return "list";
    case HeadRequest::Kind::kTop:
      return "top:" + options.heads->fraction.text;
  }
  return {};
}

const PlanGrid& grid_at(const PlanFrequencies& frequencies, std::int64_t length,
                        const ProfileReader& profile) {
  for (const PlanGrid& grid : frequencies.grids)
    if (grid.window == 0 || grid.window == length) return grid;
  throw input_error(profile.path(), "/grids/use_window",
                    fmt::format("the frequencies of prompts of {} tokens", length), "none",
                    "they depend on the length; profile without --window");
}

PlanPrompt prompt_of(const ProfileReader& profile, const Plan& plan, const PlanTask& task,
                     std::int64_t length) {
  const bool freezes =
      std::any_of(task.candidates.begin(), task.candidates.end(),
                  [](const Intervention& one) { return one.operation == Operation::kFreeze; });
  PlanPrompt prompt{length, {}};
  const PlanFrequencies* last = nullptr;
  for (const auto& [layer, head] : task.heads) {
    const PlanFrequencies* frequencies = plan.model.of(layer, head);
    if (!frequencies)
      throw input_error(profile.path(), "/grids",
                        fmt::format("the frequencies of layer {} head {}", layer, head), "none");
    if (!prompt.layers.empty() && prompt.layers.back().layer == layer && frequencies == last) {
      prompt.layers.back().heads.push_back(head);
      continue;
    }
    last = frequencies;
    const PlanGrid& grid = grid_at(*frequencies, length, profile);
    PlanPromptLayer entry{layer, {head}, {}, grid.inv_freq};
    entry.pairs = masked_pairs(plan.split, grid.inv_freq, grid.rho, length, frequencies->window);
    if (freezes)
      for (const int pair : entry.pairs) entry.inv_freq[static_cast<std::size_t>(pair)] = 0;
    prompt.layers.push_back(std::move(entry));
  }
  return prompt;
}

std::set<std::int64_t> prompt_lengths(const ProfileReader& profile, const std::string& name) {
  std::set<std::int64_t> lengths;
  for (const ProfileTask& task : profile.tasks()) {
    if (task.name != name) continue;
    for (std::int64_t first = 0; first < task.examples; first += kRows)
      for (const auto length : profile.windows(task, first, std::min(kRows, task.examples - first)))
        if (length > 0) lengths.insert(length);
  }
  return lengths;
}

PlanTask task_of(const RankedTask& ranked, const PlanOptions& options, const std::vector<HeadIndex>& heads) {
  PlanTask task;
  task.task = ranked.task;
  task.direction = options.direction.value_or(ranked.direction);
  task.w_s = ranked.w_s;
  task.stage = options.stage;
  task.heads = heads;
  if (task.direction != Direction::kNone)
    task.candidates = options.strengths ? *options.strengths : stage_candidates(task.stage, task.direction);
  return task;
}

bool wanted(const std::string& task, const PlanOptions& options) {
  if (!matches_any_glob(task, options.task_globs)) return false;
  return !options.not_improved || std::find(options.not_improved->begin(), options.not_improved->end(),
                                            task) != options.not_improved->end();
}

}  // namespace

const PlanFrequencies* PlanModel::of(int layer, int head) const {
  for (const PlanFrequencies& entry : frequencies)
    if (std::binary_search(entry.layers.begin(), entry.layers.end(), layer) &&
        (entry.heads.empty() || std::binary_search(entry.heads.begin(), entry.heads.end(), head)))
      return &entry;
  return nullptr;
}

const PlanLayerShape* PlanModel::shape(int layer) const {
  for (const PlanLayerShape& entry : layers)
    if (entry.layer == layer) return &entry;
  return nullptr;
}

Plan make_plan(const ProfileReader& profile, const PlanOptions& options) {
  const std::vector<HeadIndex> heads = chosen_heads(profile, options);
  Plan plan;
  plan.tool_version = ROPE_PROFILER_VERSION;
  plan.split = options.split;
  plan.model = model_of(profile, options, heads);
  plan.inputs = profile.inputs();
  plan.settings = profile.header().settings;
  plan.heads_rule = heads_rule(options);

  const Ranking ranking = rank_profile(profile, {.resamples = 0});
  std::vector<RankedTask> tasks = ranking.tasks;
  tasks.insert(tasks.end(), ranking.unranked_tasks.begin(), ranking.unranked_tasks.end());
  for (const RankedTask& ranked : tasks) {
    if (!wanted(ranked.task, options)) continue;
    PlanTask task = task_of(ranked, options, heads);
    for (const std::int64_t length : prompt_lengths(profile, task.task))
      task.prompts.push_back(prompt_of(profile, plan, task, length));
    plan.tasks.push_back(std::move(task));
  }
  if (plan.tasks.empty())
    throw UserError(
        profile.path() + ": no task is left to plan for",
        options.not_improved
            ? "stage 5 improved every task that it was measured on, or the outcomes are of other tasks"
            : "export --table tasks lists the tasks of a profile");
  plan.warnings = plan_warnings(plan, profile, options);
  return plan;
}

}  // namespace rope

#include "interventions/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "interventions/plan_json.hpp"
#include "profiler/error.hpp"
#include "profiler/json_text.hpp"

namespace rope {
namespace {

using Json = nlohmann::ordered_json;

bool freezes(const AdapterChoice& choice) { return choice.candidate.operation == Operation::kFreeze; }

const PlanGrid& grid_of(const PlanFrequencies& frequencies, std::int64_t length) {
  for (const PlanGrid& grid : frequencies.grids)
    if (grid.window == 0 || grid.window == length) return grid;
  throw usage_error(
      fmt::format("--prompt-length {}: the plan does not hold the frequencies of that length", length),
      "they depend on the length of the run; take a length that the plan lists");
}

const PlanFrequencies& frequencies_of(const PlanModel& model, int layer, int head) {
  const PlanFrequencies* found = model.of(layer, head);
  if (!found)
    throw UserError(fmt::format("the plan holds no frequencies of layer {} head {}", layer, head),
                    "make the plan anew");
  return *found;
}

/// The same entry of a prompt, with the frequencies that this candidate leaves.
PlanPromptLayer entry_of(const AdapterChoice& choice, int layer, std::vector<int> heads,
                         const PlanFrequencies& frequencies, std::int64_t length) {
  const PlanGrid& grid = grid_of(frequencies, length);
  PlanPromptLayer entry{layer, std::move(heads), {}, grid.inv_freq};
  entry.pairs = masked_pairs(choice.plan->split, grid.inv_freq, grid.rho, length, frequencies.window);
  if (freezes(choice))
    for (const int pair : entry.pairs) entry.inv_freq[static_cast<std::size_t>(pair)] = 0;
  return entry;
}

/// "0.50" means the candidate 0.5.
std::string canonical(const std::string& candidate) {
  double alpha = 0;
  const char* end = candidate.data() + candidate.size();
  const auto parsed = std::from_chars(candidate.data(), end, alpha);
  return parsed.ec == std::errc() && parsed.ptr == end ? Intervention{Operation::kRescale, alpha}.id()
                                                       : candidate;
}

std::string lengths_text(const PlanTask& task) {
  return task.prompts.empty()
             ? "none"
             : fmt::format("{} to {}", task.prompts.front().length, task.prompts.back().length);
}

}  // namespace

AdapterChoice choose_candidate(const Plan& plan, const std::string& task, const std::string& candidate,
                               int stage) {
  const std::string id = canonical(candidate);
  std::string tasks, candidates;
  std::vector<AdapterChoice> found;
  for (const PlanTask& entry : plan.tasks) {
    tasks += (tasks.empty() ? "" : ", ") + entry.task;
    if (entry.task != task || (stage != 0 && entry.stage != stage)) continue;
    for (const Intervention& one : entry.candidates) {
      candidates += (candidates.empty() ? "" : ", ") + one.id();
      if (one.id() == id) found.push_back({&plan, &entry, one});
    }
  }
  if (found.size() > 1)
    throw usage_error(fmt::format("candidate {} of {} is planned at several stages", candidate, task),
                      "say which with --stage");
  if (found.size() == 1) return found.front();
  const bool known = std::any_of(plan.tasks.begin(), plan.tasks.end(),
                                 [&](const PlanTask& entry) { return entry.task == task; });
  if (!known) throw usage_error(fmt::format("--task {}: the plan has no such task", task), "it has " + tasks);
  throw usage_error(
      fmt::format("--candidate {}: the plan has no such candidate for {}", candidate, task),
      (candidates.empty() ? "it has none" : "it has " + candidates) + "; `plan --strengths` makes others");
}

PlanPrompt adapter_prompt(const AdapterChoice& choice, std::int64_t length) {
  PlanPrompt prompt{length, {}};
  const auto planned = std::find_if(choice.task->prompts.begin(), choice.task->prompts.end(),
                                    [&](const PlanPrompt& entry) { return entry.length == length; });
  if (planned != choice.task->prompts.end()) {
    for (const PlanPromptLayer& layer : planned->layers) {
      if (layer.heads.empty()) continue;
      const PlanFrequencies& frequencies =
          frequencies_of(choice.plan->model, layer.layer, layer.heads.front());
      PlanPromptLayer entry = layer;
      entry.inv_freq = grid_of(frequencies, length).inv_freq;
      if (freezes(choice))
        for (const int pair : entry.pairs) entry.inv_freq[static_cast<std::size_t>(pair)] = 0;
      prompt.layers.push_back(std::move(entry));
    }
    return prompt;
  }
  const PlanFrequencies* last = nullptr;
  for (const auto& [layer, head] : choice.task->heads) {
    const PlanFrequencies& frequencies = frequencies_of(choice.plan->model, layer, head);
    if (!prompt.layers.empty() && prompt.layers.back().layer == layer && last == &frequencies)
      prompt.layers.back().heads.push_back(head);
    else
      prompt.layers.push_back(entry_of(choice, layer, {head}, frequencies, length));
    last = &frequencies;
  }
  return prompt;
}

std::int64_t table_length(const AdapterChoice& choice, std::optional<std::int64_t> given) {
  if (given) return *given;
  const auto& prompts = choice.task->prompts;
  if (prompts.empty())
    throw usage_error("the plan lists no prompt length for " + choice.task->task, "give --prompt-length");
  const bool alike = std::all_of(prompts.begin(), prompts.end(), [&](const PlanPrompt& prompt) {
    return adapter_prompt(choice, prompt.length).layers == adapter_prompt(choice, prompts[0].length).layers;
  });
  if (!alike)
    throw usage_error(
        fmt::format("the pairs depend on the prompt's length (here {} tokens): give --prompt-length",
                    lengths_text(*choice.task)),
        "a json adapter, without --fold, holds every length");
  return prompts.front().length;
}

std::string adapter_json(const AdapterChoice& choice, std::optional<std::int64_t> prompt_length) {
  std::vector<PlanPrompt> prompts;
  if (prompt_length) prompts.push_back(adapter_prompt(choice, *prompt_length));
  if (!prompt_length)
    for (const PlanPrompt& prompt : choice.task->prompts)
      prompts.push_back(adapter_prompt(choice, prompt.length));
  Json heads = Json::array();
  for (const auto& [layer, head] : choice.task->heads) heads.push_back(Json::array({layer, head}));
  return json_text({{"schema", kAdapterSchema},
                    {"tool_version", ROPE_PROFILER_VERSION},
                    {"model", plan_model_json(choice.plan->model)},
                    {"split", plan_split_json(choice.plan->split)},
                    {"profile_digest", choice.plan->profile_digest},
                    {"task", choice.task->task},
                    {"stage", choice.task->stage},
                    {"heads", std::move(heads)},
                    {"candidate", plan_candidate_json(choice.candidate)},
                    {"prompt_length", prompt_length ? Json(*prompt_length) : Json(nullptr)},
                    {"prompts", plan_prompts_json(prompts)}});
}

std::vector<NamedTensor> adapter_tensors(const AdapterChoice& choice, std::int64_t prompt_length) {
  const PlanModel& model = choice.plan->model;
  std::vector<NamedTensor> tensors;
  const PlanPrompt prompt = adapter_prompt(choice, prompt_length);
  for (const PlanPromptLayer& entry : prompt.layers) {
    const PlanLayerShape* shape = model.shape(entry.layer);
    if (!shape)
      throw UserError(fmt::format("the plan does not say how many heads layer {} has", entry.layer),
                      "make the plan anew");
    const auto heads = static_cast<std::size_t>(shape->query_heads);
    const std::size_t pairs = entry.inv_freq.size();
    const std::string name = fmt::format("layer.{}.", entry.layer);
    if (tensors.empty() || tensors.back().name != name + "frequency") {
      const std::vector<std::int64_t> size{shape->query_heads, static_cast<std::int64_t>(pairs)};
      tensors.push_back({name + "query_scale", size, std::vector<float>(heads * pairs, 1.0F)});
      tensors.push_back({name + "frequency", size, {}});
      for (int head = 0; head < shape->query_heads; ++head) {
        // A head that the profile does not hold keeps what the chosen one has: the model's own table is
        // there.
        const PlanFrequencies* own = model.of(entry.layer, head);
        const auto& omega =
            grid_of(own ? *own : frequencies_of(model, entry.layer, entry.heads.front()), prompt_length)
                .inv_freq;
        if (omega.size() != pairs)
          throw UserError(
              fmt::format("layer {}: its heads rotate {} and {} pairs, and one table holds one number",
                          entry.layer, pairs, omega.size()),
              "take --format json");
        for (const double w : omega) tensors.back().values.push_back(static_cast<float>(w));
      }
    }
    std::vector<float>& scale = tensors[tensors.size() - 2].values;
    std::vector<float>& frequency = tensors.back().values;
    for (const int head : entry.heads)
      for (const int pair : entry.pairs) {
        const std::size_t place = static_cast<std::size_t>(head) * pairs + static_cast<std::size_t>(pair);
        if (freezes(choice))
          frequency[place] = 0;
        else
          scale[place] = static_cast<float>(choice.candidate.alpha);
      }
  }
  return tensors;
}

TensorMetadata adapter_metadata(const AdapterChoice& choice, std::int64_t prompt_length) {
  return {{"schema", kAdapterSchema},
          {"tool_version", ROPE_PROFILER_VERSION},
          {"model", choice.plan->model.name},
          {"task", choice.task->task},
          {"stage", std::to_string(choice.task->stage)},
          {"candidate", choice.candidate.id()},
          {"prompt_length", std::to_string(prompt_length)},
          {"profile_digest", choice.plan->profile_digest}};
}

}  // namespace rope

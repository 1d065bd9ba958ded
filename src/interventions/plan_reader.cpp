#include <algorithm>
#include <set>

#include "interventions/plan_json.hpp"
#include "interventions/preview_json.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/json_document.hpp"

namespace rope {
namespace {

using Json = JsonDocument::Json;
constexpr int kMostLayers = 1 << 20, kMostHeads = 1 << 20, kMostPairs = 1 << 20;
constexpr std::int64_t kLongest = std::int64_t{1} << 24;
constexpr std::int64_t kMostLanes = std::int64_t{1} << 22;  // of a layer's queries: tables are made of it

std::string at(const std::string& place, std::size_t i) { return place + "/" + std::to_string(i); }

/// Calls `read(item, place)` for every item of an array.
template <class Read>
void each(const JsonDocument& document, const Json& object, const std::string& place, const char* name,
          Read read) {
  const Json& items = document.array(object, place, name);
  for (std::size_t i = 0; i < items.size(); ++i) read(items[i], at(place + "/" + name, i));
}

/// Strictly rising whole numbers from 0 below `end`.
std::vector<int> rising(const JsonDocument& document, const Json& object, const std::string& place,
                        const char* name, int end) {
  std::vector<int> values = document.integers(object, place, name, 0, end - 1);
  if (std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) != values.end())
    document.fail(place + "/" + name, "rising numbers", "others");
  return values;
}

ProfileInput read_input(const JsonDocument& document, const Json& json, const std::string& place) {
  ProfileInput input;
  input.name = document.text(json, place, "name");
  if (!document.member(json, place, "sha256").is_null()) input.sha256 = document.text(json, place, "sha256");
  input.bytes = document.integer(json, place, "bytes");
  return input;
}

std::vector<double> read_inv_freq(const JsonDocument& document, const Json& json, const std::string& place) {
  std::vector<double> values = document.numbers(json, place, "inv_freq");
  for (const double omega : values)
    if (!(omega >= 0 && omega <= 3.2))
      document.fail(place + "/inv_freq", "frequencies from 0 to pi", std::to_string(omega));
  return values;
}

PlanFrequencies read_frequencies(const JsonDocument& document, const Json& json, const std::string& place,
                                 int num_layers) {
  PlanFrequencies entry;
  entry.layers = rising(document, json, place, "layers", num_layers);
  if (entry.layers.empty()) document.fail(place + "/layers", "at least one layer", "none");
  if (!document.member(json, place, "heads").is_null())
    entry.heads = rising(document, json, place, "heads", kMostHeads);
  entry.rope_type = document.text(json, place, "rope_type");
  if (!document.member(json, place, "window").is_null())
    entry.window = document.integer(json, place, "window", 1, kLongest);
  const double rho = document.number(json, place, "rho");
  if (!(rho >= 0 && rho <= 1)) document.fail(place + "/rho", "0 to 1", std::to_string(rho));
  const Json& grids = document.array(json, place, "inv_freq");
  if (grids.empty() || !grids[0].is_object()) {
    entry.grids.push_back({0, read_inv_freq(document, json, place), rho});
    each(document, json, place, "steps", [&](const Json& step, const std::string& where) {
      entry.steps.push_back({document.integer(step, where, "length", 1, kLongest),
                             static_cast<int>(document.integer(step, where, "pairs", 1,
                                                               std::ssize(entry.grids.front().inv_freq)))});
      if (entry.steps.size() > 1 && (entry.steps.end()[-2].length >= entry.steps.back().length ||
                                     entry.steps.end()[-2].pairs >= entry.steps.back().pairs))
        document.fail(where, "rising lengths and pairs", "others");
    });
    return entry;
  }
  each(document, json, place, "inv_freq", [&](const Json& grid, const std::string& where) {
    entry.grids.push_back(
        {document.integer(grid, where, "window", 1, kLongest), read_inv_freq(document, grid, where), rho});
    if (entry.grids.back().inv_freq.size() != entry.grids.front().inv_freq.size())
      document.fail(where + "/inv_freq", "as many frequencies at every length", "others");
    if (entry.grids.size() > 1 && entry.grids.end()[-2].window >= entry.grids.back().window)
      document.fail(where + "/window", "rising windows", std::to_string(entry.grids.back().window));
  });
  return entry;
}

template <class T>
bool share_a_member(const std::vector<T>& a, const std::vector<T>& b) {
  return std::any_of(a.begin(), a.end(), [&](T x) { return std::binary_search(b.begin(), b.end(), x); });
}

/// Whether some head would have two frequency grids.
bool overlap(const PlanFrequencies& a, const PlanFrequencies& b) {
  return share_a_member(a.layers, b.layers) &&
         (a.heads.empty() || b.heads.empty() || share_a_member(a.heads, b.heads));
}

PlanModel read_model(const JsonDocument& document) {
  const std::string place = "/model";
  const Json& json = document.member(document.root(), "", "model");
  PlanModel model;
  model.name = document.text(json, place, "name");
  model.model_type = document.text(json, place, "model_type");
  model.num_layers = static_cast<int>(document.integer(json, place, "num_layers", 0, kMostLayers));
  model.rope_layout = document.text(json, place, "rope_layout");
  if (model.rope_layout != "half" && model.rope_layout != "interleaved")
    document.fail(place + "/rope_layout", "half or interleaved", rope::quoted(model.rope_layout));
  each(document, json, place, "layers", [&](const Json& row, const std::string& where) {
    const auto size = [&](const char* name) {
      return static_cast<int>(document.integer(row, where, name, 0, kMostHeads));
    };
    PlanLayerShape shape{static_cast<int>(document.integer(row, where, "layer", 0, model.num_layers - 1)),
                         size("query_heads"),
                         size("kv_heads"),
                         size("head_dim"),
                         size("rotary_dim"),
                         document.boolean(row, where, "norm_after_rotation")};
    if (shape.rotary_dim > shape.head_dim || shape.rotary_dim % 2 != 0)
      document.fail(where + "/rotary_dim", "an even number up to head_dim", std::to_string(shape.rotary_dim));
    if (shape.kv_heads < 1 || shape.query_heads % shape.kv_heads != 0)
      document.fail(where + "/kv_heads", "a divisor of query_heads", std::to_string(shape.kv_heads));
    if (std::int64_t{shape.query_heads} * shape.head_dim > kMostLanes)
      document.fail(where, "at most 4194304 lanes in the queries of a layer", "more");
    if (!model.layers.empty() && model.layers.back().layer >= shape.layer)
      document.fail(where + "/layer", "rising layers", std::to_string(shape.layer));
    model.layers.push_back(shape);
  });
  each(document, json, place, "frequencies", [&](const Json& row, const std::string& where) {
    model.frequencies.push_back(read_frequencies(document, row, where, model.num_layers));
    const PlanFrequencies& last = model.frequencies.back();
    for (std::size_t i = 0; i + 1 < model.frequencies.size(); ++i)
      if (overlap(model.frequencies[i], last))
        document.fail(where, "every layer and head in one entry", "one that another has");
  });
  return model;
}

Intervention read_candidate(const JsonDocument& document, const Json& json, const std::string& place) {
  Intervention candidate;
  const std::string operation = document.text(json, place, "operation");
  if (operation == "freeze") {
    candidate.operation = Operation::kFreeze;
    if (!document.member(json, place, "alpha").is_null())
      document.fail(place + "/alpha", "null for a freeze", "a value");
  } else if (operation == "rescale") {
    candidate.alpha = document.number(json, place, "alpha");
    if (!(candidate.alpha >= 0 && candidate.alpha <= kLargestStrength))
      document.fail(place + "/alpha", "0 to 10000", std::to_string(candidate.alpha));
  } else {
    document.fail(place + "/operation", "rescale or freeze", rope::quoted(operation));
  }
  if (document.text(json, place, "id") != candidate.id())
    document.fail(place + "/id", candidate.id(), rope::quoted(document.text(json, place, "id")));
  return candidate;
}

std::vector<HeadIndex> read_heads(const JsonDocument& document, const Json& json, const std::string& place,
                                  const PlanModel& model) {
  std::vector<HeadIndex> heads;
  each(document, json, place, "heads", [&](const Json& pair, const std::string& where) {
    const bool two =
        pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[1].is_number_integer();
    if (!two) document.fail(where, "[layer, head]", pair.type_name());
    const auto layer = pair[0].get<std::int64_t>(), head = pair[1].get<std::int64_t>();
    const PlanLayerShape* shape =
        layer >= 0 && layer < model.num_layers ? model.shape(static_cast<int>(layer)) : nullptr;
    if (!shape || head < 0 || head >= shape->query_heads)
      document.fail(where, "a head of /model/layers", pair.dump());
    heads.emplace_back(static_cast<int>(layer), static_cast<int>(head));
    if (heads.size() > 1 && heads.end()[-2] >= heads.back())
      document.fail(where, "rising heads", pair.dump());
  });
  return heads;
}

/// The model's frequencies at this length, zero at pairs at most.
void require_model_frequencies(const JsonDocument& document, const std::string& place, const PlanModel& model,
                               const PlanPromptLayer& layer, int head, std::int64_t length) {
  const auto refuse = [&](const std::string& found) {
    document.fail(place + "/inv_freq", "the frequencies of /model, or 0 at the pairs", found);
  };
  const PlanFrequencies* frequencies = model.of(layer.layer, head);
  if (!frequencies) return refuse("none in /model");
  const auto grid = std::find_if(frequencies->grids.begin(), frequencies->grids.end(),
                                 [&](const PlanGrid& g) { return g.window == 0 || g.window == length; });
  if (grid == frequencies->grids.end()) return refuse("none in /model for this length");
  if (grid->inv_freq.size() != layer.inv_freq.size() ||
      2 * std::ssize(layer.inv_freq) != model.shape(layer.layer)->rotary_dim)
    return refuse(std::to_string(layer.inv_freq.size()) + " frequencies");
  for (std::size_t n = 0; n < layer.inv_freq.size(); ++n) {
    const bool chosen = std::binary_search(layer.pairs.begin(), layer.pairs.end(), static_cast<int>(n));
    const double omega = layer.inv_freq[n];
    if (omega != grid->inv_freq[n] && !(chosen && omega == 0)) refuse(std::to_string(omega));
    if (chosen && grid->inv_freq[n] == 0) refuse("a pair that does not rotate");
  }
}

PlanPromptLayer read_prompt_layer(const JsonDocument& document, const Json& json, const std::string& place,
                                  const PlanModel& model, const std::vector<HeadIndex>& heads,
                                  std::int64_t length) {
  PlanPromptLayer layer;
  layer.layer = static_cast<int>(document.integer(json, place, "layer", 0, model.num_layers - 1));
  layer.heads = rising(document, json, place, "heads", kMostHeads);
  for (const int head : layer.heads)
    if (!std::binary_search(heads.begin(), heads.end(), HeadIndex{layer.layer, head}))
      document.fail(place + "/heads", "heads of the task", std::to_string(head));
  layer.inv_freq = read_inv_freq(document, json, place);
  layer.pairs = rising(document, json, place, "pairs", static_cast<int>(layer.inv_freq.size()));
  for (const int head : layer.heads) require_model_frequencies(document, place, model, layer, head, length);
  return layer;
}

/// Each chosen head has to be there once.
void require_all_heads(const JsonDocument& document, const std::string& place, const PlanPrompt& prompt,
                       const std::vector<HeadIndex>& heads) {
  std::vector<HeadIndex> found;
  for (const PlanPromptLayer& layer : prompt.layers)
    for (const int head : layer.heads) found.emplace_back(layer.layer, head);
  std::sort(found.begin(), found.end());
  if (found != heads) document.fail(place + "/layers", "every head of the task once", "others");
}

PlanTask read_task(const JsonDocument& document, const Json& json, const std::string& place,
                   const PlanModel& model) {
  PlanTask task;
  task.task = document.text(json, place, "task");
  const std::string direction = document.text(json, place, "direction");
  for (const Direction one : {Direction::kNone, Direction::kSemantic, Direction::kPositional})
    if (direction == direction_name(one)) task.direction = one;
  if (direction != direction_name(task.direction))
    document.fail(place + "/direction", "semantic, positional or none", rope::quoted(direction));
  task.w_s = document.number_or_nan(json, place, "w_s");
  if (task.w_s < 0 || task.w_s > 1) document.fail(place + "/w_s", "0 to 1", std::to_string(task.w_s));
  task.stage = static_cast<int>(document.integer(json, place, "stage"));
  if (task.stage != 5 && task.stage != 10)
    document.fail(place + "/stage", "5 or 10", std::to_string(task.stage));
  task.heads = read_heads(document, json, place, model);
  each(document, json, place, "candidates", [&](const Json& item, const std::string& where) {
    const Intervention candidate = read_candidate(document, item, where);
    if (std::find(task.candidates.begin(), task.candidates.end(), candidate) != task.candidates.end())
      document.fail(where, "every candidate once", candidate.id() + " again");
    task.candidates.push_back(candidate);
  });
  each(document, json, place, "prompts", [&](const Json& item, const std::string& where) {
    PlanPrompt prompt;
    prompt.length = document.integer(item, where, "length", 1, kLongest);
    if (!task.prompts.empty() && task.prompts.back().length >= prompt.length)
      document.fail(where + "/length", "rising lengths", std::to_string(prompt.length));
    each(document, item, where, "layers", [&](const Json& layer, const std::string& there) {
      prompt.layers.push_back(read_prompt_layer(document, layer, there, model, task.heads, prompt.length));
    });
    require_all_heads(document, where, prompt, task.heads);
    task.prompts.push_back(std::move(prompt));
  });
  if (json.contains("preview"))
    task.preview = read_preview_rows(document, json["preview"], place + "/preview");
  return task;
}

spectral::SplitRule read_split(const JsonDocument& document) {
  const Json& json = document.member(document.root(), "", "split");
  const std::string name = document.text(json, "/split", "name");
  try {
    return spectral::parse_split(name);
  } catch (const std::invalid_argument& error) {
    document.fail("/split/name", "a split", rope::quoted(name));
  }
}

}  // namespace

Plan read_plan_json(const std::string& path) {
  const JsonDocument document(path, "plan -o");
  const Json& root = document.root();
  if (const std::string schema = document.text(root, "", "schema"); schema != kPlanSchema)
    document.fail("/schema", kPlanSchema, rope::quoted(schema));
  Plan plan;
  plan.tool_version = document.text(root, "", "tool_version");
  plan.model = read_model(document);
  plan.split = read_split(document);
  plan.heads_rule = document.text(root, "", "heads_rule");
  plan.profile_digest = document.text(root, "", "profile_digest");
  plan.profile = read_input(document, document.member(root, "", "profile"), "/profile");
  if (const Json& outcomes = document.member(root, "", "outcomes"); !outcomes.is_null())
    plan.outcomes = read_input(document, outcomes, "/outcomes");
  each(document, root, "", "inputs", [&](const Json& item, const std::string& where) {
    plan.inputs.push_back(read_input(document, item, where));
  });
  for (const auto& [key, value] : document.member(root, "", "settings").items()) {
    if (!value.is_string()) document.fail("/settings/" + rope::quoted(key), "text", value.type_name());
    plan.settings.emplace_back(key, value.get<std::string>());
  }
  each(document, root, "", "warnings", [&](const Json& item, const std::string& where) {
    if (!item.is_string()) document.fail(where, "text", item.type_name());
    plan.warnings.push_back(item.get<std::string>());
  });
  if (root.contains("preview")) plan.preview = read_preview_facts(document, root["preview"], "/preview");
  std::set<std::pair<std::string, int>> seen;
  each(document, root, "", "tasks", [&](const Json& item, const std::string& where) {
    plan.tasks.push_back(read_task(document, item, where, plan.model));
    if (!seen.emplace(plan.tasks.back().task, plan.tasks.back().stage).second)
      document.fail(where + "/task", "every task and stage once",
                    rope::quoted(plan.tasks.back().task) + " again");
  });
  if (plan.tasks.empty()) document.fail("/tasks", "at least one task", "none");
  return plan;
}

}  // namespace rope

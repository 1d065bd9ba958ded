#include "profiler/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "profiler/error.hpp"
#include "profiler/model_config.hpp"
#include "profiler/random.hpp"

namespace rope {
namespace {

constexpr double kSteepness = 6.0;  // natural logarithm of strongest over weakest pair in `high` and `low`
constexpr double kTailDeviation = 0.1;  // of lanes that do not rotate

/// Sizes and frequencies of everything that is stored, the same for all tasks.
struct Model {
  ModelHeader header;
  std::vector<int> layers;  ///< those that rotate
  std::vector<double> logit_scale;
  ResolvedModel resolved;
  int group() const { return header.num_query_heads / header.num_kv_heads; }
  int stored_heads() const { return static_cast<int>(layers.size()) * header.num_query_heads; }
};

std::string llama_config(const SynthOptions& o) {
  const std::int64_t longest = *std::max_element(o.windows.begin(), o.windows.end());
  nlohmann::ordered_json config;
  config["model_type"] = "llama";
  config["num_hidden_layers"] = o.layers;
  config["num_attention_heads"] = o.query_heads;
  config["num_key_value_heads"] = o.kv_heads;
  config["head_dim"] = o.head_dim;
  config["hidden_size"] = std::int64_t{o.head_dim} * o.query_heads;
  config["max_position_embeddings"] = longest;
  config["rope_theta"] = o.rope_theta;
  return config.dump(1);
}

/// Takes the sizes from the config, which must give all of them and the same ones for every rotating layer.
void sizes_from_config(const std::string& where, const ModelConfig& config, ModelHeader& header) {
  const LayerModel* first = nullptr;
  for (const LayerModel& layer : config.layers) {
    if (!layer.rotates) continue;
    if (layer.head_dim <= 0 || layer.num_query_heads <= 0 || layer.num_kv_heads <= 0)
      throw UserError(fmt::format("{}: the numbers of heads and the head width of layer {} are not given",
                                  where, layer.layer));
    if (first && (layer.head_dim != first->head_dim || layer.num_query_heads != first->num_query_heads ||
                  layer.num_kv_heads != first->num_kv_heads))
      throw UserError(
          fmt::format("{}: layers {} and {} differ in heads or head width", where, first->layer, layer.layer),
          "synth writes one file, and a file holds one kind of layer");
    if (!first) first = &layer;
  }
  if (!first) throw UserError(where + ": no layer of this model rotates");
  header.head_dim = first->head_dim;
  header.num_query_heads = first->num_query_heads;
  header.num_kv_heads = first->num_kv_heads;
}

Model make_model(const SynthOptions& o) {
  Model model;
  ModelHeader& header = model.header;
  header.file = o.config.empty() ? "synth" : o.config_name;
  header.name = o.name;
  header.config = o.config.empty() ? llama_config(o) : o.config;
  header.layout = o.layout;
  header.query_rotation = o.query_rotation;
  header.key_rotation = o.key_rotation;
  const ModelConfig config = parse_model_config(*header.config, header.file);
  header.num_layers = static_cast<int>(config.layers.size());
  sizes_from_config(header.file, config, header);
  for (const LayerModel& layer : config.layers)
    if (layer.rotates) model.layers.push_back(layer.layer);
  model.resolved = ResolvedModel::resolve(header, std::nullopt, {}, Trust::kError, model.layers, o.windows);
  for (const int layer : model.layers)
    model.logit_scale.push_back(model.resolved.layers()[static_cast<std::size_t>(layer)].logit_scale);
  return model;
}

std::string task_name(int task, int tasks) {
  const int digits = static_cast<int>(std::to_string(tasks).size());
  return fmt::format("task_{:0{}}", task + 1, digits);
}

const char* spectrum_name(SynthSpectrum spectrum) {
  switch (spectrum) {
    case SynthSpectrum::kFlat:
      return "flat";
    case SynthSpectrum::kHigh:
      return "high";
    case SynthSpectrum::kLow:
      return "low";
    case SynthSpectrum::kMix:
      return "mix";
  }
  return "";
}

/// `count` distinct positions of 0 ... end-1 in the order they were drawn.
std::vector<std::int64_t> distinct_positions(Random& random, std::int64_t end, std::int64_t count) {
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> drawn;
  while (static_cast<std::int64_t>(drawn.size()) < count) {
    const auto position = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(end)));
    if (seen.insert(position).second) drawn.push_back(position);
  }
  return drawn;
}

/// Queries in the last quarter of the example (full coverage: anywhere, the last token among them), keys
/// before the first of them (full: all tokens up to the last query).
ExampleSlots make_slots(const SynthOptions& o, std::int64_t window, std::int64_t key_slots, Random& random) {
  ExampleSlots slots;
  if (o.full_coverage) {
    slots.query_position = distinct_positions(random, window - 1, o.queries - 1);
    slots.query_position.push_back(window - 1);
    slots.key_position.assign(static_cast<std::size_t>(key_slots), -1);
    std::iota(slots.key_position.begin(), slots.key_position.begin() + window, std::int64_t{0});
  } else {
    const std::int64_t first = window - std::max(o.queries, window / 4);
    slots.query_position = distinct_positions(random, window - first, o.queries);
    for (std::int64_t& position : slots.query_position) position += first;
    slots.key_position = distinct_positions(random, first, o.keys);
  }
  std::sort(slots.query_position.begin(), slots.query_position.end());
  return slots;
}

/// Content vectors of one head: every rotating pair has the modulus given and a random phase.
void fill_vectors(std::span<double> rows, int head_dim, const spectral::LaneMap& map,
                  std::span<const double> modulus, Random& random) {
  const auto width = static_cast<std::size_t>(head_dim);
  for (std::size_t row = 0; row < rows.size() / width; ++row) {
    double* lanes = rows.data() + row * width;
    for (std::size_t n = 0; n < map.a.size(); ++n) {
      const double phase = 2.0 * std::numbers::pi * random.uniform();
      lanes[map.a[n]] = modulus[n] * std::cos(phase);
      lanes[map.b[n]] = modulus[n] * std::sin(phase);
    }
    for (const int lane : map.still) lanes[lane] = kTailDeviation * random.normal();
    for (const int lane : map.tail) lanes[lane] = kTailDeviation * random.normal();
  }
}

/// Turns content vectors into what a `post` side holds: rotated, the rotary lanes times A.
void rotate_as_model(std::span<double> rows, int head_dim, const spectral::LaneMap& map, double factor,
                     const std::vector<std::int64_t>& positions) {
  // An unused slot keeps its content vector: nobody reads it.
  std::vector<long long> used;
  for (const std::int64_t position : positions) used.push_back(std::max<std::int64_t>(position, 0));
  spectral::rotate_rows(rows.data(), used.size(), head_dim, map, used, +1);
  const auto width = static_cast<std::size_t>(head_dim);
  for (std::size_t row = 0; row < used.size(); ++row) {
    double* lanes = rows.data() + row * width;
    for (const auto* group : {&map.a, &map.b, &map.still})
      for (const int lane : *group) lanes[lane] *= factor;
  }
}

/// Vectors of one example, in the order that the cache stores.
struct ExampleVectors {
  std::vector<double> query, key;  ///< [L, Hq, Nq, D], [L, Hkv, Nk, D]
};

class ExampleMaker {
 public:
  ExampleMaker(const SynthOptions& options, const Model& model, std::int64_t key_slots)
      : o_(options), model_(model), key_slots_(key_slots) {
    const auto per_slot = model.layers.size() * static_cast<std::size_t>(model.header.head_dim);
    vectors_.query.resize(per_slot * static_cast<std::size_t>(model.header.num_query_heads * o_.queries));
    vectors_.key.resize(per_slot * static_cast<std::size_t>(model.header.num_kv_heads * key_slots));
  }

  const ExampleVectors& make(int task, std::int64_t window, const ExampleSlots& slots, Random& random) {
    for (std::size_t l = 0; l < model_.layers.size(); ++l)
      for (int kv = 0; kv < model_.header.num_kv_heads; ++kv) {
        fill_keys(l, kv, window, slots, random);
        for (int j = 0; j < model_.group(); ++j)
          fill_queries(task, l, kv * model_.group() + j, window, slots, random);
      }
    return vectors_;
  }

 private:
  std::span<double> block(std::vector<double>& of, std::size_t layer, int head, int heads,
                          std::int64_t slots) {
    const auto size = static_cast<std::size_t>(slots) * static_cast<std::size_t>(model_.header.head_dim);
    const std::size_t index = layer * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head);
    return std::span(of).subspan(index * size, size);
  }

  /// Keys have modulus 1 in every pair, so that all query heads of a group can have their own spectrum.
  void fill_keys(std::size_t l, int kv, std::int64_t window, const ExampleSlots& slots, Random& random) {
    const auto grid = model_.resolved.grid(model_.layers[l], kv * model_.group(), window);
    const auto map = spectral::make_lane_map(grid.omega, o_.layout, model_.header.head_dim);
    const auto rows = block(vectors_.key, l, kv, model_.header.num_kv_heads, key_slots_);
    fill_vectors(rows, model_.header.head_dim, map, std::vector<double>(map.a.size(), 1.0), random);
    if (o_.key_rotation == Rotation::kPost)
      rotate_as_model(rows, model_.header.head_dim, map, grid.attention_factor, slots.key_position);
  }

  void fill_queries(int task, std::size_t l, int head, std::int64_t window, const ExampleSlots& slots,
                    Random& random) {
    const auto grid = model_.resolved.grid(model_.layers[l], head, window);
    const auto map = spectral::make_lane_map(grid.omega, o_.layout, model_.header.head_dim);
    const int index = static_cast<int>(l) * model_.header.num_query_heads + head;
    std::vector<double> modulus = synth_weights(
        o_.spectrum, synth_high_share(task, o_.tasks, index, model_.stored_heads()), map.a.size());
    const double unit =
        kSynthScoreSpan / (model_.logit_scale[l] * grid.attention_factor * grid.attention_factor);
    for (double& m : modulus) m *= unit;
    const auto rows = block(vectors_.query, l, head, model_.header.num_query_heads, o_.queries);
    fill_vectors(rows, model_.header.head_dim, map, modulus, random);
    if (o_.query_rotation == Rotation::kPost)
      rotate_as_model(rows, model_.header.head_dim, map, grid.attention_factor, slots.query_position);
  }

  const SynthOptions& o_;
  const Model& model_;
  std::int64_t key_slots_;
  ExampleVectors vectors_;
};

void check_room(const SynthOptions& o) {
  const std::int64_t shortest = *std::min_element(o.windows.begin(), o.windows.end());
  const std::int64_t needed = o.full_coverage ? o.queries : o.queries + o.keys;
  const std::int64_t room =
      o.full_coverage ? shortest : shortest - std::max(o.queries, shortest / 4) + o.queries;
  if (needed > room)
    throw usage_error(fmt::format("a window of {} tokens has no room for {} queries and {} keys", shortest,
                                  o.queries, o.full_coverage ? 0 : o.keys),
                      "keys come from the first three quarters; take longer --windows or fewer tokens");
}

}  // namespace

double synth_high_share(int task, int tasks, int head, int heads) {
  if (tasks < 2) return 0.5;
  const double place = static_cast<double>(task) / (tasks - 1) - 0.5;
  return 0.5 + static_cast<double>(head + 1) / heads * place;
}

std::vector<double> synth_weights(SynthSpectrum spectrum, double high_share, std::size_t pairs) {
  if (spectrum == SynthSpectrum::kHigh) high_share = 1.0;
  if (spectrum == SynthSpectrum::kLow) high_share = 0.0;
  std::vector<double> weights(pairs, 1.0 / static_cast<double>(pairs));
  if (spectrum == SynthSpectrum::kFlat) return weights;
  std::vector<double> fall(pairs);
  for (std::size_t n = 0; n < pairs; ++n)
    fall[n] = std::exp(-kSteepness * (static_cast<double>(n) + 0.5) / static_cast<double>(pairs));
  const double sum = std::accumulate(fall.begin(), fall.end(), 0.0);
  for (std::size_t n = 0; n < pairs; ++n)
    weights[n] = (high_share * fall[n] + (1.0 - high_share) * fall[pairs - 1 - n]) / sum;
  return weights;
}

void write_synthetic_cache(const std::string& path, const SynthOptions& o,
                           const std::function<void()>& advance) {
  check_room(o);
  const Model model = make_model(o);
  const std::int64_t key_slots =
      o.full_coverage ? *std::max_element(o.windows.begin(), o.windows.end()) : o.keys;
  CacheWriter writer(path, model.header, std::string("rope-profiler ") + ROPE_PROFILER_VERSION + " synth");
  ExampleMaker maker(o, model, key_slots);
  for (int task = 0; task < o.tasks; ++task) {
    TaskHeader header;
    header.name = task_name(task, o.tasks);
    header.family = "synthetic";
    header.source =
        fmt::format("rope-profiler synth, spectrum {}, seed {}", spectrum_name(o.spectrum), o.seed);
    header.full_coverage = o.full_coverage;
    header.examples = o.examples;
    header.query_slots = o.queries;
    header.key_slots = key_slots;
    header.query_heads = model.header.num_query_heads;
    header.kv_heads = model.header.num_kv_heads;
    header.head_dim = model.header.head_dim;
    header.layers = model.layers;
    header.has_example_id = true;
    header.query_type = header.key_type = o.type;
    writer.begin_task(header, o.storage);
    for (std::int64_t e = 0; e < o.examples; ++e) {
      Random random(o.seed, static_cast<std::uint64_t>(task), static_cast<std::uint64_t>(e));
      const std::int64_t window = o.windows[static_cast<std::size_t>(e) % o.windows.size()];
      const ExampleSlots slots = make_slots(o, window, key_slots, random);
      const ExampleVectors& vectors = maker.make(task, window, slots, random);
      writer.put_example(e, std::to_string(e), window, slots, vectors.query, vectors.key);
      advance();
    }
  }
  writer.close();
}

}  // namespace rope

#include "profiler/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "profiler/config_node.hpp"
#include "profiler/error.hpp"
#include "profiler/layer_kinds.hpp"
#include "profiler/model_families.hpp"
#include "profiler/rope_parameters.hpp"

namespace rope {
namespace {

constexpr int kMostLayers = 65536;
constexpr int kMostHeads = 65536;
constexpr int kWidestHead = 8192;
constexpr std::size_t kMostNumbers = std::size_t{1} << 22;  // of longrope lists over all layers

/// The decoder's own object inside a multimodal config.
ConfigNode decoder_node(const nlohmann::json& root, const std::string& where, WarningList& warnings) {
  ConfigNode node(root, where, "", warnings);
  for (int depth = 0; depth < 4; ++depth) {
    std::optional<ConfigNode> inner;
    for (const char* key : {"thinker_config", "text_config", "llm_config", "language_config",
                            "language_model_config", "vlm_config", "decoder_config", "decoder"}) {
      const auto it = node.own().find(key);
      if (it == node.own().end() || !it->is_object() || it->empty()) continue;
      inner = node.object(key);
      break;
    }
    if (!inner) break;
    node = *inner;
  }
  // DBRX keeps its attention apart.
  const auto attention = node.own().find("attn_config");
  if (attention == node.own().end() || !attention->is_object()) return node;
  nlohmann::json merged = node.own();
  for (const auto& [from, to] :
       {std::pair{"kv_n_heads", "num_key_value_heads"}, std::pair{"rope_theta", "rope_theta"}})
    if (attention->contains(from) && !merged.contains(to)) merged[to] = attention->at(from);
  return node.with_own(std::move(merged));
}

std::string model_type_of(const ConfigNode& decoder, const nlohmann::json& root) {
  if (const auto type = decoder.text("model_type")) return *type;
  const auto it = root.find("model_type");
  return it != root.end() && it->is_string() ? it->get<std::string>() : "";
}

/// Keys of a config that replace those of the model for some layers (Gemma 4, Step-3.5, MiMo).
struct LayerOverrides {
  std::map<std::string, ConfigNode> by_kind;
  std::map<int, ConfigNode> by_layer;
  const ConfigNode* find(int layer, const std::string& kind) const {
    if (const auto it = by_layer.find(layer); it != by_layer.end()) return &it->second;
    if (const auto it = by_kind.find(kind); it != by_kind.end()) return &it->second;
    return nullptr;
  }
};

/// Copies `from` of `source` to `to` where it has a value.
void take(const ConfigNode& source, const char* from, nlohmann::json& target, const char* to) {
  if (const nlohmann::json* value = source.find(from)) target[to] = *value;
}

LayerOverrides read_overrides(const ConfigNode& config, int layers) {
  LayerOverrides result;
  if (config.mentions("per_layer_config")) {
    if (const auto table = config.object("per_layer_config")) {
      for (const auto& [key, value] : table->own().items()) {
        if (!value.is_object()) table->fail(key, "an object", short_text(value));
        const bool number = !key.empty() && key.size() < 6 &&
                            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!number)
          result.by_kind.emplace(key, table->child(key, value));
        else if (std::stoi(key) < layers)
          result.by_layer.emplace(std::stoi(key), table->child(key, value));
        else
          table->refuse(key, "there is no such layer, the model has " + std::to_string(layers));
      }
    }
  }
  nlohmann::json sliding = nlohmann::json::object(), full = nlohmann::json::object();
  take(config, "swa_head_dim", sliding, "head_dim");
  take(config, "swa_num_attention_heads", sliding, "num_attention_heads");
  take(config, "swa_num_key_value_heads", sliding, "num_key_value_heads");
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"})
    take(config, (std::string("swa_") + key).c_str(), sliding, key);
  if (config.mentions("attention_other_setting")) {  // Step-3.5
    if (const auto other = config.object("attention_other_setting")) {
      take(*other, "head_dim", sliding, "head_dim");
      take(*other, "num_attention_heads", sliding, "num_attention_heads");
      take(*other, "num_attention_groups", sliding, "num_key_value_heads");
    }
  }
  if (!config.mentions("per_layer_config")) {  // Gemma 4
    take(config, "global_head_dim", full, "head_dim");
    if (config.boolean("attention_k_eq_v").value_or(false))
      take(config, "num_global_key_value_heads", full, "num_key_value_heads");
  }
  if (!sliding.empty()) result.by_kind.emplace("sliding_attention", config.child("sliding layers", sliding));
  if (!full.empty()) result.by_kind.emplace("full_attention", config.child("full layers", full));
  return result;
}

/// A whole number under the first of several spellings, an override of the layer first.
std::optional<int> size_of(const ConfigNode& config, const ConfigNode* over,
                           std::initializer_list<const char*> keys, int most) {
  for (const ConfigNode* node : {over, &config}) {
    if (!node) continue;
    const std::string key = node->which(keys);
    if (!key.empty() && node->find(key)->is_number()) {
      const auto value = node->integer(key, 0, most);
      if (*value > 0) return static_cast<int>(*value);
    } else if (!key.empty() && !node->find(key)->is_array()) {
      node->integer(key, 0, most);  // reports the wrong type
    }
  }
  return std::nullopt;
}

/// Entry of a per-layer list of whole numbers, where the config has one.
std::optional<int> listed_size(const ConfigNode& config, const char* key, int layer, int layers, int most) {
  if (!config.mentions(key)) return std::nullopt;
  const nlohmann::json* list = config.find(key);
  if (!list || !list->is_array()) return std::nullopt;
  if (list->size() < static_cast<std::size_t>(layers))
    config.fail(key, std::to_string(layers) + " entries, one a layer", std::to_string(list->size()));
  const auto& entry = (*list)[static_cast<std::size_t>(layer)];
  if (!entry.is_number_integer() || entry.get<double>() < 0.0 || entry.get<double>() > most)
    config.fail(std::string(key) + "[" + std::to_string(layer) + "]",
                "a whole number from 0 to " + std::to_string(most), short_text(entry));
  return entry.get<int>();
}

/// The same for positive numbers (Step-3.5: rope_theta, partial_rotary_factors).
std::optional<double> listed_number(const ConfigNode& config, const char* key, int layer, int layers) {
  if (!config.mentions(key) || !config.find(key) || !config.find(key)->is_array()) return std::nullopt;
  const nlohmann::json& list = *config.find(key);
  if (list.size() < static_cast<std::size_t>(layers))
    config.fail(key, std::to_string(layers) + " entries, one a layer", std::to_string(list.size()));
  const auto& entry = list[static_cast<std::size_t>(layer)];
  if (!entry.is_number() || !(entry.get<double>() > 0.0) || !std::isfinite(entry.get<double>()))
    config.fail(std::string(key) + "[" + std::to_string(layer) + "]", "a number above 0", short_text(entry));
  return entry.get<double>();
}

/// Multi-head latent attention: widths of the rotary and the other part of a head.
struct Latent {
  int rotary = 0, plain = 0;
};
std::optional<Latent> latent_of(const ConfigNode& config, const ConfigNode* over) {
  const auto rank = size_of(config, over, {"kv_lora_rank"}, 1 << 20);
  const auto rotary = size_of(config, over, {"qk_rope_head_dim"}, kWidestHead);
  const auto plain = size_of(config, over, {"qk_nope_head_dim"}, kWidestHead);
  if (!rank || !rotary || !plain) return std::nullopt;
  return Latent{*rotary, *plain};
}

void read_sizes(const ConfigNode& config, const ConfigNode* over, const std::optional<Latent>& latent,
                int layers, LayerModel& layer) {
  auto heads = listed_size(config, "num_attention_heads_per_layer", layer.layer, layers, kMostHeads);
  if (!heads) heads = listed_size(config, "num_query_heads", layer.layer, layers, kMostHeads);
  if (!heads)
    heads = size_of(config, over, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMostHeads);
  layer.num_query_heads = heads.value_or(0);

  auto kv = listed_size(config, "num_kv_heads", layer.layer, layers, kMostHeads);
  if (!kv)
    kv = size_of(config, over,
                 {"num_key_value_heads", "num_kv_heads", "num_attention_groups", "n_head_kv", "kv_n_heads",
                  "multi_query_group_num"},
                 kMostHeads);
  if (!kv && config.mentions("multi_query") && config.boolean("multi_query").value_or(false)) kv = 1;
  layer.num_kv_heads = latent ? layer.num_query_heads : kv.value_or(layer.num_query_heads);
  const std::string& type = config.owner();
  if (type == "mimo_v2_flash" && layer.kind == "sliding_attention" &&
      !(over && over->find("num_key_value_heads")))
    layer.num_kv_heads *= 2;
  if (type == "falcon" && !config.boolean("new_decoder_architecture").value_or(false) &&
      config.boolean("multi_query").value_or(true))
    layer.num_kv_heads = 1;
  // Keys that these classes repeat before the rotation: the capture decides how many there are.
  if (type == "jetmoe" || (type == "falcon" && layer.num_kv_heads != 1)) layer.num_kv_heads = 0;

  if (latent) {
    layer.head_dim = latent->rotary + latent->plain;
    return;
  }
  const auto explicit_dim =
      size_of(config, over, {"head_dim", "attention_head_dim", "kv_channels", "head_size"}, kWidestHead);
  if (explicit_dim) {
    layer.head_dim = *explicit_dim;
    return;
  }
  const auto hidden = size_of(config, nullptr, {"hidden_size", "n_embd", "d_model", "dim"}, 1 << 26);
  // The common count of heads decides, not that of one layer kind.
  const auto common =
      size_of(config, nullptr, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMostHeads);
  if (!common) config.refuse("num_attention_heads", "missing, and so is head_dim");
  if (!hidden) config.refuse("head_dim", "missing, and so is hidden_size to derive it from");
  if (*hidden % *common != 0)
    config.warn("hidden_size is no multiple of num_attention_heads: head_dim is rounded down");
  layer.head_dim = *hidden / *common;
  if (layer.head_dim < 1 || layer.head_dim > kWidestHead)
    config.fail("hidden_size", "heads of 1 to " + std::to_string(kWidestHead) + " lanes",
                std::to_string(layer.head_dim));
}

/// g(f, c) of yarn, squared: latent attention puts it on the whole softmax scale (rope_types.md §5a).
double latent_gain(const RopeEntry& entry) {
  if (entry.null) return 1.0;
  const auto all_dim = entry.node.number("mscale_all_dim");
  const auto factor = entry.node.positive("factor");
  if (!all_dim || *all_dim == 0.0 || !factor || *factor <= 1.0) return 1.0;
  const double gain = 0.1 * *all_dim * std::log(*factor) + 1.0;
  return gain * gain;
}

double logit_scale_of(const ConfigNode& config, const ModelFamily& family,
                      const std::optional<Latent>& latent, const RopeEntry& entry, const LayerModel& layer) {
  if (const auto scalar = config.positive("query_pre_attn_scalar")) return 1.0 / std::sqrt(*scalar);
  if (const auto multiplier = config.positive("attention_multiplier")) return *multiplier;
  if (family.scale == ModelFamily::Scale::kOne) return 1.0;
  const double width =
      family.scale == ModelFamily::Scale::kHalfHeadDim ? layer.head_dim / 2.0 : layer.head_dim;
  return 1.0 / std::sqrt(width) * (latent ? latent_gain(entry) : 1.0);
}

/// Llama 4 (layers without rotation) and Ministral 3 (all layers).
std::optional<QueryTemperature> temperature_of(const ConfigNode& config, const RopeEntry& entry,
                                               const LayerModel& layer) {
  const nlohmann::json* tuning = config.find("attn_temperature_tuning");
  const bool tuned =
      tuning && (tuning->is_boolean() ? tuning->get<bool>() : tuning->is_number() && *tuning != 0);
  if (tuned && !layer.rotates && layer.has_attention)
    return QueryTemperature{config.number("attn_scale").value_or(0.1),
                            config.positive("floor_scale").value_or(8192.0), 1};
  if (entry.null) return std::nullopt;
  const auto beta = entry.node.number("llama_4_scaling_beta");
  if (!beta || *beta == 0.0) return std::nullopt;
  const auto period = entry.node.positive("original_max_position_embeddings");
  if (!period)
    entry.node.refuse("original_max_position_embeddings",
                      "missing, the query temperature (llama_4_scaling_beta) needs it");
  return QueryTemperature{*beta, *period, 0};
}

std::optional<double> norm_after_of(const ConfigNode& config, const ModelFamily& family,
                                    const LayerModel& layer) {
  if (family.norm_after != ModelFamily::NormAfter::kWeightless || !layer.rotates) return std::nullopt;
  if (config.find("use_qk_norm") && !*config.boolean("use_qk_norm")) return std::nullopt;
  return config.positive("rms_norm_eps").value_or(1e-6);
}

std::string refusal_of(const ConfigNode& config, const ModelFamily& family, const std::string& type) {
  if (family.norm_after == ModelFamily::NormAfter::kLearned)
    return "model type " + type +
           " applies a learned norm to queries and keys after the rotation, so a score is no " +
           "function of the distance alone";
  const nlohmann::json* both = config.find("use_bidirectional_attention");
  const bool everywhere = both && both->is_boolean() && both->get<bool>();
  const nlohmann::json* causal = config.mentions("is_causal") ? config.find("is_causal") : nullptr;
  if (both && both->is_string() && *both != "all")
    config.warn("use_bidirectional_attention is " + short_text(*both) +
                ": tokens that attend to both sides are taken as causal ones");
  if (family.bidirectional || everywhere || (both && *both == "all") || (causal && *causal == false))
    return "model type " + type + " attends to both sides, so distances have both signs";
  return "";
}

int layer_count(const ConfigNode& config) {
  const std::string key =
      config.which({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"});
  if (key.empty())
    for (const char* list : {"layer_types", "layers_block_type", "hybrid_override_pattern"})
      if (config.mentions(list) && config.find(list) && config.find(list)->size() > 1 &&
          config.find(list)->size() <= kMostLayers)
        return static_cast<int>(config.find(list)->size());
  if (key.empty())
    config.refuse("num_hidden_layers", "missing", "store the whole config.json, or the decoder's part of it");
  const auto count = static_cast<int>(*config.integer(key, 1, kMostLayers));
  // LongCat counts blocks of two attention layers.
  return key == "num_layers" && config.owner() == "longcat_flash" ? 2 * count : count;
}

/// Grids of layers with the same kind and sizes, read once.
class RopeCache {
 public:
  explicit RopeCache(const ConfigNode& config) : config_(config) {}
  std::optional<spectral::RopeParameters> get(const RopeRequest& request) {
    const Key key{request.kind,  request.head_dim, request.rotary_dim,
                  request.theta, request.partial,  request.scaled};
    auto it = known_.find(key);
    if (it == known_.end()) {
      if (known_.size() >= kMostGrids)
        config_.refuse("rope_theta",
                       "more than " + std::to_string(kMostGrids) + " different grids in one model");
      it = known_.emplace(key, read_rope_parameters(config_, request)).first;
    }
    if (it->second) numbers_ += it->second->short_factor.size() + it->second->long_factor.size();
    if (numbers_ > kMostNumbers)
      config_.refuse("num_hidden_layers", "too many layers for lists of this length");
    return it->second;
  }
  const RopeEntry& entry(const std::string& kind) {
    auto it = entries_.find(kind);
    if (it == entries_.end()) {
      if (entries_.size() >= kMostGrids) config_.refuse("layer_types", "too many different kinds of layers");
      it = entries_.emplace(kind, find_rope_entry(config_, kind)).first;
    }
    return it->second;
  }

 private:
  static constexpr std::size_t kMostGrids = 1024;
  using Key =
      std::tuple<std::string, int, std::optional<int>, std::optional<double>, std::optional<double>, bool>;
  const ConfigNode& config_;
  std::map<Key, std::optional<spectral::RopeParameters>> known_;
  std::map<std::string, RopeEntry> entries_;
  std::size_t numbers_ = 0;
};

/// Which layers take the scaling of a flat entry: Step-3.5 names kinds, Molmo 2 layers, OLMo 3 has full ones.
struct ScaledLayers {
  std::vector<std::string> kinds;             ///< empty: all
  std::optional<std::vector<double>> layers;  ///< absent: all
};

bool is_scaled(const ConfigNode& config, const ScaledLayers& scaled, RopeCache& cache,
               const LayerModel& layer) {
  if (scaled.layers &&
      std::find(scaled.layers->begin(), scaled.layers->end(), layer.layer) == scaled.layers->end())
    return false;
  const std::vector<std::string>& yarn_only = scaled.kinds;
  const std::string& kind = layer.kind;
  if (!yarn_only.empty()) return std::find(yarn_only.begin(), yarn_only.end(), kind) != yarn_only.end();
  return !(config.owner() == "olmo3" && kind == "sliding_attention" && !cache.entry(kind).nested);
}

void read_rope(const ConfigNode& config, const ModelFamily& family, const std::optional<Latent>& latent,
               int layers, const ScaledLayers& scaled, RopeCache& cache, LayerModel& layer) {
  layer.rope_type = "none";
  if (!layer.has_attention || family.rotates == ModelFamily::Rotates::kNone) return;
  RopeRequest request;
  request.kind = layer.kind;
  request.head_dim = layer.head_dim;
  if (latent) request.rotary_dim = latent->rotary;
  request.theta = listed_number(config, "rope_theta", layer.layer, layers);
  if (!request.theta && layer.rotates)
    request.theta = listed_number(config, "layer_rope_theta", layer.layer, layers);
  request.partial = listed_number(config, "partial_rotary_factors", layer.layer, layers);
  request.scaled = is_scaled(config, scaled, cache, layer);
  const auto parameters = cache.get(request);
  if (!parameters) {
    layer.rotates = false;
    return;
  }
  layer.rope = *parameters;
  if (layer.rotates) layer.rope_type = spectral::rope_type_name(parameters->type);
}

}  // namespace

double QueryTemperature::at(std::int64_t position) const {
  return 1.0 + slope * std::log(1.0 + std::floor(static_cast<double>(position + shift) / period));
}

ModelConfig parse_model_config(std::string_view text, const std::string& where) {
  const nlohmann::json root = parse_config_text(text, where);
  WarningList warnings;
  ConfigNode config = decoder_node(root, where, warnings);
  ModelConfig model;
  model.model_type = model_type_of(config, root);
  const ModelFamily* known = find_family(model.model_type);
  if (!known)
    warnings.add(model.model_type.empty() ? "the config has no model_type: it is read by the general rules"
                                          : "model type " + model.model_type +
                                                " is not known: its config is read by the general rules");
  const ModelFamily family = known ? *known : ModelFamily{};
  config = config.with_defaults(default_values(model.model_type), model.model_type);
  if (*family.caution) warnings.add(family.caution);
  model.refusal = refusal_of(config, family, model.model_type);

  const int count = layer_count(config);
  const std::vector<LayerKind> kinds = read_layer_kinds(config, family, count);
  const LayerOverrides overrides = read_overrides(config, count);
  const double softcap = config.number("attn_logit_softcapping").value_or(0.0);
  if (softcap < 0.0) config.fail("attn_logit_softcapping", "a number above 0", std::to_string(softcap));
  ScaledLayers scaled;
  if (config.mentions("yarn_only_types"))
    scaled.kinds = config.texts("yarn_only_types").value_or(scaled.kinds);
  if (config.mentions("rope_scaling_layers")) scaled.layers = config.numbers("rope_scaling_layers");

  RopeCache cache(config);
  model.layers.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    LayerModel& layer = model.layers[static_cast<std::size_t>(i)];
    const LayerKind& kind = kinds[static_cast<std::size_t>(i)];
    layer.layer = i;
    layer.kind = kind.name;
    layer.has_attention = kind.attention;
    layer.rotates = kind.rotates;
    layer.window = kind.window;
    layer.rope_type = "none";
    if (!kind.attention) continue;
    const ConfigNode* over = overrides.find(i, kind.name);
    const auto latent = latent_of(config, over);
    read_sizes(config, over, latent, count, layer);
    read_rope(config, family, latent, count, scaled, cache, layer);
    const RopeEntry& entry = cache.entry(layer.kind);
    layer.logit_scale = logit_scale_of(config, family, latent, entry, layer);
    layer.softcap = softcap;
    layer.query_temperature = temperature_of(config, entry, layer);
    layer.norm_after_epsilon = norm_after_of(config, family, layer);
    layer.reversed = family.reversed;
  }
  model.warnings = warnings.all();
  return model;
}

std::string read_config_file(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw input_error(path, "", "a config.json", "a folder", "name the file inside it");
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargest + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    throw UserError(path + ": cannot be read", "--config takes the model's config.json");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty() || text.size() > kLargest)
    throw input_error(path, "", "a config.json of at most 64 MiB",
                      text.empty() ? "an empty file" : "a larger one");
  return text;
}

}  // namespace rope

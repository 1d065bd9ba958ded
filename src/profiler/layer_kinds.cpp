#include "profiler/layer_kinds.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace rope {
namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

std::string current_name(const std::string& name) {
  if (name == "attention" || name == "global" || name == "global_attention" || name == "full")
    return "full_attention";
  if (name == "sliding" || name == "local" || name == "local_attention" || name == "sliding_window")
    return "sliding_attention";
  if (name == "mamba" || name == "mamba2" || name == "recurrent" || name == "linear")
    return "linear_attention";
  if (name == "deepseek_sparse_attention" || name == "qwen_sparse_attention") return "indexed_attention";
  return name;
}

bool has_attention(const std::string& name) {
  static constexpr std::array without = {"linear_attention", "conv", "convolution", "moe", "mlp",
                                         "identity",         "none"};
  return std::find(without.begin(), without.end(), name) == without.end();
}

bool is_known(const std::string& name) {
  static constexpr std::array known = {
      "full_attention",    "sliding_attention",           "chunked_attention",
      "indexed_attention", "compressed_sparse_attention", "heavily_compressed_attention",
      "minimax_m3_sparse", "reference_sliding_attention", "hybrid",
      "hybrid_sliding"};
  return !has_attention(name) || std::find(known.begin(), known.end(), name) != known.end();
}

bool slides(const std::string& name) { return name == "sliding_attention" || name == "hybrid_sliding"; }

std::string name_of_letter(char letter) {
  switch (letter) {
    case 's':
      return "sliding_attention";
    case 'c':
      return "chunked_attention";
    case 'i':
      return "indexed_attention";
    case 'h':
      return "hybrid";
    case 'r':
      return "reference_sliding_attention";
    case 'C':
      return "compressed_sparse_attention";
    case 'H':
      return "heavily_compressed_attention";
    case 'l':
      return "linear_attention";
    case 'v':
      return "conv";
    case 'm':
      return "mlp";
    default:
      return "full_attention";
  }
}

Names from_pattern(std::string_view pattern, const ModelFamily& family, int count) {
  const std::size_t bar = pattern.find('|');
  const std::string_view beginning =
      bar == std::string_view::npos ? std::string_view{} : pattern.substr(0, bar);
  const std::string_view repeated = bar == std::string_view::npos ? pattern : pattern.substr(bar + 1);
  Names names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    names.push_back(name_of_letter(
        i < beginning.size() ? beginning[i] : repeated[(i - beginning.size()) % repeated.size()]));
  if (family.pattern_from_end) std::reverse(names.begin(), names.end());
  if (family.last_layer_full) names.back() = "full_attention";
  return names;
}

/// Layers listed by index get `listed`, the others `other`.
Names from_indexes(const ConfigNode& config, const std::string& key, const std::vector<double>& indexes,
                   int first, const std::string& listed, const std::string& other, int count) {
  Names names(static_cast<std::size_t>(count), other);
  for (const double index : indexes) {
    const double at = index - first;
    if (!(at >= 0.0) || at >= count || at != static_cast<double>(static_cast<int>(at)))
      config.fail(key,
                  "layer numbers from " + std::to_string(first) + " to " + std::to_string(count - 1 + first),
                  std::to_string(index));
    names[static_cast<std::size_t>(at)] = listed;
  }
  return names;
}

/// Per-layer flags: 1 gets `on`, 0 gets `off`.
Names from_flags(const ConfigNode& config, const std::string& key, const std::vector<double>& flags,
                 const std::string& on, const std::string& off, int count) {
  if (flags.size() != static_cast<std::size_t>(count))
    config.fail(key, std::to_string(count) + " entries, one a layer", std::to_string(flags.size()));
  Names names;
  for (const double flag : flags) {
    if (flag != 0.0 && flag != 1.0) config.fail(key, "0 or 1", std::to_string(flag));
    names.push_back(flag == 1.0 ? on : off);
  }
  return names;
}

/// Lists of layer names, explicit or repeating. nullopt: the config has none.
std::optional<Names> listed_kinds(const ConfigNode& config, int count) {
  for (const char* key : {"layer_types", "layers_block_type", "block_types"}) {
    if (!config.mentions(key)) continue;
    auto names = config.texts(key);
    if (!names || names->empty()) continue;
    const bool repeats = std::string(key) == "block_types";
    const bool longer = config.owner() == "step3p5";  // lists its prediction layers too
    const auto wanted = static_cast<std::size_t>(count);
    if (repeats) {
      const Names period = *names;
      names->resize(wanted);
      for (std::size_t i = 0; i < wanted; ++i) (*names)[i] = period[i % period.size()];
    }
    if (names->size() != wanted && !(longer && names->size() > wanted))
      config.fail(key, std::to_string(count) + " entries, one a layer", std::to_string(names->size()));
    names->resize(wanted);
    const bool local =
        config.which({"attention_window_size"}) != "";  // RecurrentGemma: all its attention slides
    for (std::string& name : *names) {
      name = local && name == "attention" ? "sliding_attention" : current_name(name);
      if (!is_known(name))
        config.warn(config.full_key(key) + ": unknown kind " + name + " is taken as full attention");
    }
    return names;
  }
  return std::nullopt;
}

/// Other spellings of which layers have softmax attention, or slide.
std::optional<Names> encoded_kinds(const ConfigNode& config, int count) {
  const std::string full = "full_attention", sliding = "sliding_attention", linear = "linear_attention";
  if (config.mentions("hybrid_override_pattern")) {
    if (const auto text = config.text("hybrid_override_pattern")) {
      if (text->size() != static_cast<std::size_t>(count))
        config.fail("hybrid_override_pattern", std::to_string(count) + " letters, one a layer",
                    std::to_string(text->size()));
      Names names;
      for (const char letter : *text) names.push_back(letter == '*' ? full : letter == 'M' ? linear : "mlp");
      return names;
    }
  }
  if (config.mentions("hybrid_layer_pattern"))
    if (const auto flags = config.numbers("hybrid_layer_pattern"); flags && !flags->empty())
      return from_flags(config, "hybrid_layer_pattern", *flags, sliding, full, count);
  if (config.mentions("attn_type_list"))
    if (const auto flags = config.numbers("attn_type_list"); flags && !flags->empty())
      return from_flags(config, "attn_type_list", *flags, full, linear, count);
  if (config.mentions("compress_ratios"))  // DeepSeek-V4
    if (const auto ratios = config.numbers("compress_ratios"); ratios && !ratios->empty()) {
      if (ratios->size() < static_cast<std::size_t>(count))
        config.fail("compress_ratios", std::to_string(count) + " entries, one a layer",
                    std::to_string(ratios->size()));
      Names names;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        names.push_back((*ratios)[i] == 0.0 ? sliding : name_of_letter((*ratios)[i] > 4.0 ? 'H' : 'C'));
      return names;
    }
  if (config.mentions("full_attn_idxs"))
    if (const auto indexes = config.numbers("full_attn_idxs"))
      return from_indexes(config, "full_attn_idxs", *indexes, 0, full, "conv", count);
  if (config.mentions("attn_layer_indices"))
    if (const auto indexes = config.numbers("attn_layer_indices"))
      return from_indexes(config, "attn_layer_indices", *indexes, 0, full, linear, count);
  if (config.mentions("hybrid_layer_ids"))
    if (const auto indexes = config.numbers("hybrid_layer_ids"))
      return from_indexes(config, "hybrid_layer_ids", *indexes, 0, "hybrid", linear, count);
  if (config.mentions("linear_attn_config"))
    if (const auto inner = config.object("linear_attn_config"))
      if (const auto indexes = inner->numbers("full_attn_layers"))
        return from_indexes(*inner, "full_attn_layers", *indexes, 1, full, linear, count);
  if (config.mentions("attn_layer_period"))
    if (const auto period = config.integer("attn_layer_period", 1, count)) {
      const std::int64_t offset = config.integer("attn_layer_offset", 0, count).value_or(0);
      Names names;
      for (int i = 0; i < count; ++i) names.push_back(i % *period == offset % *period ? full : linear);
      return names;
    }
  return std::nullopt;
}

/// The repeating pattern of a config key or of the model type; "" when there is none.
std::string pattern_of(const ConfigNode& config, const ModelFamily& family) {
  const std::string own = family.pattern;
  for (const char* key :
       {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}) {
    if (!config.mentions(key) || !config.find(key)) continue;
    if (config.find(key)->is_string()) {  // EXAONE: "LLLG"
      std::string letters = *config.text(key);
      for (char& c : letters) c = c == 'L' ? 's' : 'f';
      if (!letters.empty()) return letters;
      continue;
    }
    const auto period = static_cast<std::size_t>(*config.integer(key, 0, 4096));
    if (period == 0) return "f";
    if (!own.empty() && own.front() == 'f') return "f" + std::string(period - 1, 's');
    return std::string(period - 1, 's') + "f";
  }
  for (const char* key : {"full_attention_interval", "layer_group_size"}) {
    if (!config.mentions(key) || !config.find(key)) continue;
    const auto period = static_cast<std::size_t>(*config.integer(key, 1, 4096));
    const std::string last = own == "llli" ? "i" : "f";
    return std::string(period - 1, 'l') + last;
  }
  return own;
}

/// The width of sliding layers; 0 = none. Both a null and a 0 say so.
std::int64_t sliding_window_of(const ConfigNode& config) {
  for (const char* key : {"sliding_window", "attention_window_size", "sliding_window_size"}) {
    if (config.mentions(key)) return config.integer(key, 0, kLongest).value_or(0);
  }
  if (config.mentions("local_attention"))  // ModernBERT counts both sides
    return config.integer("local_attention", 0, kLongest).value_or(0) / 2;
  for (const char* key : {"sliding_window", "attention_window_size"})
    if (config.defaults().contains(key)) return config.integer(key, 0, kLongest).value_or(0);
  return 0;
}

/// Command A's mixture: the first, dense layers have a pattern of their own.
Names cohere_moe_kinds(const ConfigNode& config, int count) {
  const std::int64_t dense = config.integer("first_k_dense_replace", 0, count).value_or(0);
  const std::int64_t first = config.integer("prefix_dense_sliding_window_pattern", 1, kLongest).value_or(1);
  const std::int64_t rest = config.integer("sliding_window_pattern", 1, kLongest).value_or(4);
  Names names;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool slides_here = i < dense ? (i + 1) % first != 0 : (i - dense + 1) % rest != 0;
    names.push_back(slides_here ? "sliding_attention" : "full_attention");
  }
  return names;
}

/// ... and rotates in dense layers even where they do not slide.
bool cohere_moe_rotates(const ConfigNode& config, std::size_t layer) {
  if (config.integer("prefix_dense_sliding_window_pattern", 1, kLongest).value_or(1) != 1) return false;
  if (config.mentions("mlp_layer_types"))
    if (const auto types = config.texts("mlp_layer_types"))
      return layer < types->size() && (*types)[layer] == "dense";
  return static_cast<std::int64_t>(layer) < config.integer("first_k_dense_replace", 0, kLongest).value_or(0);
}

/// Names where the config has no list: windows by the rules of activation-format.md.
Names derived_kinds(const ConfigNode& config, const ModelFamily& family, std::int64_t window, int count) {
  if (auto encoded = encoded_kinds(config, count)) return *encoded;
  if (config.owner() == "cohere2_moe" && window > 0) return cohere_moe_kinds(config, count);
  const bool off = !config.boolean("use_sliding_window").value_or(true) || window == 0;
  const std::string pattern = pattern_of(config, family);
  const bool only_slides = pattern.find_first_not_of("sf|") == std::string::npos;
  if (!pattern.empty() && (!only_slides || off)) {
    Names names = from_pattern(pattern, family, count);
    if (off)
      for (std::string& name : names)
        if (slides(name)) name = "full_attention";
    return names;
  }
  if (off) return Names(static_cast<std::size_t>(count), "full_attention");
  if (config.find("max_window_layers")) {
    const std::int64_t first = *config.integer("max_window_layers", 0, kLongest);
    Names names;
    for (int i = 0; i < count; ++i) names.push_back(i >= first ? "sliding_attention" : "full_attention");
    return names;
  }
  if (!pattern.empty()) return from_pattern(pattern, family, count);
  return Names(static_cast<std::size_t>(count), "sliding_attention");
}

/// 1 = rotates, per layer (SmolLM3, Llama 4); empty when the model has no such list.
std::vector<double> rope_flags(const ConfigNode& config, int count) {
  const char* key = "no_rope_layers";
  if (config.mentions(key)) {
    const auto flags = config.numbers(key);
    if (flags && !flags->empty()) {
      from_flags(config, key, *flags, "", "", count);
      return *flags;
    }
  }
  if (config.mentions("layer_rope_theta")) {  // 0 = the layer does not rotate
    if (auto thetas = config.numbers("layer_rope_theta"); thetas && !thetas->empty()) {
      for (double& theta : *thetas) theta = theta != 0.0 ? 1.0 : 0.0;
      from_flags(config, "layer_rope_theta", *thetas, "", "", count);
      return *thetas;
    }
  }
  if (!config.find("no_rope_layer_interval")) return {};
  const std::int64_t interval = *config.integer("no_rope_layer_interval", 0, kLongest);
  std::vector<double> flags;
  for (int i = 0; i < count; ++i) flags.push_back(interval == 0 || (i + 1) % interval != 0 ? 1.0 : 0.0);
  return flags;
}

/// False where a key of the config turns rotary embeddings off altogether.
bool config_rotates(const ConfigNode& config) {
  const std::string type = config.owner();
  if (config.mentions("position_embedding_type") || type == "granitemoehybrid") {
    const std::string name = config.text("position_embedding_type").value_or("");
    if (type == "granitemoehybrid") return name == "rope";
    for (const char* other :
         {"nope", "none", "alibi", "absolute", "learned", "relative_key", "relative_key_query"})
      if (name == other) return false;
  }
  if (config.mentions("alibi") && config.boolean("alibi").value_or(false)) return false;
  if (config.mentions("mla_use_nope") && config.boolean("mla_use_nope").value_or(false)) return false;
  if (type == "zamba2") return config.boolean("use_mem_rope").value_or(false);
  return true;
}

}  // namespace

std::vector<LayerKind> read_layer_kinds(const ConfigNode& config, const ModelFamily& family, int count) {
  const std::int64_t window = sliding_window_of(config);
  const std::vector<double> flags = rope_flags(config, count);
  const bool rotating = family.rotates != ModelFamily::Rotates::kNone && config_rotates(config);
  std::int64_t chunk = 0;
  if (config.find("attention_chunk_size")) chunk = *config.integer("attention_chunk_size", 1, kLongest);

  const auto listed = listed_kinds(config, count);
  const Names names = listed ? *listed : derived_kinds(config, family, window, count);
  bool without_window = false;
  std::vector<LayerKind> kinds(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    LayerKind& kind = kinds[i];
    kind.name = names[i];
    // Llama 4 attends in chunks where it rotates.
    if (!listed && chunk > 0 && !flags.empty())
      kind.name = flags[i] == 1.0 ? "chunked_attention" : "full_attention";
    kind.attention = has_attention(kind.name);
    if (slides(kind.name)) kind.window = window;
    if (kind.name == "chunked_attention") kind.window = chunk;
    without_window =
        without_window || ((slides(kind.name) || kind.name == "chunked_attention") && kind.window == 0);
    kind.rotates = kind.attention && rotating && (flags.empty() || flags[i] == 1.0);
    const bool only_sliding = family.rotates == ModelFamily::Rotates::kSlidingOnly ||
                              (family.rotates == ModelFamily::Rotates::kSlidingOnlyIfWindow && window > 0);
    if (only_sliding && !slides(kind.name) && flags.empty())
      kind.rotates = kind.rotates && config.owner() == "cohere2_moe" && cohere_moe_rotates(config, i);
  }
  if (without_window)
    config.warn("some layers are sliding or chunked but the config gives no width: no window is assumed");
  return kinds;
}

}  // namespace rope

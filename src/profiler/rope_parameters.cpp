#include "profiler/rope_parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace rope {
namespace {

using spectral::RopeParameters;
using spectral::RopeType;

constexpr int kMostPairs = 512;  // what the sweep takes

constexpr std::array kKindLabels = {"full_attention",
                                    "sliding_attention",
                                    "chunked_attention",
                                    "indexed_attention",
                                    "linear_attention",
                                    "hybrid",
                                    "hybrid_sliding",
                                    "main",
                                    "compress",
                                    "compressed_sparse_attention",
                                    "heavily_compressed_attention"};

bool is_kind_label(const ConfigNode& config, const std::string& key) {
  if (std::find(kKindLabels.begin(), kKindLabels.end(), key) != kKindLabels.end()) return true;
  const auto types = config.own().find("layer_types");
  return types != config.own().end() && types->is_array() &&
         std::find(types->begin(), types->end(), key) != types->end();
}

bool is_nested(const ConfigNode& config, const nlohmann::json& dict) {
  for (const auto& [key, value] : dict.items())
    if (is_kind_label(config, key) && (value.is_object() || value.is_null())) return true;
  return false;
}

/// Labels under which the entry of a kind may stand, best first.
std::vector<std::string> labels_of(const std::string& kind) {
  if (kind == "sliding_attention") return {kind, "hybrid_sliding", "main"};
  if (kind == "full_attention") return {kind, "hybrid"};
  if (kind == "compressed_sparse_attention" || kind == "heavily_compressed_attention")
    return {kind, "compress"};
  return {kind, "full_attention"};
}

const nlohmann::json* entry_of(const nlohmann::json& dict, const std::string& kind) {
  for (const std::string& label : labels_of(kind))
    if (const auto it = dict.find(label); it != dict.end()) return &*it;
  return nullptr;
}

/// What the model type assumes for this kind; an object, null (does not rotate) or nothing.
nlohmann::json default_entry(const ConfigNode& config, const std::string& kind, bool& nested) {
  const auto it = config.defaults().find("rope_parameters");
  nested = false;
  if (it == config.defaults().end() || !it->is_object()) return nlohmann::json::object();
  nested = is_nested(config, *it);
  if (!nested) return *it;
  const nlohmann::json* entry = entry_of(*it, kind);
  return entry ? *entry : nlohmann::json::object();
}

/// Theta and partial factor of a model type hold even where the config brings its own scaling.
nlohmann::json base_values(const nlohmann::json& entry) {
  nlohmann::json base = nlohmann::json::object();
  for (const char* key : {"rope_theta", "partial_rotary_factor"})
    if (entry.is_object() && entry.contains(key)) base[key] = entry[key];
  return base;
}

RopeType rope_type_of(const RopeEntry& entry) {
  const ConfigNode& node = entry.node;
  const auto by_rope_type = node.text("rope_type");
  const auto by_type = node.mentions("type") ? node.text("type") : std::nullopt;
  if (by_rope_type && by_type && *by_rope_type != *by_type && *by_type != "mrope")
    node.warn(node.full_key("type") + " is " + *by_type + " but rope_type is " + *by_rope_type +
              ": rope_type is used");
  const std::string name = by_rope_type ? *by_rope_type : by_type.value_or("default");
  const char* key = by_rope_type ? "rope_type" : "type";
  if (node.mentions("mrope_section") || name == "mrope")
    node.warn(
        node.full_key("mrope_section") +
        ": positions are taken as text positions, one for all sections; image tokens are not supported");
  if (name == "default" || name == "mrope") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "dynamic" || name == "ntk") return RopeType::kDynamic;
  if (name == "yarn" || name == "deepseek_yarn" || name == "telechat3-yarn") return RopeType::kYarn;
  if (name == "longrope" || name == "su") return RopeType::kLongrope;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "proportional") return RopeType::kProportional;
  if (name == "axial")
    node.refuse(key, "axial rotary embeddings belong to vision encoders and are not supported");
  node.fail(key, "default, linear, dynamic, yarn, longrope, llama3, proportional or mrope",
            "\"" + name + "\"");
}

/// Base of the grid: the entry, then the config's own keys, then the model type, then 10000.
double theta_of(const ConfigNode& config, const RopeEntry& entry, const RopeRequest& request) {
  if (request.theta) return *request.theta;
  if (entry.node.mentions("rope_theta"))
    if (const auto theta = entry.node.positive("rope_theta")) return *theta;
  std::vector<const char*> keys = {"global_rope_theta", "rope_theta",  "rotary_emb_base",
                                   "rope_base",         "rotary_base", "rope_freq_constant"};
  bool nested_defaults = false;
  default_entry(config, request.kind, nested_defaults);
  if (request.kind == "sliding_attention") {
    const std::vector<const char*> local = {"rope_local_base_freq", "local_rope_theta", "swa_rope_theta"};
    bool null_local = false;
    for (const char* key : local) null_local = null_local || config.mentions(key);
    // A model type with a grid of its own for local layers does not read rope_theta there.
    if (nested_defaults && !null_local && config.owner() != "olmo3") keys.clear();
    keys.insert(keys.begin(), local.begin(), local.end());
  }
  if (request.kind == "compressed_sparse_attention" || request.kind == "heavily_compressed_attention")
    keys.insert(keys.begin(), "compress_rope_theta");
  for (const char* key : keys)
    if (config.mentions(key) && config.own().at(key).is_number())
      return *config.positive(key);
    else if (config.mentions(key) && !config.own().at(key).is_null())
      return *config.positive(key);  // reports the wrong type
  if (const auto theta = entry.node.positive("rope_theta")) return *theta;
  entry.node.warn("rope_theta is absent from the config: 10000 is assumed");
  return 10000.0;
}

double partial_of(const ConfigNode& config, const RopeEntry& entry, const RopeRequest& request) {
  const auto checked = [](const ConfigNode& node, const char* key) -> std::optional<double> {
    const auto value = node.positive(key);
    if (value && *value > 1.0) node.fail(key, "a share above 0 and at most 1", short_text(*node.find(key)));
    return value;
  };
  if (request.partial) return *request.partial;
  if (entry.node.mentions("partial_rotary_factor"))
    if (const auto partial = checked(entry.node, "partial_rotary_factor")) return *partial;
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rotary_percent"})
    if (config.mentions(key))
      if (const auto partial = checked(config, key)) return *partial;
  return checked(entry.node, "partial_rotary_factor").value_or(1.0);
}

double max_position_of(const ConfigNode& config) {
  const std::string key = config.which(
      {"max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"});
  return key.empty() ? 0.0 : static_cast<double>(*config.integer(key, 1, std::int64_t{1} << 40));
}

double original_max_position_of(const ConfigNode& config, const RopeEntry& entry, double max_position) {
  const char* key = "original_max_position_embeddings";
  if (!entry.nested && config.mentions(key))
    if (const auto outer = config.positive(key)) return *outer;
  if (const auto own = entry.node.positive(key)) return *own;
  if (max_position <= 0.0) entry.node.refuse(key, "missing, and so is max_position_embeddings in its place");
  entry.node.warn(entry.node.full_key(key) + " is absent: max_position_embeddings (" +
                  std::to_string(static_cast<long long>(max_position)) + ") is assumed");
  return max_position;
}

double required(const ConfigNode& node, const char* key, RopeType type) {
  const auto value = node.positive(key);
  if (!value) node.refuse(key, "missing, rope_type " + rope_type_name(type) + " needs it");
  return *value;
}

double beta_or(const ConfigNode& node, const char* key, double standard) {
  const auto value = node.number(key);
  if (!value || *value == 0.0) return standard;
  if (*value < 0.0) node.fail(key, "a number above 0", short_text(*node.find(key)));
  return *value;
}

std::vector<double> divisors(const ConfigNode& node, const char* key, int pairs) {
  auto list = node.numbers(key);
  if (!list) node.refuse(key, "missing, rope_type longrope needs it");
  if (list->size() != static_cast<std::size_t>(pairs))
    node.fail(key, std::to_string(pairs) + " numbers, one a rotary pair", std::to_string(list->size()));
  for (const double value : *list)
    if (!(value > 0.0)) node.fail(key, "numbers above 0", std::to_string(value));
  return *list;
}

void read_yarn(const RopeEntry& entry, RopeParameters& p) {
  const ConfigNode& node = entry.node;
  p.mscale = node.number("mscale");
  p.mscale_all_dim = node.number("mscale_all_dim");
  p.beta_fast = beta_or(node, "beta_fast", 32.0);
  p.beta_slow = beta_or(node, "beta_slow", 1.0);
  if (!p.factor && p.max_position <= 0.0)
    node.refuse("factor", "missing, and so is max_position_embeddings to derive it from");
  const bool truncate = node.boolean("truncate").value_or(true);
  if (entry.nested && !truncate)
    node.warn(node.full_key("truncate") +
              " is false but stands inside a layer kind, where transformers does not " +
              "read it: true is used");
  p.truncate = entry.nested || truncate;
  if (p.beta_fast < p.beta_slow) node.warn(node.full_key("beta_fast") + " is below beta_slow");
  const double ratio = p.max_position / p.original_max_position;
  if (entry.present && p.factor && p.max_position > 0.0 && std::abs(*p.factor - ratio) > 1e-9 * ratio)
    node.warn(node.full_key("factor") + " (" + short_text(*node.find("factor")) +
              ") is not max_position_embeddings / original_max_position_embeddings: the factor is used");
}

void read_dynamic(const RopeEntry& entry, const std::string& name, RopeParameters& p) {
  const ConfigNode& node = entry.node;
  p.dynamic_alpha = node.positive("alpha");
  if (name == "ntk" && !p.dynamic_alpha) {
    p.dynamic_alpha = required(node, "factor", p.type);
    node.warn(node.full_key("type") + " ntk: base * factor^(r/(r-2)) is used, the same for every length");
  }
  if (p.dynamic_alpha) {
    p.factor.reset();
    return;
  }
  required(node, "factor", p.type);
  if (p.max_position <= 0.0)
    node.refuse("max_position_embeddings", "missing at the top of the config, rope_type dynamic needs it");
}

void read_scaling(const ConfigNode& config, const RopeEntry& entry, RopeParameters& p) {
  const ConfigNode& node = entry.node;
  p.factor = node.positive("factor");
  if (p.factor && *p.factor < 1.0) node.warn(node.full_key("factor") + " is below 1");
  const bool stretched =
      p.type == RopeType::kYarn || p.type == RopeType::kLongrope || p.type == RopeType::kLlama3;
  // Read only where it matters: its absence is worth a warning only there.
  if (stretched || p.type == RopeType::kDynamic) p.max_position = max_position_of(config);
  if (stretched) p.original_max_position = original_max_position_of(config, entry, p.max_position);
  if (p.type == RopeType::kYarn || p.type == RopeType::kLongrope)
    p.attention_factor = node.positive("attention_factor");
  const int pairs = (p.rotary_dim + 1) / 2;
  switch (p.type) {
    case RopeType::kLinear:
      required(node, "factor", p.type);
      break;
    case RopeType::kDynamic:
      read_dynamic(entry, node.text(node.mentions("rope_type") ? "rope_type" : "type").value_or(""), p);
      break;
    case RopeType::kYarn:
      read_yarn(entry, p);
      break;
    case RopeType::kLongrope:
      if (!p.factor && p.max_position <= 0.0)
        node.refuse("factor", "missing, and so is max_position_embeddings to derive it from");
      p.short_factor = divisors(node, "short_factor", pairs);
      p.long_factor = divisors(node, "long_factor", pairs);
      for (const char* key : {"short_mscale", "long_mscale"})
        if (node.find(key))
          node.warn(node.full_key(key) + " is not used: the attention factor follows from factor");
      break;
    case RopeType::kLlama3:
      required(node, "factor", p.type);
      p.low_freq_factor = required(node, "low_freq_factor", p.type);
      p.high_freq_factor = required(node, "high_freq_factor", p.type);
      if (!(p.high_freq_factor > p.low_freq_factor))
        node.fail("high_freq_factor", "a number above low_freq_factor",
                  short_text(*node.find("high_freq_factor")));
      break;
    default:
      break;
  }
}

int rotary_dim_of(const ConfigNode& config, const RopeEntry& entry, const RopeRequest& request,
                  RopeParameters& p) {
  if (request.rotary_dim) return *request.rotary_dim;
  const ModelFamily* family = find_family(config.owner());
  const bool knows = family && family->uses_rotary_dim;
  if (config.mentions("rotary_dim") && config.find("rotary_dim")) {
    if (knows || !family) {
      if (!knows) config.warn("rotary_dim is taken as the rotary width in lanes");
      return static_cast<int>(*config.integer("rotary_dim", 1, request.head_dim));
    }
    config.warn("rotary_dim is not used: model type " + config.owner() + " ignores it");
  } else if (knows) {
    if (const auto lanes = config.integer("rotary_dim", 1, request.head_dim)) return static_cast<int>(*lanes);
  }
  p.partial_factor = partial_of(config, entry, request);
  if (p.type == RopeType::kProportional) return request.head_dim;
  return static_cast<int>(request.head_dim * p.partial_factor);
}

/// Keys of the entry that nothing reads: a slip there would change the grid in silence.
void report_unknown_keys(const RopeEntry& entry) {
  static constexpr std::array known = {"rope_type",
                                       "type",
                                       "rope_theta",
                                       "partial_rotary_factor",
                                       "factor",
                                       "original_max_position_embeddings",
                                       "max_position_embeddings",
                                       "attention_factor",
                                       "mscale",
                                       "mscale_all_dim",
                                       "beta_fast",
                                       "beta_slow",
                                       "truncate",
                                       "low_freq_factor",
                                       "high_freq_factor",
                                       "short_factor",
                                       "long_factor",
                                       "short_mscale",
                                       "long_mscale",
                                       "alpha",
                                       "mrope_section",
                                       "mrope_interleaved",
                                       "llama_4_scaling_beta"};
  std::string names;
  int count = 0;
  for (const auto& [key, value] : entry.node.own().items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (is_kind_label(entry.node, key)) continue;
    if (++count > 8) break;
    names += (names.empty() ? "" : ", ") + entry.node.full_key(key);
  }
  if (count > 0) entry.node.warn("not used: " + names + (count > 8 ? ", ..." : ""));
}

/// Builds the grid once on each side of the length that switches it.
void check_grid(const RopeEntry& entry, const RopeParameters& p) {
  try {
    spectral::make_frequency_grid(p, 2);
    spectral::make_frequency_grid(p, std::int64_t{1} << 24);
  } catch (const std::invalid_argument& e) {
    entry.node.refuse("rope_type", spectral::rope_type_name(p.type) + ": " + e.what());
  }
}

}  // namespace

RopeEntry find_rope_entry(const ConfigNode& config, const std::string& kind) {
  bool nested_defaults = false;
  const nlohmann::json defaults = default_entry(config, kind, nested_defaults);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.mentions(key)) continue;
    const auto outer = config.object(key);
    if (!outer || outer->own().empty()) continue;
    if (is_nested(config, outer->own())) {
      const nlohmann::json* own = entry_of(outer->own(), kind);
      if (!own) {
        if (defaults.empty())
          outer->refuse(kind, "this layer kind has no entry",
                        "give its parameters, or null if it does not rotate");
        return {outer->child(kind, nlohmann::json::object()).with_defaults(defaults, config.owner()), false,
                true, defaults.is_null()};
      }
      if (own->is_null()) return {*outer, true, true, true};
      if (!own->is_object()) outer->fail(kind, "an object or null", short_text(*own));
      return {outer->child(kind, *own).with_defaults(base_values(defaults), config.owner()), true, true,
              false};
    }
    // A flat object belongs to the global layers where the model type has grids by layer kind.
    if (nested_defaults && kind == "sliding_attention") break;
    return {outer->with_defaults(base_values(defaults), config.owner()), true, false, false};
  }
  const ConfigNode none = config.child("rope_parameters", nlohmann::json::object());
  if (defaults.is_null()) return {none, false, nested_defaults, true};
  return {none.with_defaults(defaults, config.owner()), false, false, false};
}

std::optional<RopeParameters> read_rope_parameters(const ConfigNode& config, const RopeRequest& request) {
  const RopeEntry entry = find_rope_entry(config, request.kind);
  if (entry.null) return std::nullopt;
  RopeParameters p;
  p.type = request.scaled ? rope_type_of(entry) : RopeType::kDefault;
  p.theta = theta_of(config, entry, request);
  p.head_dim = request.head_dim;
  p.rotary_dim = rotary_dim_of(config, entry, request, p);
  const int lanes = p.type == RopeType::kProportional ? p.head_dim : p.rotary_dim;
  if (lanes < 1 || lanes > 2 * kMostPairs)
    entry.node.refuse("partial_rotary_factor", "expected a rotary width from 2 to " +
                                                   std::to_string(2 * kMostPairs) + " lanes, found " +
                                                   std::to_string(lanes));
  if (request.scaled) read_scaling(config, entry, p);
  report_unknown_keys(entry);
  check_grid(entry, p);
  return p;
}

}  // namespace rope

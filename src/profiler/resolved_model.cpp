#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "profiler/error.hpp"
#include "profiler/model_config.hpp"
#include "spectral/band_split.hpp"

namespace rope {
namespace {

using spectral::FrequencyGrid;
using spectral::RopeParameters;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

bool same_rope(const RopeParameters& a, const RopeParameters& b) {
  return a.type == b.type && a.theta == b.theta && a.head_dim == b.head_dim && a.rotary_dim == b.rotary_dim &&
         a.partial_factor == b.partial_factor && a.factor == b.factor && a.dynamic_alpha == b.dynamic_alpha &&
         a.attention_factor == b.attention_factor && a.mscale == b.mscale &&
         a.mscale_all_dim == b.mscale_all_dim && a.beta_fast == b.beta_fast && a.beta_slow == b.beta_slow &&
         a.truncate == b.truncate && a.low_freq_factor == b.low_freq_factor &&
         a.high_freq_factor == b.high_freq_factor && a.short_factor == b.short_factor &&
         a.long_factor == b.long_factor && a.max_position == b.max_position &&
         a.original_max_position == b.original_max_position;
}

/// Two spellings of one grid (an explicit and a derived factor) are the same model.
bool same_grid(const RopeParameters& a, const RopeParameters& b) {
  if (same_rope(a, b)) return true;
  if (a.head_dim != b.head_dim || spectral::depends_on_length(a) || spectral::depends_on_length(b))
    return false;
  const FrequencyGrid x = spectral::make_frequency_grid(a, 2), y = spectral::make_frequency_grid(b, 2);
  return x.omega == y.omega && x.attention_factor == y.attention_factor && x.rho == y.rho;
}

/// First fact of a layer in which two models differ, beside its grid; "" = none.
std::string fact_difference(const LayerModel& a, const LayerModel& b) {
  const auto text = [](const char* name, const std::string& x, const std::string& y) {
    return std::string(name) + " " + x + " against " + y;
  };
  if (a.has_attention != b.has_attention || a.rotates != b.rotates)
    return text("layer kind", a.kind + (a.rotates ? "" : " without rotation"),
                b.kind + (b.rotates ? "" : " without rotation"));
  if (!same(a.logit_scale, b.logit_scale))
    return text("logit scale", number(a.logit_scale), number(b.logit_scale));
  if (a.softcap != b.softcap) return text("attention softcap", number(a.softcap), number(b.softcap));
  if (a.window != b.window) return text("window", std::to_string(a.window), std::to_string(b.window));
  if (a.reversed != b.reversed)
    return text("rope direction", a.reversed ? "reversed" : "forward", b.reversed ? "reversed" : "forward");
  if (a.norm_after_epsilon != b.norm_after_epsilon) return "norm after the rotation";
  const auto& s = a.query_temperature;
  const auto& t = b.query_temperature;
  if (s.has_value() != t.has_value() ||
      (s && (s->slope != t->slope || s->period != t->period || s->shift != t->shift)))
    return "query temperature";
  return "";
}

std::string size_difference(const LayerModel& a, const LayerModel& b) {
  const auto differs = [](int x, int y) { return x > 0 && y > 0 && x != y; };
  if (differs(a.head_dim, b.head_dim))
    return "head_dim " + std::to_string(a.head_dim) + " against " + std::to_string(b.head_dim);
  if (differs(a.num_query_heads, b.num_query_heads))
    return "query heads " + std::to_string(a.num_query_heads) + " against " +
           std::to_string(b.num_query_heads);
  if (differs(a.num_kv_heads, b.num_kv_heads))
    return "key heads " + std::to_string(a.num_kv_heads) + " against " + std::to_string(b.num_kv_heads);
  return "";
}

std::string config_difference(const std::vector<LayerModel>& a, const std::vector<LayerModel>& b) {
  if (a.size() != b.size())
    return "number of layers " + std::to_string(a.size()) + " against " + std::to_string(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::string text = fact_difference(a[i], b[i]);
    if (text.empty()) text = size_difference(a[i], b[i]);
    if (text.empty() && a[i].rotates && !same_grid(a[i].rope, b[i].rope)) text = "rotary frequencies";
    if (!text.empty()) return "layer " + std::to_string(i) + ": " + text;
  }
  return "";
}

/// Largest relative difference; infinite where one is 0 and the other not, or the lengths differ.
double relative_difference(std::span<const double> stored, std::span<const double> expected) {
  if (stored.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] == expected[i]) continue;
    if (expected[i] == 0.0 || stored[i] == 0.0) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(stored[i] - expected[i]) / std::abs(expected[i]));
  }
  return worst;
}

constexpr double kAgreement = 1e-5;  // activation-format.md
constexpr const char* kOtherModel = "the config may belong to another model";

}  // namespace

/// Builds a ResolvedModel step by step.
class ModelResolver {
 public:
  ModelResolver(const ModelHeader& header, Trust trust, const std::vector<int>& stored_layers,
                const std::vector<std::int64_t>& windows)
      : header_(header), trust_(trust), windows_(windows) {
    std::sort(windows_.begin(), windows_.end());
    windows_.erase(std::unique(windows_.begin(), windows_.end()), windows_.end());
    if (header.num_layers < 1 || header.num_layers > 65536)
      fail("/model/num_layers", "1 to 65536", std::to_string(header.num_layers));
    model_.stored_.assign(static_cast<std::size_t>(header.num_layers), 0);
    model_.uses_inv_freq_.assign(static_cast<std::size_t>(header.num_layers), 0);
    for (const int layer : stored_layers)
      if (layer >= 0 && layer < header.num_layers) model_.stored_[static_cast<std::size_t>(layer)] = 1;
    model_.num_query_heads_ = header.num_query_heads;
  }

  ResolvedModel run(const std::optional<std::string>& config_override, const std::string& config_name) {
    take_config(config_override, config_name);
    if (!header_.inv_freq_shape.empty()) check_inv_freq_shape();
    if (model_.has_config_)
      check_sizes();
    else
      take_header();
    if (!header_.inv_freq_shape.empty()) reconcile_inv_freq();
    for (LayerModel& layer : model_.layers_) {
      if (header_.attention_scale && layer.has_attention) layer.logit_scale = *header_.attention_scale;
      layer.reversed = layer.reversed || header_.reversed;
    }
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& expected, const std::string& found,
                         const std::string& hint = {}) const {
    throw input_error(header_.file, path, expected, found, hint);
  }
  void warn(const std::string& sentence) {
    auto& all = model_.warnings_;
    if (std::find(all.begin(), all.end(), sentence) == all.end()) all.push_back(sentence);
  }
  bool stored(std::size_t layer) const { return model_.stored_[layer] != 0; }

  void take_config(const std::optional<std::string>& config_override, const std::string& config_name) {
    std::optional<ModelConfig> own, given;
    if (header_.config) own = parse_model_config(*header_.config, header_.file + ": /model/config");
    if (config_override) given = parse_model_config(*config_override, config_name);
    if (own && given) {
      const std::string difference = config_difference(own->layers, given->layers);
      if (!difference.empty())
        throw UserError(config_name + " disagrees with " + header_.file + ": /model/config: " + difference +
                            " (the cache's first)",
                        "leave out --config to use the cache's own");
    }
    if (!own && !given) {
      if (header_.inv_freq_shape.empty())
        fail("/model", "a config attribute or an inv_freq dataset", "neither",
             "store the text of config.json in the attribute config, or give the file with --config");
      return;
    }
    ModelConfig& config = own ? *own : *given;
    const std::string where = own ? header_.file + ": /model/config" : config_name;
    if (!config.refusal.empty())
      throw UserError(where + ": " + config.refusal, "this model cannot be profiled");
    if (config.layers.size() != static_cast<std::size_t>(header_.num_layers))
      fail("/model/num_layers", std::to_string(config.layers.size()) + " as in the config",
           std::to_string(header_.num_layers), kOtherModel);
    model_.has_config_ = true;
    model_.model_type_ = config.model_type;
    model_.layers_ = std::move(config.layers);
    model_.warnings_ = std::move(config.warnings);
  }

  static bool one_shape(const std::vector<LayerModel>& layers) {
    return std::all_of(layers.begin(), layers.end(), [&](const LayerModel& layer) {
      return !layer.has_attention || size_difference(layers.front(), layer).empty();
    });
  }

  /// Sizes of the header against those of the config, for layers that the file holds.
  void check_sizes() {
    const char* hint =
        one_shape(model_.layers_) ? kOtherModel : "layers that differ in shape belong in a file of their own";
    for (std::size_t i = 0; i < model_.layers_.size(); ++i) {
      LayerModel& layer = model_.layers_[i];
      if (!stored(i) || !layer.has_attention) continue;
      const auto check = [&](const char* name, int config, int header) {
        if (config != 0 && config != header)
          fail(std::string("/model/") + name,
               std::to_string(config) + ", as the config says of layer " + std::to_string(i) + " (" +
                   layer.kind + ")",
               std::to_string(header) + " in the cache", hint);
      };
      // Heads first: where they differ, so does a head_dim that the config derives from them.
      check("num_query_heads", layer.num_query_heads, header_.num_query_heads);
      check("num_kv_heads", layer.num_kv_heads, header_.num_kv_heads);
      check("head_dim", layer.head_dim, header_.head_dim);
      set_sizes(layer);
    }
  }

  void set_sizes(LayerModel& layer) const {
    layer.head_dim = header_.head_dim;
    layer.num_query_heads = header_.num_query_heads;
    layer.num_kv_heads = header_.num_kv_heads;
  }

  /// No config: the header and the stored frequencies are all there is.
  void take_header() {
    model_.layers_.resize(static_cast<std::size_t>(header_.num_layers));
    for (std::size_t i = 0; i < model_.layers_.size(); ++i) {
      LayerModel& layer = model_.layers_[i];
      layer.layer = static_cast<int>(i);
      layer.kind = "attention";
      layer.rope_type = "inv_freq";
      layer.rope.theta = 0.0;
      set_sizes(layer);
      layer.logit_scale = 1.0 / std::sqrt(static_cast<double>(header_.head_dim));
      model_.uses_inv_freq_[i] = 1;
    }
    warn("no config: sliding windows and layers without rotation are not known, none is assumed");
    warn("no config: the decay ratio rho of the frequency split is estimated from inv_freq");
    if (!header_.attention_scale) warn("no config and no attention_scale: 1/sqrt(head_dim) is assumed");
  }

  void check_inv_freq_shape() {
    const auto& shape = header_.inv_freq_shape;
    const std::int64_t layers = header_.num_layers, heads = header_.num_query_heads;
    const bool fits = (shape.size() == 1) || (shape.size() == 2 && shape[0] == layers) ||
                      (shape.size() == 3 && shape[0] == layers && shape[1] == heads);
    std::string found = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) found += (i ? ", " : "") + std::to_string(shape[i]);
    found += "]";
    const std::string expected = "[h], [" + std::to_string(layers) + ", h] or [" + std::to_string(layers) +
                                 ", " + std::to_string(heads) + ", h] with 2h <= head_dim (" +
                                 std::to_string(header_.head_dim) + ")";
    if (!fits || shape.back() < 1 || shape.back() > header_.head_dim / 2)
      fail("/model/inv_freq", expected, found);
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    if (count != static_cast<std::int64_t>(header_.inv_freq.size())) fail("/model/inv_freq", expected, found);
    if (shape.back() > 512)
      fail("/model/inv_freq", "at most 512 pairs per head", std::to_string(shape.back()));
    model_.inv_freq_shape_ = shape;
    model_.inv_freq_ = header_.inv_freq;
  }

  int rows_of_layer() const {
    return header_.inv_freq_shape.size() == 3 ? static_cast<int>(header_.inv_freq_shape[1]) : 1;
  }

  void check_values(int layer) const {
    for (int head = 0; head < rows_of_layer(); ++head)
      for (const double omega : model_.inv_freq_row(layer, head))
        if (!(omega >= 0.0 && omega <= std::numbers::pi))
          fail("/model/inv_freq", "frequencies from 0 to pi radians per token",
               number(omega) + " (layer " + std::to_string(layer) + ", head " + std::to_string(head) + ")");
  }

  void check_key_groups(int layer) const {
    const int rows = rows_of_layer();
    if (header_.key_rotation != Rotation::kPost || rows == 1) return;
    const int group = std::max(1, header_.num_query_heads / std::max(1, header_.num_kv_heads));
    for (int head = 0; head < rows; ++head) {
      const auto row = model_.inv_freq_row(layer, head),
                 first = model_.inv_freq_row(layer, head - head % group);
      if (!std::equal(row.begin(), row.end(), first.begin(), first.end()))
        fail("/model/inv_freq",
             "equal frequencies inside a key head's group, as its keys are stored after the rotation",
             "heads " + std::to_string(head - head % group) + " and " + std::to_string(head) + " of layer " +
                 std::to_string(layer) + " differ",
             "store keys before the rotation");
    }
  }

  /// Smallest over the windows of the largest difference over the layer's rows.
  double difference_of(const LayerModel& layer) {
    std::vector<std::int64_t> lengths = {2};
    if (spectral::depends_on_length(layer.rope)) {
      lengths = windows_;
      if (layer.rope.type == spectral::RopeType::kLongrope && !windows_.empty())
        lengths = {windows_.front(), windows_.back()};
    }
    double best = std::numeric_limits<double>::infinity();
    for (const std::int64_t length : lengths) {
      const FrequencyGrid grid = spectral::make_frequency_grid(layer.rope, length);
      double worst = 0.0;
      for (int head = 0; head < rows_of_layer(); ++head)
        worst = std::max(worst, relative_difference(model_.inv_freq_row(layer.layer, head), grid.omega));
      best = std::min(best, worst);
      if (best <= kAgreement) break;
    }
    return best;
  }

  /// As difference_of, but a layer like one seen before is not computed again.
  double cached_difference(const LayerModel& layer) {
    for (const auto& [seen, difference] : seen_) {
      const LayerModel& other = model_.layers_[static_cast<std::size_t>(seen)];
      if (!same_rope(other.rope, layer.rope)) continue;
      bool equal = true;
      for (int head = 0; equal && head < rows_of_layer(); ++head) {
        const auto a = model_.inv_freq_row(seen, head), b = model_.inv_freq_row(layer.layer, head);
        equal = std::equal(a.begin(), a.end(), b.begin(), b.end());
      }
      if (equal) return difference;
    }
    const double difference = difference_of(layer);
    if (seen_.size() < 16) seen_.emplace_back(layer.layer, difference);
    return difference;
  }

  void use_inv_freq(LayerModel& layer) {
    model_.uses_inv_freq_[static_cast<std::size_t>(layer.layer)] = 1;
    const int rows = rows_of_layer();
    bool turns = false;
    for (int head = 0; head < rows; ++head)
      for (const double omega : model_.inv_freq_row(layer.layer, head)) turns = turns || omega > 0.0;
    if (!turns) {
      layer.rotates = false;
      layer.rope_type = "none";
    }
    check_key_groups(layer.layer);
  }

  void reconcile_inv_freq() {
    for (std::size_t i = 0; i < model_.layers_.size(); ++i) {
      LayerModel& layer = model_.layers_[i];
      if (!stored(i)) continue;
      if (!model_.has_config_) {
        check_values(layer.layer);
        use_inv_freq(layer);
        continue;
      }
      if (!layer.rotates) continue;
      check_values(layer.layer);
      const double difference = cached_difference(layer);
      if (difference <= kAgreement) {
        if (trust_ == Trust::kInvFreq && spectral::depends_on_length(layer.rope)) use_inv_freq(layer);
        continue;
      }
      const std::string found = std::isfinite(difference) ? "a relative difference of " + number(difference)
                                                          : "another number of turning pairs";
      const std::string what =
          "the config's frequencies (" + layer.rope_type + ", layer " + std::to_string(i) + ")";
      if (trust_ == Trust::kError)
        fail("/model/inv_freq", what + " within 1e-5", found,
             "say which holds with --trust inv_freq or --trust config");
      const bool stored_hold = trust_ == Trust::kInvFreq;
      warn("/model/inv_freq differs from the config: " +
           std::string(stored_hold ? "inv_freq" : "the config") + " is used, as --trust says");
      if (stored_hold) use_inv_freq(layer);
    }
  }

  const ModelHeader& header_;
  Trust trust_;
  std::vector<std::int64_t> windows_;
  ResolvedModel model_;
  std::vector<std::pair<int, double>> seen_;
};

ResolvedModel ResolvedModel::resolve(const ModelHeader& header,
                                     const std::optional<std::string>& config_override,
                                     const std::string& config_name, Trust trust,
                                     const std::vector<int>& stored_layers,
                                     const std::vector<std::int64_t>& windows) {
  return ModelResolver(header, trust, stored_layers, windows).run(config_override, config_name);
}

std::span<const double> ResolvedModel::inv_freq_row(int layer, int head) const {
  const auto pairs = static_cast<std::size_t>(inv_freq_shape_.back());
  std::size_t row = 0;
  if (inv_freq_shape_.size() == 2) row = static_cast<std::size_t>(layer);
  if (inv_freq_shape_.size() == 3)
    row = static_cast<std::size_t>(layer) * static_cast<std::size_t>(inv_freq_shape_[1]) +
          static_cast<std::size_t>(head);
  return std::span<const double>(inv_freq_).subspan(row * pairs, pairs);
}

bool ResolvedModel::depends_on_length(int layer) const {
  const auto i = static_cast<std::size_t>(layer);
  return layers_[i].rotates && !uses_inv_freq_[i] && spectral::depends_on_length(layers_[i].rope);
}

bool ResolvedModel::shared_by_heads(int layer) const {
  return !uses_inv_freq_[static_cast<std::size_t>(layer)] || inv_freq_shape_.size() < 3;
}

FrequencyGrid ResolvedModel::grid(int layer, int head, std::int64_t window) const {
  const auto i = static_cast<std::size_t>(layer);
  const LayerModel& facts = layers_[i];
  FrequencyGrid grid;
  if (!facts.rotates) return grid;
  if (!uses_inv_freq_[i]) return spectral::make_frequency_grid(facts.rope, window);
  if (has_config_) {
    // A and rho come from the config's theta and type, whatever frequencies ran.
    const FrequencyGrid from_config = spectral::make_frequency_grid(facts.rope, window);
    grid.attention_factor = from_config.attention_factor;
    grid.rho = from_config.rho;
  }
  const auto row = inv_freq_row(layer, head);
  grid.omega.assign(row.begin(), row.end());
  if (!has_config_) grid.rho = spectral::rho_of_grid(grid.omega);
  return grid;
}

std::vector<std::vector<int>> ResolvedModel::groups() const {
  std::vector<std::vector<int>> result;
  for (const LayerModel& layer : layers_) {
    const auto joins = [&](const std::vector<int>& group) {
      const LayerModel& first = layers_[static_cast<std::size_t>(group.front())];
      if (first.kind != layer.kind || first.rope_type != layer.rope_type) return false;
      if (!fact_difference(first, layer).empty() || first.head_dim != layer.head_dim ||
          first.num_query_heads != layer.num_query_heads || first.num_kv_heads != layer.num_kv_heads)
        return false;
      return same_grid_as(first.layer, *this, layer.layer);
    };
    const auto group = std::find_if(result.begin(), result.end(), joins);
    if (group == result.end())
      result.push_back({layer.layer});
    else
      group->push_back(layer.layer);
  }
  return result;
}

bool ResolvedModel::same_grid_as(int layer, const ResolvedModel& other, int other_layer) const {
  const auto i = static_cast<std::size_t>(layer), j = static_cast<std::size_t>(other_layer);
  if (!layers_[i].rotates || !other.layers_[j].rotates) return layers_[i].rotates == other.layers_[j].rotates;
  if (uses_inv_freq_[i] != other.uses_inv_freq_[j]) return false;
  if (!uses_inv_freq_[i]) return same_grid(layers_[i].rope, other.layers_[j].rope);
  if (has_config_ != other.has_config_ || (has_config_ && !same_rope(layers_[i].rope, other.layers_[j].rope)))
    return false;
  const bool by_head = inv_freq_shape_.size() == 3, other_by_head = other.inv_freq_shape_.size() == 3;
  if (by_head != other_by_head) return false;
  for (int head = 0; head < (by_head ? num_query_heads_ : 1); ++head) {
    const auto a = inv_freq_row(layer, head), b = other.inv_freq_row(other_layer, head);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
  }
  return true;
}

std::string ResolvedModel::difference(const ResolvedModel& other) const {
  if (layers_.size() != other.layers_.size())
    return "number of layers " + std::to_string(layers_.size()) + " against " +
           std::to_string(other.layers_.size());
  if (has_config_ != other.has_config_)
    return std::string(has_config_ ? "the first" : "the second") +
           " has a config, the other has only inv_freq";
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool both = stored_[i] && other.stored_[i];
    // Without a config nothing is known of layers that a file does not hold.
    if (!has_config_ && !both) continue;
    std::string text = fact_difference(layers_[i], other.layers_[i]);
    if (text.empty() && both) text = size_difference(layers_[i], other.layers_[i]);
    // Stored frequencies are known only of stored layers.
    const bool comparable = both || (!uses_inv_freq_[i] && !other.uses_inv_freq_[i]);
    if (text.empty() && comparable && !same_grid_as(static_cast<int>(i), other, static_cast<int>(i)))
      text = "rotary frequencies";
    if (!text.empty()) return "layer " + std::to_string(i) + ": " + text;
  }
  return "";
}

}  // namespace rope

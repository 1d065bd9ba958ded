#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/model_header.hpp"
#include "spectral/frequency_grid.hpp"

namespace rope {

/// A scale that depends on the query's absolute position p: 1 + slope * ln(1 + floor((p + shift) / period)).
struct QueryTemperature {
  double slope = 0.0, period = 0.0;
  int shift = 0;
  double at(std::int64_t position) const;
};

/// Everything about one decoder layer that the scores need, from config.json (../shared rope_types,
/// model_families).
struct LayerModel {
  int layer = 0;
  std::string kind;  ///< "full_attention", "sliding_attention", "chunked_attention", "linear_attention", ...
  bool has_attention = true;      ///< false: convolution, state space, linear attention
  bool rotates = true;            ///< false: NoPE layer or no attention; listed, not scored
  spectral::RopeParameters rope;  ///< meaningful where `rotates`
  std::string rope_type;          ///< as printed: "default", "yarn", ..., "none"
  int head_dim = 0, num_query_heads = 0, num_kv_heads = 0;  ///< of this layer; 0 = the config does not say
  double logit_scale = 0.0;  ///< c, without attention_factor; MLA's g^2 is in it
  double softcap = 0.0;      ///< attention softcap, 0 = none; acts in softmaxes only
  std::int64_t window = 0;   ///< sliding window or chunk in tokens, 0 = none
  std::optional<QueryTemperature> query_temperature;
  std::optional<double> norm_after_epsilon;  ///< weightless RMS norm of the whole head after the rotation
  bool reversed = false;                     ///< angles negated
};

/// A parsed config.json.
struct ModelConfig {
  std::string model_type;
  std::vector<LayerModel> layers;     ///< one per decoder layer
  std::vector<std::string> warnings;  ///< assumed defaults, ignored keys; each a sentence
  std::string refusal;  ///< why S(m) does not describe this model ("" = it does): bidirectional attention, a
                        ///< learned norm after the rotation. Its grids are still right.
};

/// The text of a config.json of at most 64 MiB. Throws UserError.
std::string read_config_file(const std::string& path);

/// Parses the text of a Hugging Face config.json. Throws UserError naming the key, prefixed with `where`
/// (file and HDF5 path, or the config's file name).
ModelConfig parse_model_config(std::string_view text, const std::string& where);

/// Which of config and /model/inv_freq holds when they differ by more than 1e-5 relative.
enum class Trust { kError, kInvFreq, kConfig };

/// The model that a set of caches was captured from: config, header and stored frequencies reconciled.
class ResolvedModel {
 public:
  /// `config_override`: text of `--config F` (used when the header has none; a disagreement is an error).
  /// `stored_layers`: layers that the file holds (rows of inv_freq for others are ignored).
  /// `windows`: every example's window (length-dependent grids are compared with inv_freq at these).
  static ResolvedModel resolve(const ModelHeader& header, const std::optional<std::string>& config_override,
                               const std::string& config_name, Trust trust,
                               const std::vector<int>& stored_layers,
                               const std::vector<std::int64_t>& windows);

  const std::string& model_type() const { return model_type_; }
  const std::vector<LayerModel>& layers() const { return layers_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// True where the grid of this layer differs between examples.
  bool depends_on_length(int layer) const;
  /// Grid of one query head for an example of `window` tokens (the example's own, not the layer's cap).
  spectral::FrequencyGrid grid(int layer, int head, std::int64_t window) const;
  /// Same grid for every head of the layer (no [L, Hq, h] dataset in use).
  bool shared_by_heads(int layer) const;
  /// Layers whose facts and grids are all equal, each group in rising order, groups by their first layer.
  std::vector<std::vector<int>> groups() const;

  /// First difference in what decides the scores (grid, scale, window, ... of every layer), or empty. For
  /// messages.
  std::string difference(const ResolvedModel& other) const;

 private:
  bool has_config_ = false;
  std::string model_type_;
  std::vector<LayerModel> layers_;
  std::vector<std::string> warnings_;
  std::vector<char> stored_;         // [num_layers] the file holds this layer
  std::vector<char> uses_inv_freq_;  // [num_layers] stored frequencies hold, not the config's
  std::vector<std::int64_t> inv_freq_shape_;
  std::vector<double> inv_freq_;
  int num_query_heads_ = 0;

  std::span<const double> inv_freq_row(int layer, int head) const;
  bool same_grid_as(int layer, const ResolvedModel& other, int other_layer) const;
  friend class ModelResolver;
};

}  // namespace rope

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope {

enum class Rotation { kPre, kPost };  ///< content vector before the rotary step, or the vector right after it

/// Group /model of one activation cache, as stored (activation-format.md). Filled by ActivationFile.
struct ModelHeader {
  std::string file;  ///< for messages
  std::string name;
  int num_layers = 0, num_query_heads = 0, num_kv_heads = 0, head_dim = 0;
  spectral::PairLayout layout = spectral::PairLayout::kHalf;
  Rotation query_rotation = Rotation::kPre, key_rotation = Rotation::kPre;
  bool reversed = false;                     ///< rope_direction = "reversed": angles negated
  std::optional<std::string> config;         ///< text of config.json
  std::optional<double> attention_scale;     ///< replaces the config's softmax scale on every layer
  std::vector<std::int64_t> inv_freq_shape;  ///< [] when absent; [h] | [L, h] | [L, Hq, h]
  std::vector<double> inv_freq;
  std::vector<double> sink_logit;  ///< [] or [num_layers * num_query_heads]
};

}  // namespace rope

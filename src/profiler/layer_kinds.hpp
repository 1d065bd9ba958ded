#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/config_node.hpp"
#include "profiler/model_families.hpp"

namespace rope {

/// What one decoder layer is, before any size or frequency.
struct LayerKind {
  std::string name = "full_attention";  ///< today's Hugging Face name; old ones are translated
  bool attention = true;                ///< has softmax attention with queries and keys
  bool rotates = true;                  ///< false: NoPE layer
  std::int64_t window = 0;              ///< sliding window or chunk in tokens, 0 = none
};

/// Kinds of `count` layers. Which layers slide follows activation-format.md: `layer_types` where present;
/// else `use_sliding_window: false`, a null or a 0 window: none; else layers >= `max_window_layers`; else the
/// pattern of the config or the model type; else every layer. Throws UserError naming the key.
std::vector<LayerKind> read_layer_kinds(const ConfigNode& config, const ModelFamily& family, int count);

}  // namespace rope

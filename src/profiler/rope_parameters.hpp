#pragma once

#include <optional>
#include <string>

#include "profiler/config_node.hpp"
#include "profiler/model_families.hpp"
#include "spectral/frequency_grid.hpp"

namespace rope {

/// The rotary parameters of one layer kind as the config spells them: `rope_scaling`, `rope_parameters`, flat
/// or nested by layer kind, or the defaults of the model type (../shared/reference/rope_types.md §1).
struct RopeEntry {
  ConfigNode node;       ///< own values first, then the model type's
  bool present = false;  ///< the config itself holds such an object
  bool nested = false;   ///< ... keyed by layer kind
  bool null = false;     ///< the entry of this kind is null: it does not rotate
};
RopeEntry find_rope_entry(const ConfigNode& config, const std::string& kind);

/// What the rotary parameters of one layer are read for.
struct RopeRequest {
  std::string kind;                      ///< "full_attention", "sliding_attention", ...
  int head_dim = 0;                      ///< lanes of the head
  std::optional<int> rotary_dim;         ///< where another key fixes it (multi-head latent attention)
  std::optional<double> theta, partial;  ///< values of this very layer (Step-3.5), before any other
  bool scaled = true;                    ///< false: the plain grid, whatever scaling the entry names
};

/// Parameters of a layer's grid; a grid is built from them once, so what is returned is usable for every
/// length. nullopt: does not rotate (null entry). Throws UserError naming the key.
std::optional<spectral::RopeParameters> read_rope_parameters(const ConfigNode& config,
                                                             const RopeRequest& request);

}  // namespace rope

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/model_config.hpp"
#include "spectral/pair_coefficients.hpp"

namespace rope {

/// Pairs and margins of a larger norm count as overflow (theory §3: non-finite): sums of their scores over a
/// window, or over pairs, could leave float64.
inline constexpr double kLargestNorm = 1e290;

/// One side (queries or keys) of one head, and what turns its stored rows into content vectors in float64.
struct SideSource {
  const RawBlock* block = nullptr;
  std::int64_t head = 0;  ///< row of the block's head axis
  Rotation rotation = Rotation::kPre;
  double attention_factor = 1.0;  ///< A_x of theory §1: the grid's A for a `pre` side, 1 for a `post` side
};

/// Everything about a head but its vectors.
struct HeadSetting {
  const LayerModel* layer = nullptr;
  const spectral::LaneMap* lanes = nullptr;
  SideSource query, key;

  /// c A_q A_k and c: what multiplies rotary products and plain tail products.
  double rotary_scale() const { return layer->logit_scale * query.attention_factor * key.attention_factor; }
  double tail_scale() const { return layer->logit_scale; }
};

/// Content vectors [slots, head_dim] of the named token slots: converted, un-rotated by the token's own
/// position, the weightless norm after the rotation and (queries) the temperature applied, reversed angles
/// turned forward. NaN and infinities pass through.
void load_content_vectors(const HeadSetting& head, ActivationFile::Side side,
                          std::span<const std::int64_t> slots, std::span<const long long> positions,
                          std::vector<double>& rows);

}  // namespace rope

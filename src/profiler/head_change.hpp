#pragma once

#include <cstdint>
#include <vector>

#include "profiler/model_config.hpp"
#include "spectral/frequency_grid.hpp"

namespace rope {

/// What is done to the pairs of one head (theory §7); [h] over all pairs of its grid.
struct HeadChange {
  std::vector<char> frozen;   ///< 1: the pair stops turning, omega_n -> 0; empty: none
  std::vector<double> scale;  ///< finite factors of z_n, applied to the queries; empty: all 1
};

/// Changes to the heads of a run: what is scored is a model that was changed so, from vectors of the
/// unchanged one.
class HeadChanges {
 public:
  virtual ~HeadChanges() = default;
  /// Of one query head in an example of `example_window` tokens (its own, not the layer's cap). layer and
  /// grid: the head's, unchanged. Called by one thread at a time.
  virtual HeadChange of(const LayerModel& layer, int head, std::int64_t example_window,
                        const spectral::FrequencyGrid& grid) const = 0;
};

}  // namespace rope

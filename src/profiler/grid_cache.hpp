#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "profiler/activation_set.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/band_split.hpp"
#include "spectral/window_moments.hpp"

namespace rope {

/// A head's frequencies and the lanes that they turn. Equal grids are one object.
struct Grid {
  spectral::FrequencyGrid frequencies;
  spectral::LaneMap lanes;
};

/// A grid at one window: what moments and sweeps need. Built on first use, then read by many threads.
class WindowedGrid {
 public:
  WindowedGrid(const Grid& grid, std::int64_t window, const spectral::SplitRule& split);

  const Grid& grid() const { return *grid_; }
  std::int64_t window() const { return window_; }
  const std::vector<char>& high() const { return high_; }  ///< [n_freq] H(M) over the rotating pairs
  std::int64_t high_pairs() const { return high_pairs_; }
  const spectral::WindowMoments& moments() const;
  const spectral::SweepPlan& plan() const;

 private:
  const Grid* grid_;
  std::int64_t window_;
  std::vector<char> high_;
  std::int64_t high_pairs_ = 0;
  mutable std::once_flag moments_once_, plan_once_;
  mutable std::unique_ptr<spectral::WindowMoments> moments_;
  mutable std::unique_ptr<spectral::SweepPlan> plan_;
};

/// Grids of a set of caches, each made once. Not thread-safe; what it hands out is.
class GridCache {
 public:
  GridCache(const ActivationSet& set, const spectral::SplitRule& split) : set_(&set), split_(split) {}

  /// Grid of a query head for an example of `example_window` tokens. Lives as long as the cache.
  const Grid& grid(int file, int layer, int head, std::int64_t example_window);
  /// The same at a layer's own window. Lives until the next call of forget_windows().
  const WindowedGrid& at_window(const Grid& grid, std::int64_t window);
  /// Drops what belongs to windows, so that memory does not grow with their number.
  void forget_windows() { windowed_.clear(); }

 private:
  const Grid& intern(const spectral::FrequencyGrid& frequencies, spectral::PairLayout layout, int head_dim);

  const ActivationSet* set_;
  spectral::SplitRule split_;
  using GridKey = std::tuple<std::vector<double>, double, double, int, int>;
  std::map<GridKey, std::unique_ptr<Grid>> grids_;
  std::map<std::tuple<int, int, int>, const Grid*>
      fixed_;  // (file, layer, head) where length does not matter
  std::map<std::pair<const Grid*, std::int64_t>, std::unique_ptr<WindowedGrid>> windowed_;
};

}  // namespace rope

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
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
  std::vector<double> log_omega;  ///< of the lanes

  /// What the sweeps of all windows share: made on first use, alive as long as someone holds it.
  std::shared_ptr<const spectral::SweepBasis> basis() const;

  struct BasisSlot {
    std::mutex lock;
    std::weak_ptr<const spectral::SweepBasis> basis;
  };
  std::unique_ptr<BasisSlot> slot = std::make_unique<BasisSlot>();
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
  /// About the memory of both when built.
  std::int64_t bytes() const;
  /// True for the first who asks: that one sees to it that the plan (the moments) is made in time. For one
  /// thread.
  bool claim_plan() const { return !std::exchange(plan_claimed_, true); }
  bool claim_moments() const { return !std::exchange(moments_claimed_, true); }

 private:
  const Grid* grid_;
  std::int64_t window_;
  std::vector<char> high_;
  std::int64_t high_pairs_ = 0;
  mutable bool plan_claimed_ = false, moments_claimed_ = false;
  mutable std::once_flag moments_once_, plan_once_;
  mutable std::unique_ptr<spectral::WindowMoments> moments_;
  mutable std::unique_ptr<spectral::SweepPlan> plan_;
};

/// Grids of a set of caches, each made once. Not thread-safe; what it hands out is.
class GridCache {
 public:
  /// `bytes`: how much of what belongs to windows is kept for later examples, the last used first.
  GridCache(const ActivationSet& set, const spectral::SplitRule& split, std::int64_t bytes)
      : set_(&set), split_(split), limit_(bytes) {}

  /// Grid of a query head for an example of `example_window` tokens. Lives as long as the cache.
  const Grid& grid(int file, int layer, int head, std::int64_t example_window);
  /// A grid of a file's heads with some of its pairs stopped: omega = 0 where frozen [h] is set. rho and A
  /// stay (theory §§5, 7). The grid itself where none is.
  const Grid& with_still_pairs(int file, const Grid& grid, const std::vector<char>& frozen);
  /// The same at a layer's own window.
  std::shared_ptr<const WindowedGrid> at_window(const Grid& grid, std::int64_t window);

 private:
  const Grid& intern(const spectral::FrequencyGrid& frequencies, spectral::PairLayout layout, int head_dim);

  const ActivationSet* set_;
  spectral::SplitRule split_;
  std::int64_t limit_, kept_bytes_ = 0;
  using GridKey = std::tuple<std::vector<double>, double, double, int, int>;
  std::map<GridKey, std::unique_ptr<Grid>> grids_;
  std::map<std::tuple<int, int, int>, const Grid*>
      fixed_;  // (file, layer, head) where length does not matter
  std::map<std::tuple<int, int, int>, const Grid*> of_length_;  // where it does, for one length
  std::int64_t length_ = -1;
  using WindowKey = std::pair<const Grid*, std::int64_t>;
  struct Kept {
    std::shared_ptr<const WindowedGrid> grid;
    std::list<WindowKey>::iterator place;
  };
  std::list<WindowKey> recent_;  // last used first
  std::map<WindowKey, Kept> windowed_;
};

}  // namespace rope

#include "profiler/grid_cache.hpp"

#include <algorithm>

namespace rope {

WindowedGrid::WindowedGrid(const Grid& grid, std::int64_t window, const spectral::SplitRule& split)
    : grid_(&grid), window_(window) {
  const auto mask =
      spectral::high_frequency_mask(split, grid.frequencies.omega, grid.frequencies.rho, window);
  for (int pair : grid.lanes.pair) high_.push_back(mask[static_cast<std::size_t>(pair)]);
  high_pairs_ = std::count(high_.begin(), high_.end(), char{1});
}

const spectral::WindowMoments& WindowedGrid::moments() const {
  std::call_once(moments_once_,
                 [&] { moments_ = std::make_unique<spectral::WindowMoments>(grid_->lanes.omega, window_); });
  return *moments_;
}

const spectral::SweepPlan& WindowedGrid::plan() const {
  std::call_once(plan_once_,
                 [&] { plan_ = std::make_unique<spectral::SweepPlan>(grid_->lanes.omega, window_); });
  return *plan_;
}

const Grid& GridCache::grid(int file, int layer, int head, std::int64_t example_window) {
  const ResolvedModel& model = set_->model(file);
  const bool fixed = !model.depends_on_length(layer);
  const std::tuple<int, int, int> place{file, layer, model.shared_by_heads(layer) ? 0 : head};
  if (fixed)
    if (const auto found = fixed_.find(place); found != fixed_.end()) return *found->second;
  const ModelHeader& header = set_->files()[static_cast<std::size_t>(file)].model();
  const Grid& grid = intern(model.grid(layer, head, example_window), header.layout, header.head_dim);
  if (fixed) fixed_[place] = &grid;
  return grid;
}

const Grid& GridCache::intern(const spectral::FrequencyGrid& frequencies, spectral::PairLayout layout,
                              int head_dim) {
  GridKey key{frequencies.omega, frequencies.attention_factor, frequencies.rho, static_cast<int>(layout),
              head_dim};
  std::unique_ptr<Grid>& slot = grids_[std::move(key)];
  if (!slot)
    slot = std::make_unique<Grid>(
        Grid{frequencies, spectral::make_lane_map(frequencies.omega, layout, head_dim)});
  return *slot;
}

const WindowedGrid& GridCache::at_window(const Grid& grid, std::int64_t window) {
  std::unique_ptr<WindowedGrid>& slot = windowed_[{&grid, window}];
  if (!slot) slot = std::make_unique<WindowedGrid>(grid, window, split_);
  return *slot;
}

}  // namespace rope

#include "profiler/grid_cache.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/phase_clock.hpp"

namespace rope {

WindowedGrid::WindowedGrid(const Grid& grid, std::int64_t window, const spectral::SplitRule& split)
    : grid_(&grid), window_(window) {
  const auto mask =
      spectral::high_frequency_mask(split, grid.frequencies.omega, grid.frequencies.rho, window);
  for (int pair : grid.lanes.pair) high_.push_back(mask[static_cast<std::size_t>(pair)]);
  high_pairs_ = std::count(high_.begin(), high_.end(), char{1});
}

std::int64_t WindowedGrid::bytes() const {
  constexpr std::int64_t kEntries = 2048;  // factors of the moments, and the basis of the sweeps
  return static_cast<std::int64_t>(high_.size() * sizeof(double)) * kEntries;
}

const spectral::WindowMoments& WindowedGrid::moments() const {
  std::call_once(moments_once_, [&] {
    const PhaseScope scope(Phase::kPlans);
    moments_ = std::make_unique<spectral::WindowMoments>(grid_->lanes.omega, window_);
  });
  return *moments_;
}

std::shared_ptr<const spectral::SweepBasis> Grid::basis() const {
  const std::lock_guard guard(slot->lock);
  std::shared_ptr<const spectral::SweepBasis> shared = slot->basis.lock();
  if (!shared) slot->basis = shared = std::make_shared<const spectral::SweepBasis>(lanes.omega);
  return shared;
}

const spectral::SweepPlan& WindowedGrid::plan() const {
  std::call_once(plan_once_, [&] {
    const PhaseScope scope(Phase::kPlans);
    plan_ = std::make_unique<spectral::SweepPlan>(grid_->basis(), window_);
  });
  return *plan_;
}

const Grid& GridCache::grid(int file, int layer, int head, std::int64_t example_window) {
  const ResolvedModel& model = set_->model(file);
  const bool fixed = !model.depends_on_length(layer);
  const std::tuple<int, int, int> place{file, layer, model.shared_by_heads(layer) ? 0 : head};
  if (!fixed && length_ != example_window) {
    of_length_.clear();
    length_ = example_window;
  }
  auto& known = fixed ? fixed_ : of_length_;
  if (const auto found = known.find(place); found != known.end()) return *found->second;
  const ModelHeader& header = set_->files()[static_cast<std::size_t>(file)].model();
  const Grid& grid = intern(model.grid(layer, head, example_window), header.layout, header.head_dim);
  known[place] = &grid;
  return grid;
}

const Grid& GridCache::with_still_pairs(int file, const Grid& grid, const std::vector<char>& frozen) {
  spectral::FrequencyGrid changed = grid.frequencies;
  for (std::size_t n = 0; n < frozen.size(); ++n)
    if (frozen[n]) changed.omega[n] = 0.0;
  if (changed.omega == grid.frequencies.omega) return grid;
  const ModelHeader& header = set_->files()[static_cast<std::size_t>(file)].model();
  return intern(changed, header.layout, header.head_dim);
}

const Grid& GridCache::intern(const spectral::FrequencyGrid& frequencies, spectral::PairLayout layout,
                              int head_dim) {
  GridKey key{frequencies.omega, frequencies.attention_factor, frequencies.rho, static_cast<int>(layout),
              head_dim};
  std::unique_ptr<Grid>& slot = grids_[std::move(key)];
  if (!slot) {
    slot = std::make_unique<Grid>(
        Grid{frequencies, spectral::make_lane_map(frequencies.omega, layout, head_dim), {}});
    for (const double omega : slot->lanes.omega) slot->log_omega.push_back(std::log(omega));
  }
  return *slot;
}

std::shared_ptr<const WindowedGrid> GridCache::at_window(const Grid& grid, std::int64_t window) {
  const WindowKey key{&grid, window};
  if (const auto found = windowed_.find(key); found != windowed_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second.place);
    return found->second.grid;
  }
  auto made = std::make_shared<const WindowedGrid>(grid, window, split_);
  recent_.push_front(key);
  windowed_[key] = {made, recent_.begin()};
  kept_bytes_ += made->bytes();
  while (kept_bytes_ > limit_ && recent_.size() > 1) {
    const auto oldest = windowed_.find(recent_.back());
    kept_bytes_ -= oldest->second.grid->bytes();
    windowed_.erase(oldest);
    recent_.pop_back();
  }
  return made;
}

}  // namespace rope

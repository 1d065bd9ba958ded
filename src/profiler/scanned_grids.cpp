#include "profiler/scanned_grids.hpp"

#include <algorithm>

namespace rope {

std::size_t ScannedGrids::number(const ScanBlock& block, const SetHead& head) {
  const Grid& grid = block.job->grid->grid();
  const auto known = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& seen) {
    return seen.facts.omega == grid.lanes.omega && seen.facts.pair == grid.lanes.pair &&
           seen.facts.rho == grid.frequencies.rho;
  });
  const LayerModel& layer = *block.job->setting.layer;
  Seen& seen = known == seen_.end() ? seen_.emplace_back() : *known;
  if (seen.facts.omega.empty()) {
    seen.facts.omega = grid.lanes.omega;
    seen.facts.pair = grid.lanes.pair;
    seen.facts.rho = grid.frequencies.rho;
    seen.facts.rope_type = layer.rope_type;
    seen.facts.theta = layer.rope.theta;
  }
  seen.layers.insert(head.layer);
  seen.facts.layer_window = std::max(seen.facts.layer_window, layer.window);
  if (layer.window == 0) seen.unlimited = true;
  return static_cast<std::size_t>(&seen - seen_.data());
}

std::vector<GridFacts> ScannedGrids::facts() const {
  std::vector<GridFacts> list;
  for (const Seen& seen : seen_) {
    list.push_back(seen.facts);
    list.back().layers.assign(seen.layers.begin(), seen.layers.end());
    if (seen.unlimited) list.back().layer_window = 0;
  }
  return list;
}

}  // namespace rope

#include "profiler/margin_measures.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "spectral/pair_coefficients.hpp"

namespace rope {
namespace {

constexpr int kDroppedBits = 40;  // of the 52 of a mantissa: 2^12 bins per power of two
constexpr double kQuantiles[] = {0.1, 0.5, 0.9};

struct BlockMeasures : ScanResult {
  double tau = 0;
  std::vector<double> response;
};

/// One task on one grid.
struct Measured {
  double tau = 0;
  ResponseQuantiles response;
};

std::unique_ptr<ScanResult> measure_block(const ScanBlock& block, const SweepEngine& engine) {
  auto result = std::make_unique<BlockMeasures>();
  const WindowedGrid& grid = *block.job->grid;
  if (grid.window() < 2) return result;
  spectral::CoefficientBatch margins;
  const TripletPart part = block.job->triplet_part(block.index);
  const TripletBlock triplets = std::move(score_triplets({&part, 1}, grid.moments(), margins).front());
  spectral::SweepRequest request;
  request.response_max = request.reversals = true;
  spectral::SweepResult swept;
  engine.sweep(grid.plan(), margins, request, swept);
  std::vector<double> norm(margins.n_pairs);
  spectral::pair_norms(margins, norm);
  for (std::size_t t = 0; t < triplets.valid.size(); ++t) {
    const std::size_t lane = triplets.first_lane + t;
    // A margin of the tail alone does not respond, and has no norm to respond by.
    if (!triplets.valid[t] || !(norm[lane] > 0)) continue;
    const double exact = static_cast<double>(swept.reversals[lane]) / static_cast<double>(grid.window());
    result->tau = std::max(result->tau, std::abs(triplets.reversal[t] - exact));
    result->response.push_back(swept.response_max[lane] / norm[lane]);
  }
  return result;
}

}  // namespace

void ResponseQuantiles::add(double value) {
  const auto key = [](double x) { return std::bit_cast<std::uint64_t>(x) >> kDroppedBits; };
  ++count_;
  if (bins_.empty()) {
    values_.push_back(value);
    if (values_.size() <= kExact) return;
    for (const double x : values_) ++bins_[key(x)];
    values_ = {};
  } else {
    ++bins_[key(value)];
  }
}

double ResponseQuantiles::order_statistic(std::int64_t rank) const {
  if (exact()) return values_[static_cast<std::size_t>(rank)];
  for (const auto& [key, count] : bins_) {
    if (rank < count)
      return std::bit_cast<double>((key << kDroppedBits) + (std::uint64_t{1} << (kDroppedBits - 1)));
    rank -= count;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double ResponseQuantiles::quantile(double q) const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values_.begin(), values_.end());
  const double place = q * static_cast<double>(count_ - 1);
  const auto below = static_cast<std::int64_t>(place);
  const double low = order_statistic(below), part = place - static_cast<double>(below);
  return part > 0 ? low + part * (order_statistic(below + 1) - low) : low;
}

MarginMeasures measure_margins(const CacheRun& run, const std::function<void(std::size_t)>& progress) {
  ScannedGrids grids;
  std::map<std::pair<std::size_t, std::size_t>, Measured> measured;  // (task, grid)
  const SweepEngine engine = run.resources().engine;
  ScanOptions options;
  options.unit = ScanUnit::kTriplets;
  run.scan(
      options, [&](const ScanBlock& block) { return measure_block(block, engine); },
      [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
        progress(block.example);
        const auto& found = static_cast<const BlockMeasures&>(*result);
        if (found.response.empty()) return;
        const SetHead& head = run.set().heads()[static_cast<std::size_t>(block.head)];
        Measured& to = measured[{run.task_index(block.example), grids.number(block, head)}];
        to.tau = std::max(to.tau, found.tau);
        for (const double response : found.response) to.response.add(response);
      });
  MarginMeasures measures;
  std::set<std::size_t> with_margin;
  for (const auto& [key, found] : measured) {
    MeasuredTask task;
    task.task = run.set().tasks()[key.first].name;
    task.grid = key.second;
    task.margins = found.response.count();
    task.tau = found.tau;
    for (const double q : kQuantiles) task.response.emplace_back(q, found.response.quantile(q));
    measures.exact_quantiles = measures.exact_quantiles && found.response.exact();
    measures.tasks.push_back(std::move(task));
    with_margin.insert(key.first);
  }
  for (std::size_t t = 0; t < run.set().tasks().size(); ++t)
    if (!with_margin.contains(t)) measures.without_margin.push_back(run.set().tasks()[t].name);
  measures.grids = grids.facts();
  return measures;
}

}  // namespace rope

#include "profiler/audit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Smaller of two, where NaN is no value.
double smaller(double a, double b) { return std::isnan(a) || b < a ? b : a; }

void widen(std::int64_t value, std::int64_t& low, std::int64_t& high) {
  low = std::min(low, value);
  high = std::max(high, value);
}

/// What layers must share to stand in one row; NaN equals NaN.
auto facts(const AuditLayers& a) {
  const auto bits = [](double x) { return std::isnan(x) ? -1.0 : x; };
  return std::tuple(a.kind, a.pairs_min, a.pairs_max, a.window_min, a.window_max, a.high_min, a.high_max,
                    a.prefix_min, a.prefix_max, bits(a.delta_min), bits(a.scaled_min), a.geometric,
                    a.satisfied, a.proved);
}

}  // namespace

AuditFold::AuditFold(const CacheRun& run, std::size_t exact_pairs)
    : run_(&run), sample_(exact_pairs), heads_(run.set().heads().size()) {
  const spectral::BandConstants constants = spectral::band_constants(run.scoring().split);
  result_.c = constants.c;
  result_.epsilon = constants.epsilon;
  result_.needed = 2 * constants.c / constants.epsilon;
}

void AuditFold::add(const ScanBlock& block, const AuditBlock& part) {
  result_.all_pairs += part.all_pairs;
  result_.undefined += part.undefined;
  result_.non_finite += part.non_finite;
  result_.without_distance += part.without_distance;
  result_.evaluated_again += part.evaluated_again;
  heads_[static_cast<std::size_t>(block.head)].add(part.tally);
  for (const AuditRow& row : part.rows) sample_.add(row);
  add_grid(block, *part.grid);
  const auto take = [&](const AuditedPair& pair, NamedPair& to) {
    if (pair.pair >= 0 && (to.values.pair < 0 || pair.ratio() > to.values.ratio())) to = named(block, pair);
  };
  take(part.nearest, result_.nearest);
  take(part.worst, result_.worst);
}

void AuditFold::add_grid(const ScanBlock& block, const AuditGrid& grid) {
  if (block.index != 0) return;
  const SetHead& head = run_->set().heads()[static_cast<std::size_t>(block.head)];
  const spectral::SeparationCheck& check = grid.separation();
  const auto pairs = std::ssize(grid.factors()), prefix = static_cast<std::int64_t>(check.largest_prefix),
             size = static_cast<std::int64_t>(check.size);
  const std::size_t h = grid.factors().size();
  result_.rounding_response = std::max(result_.rounding_response, spectral::response_rounding(h));
  result_.rounding_norm_floor = std::max(result_.rounding_norm_floor, spectral::norm_floor_rounding(h));
  const auto [found, is_new] = grids_.try_emplace(head.layer);
  AuditLayers& layer = found->second;
  if (is_new) {
    layer.layers = {head.layer};
    layer.kind = run_->set().layer(head.layer).kind;
    layer.pairs_min = layer.pairs_max = pairs;
    layer.window_min = layer.window_max = grid.grid().window();
    layer.high_min = layer.high_max = size;
    layer.prefix_min = layer.prefix_max = prefix;
    layer.delta_min = layer.scaled_min = kNaN;
  }
  widen(pairs, layer.pairs_min, layer.pairs_max);
  widen(grid.grid().window(), layer.window_min, layer.window_max);
  widen(size, layer.high_min, layer.high_max);
  widen(prefix, layer.prefix_min, layer.prefix_max);
  layer.geometric = layer.geometric && grid.geometric();
  if (size == 0) return;
  layer.delta_min = smaller(layer.delta_min, check.delta);
  layer.scaled_min = smaller(layer.scaled_min, check.scaled);
  layer.satisfied = layer.satisfied && check.satisfied;
  layer.proved = layer.proved && check.proved;
}

NamedPair AuditFold::named(const ScanBlock& block, const AuditedPair& pair) const {
  const PartSlots& slots = *block.job->slots;
  const SetHead& head = run_->set().heads()[static_cast<std::size_t>(block.head)];
  const QueryRun at = query_runs(slots.first_pair, pair.pair, 1).front();
  NamedPair name;
  name.values = pair;
  name.task = run_->task_of(block.example).name;
  name.example_id = run_->examples()[block.example]->id;
  name.layer = head.layer;
  name.head = head.head;
  name.query_slot = slots.query_slot[static_cast<std::size_t>(at.query)];
  name.key_slot = slots.key_slot[static_cast<std::size_t>(at.first)];
  name.query_position = slots.query_position[static_cast<std::size_t>(at.query)];
  name.key_position = slots.key_position[static_cast<std::size_t>(at.first)];
  return name;
}

void AuditFold::set_groups(AuditResult& result) const {
  std::vector<std::vector<const AuditRow*>> by_head(heads_.size());
  std::vector<const AuditRow*> all;
  all.reserve(sample_.size());
  sample_.for_each([&](const AuditRow& row) {
    all.push_back(&row);
    by_head[row.head].push_back(&row);
  });
  result.all.statistics = audit_statistics(all, true);
  std::vector<const AuditRow*>().swap(all);
  std::vector<const AuditRow*> of_layer;
  for (std::size_t n = 0; n < heads_.size(); ++n) {
    const SetHead& head = run_->set().heads()[n];
    result.all.tally.add(heads_[n]);
    if (heads_[n].pairs > 0) {
      result.heads.push_back({head.layer, head.head, heads_[n], audit_statistics(by_head[n], false)});
      if (result.layers.empty() || result.layers.back().layer != head.layer)
        result.layers.push_back({head.layer, -1, {}, {}});
      result.layers.back().tally.add(heads_[n]);
      of_layer.insert(of_layer.end(), by_head[n].begin(), by_head[n].end());
    }
    std::vector<const AuditRow*>().swap(by_head[n]);
    if (n + 1 < heads_.size() && run_->set().heads()[n + 1].layer == head.layer) continue;
    if (!of_layer.empty()) result.layers.back().statistics = audit_statistics(of_layer, false);
    of_layer.clear();
  }
}

AuditResult AuditFold::finish() const {
  AuditResult result = result_;
  result.exact = sample_.exact();
  result.sampled = static_cast<std::int64_t>(sample_.size());
  result.rank_error = sample_.rank_error();
  set_groups(result);
  for (const auto& [number, layer] : grids_) {
    AuditLayers row = layer;
    if (std::isnan(row.delta_min)) row.satisfied = row.proved = false;
    const auto same = std::find_if(result.grids.begin(), result.grids.end(),
                                   [&](const AuditLayers& other) { return facts(other) == facts(row); });
    if (same == result.grids.end())
      result.grids.push_back(row);
    else
      same->layers.push_back(number);
  }
  return result;
}

AuditResult run_audit(const CacheRun& run, const AuditOptions& options) {
  AuditGrids grids(run.scoring().split);
  AuditFold fold(run, options.exact_pairs);
  std::int64_t done = 0;
  run.scan(
      {ScanUnit::kPairs, 0},
      [&](const ScanBlock& block) { return audit_block(block, grids.of(block.job->grid)); },
      [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
        fold.add(block, static_cast<const AuditBlock&>(*result));
        const auto before = static_cast<std::int64_t>(block.example);  // examples that are done
        if (options.progress && before > done) options.progress(before - done);
        done = std::max(done, before);
      });
  return fold.finish();
}

}  // namespace rope

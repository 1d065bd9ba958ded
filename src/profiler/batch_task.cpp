#include "profiler/batch_task.hpp"

#include <algorithm>

#include "profiler/phase_clock.hpp"

namespace rope {
namespace {

constexpr std::int64_t kLaneStep = 48;                          // a group of the kernel
constexpr std::int64_t kMostPositions = std::int64_t{1} << 26;  // pairs times distances of a task
constexpr std::size_t kMostOpen = 256;                          // tasks being gathered

}  // namespace

std::int64_t task_lanes(std::int64_t most, std::int64_t window) {
  const std::int64_t lanes = kMostPositions / window / kLaneStep * kLaneStep;
  return std::max(kLaneStep, std::min(most, lanes));
}

void BatchPacker::add(const std::shared_ptr<HeadJob>& job) {
  for (std::int64_t block = 0; block < job->pair_blocks(); ++block)
    add(job, BatchTask::Kind::kPairs, job->sweeps_pairs(), block, job->pair_part(block).pairs());
  for (std::int64_t block = 0; block < job->triplet_blocks(); ++block)
    add(job, BatchTask::Kind::kTriplets, job->sweeps_triplets(), block, job->triplet_part(block).triplets());
}

void BatchPacker::add(const std::shared_ptr<HeadJob>& job, BatchTask::Kind kind, bool sweep,
                      std::int64_t block, std::int64_t lanes) {
  const double softcap = sweep && kind == BatchTask::Kind::kPairs ? job->setting.layer->softcap : 0.0;
  const Key key{job->grid.get(), softcap, kind, sweep};
  const std::int64_t full = task_lanes(lanes_, sweep ? job->grid->window() : 1);
  if (const auto found = open_.find(key); found != open_.end() && found->second.lanes + lanes > full) {
    sink_(std::move(found->second));
    open_.erase(found);
  }
  if (open_.size() >= kMostOpen) flush();
  BatchTask& task = open_[key];
  if (task.parts.empty()) {
    task.kind = kind;
    task.sweep = sweep;
    task.grid = job->grid;
    task.order_grid = job->order_grid;
    task.softcap = softcap;
    task.parts.reserve(32);
  }
  task.parts.push_back({job, block});
  task.lanes += lanes;
  if (task.lanes < full) return;
  sink_(std::move(task));
  open_.erase(key);
}

void BatchPacker::flush() {
  for (auto& [key, task] : open_) sink_(std::move(task));
  open_.clear();
}

void BatchScorer::run(const BatchTask& task, const std::function<void(HeadJob&)>& finished) {
  for (const BatchPart& part : task.parts) part.job->vectors->decode();
  switch (task.kind) {
    case BatchTask::Kind::kPlan:
      task.grid->plan();
      return;
    case BatchTask::Kind::kMoments:
      task.grid->moments();
      return;
    case BatchTask::Kind::kPairs:
      score_pair_blocks(task);
      break;
    case BatchTask::Kind::kTriplets:
      score_triplet_blocks(task);
      break;
  }
  for (const BatchPart& part : task.parts)
    if (part.job->done_one()) finished(*part.job);
}

void BatchScorer::score_pair_blocks(const BatchTask& task) {
  std::vector<PairPart> parts;
  for (const BatchPart& part : task.parts) parts.push_back(part.job->pair_part(part.block));
  std::vector<PairBlock> blocks;
  {
    const PhaseScope scope(Phase::kCoefficients);
    blocks = score_pairs(parts, task.grid->high(), batch_);
  }
  if (options_->logit_spread) {
    const spectral::WindowMoments& moments = task.grid->moments();
    const PhaseScope scope(Phase::kMoments);
    add_spread(moments, batch_, blocks);
  }
  if (task.sweep && options_->sweeps_pairs() && task.grid->window() >= 2) sweep_pairs(task, blocks);
  if (task.sweep && options_->orders_pairs()) order_pairs(task, blocks);
  for (std::size_t k = 0; k < blocks.size(); ++k)
    task.parts[k].job->put(task.parts[k].block, std::move(blocks[k].sums));
}

void BatchScorer::sweep_pairs(const BatchTask& task, std::vector<PairBlock>& blocks) {
  spectral::SweepRequest request;
  request.mean_response = request.response_max = options_->positional;
  request.effective_length = options_->length;
  request.aliasing = options_->aliasing;
  request.softcap = task.softcap;
  const spectral::SweepPlan& plan = task.grid->plan();
  const PhaseScope scope(Phase::kSweep);
  engine_->sweep(plan, batch_, request, swept_);
  for (PairBlock& block : blocks) add_sweep(swept_, block);
}

void BatchScorer::order_pairs(const BatchTask& task, std::vector<PairBlock>& blocks) {
  if (options_->near_far) {
    const spectral::WindowMoments& moments = task.order_grid->moments();
    const std::shared_ptr<const spectral::SweepBasis> basis = task.order_grid->grid().basis();
    const PhaseScope scope(Phase::kSweep);
    const spectral::NearFarOrder order =
        spectral::near_far_order(*basis, moments, task.order_grid->window(), batch_);
    for (PairBlock& block : blocks) add_near_far(order, block);
  }
  if (options_->barrier) {
    const std::vector<std::int64_t> counts = barrier_counts(task);
    const spectral::WindowMoments& moments = task.grid->moments();
    const PhaseScope scope(Phase::kMoments);
    const spectral::BarrierGaussian gaussian =
        spectral::barrier_gaussian(moments, task.grid->high(), batch_, *options_->barrier);
    for (PairBlock& block : blocks) add_barrier(counts, task.grid->window(), gaussian, block);
  }
}

// Of distances at which each lane exceeds the barrier: where S_0 - S(m) is negative.
std::vector<std::int64_t> BatchScorer::barrier_counts(const BatchTask& task) {
  spectral::barrier_margins(batch_, *options_->barrier, margins_);
  if (task.grid->window() >= 2) {
    spectral::SweepRequest request;
    request.reversals = true;
    const spectral::SweepPlan& plan = task.grid->plan();
    const PhaseScope scope(Phase::kSweep);
    engine_->sweep(plan, margins_, request, swept_);
    return swept_.reversals;
  }
  std::vector<std::int64_t> counts(margins_.n_pairs);
  for (std::size_t p = 0; p < counts.size(); ++p) counts[p] = spectral::score_at_zero(margins_, p) < 0;
  return counts;
}

void BatchScorer::score_triplet_blocks(const BatchTask& task) {
  std::vector<TripletPart> parts;
  for (const BatchPart& part : task.parts) parts.push_back(part.job->triplet_part(part.block));
  const spectral::WindowMoments& moments = task.grid->moments();
  std::vector<TripletBlock> blocks;
  {
    const PhaseScope scope(Phase::kCoefficients);
    blocks = score_triplets(parts, moments, batch_, task.sweep);
  }
  if (task.sweep) {
    spectral::SweepRequest request;
    request.reversals = true;
    const spectral::SweepPlan& plan = task.grid->plan();
    const PhaseScope scope(Phase::kSweep);
    engine_->sweep(plan, batch_, request, swept_);
    for (TripletBlock& block : blocks) add_exact_reversals(swept_.reversals, task.grid->window(), block);
  }
  for (std::size_t k = 0; k < blocks.size(); ++k) task.parts[k].job->put(task.parts[k].block, blocks[k].sums);
}

}  // namespace rope

#include "profiler/example_scorer.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>

#include "profiler/pair_scores.hpp"
#include "profiler/semantic_score.hpp"
#include "spectral/frequency_use.hpp"

namespace rope {
namespace {

constexpr std::size_t kRawBudget = std::size_t{64} << 20;  // bytes of stored vectors held at a time
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool does(HeadWork work, HeadWork what) { return (static_cast<int>(work) & static_cast<int>(what)) != 0; }

double mean(double sum, std::int64_t count) { return count > 0 ? sum / static_cast<double>(count) : kNaN; }

}  // namespace

HeadScores::HeadScores() { score.fill(kNaN); }

/// One head of one example: where its vectors lie, what to compute, where the result goes.
struct ExampleScorer::Job {
  HeadSetting setting;
  std::shared_ptr<const RawBlock> query, key;
  std::shared_ptr<const PartSlots> slots;
  const WindowedGrid* grid = nullptr;
  std::shared_ptr<const SlotPhases> phases;
  HeadWork work = HeadWork::kNone;
  HeadScores* result = nullptr;
  std::vector<PairSums> pairs;        // by block
  std::vector<TripletSums> triplets;  // by block

  void score_pair_block(std::int64_t block, const ScoringOptions& options);
  void score_triplet_block(std::int64_t block, const ScoringOptions& options);
  void finish(const ScoringOptions& options);
};

void ExampleScorer::Job::score_pair_block(std::int64_t block, const ScoringOptions& options) {
  const bool light = does(work, HeadWork::kWithoutSweep);
  spectral::CoefficientBatch batch;
  const PairPart part{
      &setting, slots.get(), block, phases.get(), light && options.usage, light && options.share};
  PairBlock scored = std::move(score_pairs({&part, 1}, grid->high(), batch).front());
  if (does(work, HeadWork::kSweepOnly) && grid->window() >= 2 && !setting.lanes->omega.empty()) {
    spectral::SweepRequest request;
    request.mean_response = request.response_max = options.positional;
    request.effective_length = options.length;
    request.aliasing = options.aliasing;
    request.softcap = setting.layer->softcap;
    if (request.mean_response || request.effective_length || request.aliasing) {
      spectral::SweepResult swept;
      spectral::sweep_cpu(grid->plan(), batch, request, swept);
      add_sweep(swept, scored);
    }
  }
  pairs[static_cast<std::size_t>(block)] = std::move(scored.sums);
}

void ExampleScorer::Job::score_triplet_block(std::int64_t block, const ScoringOptions& options) {
  spectral::CoefficientBatch margins;
  const TripletPart part{&setting, slots.get(), block, phases.get()};
  TripletBlock scored = std::move(score_triplets({&part, 1}, grid->moments(), margins).front());
  if (options.exact_reversal && does(work, HeadWork::kSweepOnly) && grid->window() >= 2) {
    spectral::SweepRequest request;
    request.reversals = true;
    spectral::SweepResult swept;
    spectral::sweep_cpu(grid->plan(), margins, request, swept);
    add_exact_reversals(swept.reversals, grid->window(), scored);
  }
  triplets[static_cast<std::size_t>(block)] = scored.sums;
}

void ExampleScorer::Job::finish(const ScoringOptions& options) {
  PairSums p;
  for (const PairSums& block : pairs) p.add(block);
  auto set = [&](Score score, double value) { result->score[static_cast<int>(score)] = value; };
  auto count = [&](Count what, std::int64_t value) { result->count[static_cast<int>(what)] = value; };
  const bool light = does(work, HeadWork::kWithoutSweep);
  const bool sweep = does(work, HeadWork::kSweepOnly) && grid->window() >= 2;

  count(Count::kPairs, p.pairs);
  count(Count::kUndefinedPairs, p.undefined);
  count(Count::kNonFinitePairs, p.non_finite);
  count(Count::kHighPairs, grid->high_pairs());
  count(Count::kLayerWindow, grid->window());
  if (light && options.share) set(Score::kNormShare, mean(p.norm_share, p.valid));
  if (light && options.usage && p.valid > 0) {
    set(Score::kFrequencyMass, mean(p.frequency_mass, p.valid));
    result->usage = p.usage;
    result->usage_norm = p.usage_norm;
    for (double& u : result->usage) u /= static_cast<double>(p.valid);
    for (double& u : result->usage_norm) u /= static_cast<double>(p.valid);
    set(Score::kUsageCov, spectral::usage_variation(result->usage));
    set(Score::kUsageCentroid, spectral::usage_centroid(result->usage, setting.lanes->omega));
    set(Score::kUsageNormCov, spectral::usage_variation(result->usage_norm));
    set(Score::kUsageNormCentroid, spectral::usage_centroid(result->usage_norm, setting.lanes->omega));
  }
  if (sweep && options.positional) {
    set(Score::kPositional, mean(p.positional, p.valid));
    set(Score::kResponseMax, mean(p.response_max, p.valid));
  }
  if (sweep && options.length) set(Score::kEffectiveLength, mean(p.effective_length, p.valid));
  if (sweep && options.aliasing) set(Score::kAliasing, mean(p.aliasing, p.valid));

  TripletSums t;
  for (const TripletSums& block : triplets) {
    t.triplets += block.triplets;
    t.ties += block.ties;
    t.undefined += block.undefined;
    t.non_finite += block.non_finite;
    t.fragile += block.fragile;
    t.valid += block.valid;
    t.reversal += block.reversal;
    t.exact_reversal += block.exact_reversal;
    t.gap += block.gap;
  }
  if (triplets.empty() && !options.semantic) return;
  count(Count::kTriplets, t.triplets);
  count(Count::kTies, t.ties);
  count(Count::kUndefinedTriplets, t.undefined);
  count(Count::kNonFiniteTriplets, t.non_finite);
  count(Count::kFragile, t.fragile);
  if (light) set(Score::kSemantic, 1.0 - mean(t.reversal, t.valid));
  if (sweep && options.exact_reversal) {
    set(Score::kExactSemantic, 1.0 - mean(t.exact_reversal, t.valid));
    set(Score::kReversalGap, mean(t.gap, t.valid));
  }
}

ExampleScorer::ExampleScorer(const ActivationSet& set, const ScoringOptions& options)
    : set_(&set), options_(options), grids_(set, options.split) {}

ExampleScorer::~ExampleScorer() = default;

std::int64_t ExampleScorer::layer_window(const LayerModel& layer, const SetExample& example) const {
  const std::int64_t window = options_.window > 0 ? options_.window : example.window;
  return options_.window_cap && layer.window > 0 ? std::min(window, layer.window) : window;
}

std::vector<HeadScores> ExampleScorer::score(const SetTask&, const SetExample& example,
                                             std::span<const HeadWork> work) {
  std::vector<HeadScores> scores(set_->heads().size());
  for (const ExamplePart& part : example.parts) add_jobs(example, part, work, scores);
  run_jobs();
  grids_.forget_windows();
  return scores;
}

void ExampleScorer::add_jobs(const SetExample& example, const ExamplePart& part,
                             std::span<const HeadWork> work, std::vector<HeadScores>& scores) {
  using Side = ActivationFile::Side;
  const ActivationFile& file = set_->files()[static_cast<std::size_t>(part.file)];
  const TaskHeader& task = file.tasks()[static_cast<std::size_t>(part.task)];
  const ResolvedModel& model = set_->model(part.file);
  const int group = task.query_heads / task.kv_heads;
  std::shared_ptr<const PartSlots> slots;

  for (int slot = 0; slot < static_cast<int>(task.layers.size()); ++slot) {
    const int layer = task.layers[slot];
    const LayerModel& facts = model.layers()[static_cast<std::size_t>(layer)];
    const std::int64_t first_head = set_->first_head(layer);
    if (!facts.rotates || first_head < 0) continue;
    auto wanted = [&](int kv) {
      for (int head = kv * group; head < (kv + 1) * group; ++head)
        if (work[first_head + head] != HeadWork::kNone) return true;
      return false;
    };
    const std::size_t kv_bytes = static_cast<std::size_t>(task.head_dim) *
                                 (static_cast<std::size_t>(task.key_slots) * element_size(task.key_type) +
                                  static_cast<std::size_t>(task.query_slots) *
                                      static_cast<std::size_t>(group) * element_size(task.query_type));
    for (int kv = 0; kv < task.kv_heads;) {
      if (!wanted(kv)) {
        ++kv;
        continue;
      }
      int end = kv + 1;  // neighbours that are wanted too, as far as memory allows
      while (end < task.kv_heads && wanted(end) &&
             static_cast<std::size_t>(end + 1 - kv) * kv_bytes <= kRawBudget)
        ++end;
      if (!slots)
        slots = std::make_shared<PartSlots>(make_part_slots(
            file.read_slots(task, part.row, example.window, options_.window == 0), task.full_coverage));
      auto query = std::make_shared<RawBlock>(), key = std::make_shared<RawBlock>();
      file.read_block(task, Side::kQuery, part.row, slot, kv * group, (end - kv) * group, *query);
      file.read_block(task, Side::kKey, part.row, slot, kv, end - kv, *key);
      raw_bytes_ += query->bytes.size() + key->bytes.size();
      for (int head = kv * group; head < end * group; ++head) {
        if (work[first_head + head] == HeadWork::kNone) continue;
        const Grid& grid = grids_.grid(part.file, layer, head, example.window);
        if (grid.lanes.omega.empty()) continue;  // a head that does not rotate has no scores
        auto factor = [&](Rotation rotation) {
          return rotation == Rotation::kPre ? grid.frequencies.attention_factor : 1.0;
        };
        Job job;
        job.query = query;
        job.key = key;
        job.slots = slots;
        job.grid = &grids_.at_window(grid, layer_window(facts, example));
        job.work = work[first_head + head];
        job.result = &scores[first_head + head];
        const ModelHeader& header = file.model();
        job.setting = {&facts,
                       &grid.lanes,
                       {query.get(), head - kv * group, header.query_rotation, factor(header.query_rotation)},
                       {key.get(), head / group - kv, header.key_rotation, factor(header.key_rotation)}};
        job.result->present = true;
        job.result->grid = &grid;
        jobs_.push_back(std::move(job));
      }
      kv = end;
      if (raw_bytes_ > kRawBudget) run_jobs();
    }
  }
}

void ExampleScorer::run_jobs() {
  struct Block {
    Job* job;
    std::int64_t index;
    bool pairs;
  };
  std::vector<Block> blocks;
  std::map<std::pair<const PartSlots*, const Grid*>, std::shared_ptr<const SlotPhases>> phases;
  for (Job& job : jobs_) {
    auto& shared = phases[{job.slots.get(), &job.grid->grid()}];
    if (!shared) shared = std::make_shared<SlotPhases>(*job.slots, *job.setting.lanes);
    job.phases = shared;
    const std::int64_t pair_blocks = (job.slots->pairs() + kPairBlock - 1) / kPairBlock;
    job.pairs.resize(static_cast<std::size_t>(pair_blocks));
    for (std::int64_t b = 0; b < pair_blocks; ++b) blocks.push_back({&job, b, true});
    const bool triplets =
        options_.semantic && (does(job.work, HeadWork::kWithoutSweep) || options_.exact_reversal);
    const std::int64_t triplet_blocks =
        triplets ? (job.slots->triplets() + kTripletBlock - 1) / kTripletBlock : 0;
    job.triplets.resize(static_cast<std::size_t>(triplet_blocks));
    for (std::int64_t b = 0; b < triplet_blocks; ++b) blocks.push_back({&job, b, false});
  }
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    try {
      if (blocks[b].pairs)
        blocks[b].job->score_pair_block(blocks[b].index, options_);
      else
        blocks[b].job->score_triplet_block(blocks[b].index, options_);
    } catch (...) {
#pragma omp critical(rope_example_scorer)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  for (Job& job : jobs_) job.finish(options_);
  jobs_.clear();
  raw_bytes_ = 0;
}

}  // namespace rope

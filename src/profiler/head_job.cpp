#include "profiler/head_job.hpp"

#include <limits>
#include <utility>

#include "profiler/phase_clock.hpp"
#include "spectral/frequency_use.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean(double sum, std::int64_t count) { return count > 0 ? sum / static_cast<double>(count) : kNaN; }

std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

void set(HeadScores& result, Score score, double value) { result.score[static_cast<int>(score)] = value; }
void set(HeadScores& result, Count count, std::int64_t value) {
  result.count[static_cast<int>(count)] = value;
}

/// Takes the sums of `p`.
void set_usage(PairSums& p, const std::vector<double>& log_omega, HeadScores& result) {
  set(result, Score::kFrequencyMass, mean(p.frequency_mass, p.valid));
  result.usage = std::move(p.usage);
  result.usage_norm = std::move(p.usage_norm);
  for (double& u : result.usage) u /= static_cast<double>(p.valid);
  for (double& u : result.usage_norm) u /= static_cast<double>(p.valid);
  set(result, Score::kUsageCov, spectral::usage_variation(result.usage));
  set(result, Score::kUsageCentroid, spectral::usage_centroid(result.usage, log_omega));
  set(result, Score::kUsageNormCov, spectral::usage_variation(result.usage_norm));
  set(result, Score::kUsageNormCentroid, spectral::usage_centroid(result.usage_norm, log_omega));
}

}  // namespace

HeadScores::HeadScores() : logit_spread(kNaN), positional_fixed_norm(kNaN) { score.fill(kNaN); }

void HeldVectors::decode() {
  std::call_once(once_, [this] {
    if (query.pieces.empty() && key.pieces.empty() && !query.swapped && !key.swapped) return;
    const PhaseScope scope(Phase::kDecoding);
    query.decode();
    key.decode();
  });
}

std::int64_t HeadJob::bytes_of(const PartSlots& slots, std::size_t n_freq) {
  const auto pair_block = static_cast<std::int64_t>(sizeof(PairSums) + 2 * n_freq * sizeof(double));
  return static_cast<std::int64_t>(sizeof(HeadJob)) + blocks_of(slots.pairs(), kPairBlock) * pair_block +
         blocks_of(slots.triplets(), kTripletBlock) * static_cast<std::int64_t>(sizeof(TripletSums));
}

void HeadJob::open() {
  if (light() || sweeps_pairs())
    pairs_.resize(static_cast<std::size_t>(blocks_of(slots->pairs(), kPairBlock)));
  if (options->semantic && (light() || sweeps_triplets()))
    triplets_.resize(static_cast<std::size_t>(blocks_of(slots->triplets(), kTripletBlock)));
  open_ = 1 + pair_blocks() + triplet_blocks();
}

PairPart HeadJob::pair_part(std::int64_t block) const {
  PairPart part{
      &setting, slots.get(), block, phases.get(), light() && options->usage, light() && options->share};
  if (unchanged) part.unchanged = &*unchanged;
  return part;
}

TripletPart HeadJob::triplet_part(std::int64_t block) const {
  return {&setting, slots.get(), block, phases.get()};
}

HeadScores HeadJob::scores() const {
  HeadScores result;
  result.present = true;
  result.grid = &grid->grid();
  set(result, Count::kHighPairs, grid->high_pairs());
  set(result, Count::kLayerWindow, grid->window());
  set_pair_scores(result);
  if (options->semantic) set_triplet_scores(result);
  return result;
}

void HeadJob::set_pair_scores(HeadScores& result) const {
  PairSums p;
  for (const PairSums& block : pairs_) p.add(block);
  set(result, Count::kPairs, p.pairs);
  set(result, Count::kUndefinedPairs, p.undefined);
  set(result, Count::kNonFinitePairs, p.non_finite);
  if (light() && options->share) set(result, Score::kNormShare, mean(p.norm_share, p.valid));
  if (light() && options->usage && p.valid > 0) set_usage(p, grid->grid().log_omega, result);
  if (light() && options->logit_spread) result.logit_spread = mean(p.logit_spread, p.valid);
  if (orders() && options->near_far) {
    set(result, Score::kNearFarOrder, mean(p.near_far, p.valid));
    set(result, Score::kNearFarGaussian, mean(p.near_far_gaussian, p.valid));
  }
  if (orders() && options->barrier) {
    set(result, Score::kBarrierExceedance, mean(p.barrier, p.valid));
    set(result, Score::kBarrierGaussian, mean(p.barrier_gaussian, p.valid));
    set(result, Score::kBarrierLimit, mean(p.barrier_limit, p.valid));
  }
  if (!sweeps()) return;
  if (options->positional) {
    set(result, Score::kPositional, mean(p.positional, p.valid));
    set(result, Score::kResponseMax, mean(p.response_max, p.valid));
    if (options->fixed_norm)
      result.positional_fixed_norm = unchanged ? mean(p.positional_fixed_norm, p.fixed_norm_valid)
                                               : result.score[static_cast<int>(Score::kPositional)];
  }
  if (options->length) set(result, Score::kEffectiveLength, mean(p.effective_length, p.valid));
  if (options->aliasing) set(result, Score::kAliasing, mean(p.aliasing, p.valid));
  if (options->aliasing) set(result, Score::kAliasingF16, mean(p.aliasing_f16, p.valid));
}

void HeadJob::set_triplet_scores(HeadScores& result) const {
  TripletSums t;
  for (const TripletSums& block : triplets_) {
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
  set(result, Count::kTriplets, t.triplets);
  set(result, Count::kTies, t.ties);
  set(result, Count::kUndefinedTriplets, t.undefined);
  set(result, Count::kNonFiniteTriplets, t.non_finite);
  set(result, Count::kFragile, t.fragile);
  if (light()) set(result, Score::kSemantic, 1.0 - mean(t.reversal, t.valid));
  if (!sweeps_triplets()) return;
  set(result, Score::kExactSemantic, 1.0 - mean(t.exact_reversal, t.valid));
  set(result, Score::kReversalGap, mean(t.gap, t.valid));
}

}  // namespace rope

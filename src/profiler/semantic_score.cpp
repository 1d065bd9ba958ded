#include "profiler/semantic_score.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/phase_clock.hpp"

namespace rope {
namespace {

using spectral::CoefficientBatch;

constexpr double kTieFactor = 64.0 * 0x1p-52;

// What decides whether a triplet counts, and which way round; by place in its block.
struct MarginFacts {
  std::vector<double> value, bound, deviation;  // see spectral::MarginMeasures
  std::vector<double> tails;                    // |c_0(k_1)| + |c_0(k_2)|
  std::vector<char> undefined;                  // one of the three vectors is zero
};

// Margins of one block into its lanes.
void fill(HeadVectors& vectors, const TripletPart& part, std::size_t first_lane, CoefficientBatch& margins,
          MarginFacts& facts) {
  const auto n = static_cast<std::size_t>(part.triplets());
  for (auto* values : {&facts.value, &facts.bound, &facts.deviation, &facts.tails}) values->resize(n);
  facts.undefined.resize(n);
  vectors.assign(*part.head, *part.slots, part.phases);
  for (const QueryRun& r :
       query_runs(part.slots->first_triplet, part.index * kTripletBlock, part.triplets())) {
    const HeadVectors::TripletColumns columns = vectors.triplets(r.query, r.first, r.count);
    spectral::PairRun run = columns.run;
    run.first_place = r.place;
    run.first_lane = first_lane + r.place;
    spectral::measure_margins(
        run, {columns.rounding, facts.value.data(), facts.bound.data(), facts.deviation.data()}, margins);
    for (std::size_t t = 0; t < run.count; ++t) {
      const double one = columns.first_constant[t], other = columns.second_constant[t];
      margins.constant[run.first_lane + t] = one - other;
      facts.value[r.place + t] += one - other;
      facts.tails[r.place + t] = std::abs(one) + std::abs(other);
      facts.undefined[r.place + t] = columns.query_is_zero || columns.key_is_zero[t];
    }
  }
}

// Sign that orients each lane, 0 for those that are left out; counts the reasons.
void orient(const MarginFacts& facts, const CoefficientBatch& margins, std::size_t first_lane, double* sign,
            TripletSums& sums) {
  for (std::size_t t = 0; t < facts.value.size(); ++t) {
    const double size = std::abs(facts.value[t]), tails = facts.tails[t];
    double magnitude = facts.bound[t];  // at least sum |d_n|; the sum itself only where it may matter
    if (!(magnitude <= kLargestNorm && size > kTieFactor * (magnitude + tails)))
      magnitude = spectral::lane_magnitude(margins, first_lane + t);
    sign[t] = 0;
    if (!(magnitude <= kLargestNorm && size <= kLargestNorm && tails <= kLargestNorm)) {
      ++sums.non_finite;
    } else if (facts.undefined[t]) {
      ++sums.undefined;
    } else if (size <= kTieFactor * (magnitude + tails)) {
      ++sums.ties;
    } else {
      // Twice the standard deviation that rounding the lanes to their element types would give D(0).
      if (size < 2.0 * std::sqrt(facts.deviation[t] / 3.0)) ++sums.fragile;
      sign[t] = facts.value[t] < 0 ? -1.0 : 1.0;
    }
  }
}

double normal_reversal(double mean, double variance) {
  const double sigma = std::sqrt(variance);
  if (!(sigma > 0)) return mean < 0 ? 1.0 : 0.0;
  return 0.5 * std::erfc(mean / sigma * M_SQRT1_2);  // Phi(-mu / sigma)
}

}  // namespace

std::int64_t TripletPart::triplets() const {
  return std::min(kTripletBlock, slots->triplets() - index * kTripletBlock);
}

std::vector<TripletBlock> score_triplets(std::span<const TripletPart> parts,
                                         const spectral::WindowMoments& moments, CoefficientBatch& margins) {
  std::vector<TripletBlock> blocks(parts.size());
  std::size_t lanes = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].first_lane = lanes;
    lanes += static_cast<std::size_t>(parts[k].triplets());
  }
  margins.shape(parts.front().head->lanes->omega.size(), lanes);
  std::vector<double> sign(margins.stride, 0.0), mean(lanes), variance(lanes);
  HeadVectors vectors;
  MarginFacts facts;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].sums.triplets = parts[k].triplets();
    fill(vectors, parts[k], blocks[k].first_lane, margins, facts);
    orient(facts, margins, blocks[k].first_lane, sign.data() + blocks[k].first_lane, blocks[k].sums);
  }
  spectral::orient_lanes(margins, sign);
  const PhaseScope scope(Phase::kMoments);
  moments.evaluate(margins, mean, variance);
  for (TripletBlock& block : blocks) {
    const auto n = static_cast<std::size_t>(block.sums.triplets);
    block.valid.assign(n, 0);
    block.reversal.assign(n, 0.0);
    for (std::size_t t = 0; t < n; ++t) {
      const std::size_t lane = block.first_lane + t;
      if (sign[lane] == 0) continue;
      block.valid[t] = 1;
      block.reversal[t] = normal_reversal(mean[lane], variance[lane]);
      ++block.sums.valid;
      block.sums.reversal += block.reversal[t];
    }
  }
  return blocks;
}

void add_exact_reversals(std::span<const std::int64_t> counts, std::int64_t window, TripletBlock& block) {
  for (std::size_t t = 0; t < block.valid.size(); ++t) {
    if (!block.valid[t]) continue;
    const double exact = static_cast<double>(counts[block.first_lane + t]) / static_cast<double>(window);
    block.sums.exact_reversal += exact;
    block.sums.gap += std::abs(block.reversal[t] - exact);
  }
}

}  // namespace rope

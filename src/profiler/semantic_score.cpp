#include "profiler/semantic_score.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/phase_clock.hpp"
#include "spectral/normal_law.hpp"

namespace rope {
namespace {

using spectral::CoefficientBatch;

constexpr double kTieFactor = 64.0 * 0x1p-52;

// What decides whether a triplet counts, and which way round; by place in its block.
struct MarginFacts {
  std::vector<double> value;    // D(0)
  std::vector<double> bound;    // of sum |d_n|
  std::vector<double> tails;    // |c_0(k_1)| + |c_0(k_2)|
  std::vector<char> undefined;  // one of the three vectors is zero
  std::vector<char> fragile;
};

// Margins of one run, what is known of them, and their constants.
void measure(const HeadVectors::TripletColumns& columns, CoefficientBatch& margins, MarginFacts& facts) {
  const spectral::PairRun& run = columns.run;
  spectral::measure_margins(run, facts.value.data(), margins);
  const double *pair_size = columns.pair_bounds->size.data() + run.first_key,
               *pair_rounding = columns.pair_bounds->rounding.data() + run.first_key;
  for (std::size_t i = 0; i < run.queries; ++i) {
    const double size = columns.query_bounds->size[run.q + i],
                 largest = columns.query_bounds->largest[run.q + i];
    const bool is_zero = columns.query_is_zero[i] != 0;
    const double *one = columns.first_constant + i * run.count,
                 *other = columns.second_constant + i * run.count;
    const std::size_t place = run.first_place + i * run.count;
    double *constant = margins.constant.data() + run.first_lane + i * run.count,
           *value = facts.value.data() + place, *bound = facts.bound.data() + place,
           *tails = facts.tails.data() + place;
    const char* key_is_zero = columns.key_is_zero;
    char *undefined = facts.undefined.data() + place, *fragile = facts.fragile.data() + place;
    for (std::size_t t = 0; t < run.count; ++t) {
      constant[t] = one[t] - other[t];
      value[t] += constant[t];
      tails[t] = std::abs(one[t]) + std::abs(other[t]);
      bound[t] = size * pair_size[t];
      undefined[t] = is_zero || key_is_zero[t] != 0;
      // Within twice the standard deviation that rounding the lanes to their element types gives D(0)? Mostly
      // it is far from that. The products that are compared must not have left the range of float64.
      const double most = largest * pair_rounding[t];
      fragile[t] = !(most > 0x1p-900 && 0.749 * value[t] * value[t] > most);
    }
    for (std::size_t t = 0; t < run.count; ++t) {
      if (!fragile[t]) continue;
      const double rounding = spectral::margin_rounding(
          *run.query, run.q + i, *columns.first_key, *columns.second_key, run.first_key + t, columns.units);
      fragile[t] = std::abs(value[t]) < 2.0 * std::sqrt(rounding / 3.0);
    }
  }
}

// Margins of one block into its lanes.
void fill(HeadVectors& vectors, const TripletPart& part, std::size_t first_lane, CoefficientBatch& margins,
          MarginFacts& facts) {
  const auto n = static_cast<std::size_t>(part.triplets());
  for (auto* values : {&facts.value, &facts.bound, &facts.tails}) values->resize(n);
  facts.undefined.resize(n);
  facts.fragile.resize(n);
  vectors.assign(*part.head, *part.slots, part.phases);
  for (const QueryRun& r : query_runs(part.slots->first_triplet, part.index * kTripletBlock, part.triplets(),
                                      spectral::kMostRunQueries)) {
    HeadVectors::TripletColumns columns = vectors.triplets(r);
    columns.run.first_lane = first_lane + r.place;
    measure(columns, margins, facts);
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
      sums.fragile += facts.fragile[t];
      sign[t] = facts.value[t] < 0 ? -1.0 : 1.0;
    }
  }
}

}  // namespace

std::int64_t TripletPart::triplets() const {
  return std::min(kTripletBlock, slots->triplets() - index * kTripletBlock);
}

std::vector<TripletBlock> score_triplets(std::span<const TripletPart> parts,
                                         const spectral::WindowMoments& moments, CoefficientBatch& margins,
                                         bool oriented) {
  std::vector<TripletBlock> blocks(parts.size());
  std::size_t lanes = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].first_lane = lanes;
    lanes += static_cast<std::size_t>(parts[k].triplets());
  }
  margins.shape(parts.front().head->lanes->omega.size(), lanes);
  std::vector<double> sign(margins.stride, 0.0), mean(lanes), variance(lanes), reversal(lanes);
  HeadVectors vectors;
  MarginFacts facts;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].sums.triplets = parts[k].triplets();
    fill(vectors, parts[k], blocks[k].first_lane, margins, facts);
    orient(facts, margins, blocks[k].first_lane, sign.data() + blocks[k].first_lane, blocks[k].sums);
  }
  if (oriented) spectral::orient_lanes(margins, sign);
  const PhaseScope scope(Phase::kMoments);
  moments.evaluate(margins, mean, variance);
  if (!oriented)  // a change of sign commutes with all that the moments round
    for (std::size_t lane = 0; lane < lanes; ++lane) mean[lane] *= sign[lane];
  spectral::chances_below_zero(mean, variance, reversal);
  for (TripletBlock& block : blocks) {
    const auto n = static_cast<std::size_t>(block.sums.triplets);
    block.valid.assign(n, 0);
    block.reversal.assign(n, 0.0);
    for (std::size_t t = 0; t < n; ++t) {
      const std::size_t lane = block.first_lane + t;
      if (sign[lane] == 0) continue;
      block.valid[t] = 1;
      block.reversal[t] = reversal[lane];
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

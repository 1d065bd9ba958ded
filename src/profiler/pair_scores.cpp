#include "profiler/pair_scores.hpp"

#include <algorithm>
#include <cmath>

namespace rope {
namespace {

using spectral::CoefficientBatch;
using Side = ActivationFile::Side;

// A run of pairs that share their query: keys [first_key, first_key + keys).
struct Segment {
  std::int64_t query = 0, first_key = 0, keys = 0;
  std::size_t lane = 0;
};

std::vector<Segment> segments(const PartSlots& slots, std::int64_t first, std::int64_t count) {
  std::vector<Segment> result;
  std::int64_t query = std::upper_bound(slots.first_pair.begin(), slots.first_pair.end(), first) -
                       slots.first_pair.begin() - 1;
  for (std::int64_t pair = first; pair < first + count; ++query) {
    const std::int64_t end = std::min(slots.first_pair[query + 1], first + count);
    if (end > pair)
      result.push_back(
          {query, pair - slots.first_pair[query], end - pair, static_cast<std::size_t>(pair - first)});
    pair = std::max(pair, end);
  }
  return result;
}

// Content vectors of the queries and keys that the segments touch.
struct BlockVectors {
  std::int64_t first_query = 0, first_key = 0;
  std::vector<double> queries, keys;
};

template <class Value>
std::vector<Value> slice(const std::vector<Value>& values, std::int64_t first, std::int64_t end) {
  return {values.begin() + first, values.begin() + end};
}

BlockVectors load_block(const HeadSetting& head, const PartSlots& slots, const std::vector<Segment>& parts) {
  BlockVectors v;
  v.first_query = parts.front().query;
  const std::int64_t end_query = parts.back().query + 1;
  v.first_key = parts.front().first_key;
  std::int64_t end_key = 0;
  for (const Segment& s : parts) {
    v.first_key = std::min(v.first_key, s.first_key);
    end_key = std::max(end_key, s.first_key + s.keys);
  }
  load_content_vectors(head, Side::kQuery, slice(slots.query_slot, v.first_query, end_query),
                       slice(slots.query_position, v.first_query, end_query), v.queries);
  load_content_vectors(head, Side::kKey, slice(slots.key_slot, v.first_key, end_key),
                       slice(slots.key_position, v.first_key, end_key), v.keys);
  return v;
}

std::int64_t pairs_of_block(const PartSlots& slots, std::int64_t index) {
  return std::min(kPairBlock, slots.pairs() - index * kPairBlock);
}

void fill(const PairPart& part, std::size_t first_lane, CoefficientBatch& batch) {
  const HeadSetting& head = *part.head;
  const std::vector<Segment> runs = segments(*part.slots, part.index * kPairBlock, part.pairs());
  const BlockVectors v = load_block(head, *part.slots, runs);
  const int dim = head.query.block->head_dim;
  for (const Segment& s : runs)
    spectral::pair_coefficients(&v.queries[(s.query - v.first_query) * dim], 1,
                                &v.keys[(s.first_key - v.first_key) * dim], static_cast<std::size_t>(s.keys),
                                dim, *head.lanes, head.rotary_scale(), head.tail_scale(), batch,
                                first_lane + s.lane);
}

// Counts the pairs, keeps the norms of the valid ones and clears the lanes of the others.
void sort_out(const PairPart& part, const std::vector<double>& norm, const std::vector<double>& high_norm,
              CoefficientBatch& batch, PairBlock& block) {
  block.sums.pairs = part.pairs();
  for (std::size_t i = 0; i < block.norm.size(); ++i) {
    const std::size_t lane = block.first_lane + i;
    const bool finite =
        norm[lane] <= kLargestNorm && std::abs(batch.constant[lane]) <= kLargestNorm;  // false for NaN
    if (finite && norm[lane] > 0) {
      ++block.sums.valid;
      block.norm[i] = norm[lane];
      if (part.norm_share) block.sums.norm_share += high_norm[lane] / norm[lane];
      continue;
    }
    ++(finite ? block.sums.undefined : block.sums.non_finite);
    for (std::size_t n = 0; n < batch.n_freq; ++n)
      batch.re[n * batch.stride + lane] = batch.im[n * batch.stride + lane] = 0;
    batch.constant[lane] = 0;
  }
}

void add_usage(const CoefficientBatch& batch, const spectral::PhaseTable& phases,
               const std::vector<double>& mass, PairBlock& block) {
  const std::size_t n = block.norm.size();
  std::vector<char> valid(n);
  for (std::size_t i = 0; i < n; ++i) valid[i] = block.norm[i] != 0;
  block.sums.usage.assign(batch.n_freq, 0.0);
  block.sums.usage_norm.assign(batch.n_freq, 0.0);
  spectral::accumulate_usage(batch, block.first_lane, phases, valid, block.sums.usage, block.sums.usage_norm);
  for (std::size_t i = 0; i < n; ++i)
    if (valid[i]) block.sums.frequency_mass += mass[block.first_lane + i];
}

}  // namespace

std::int64_t PairPart::pairs() const { return pairs_of_block(*slots, index); }

PairPhases::PairPhases(const PartSlots& slots, const spectral::LaneMap& lanes)
    : slots_(&slots), lanes_(&lanes) {}

std::shared_ptr<const spectral::PhaseTable> PairPhases::make(std::int64_t index) const {
  std::vector<std::int64_t> distances;
  for (const Segment& s : segments(*slots_, index * kPairBlock, pairs_of_block(*slots_, index)))
    for (std::int64_t key = s.first_key; key < s.first_key + s.keys; ++key)
      distances.push_back(slots_->query_position[s.query] - slots_->key_position[key]);
  return std::make_shared<spectral::PhaseTable>(spectral::make_phase_table(lanes_->omega, distances));
}

std::shared_ptr<const spectral::PhaseTable> PairPhases::block(std::int64_t index) const {
  const std::size_t i = static_cast<std::size_t>(index);
  if (i >= kKept) return make(index);
  std::call_once(once_[i], [&] { kept_[i] = make(index); });
  return kept_[i];
}

void PairSums::add(const PairSums& other) {
  pairs += other.pairs;
  undefined += other.undefined;
  non_finite += other.non_finite;
  valid += other.valid;
  norm_share += other.norm_share;
  frequency_mass += other.frequency_mass;
  positional += other.positional;
  response_max += other.response_max;
  effective_length += other.effective_length;
  aliasing += other.aliasing;
  if (usage.empty()) usage.resize(other.usage.size(), 0.0);
  if (usage_norm.empty()) usage_norm.resize(other.usage_norm.size(), 0.0);
  for (std::size_t n = 0; n < other.usage.size(); ++n) {
    usage[n] += other.usage[n];
    usage_norm[n] += other.usage_norm[n];
  }
}

std::vector<PairBlock> score_pairs(std::span<const PairPart> parts, const std::vector<char>& high,
                                   CoefficientBatch& batch) {
  std::vector<PairBlock> blocks(parts.size());
  std::size_t lanes = 0;
  bool usage = false;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    blocks[k].first_lane = lanes;
    blocks[k].norm.assign(static_cast<std::size_t>(parts[k].pairs()), 0.0);
    lanes += blocks[k].norm.size();
    usage |= parts[k].usage != nullptr;
  }
  batch.reset(high.size(), lanes);
  for (std::size_t k = 0; k < parts.size(); ++k) fill(parts[k], blocks[k].first_lane, batch);

  std::vector<double> norm(lanes), high_norm(lanes), mass(usage ? lanes : 0);
  spectral::pair_norms(batch, high, norm, high_norm);
  for (std::size_t k = 0; k < parts.size(); ++k) sort_out(parts[k], norm, high_norm, batch, blocks[k]);
  if (!usage) return blocks;
  spectral::frequency_mass(batch, parts.front().head->lanes->omega, mass);
  for (std::size_t k = 0; k < parts.size(); ++k)
    if (parts[k].usage != nullptr) add_usage(batch, *parts[k].usage->block(parts[k].index), mass, blocks[k]);
  return blocks;
}

void add_sweep(const spectral::SweepResult& swept, PairBlock& block) {
  for (std::size_t lane = 0; lane < block.norm.size(); ++lane) {
    const double norm = block.norm[lane];
    if (norm == 0) continue;
    const std::size_t from = block.first_lane + lane;
    if (!swept.mean_response.empty()) block.sums.positional += swept.mean_response[from] / norm;
    if (!swept.response_max.empty()) block.sums.response_max += swept.response_max[from] / norm;
    if (!swept.effective_length.empty()) block.sums.effective_length += swept.effective_length[from];
    if (!swept.aliasing.empty()) block.sums.aliasing += swept.aliasing[from];
  }
}

}  // namespace rope

#include "profiler/semantic_score.hpp"

#include <algorithm>
#include <cmath>

namespace rope {
namespace {

using spectral::CoefficientBatch;

constexpr double kTieFactor = 64.0 * 0x1p-52;

// Query and the two keys of every triplet of a block, as content vectors gathered lane by lane.
struct Gathered {
  std::vector<std::int64_t> query;  // index into slots.query_slot
  std::vector<std::int64_t> first_key, second_key;
};

Gathered gather(const PartSlots& slots, std::int64_t first, std::int64_t count) {
  Gathered g;
  auto query = std::upper_bound(slots.first_triplet.begin(), slots.first_triplet.end(), first) -
               slots.first_triplet.begin() - 1;
  for (std::int64_t t = first; t < first + count; ++t) {
    while (t >= slots.first_triplet[query + 1]) ++query;
    const auto& [a, b] = slots.key_pairs[t - slots.first_triplet[query]];
    g.query.push_back(query);
    g.first_key.push_back(a);
    g.second_key.push_back(b);
  }
  return g;
}

// Content vectors of the distinct rows that a block of triplets names.
struct Rows {
  std::vector<std::int64_t> index;  // rising
  std::vector<double> vectors;
  int dim = 0;
  std::size_t place(std::int64_t row) const {
    return static_cast<std::size_t>(std::lower_bound(index.begin(), index.end(), row) - index.begin());
  }
  const double* at(std::size_t row_place) const {
    return vectors.data() + row_place * static_cast<std::size_t>(dim);
  }
};

Rows load_rows(const HeadSetting& head, ActivationFile::Side side, std::vector<std::int64_t> wanted,
               const std::vector<std::int64_t>& slot, const std::vector<long long>& position) {
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<std::int64_t> slots;
  std::vector<long long> positions;
  for (std::int64_t row : wanted) {
    slots.push_back(slot[row]);
    positions.push_back(position[row]);
  }
  Rows rows{std::move(wanted), {}, head.query.block->head_dim};
  load_content_vectors(head, side, slots, positions, rows.vectors);
  return rows;
}

// Places of a triplet's vectors, and the lanes of its two pairs among all (query, key) pairs of the block.
struct Places {
  std::size_t query, first_key, second_key, first_lane, second_lane;
};

std::vector<Places> find_places(const Gathered& g, const Rows& queries, const Rows& keys) {
  std::vector<Places> places;
  places.reserve(g.query.size());
  for (std::size_t t = 0; t < g.query.size(); ++t) {
    Places p{queries.place(g.query[t]), keys.place(g.first_key[t]), keys.place(g.second_key[t]), 0, 0};
    p.first_lane = p.query * keys.index.size() + p.first_key;
    p.second_lane = p.query * keys.index.size() + p.second_key;
    places.push_back(p);
  }
  return places;
}

// d = z(q, k1) - z(q, k2) lane by lane.
void subtract(const CoefficientBatch& pairs, const std::vector<Places>& places, std::size_t first_lane,
              CoefficientBatch& margins) {
  for (std::size_t n = 0; n < pairs.n_freq; ++n) {
    const double *re = &pairs.re[n * pairs.stride], *im = &pairs.im[n * pairs.stride];
    double *to_re = &margins.re[n * margins.stride + first_lane],
           *to_im = &margins.im[n * margins.stride + first_lane];
    for (std::size_t t = 0; t < places.size(); ++t) {
      to_re[t] = re[places[t].first_lane] - re[places[t].second_lane];
      to_im[t] = im[places[t].first_lane] - im[places[t].second_lane];
    }
  }
  for (std::size_t t = 0; t < places.size(); ++t)
    margins.constant[first_lane + t] =
        pairs.constant[places[t].first_lane] - pairs.constant[places[t].second_lane];
}

bool all_zero(const double* row, int dim) {
  return std::all_of(row, row + dim, [](double x) { return x == 0.0; });
}

// Standard deviation that rounding the lanes to their element types would give D(0) (theory §3, fragile
// triplets).
double rounding_deviation(const HeadSetting& head, const double* q, const double* k1, const double* k2) {
  const double query_unit = rounding_unit(head.query.block->type),
               key_unit = rounding_unit(head.key.block->type);
  auto lane = [&](int i) {
    const double difference = k1[i] - k2[i];
    return q[i] * q[i] *
           (query_unit * query_unit * difference * difference +
            key_unit * key_unit * (k1[i] * k1[i] + k2[i] * k2[i]));
  };
  double rotary = 0, tail = 0;
  for (int i : head.lanes->a) rotary += lane(i);
  for (int i : head.lanes->b) rotary += lane(i);
  for (int i : head.lanes->still) rotary += lane(i);
  for (int i : head.lanes->tail) tail += lane(i);
  const double factor = head.query.attention_factor * head.key.attention_factor;
  return head.layer->logit_scale * std::sqrt((factor * factor * rotary + tail) / 3.0);
}

void clear_lane(CoefficientBatch& batch, std::size_t lane) {
  for (std::size_t n = 0; n < batch.n_freq; ++n)
    batch.re[n * batch.stride + lane] = batch.im[n * batch.stride + lane] = 0;
  batch.constant[lane] = 0;
}

void flip_lane(CoefficientBatch& batch, std::size_t lane) {
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    batch.re[n * batch.stride + lane] = -batch.re[n * batch.stride + lane];
    batch.im[n * batch.stride + lane] = -batch.im[n * batch.stride + lane];
  }
  batch.constant[lane] = -batch.constant[lane];
}

struct MarginAtZero {
  double value = 0;      // D(0)
  double magnitude = 0;  // sum |d_n|
};

MarginAtZero margin_at_zero(const CoefficientBatch& d, std::size_t lane) {
  MarginAtZero m;
  for (std::size_t n = 0; n < d.n_freq; ++n) {
    const double re = d.re[n * d.stride + lane], im = d.im[n * d.stride + lane];
    m.value += re;
    m.magnitude += std::hypot(re, im);
  }
  m.value += d.constant[lane];
  return m;
}

// Margins of one block into its lanes, with all that precedes the moments.
void fill(const TripletPart& part, CoefficientBatch& margins, TripletBlock& block) {
  const HeadSetting& head = *part.head;
  const PartSlots& slots = *part.slots;
  const int dim = head.query.block->head_dim;
  const Gathered g = gather(slots, part.index * kTripletBlock, part.triplets());
  std::vector<std::int64_t> both_keys = g.first_key;
  both_keys.insert(both_keys.end(), g.second_key.begin(), g.second_key.end());
  using Side = ActivationFile::Side;
  const Rows queries = load_rows(head, Side::kQuery, g.query, slots.query_slot, slots.query_position);
  const Rows keys = load_rows(head, Side::kKey, std::move(both_keys), slots.key_slot, slots.key_position);

  const std::vector<Places> places = find_places(g, queries, keys);
  CoefficientBatch all;
  all.reset(head.lanes->omega.size(), queries.index.size() * keys.index.size());
  spectral::pair_coefficients(queries.vectors.data(), queries.index.size(), keys.vectors.data(),
                              keys.index.size(), dim, *head.lanes, head.rotary_scale(), head.tail_scale(),
                              all, 0);
  subtract(all, places, block.first_lane, margins);

  block.sums.triplets = part.triplets();
  for (std::size_t t = 0; t < places.size(); ++t) {
    const Places& p = places[t];
    const std::size_t lane = block.first_lane + t;
    const double *q = queries.at(p.query), *k1 = keys.at(p.first_key), *k2 = keys.at(p.second_key);
    const double tails = std::abs(all.constant[p.first_lane]) + std::abs(all.constant[p.second_lane]);
    const MarginAtZero zero = margin_at_zero(margins, lane);
    bool keep = false;
    if (!(zero.magnitude <= kLargestNorm && std::abs(zero.value) <= kLargestNorm && tails <= kLargestNorm)) {
      ++block.sums.non_finite;
    } else if (all_zero(q, dim) || all_zero(k1, dim) || all_zero(k2, dim)) {
      ++block.sums.undefined;
    } else if (std::abs(zero.value) <= kTieFactor * (zero.magnitude + tails)) {
      ++block.sums.ties;
    } else {
      keep = true;
      if (std::abs(zero.value) < 2.0 * rounding_deviation(head, q, k1, k2)) ++block.sums.fragile;
      if (zero.value < 0) flip_lane(margins, lane);
    }
    block.valid[t] = keep;
    if (!keep) clear_lane(margins, lane);
  }
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
    blocks[k].valid.assign(static_cast<std::size_t>(parts[k].triplets()), 0);
    blocks[k].reversal.assign(blocks[k].valid.size(), 0.0);
    lanes += blocks[k].valid.size();
  }
  margins.reset(parts.front().head->lanes->omega.size(), lanes);
  for (std::size_t k = 0; k < parts.size(); ++k) fill(parts[k], margins, blocks[k]);

  std::vector<double> mean(lanes), variance(lanes);
  moments.evaluate(margins, mean, variance);
  for (TripletBlock& block : blocks)
    for (std::size_t t = 0; t < block.valid.size(); ++t) {
      if (!block.valid[t]) continue;
      const std::size_t lane = block.first_lane + t;
      const double sigma = std::sqrt(variance[lane]);
      // Phi(-mu / sigma)
      block.reversal[t] =
          sigma > 0 ? 0.5 * std::erfc(mean[lane] / sigma * M_SQRT1_2) : (mean[lane] < 0 ? 1.0 : 0.0);
      ++block.sums.valid;
      block.sums.reversal += block.reversal[t];
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

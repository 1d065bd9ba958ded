#include "profiler/head_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rope {
namespace {

using spectral::PhaseColumns;
using spectral::VectorColumns;
using Side = ActivationFile::Side;

constexpr std::size_t kKeptPhases = std::size_t{1} << 20;  // phases of a side that are kept

const std::vector<long long>& positions_of(const PartSlots& slots, Side side) {
  return side == Side::kQuery ? slots.query_position : slots.key_position;
}

PhaseColumns make_phases(const PartSlots& slots, Side side, std::span<const double> omega, std::int64_t first,
                         std::int64_t count) {
  return spectral::make_phase_columns(
      omega, std::span(positions_of(slots, side))
                 .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
}

// Re sum z e^{-i m omega} is the score of the conjugate coefficients: mirror both sides instead.
void turn_forward(VectorColumns& columns) {
  for (std::size_t n = 0; n < columns.n_freq; ++n) {
    double* row = columns.row(columns.n_freq + n);
    for (std::size_t t = 0; t < columns.tokens; ++t) row[t] = -row[t];
  }
}

// Multiplies every vector by a factor of its own, rotary and still rows by `rotary`, the tail by `tail` too.
void scale_columns(VectorColumns& columns, const std::vector<double>& factor, double rotary, double tail) {
  constexpr std::size_t kStep = 4;  // into the padding at most
  std::vector<double> scale(columns.stride, 0.0);
  const auto scale_rows = [&](std::size_t first, std::size_t end, double common) {
    for (std::size_t t = 0; t < columns.tokens; ++t) scale[t] = factor[t] * common;
    const double* __restrict by = scale.data();
    for (std::size_t r = first; r < end; ++r) {
      double* __restrict row = columns.row(r);
      for (std::size_t t = 0; t < columns.tokens; t += kStep)
        for (std::size_t j = 0; j < kStep; ++j) row[t + j] *= by[t + j];
    }
  };
  scale_rows(0, columns.rows() - columns.n_tail, rotary);
  if (columns.n_tail > 0) scale_rows(columns.rows() - columns.n_tail, columns.rows(), tail);
}

// 1 / sqrt(mean(y^2) + epsilon), y the vector as it stands after the rotary step (its rotary lanes times A).
std::vector<double> norm_factors(const VectorColumns& columns, double attention_factor, double epsilon) {
  std::vector<double> rotary(columns.tokens, 0.0), tail(columns.tokens, 0.0);
  for (std::size_t r = 0; r < columns.rows(); ++r) {
    std::vector<double>& sum = r < columns.rows() - columns.n_tail ? rotary : tail;
    for (std::size_t t = 0; t < columns.tokens; ++t) sum[t] += columns.row(r)[t] * columns.row(r)[t];
  }
  const auto dim = static_cast<double>(columns.rows());
  for (std::size_t t = 0; t < columns.tokens; ++t)
    rotary[t] = 1.0 / std::sqrt((attention_factor * attention_factor * rotary[t] + tail[t]) / dim + epsilon);
  return rotary;
}

bool is_zero(const double* row, std::size_t dim) {
  return std::all_of(row, row + dim, [](double x) { return x == 0.0; });
}

}  // namespace

std::shared_ptr<const PhaseColumns> SlotPhases::get(Side side, std::int64_t first, std::int64_t count,
                                                    std::size_t& column) const {
  const std::size_t all = positions_of(*slots_, side).size();
  if (all * lanes_->omega.size() > kKeptPhases) {
    column = 0;
    return std::make_shared<PhaseColumns>(make_phases(*slots_, side, lanes_->omega, first, count));
  }
  Kept& kept = side == Side::kQuery ? query_ : key_;
  std::call_once(kept.once, [&] {
    kept.phases = std::make_shared<PhaseColumns>(
        make_phases(*slots_, side, lanes_->omega, 0, static_cast<std::int64_t>(all)));
  });
  column = static_cast<std::size_t>(first);
  return kept.phases;
}

std::int64_t SlotPhases::bytes_of(const PartSlots& slots, std::size_t n_freq) {
  std::int64_t bytes = sizeof(SlotPhases);
  for (const std::size_t tokens : {slots.query_slot.size(), slots.key_slot.size()})
    if (tokens * n_freq <= kKeptPhases)
      bytes += static_cast<std::int64_t>(2 * sizeof(double) * n_freq * spectral::padded(tokens));
  return bytes;
}

void HeadVectors::assign(const HeadSetting& head, const PartSlots& slots, const SlotPhases* phases) {
  const SideSource &key = head.key, &last = head_.key;
  const bool same_keys = slots_ == &slots && head_.layer == head.layer && head_.lanes == head.lanes &&
                         head_.stored_lanes == head.stored_lanes && last.block == key.block &&
                         last.head == key.head && last.rotation == key.rotation &&
                         last.attention_factor == key.attention_factor &&
                         head_.query.block->type == head.query.block->type;  // in the rounding of key pairs
  head_ = head;
  slots_ = &slots;
  phases_ = phases;
  const std::size_t tokens = slots.query_slot.size() + slots.key_slot.size();
  few_ = tokens * static_cast<std::size_t>(head.query.block->head_dim) <= few_values_;
  query_.first = query_.end = 0;
  if (!same_keys) key_.first = key_.end = key_pairs_.first = key_pairs_.end = 0;
}

HeadVectors::PairColumns HeadVectors::pairs(std::int64_t query, std::int64_t first_key, std::int64_t count,
                                            bool turned) {
  return columns_of({query, first_key, count}, turned);
}

HeadVectors::PairColumns HeadVectors::pairs(const QueryRun& run, bool turned) {
  PairColumns result = columns_of(run, turned);
  for (Loaded* side : {&query_, &key_}) {
    if (!side->has_moduli) spectral::measure_columns(side->columns, side->moduli);
    side->has_moduli = true;
  }
  result.run.first_place = run.place;
  result.query_moduli = &query_.moduli;
  result.key_moduli = &key_.moduli;
  return result;
}

HeadVectors::PairColumns HeadVectors::columns_of(const QueryRun& run, bool turned) {
  need(Side::kQuery, run.query, run.queries, turned);
  need(Side::kKey, run.first, run.count, turned);
  PairColumns result;
  result.run.query = &query_.columns;
  result.run.key = &key_.columns;
  result.run.q = static_cast<std::size_t>(run.query - query_.first);
  result.run.queries = static_cast<std::size_t>(run.queries);
  result.run.first_key = static_cast<std::size_t>(run.first - key_.first);
  result.run.count = static_cast<std::size_t>(run.count);
  if (turned) {
    result.turned_query = &query_.turned;
    result.turned_key = &key_.turned;
  }
  return result;
}

HeadVectors::TripletColumns HeadVectors::triplets(const QueryRun& wanted) {
  need(Side::kQuery, wanted.query, wanted.queries, false);
  need_key_pairs(wanted.first, wanted.count);
  if (!query_.has_bounds) spectral::bound_columns(query_.columns, query_.bounds);
  query_.has_bounds = true;
  const auto n = static_cast<std::size_t>(wanted.count * wanted.queries);
  TripletColumns result;
  spectral::PairRun& run = result.run;
  run.query = &query_.columns;
  run.key = &key_pairs_.difference;
  run.q = static_cast<std::size_t>(wanted.query - query_.first);
  run.queries = static_cast<std::size_t>(wanted.queries);
  run.first_key = static_cast<std::size_t>(wanted.first - key_pairs_.first);
  run.count = static_cast<std::size_t>(wanted.count);
  run.first_place = wanted.place;
  result.first_key = &key_pairs_.first_key.columns;
  result.second_key = &key_pairs_.second_key.columns;
  result.query_bounds = &query_.bounds;
  result.pair_bounds = &key_pairs_.bounds;
  result.units = rounding_units();
  result.query_is_zero = query_.is_zero.data() + run.q;
  result.key_is_zero = key_pairs_.is_zero.data() + run.first_key;
  std::vector<double>& constants = key_pairs_.constants;
  constants.assign(2 * n, 0.0);
  if (query_.columns.n_still + query_.columns.n_tail > 0) {
    spectral::PairRun one = run;
    one.queries = 1;
    for (std::size_t i = 0; i < run.queries; ++i) {
      one.q = run.q + i;
      one.key = result.first_key;
      spectral::pair_constants(one, constants.data() + i * run.count);
      one.key = result.second_key;
      spectral::pair_constants(one, constants.data() + n + i * run.count);
    }
  }
  result.first_constant = constants.data();
  result.second_constant = constants.data() + n;
  return result;
}

void HeadVectors::need(Side side, std::int64_t first, std::int64_t count, bool turned) {
  Loaded& held = side == Side::kQuery ? query_ : key_;
  if (first < held.first || first + count > held.end) {
    const auto all = static_cast<std::int64_t>(positions_of(*slots_, side).size());
    held.first = few_ ? 0 : first;
    held.end = few_ ? all : first + count;
    tokens_.resize(static_cast<std::size_t>(held.end - held.first));
    std::iota(tokens_.begin(), tokens_.end(), held.first);
    load(side, tokens_, held);
  }
  if (!turned || held.has_turned) return;
  std::size_t column = 0;
  tokens_.resize(held.columns.tokens);
  std::iota(tokens_.begin(), tokens_.end(), held.first);
  const auto phases = phases_of(side, tokens_, false, column);
  held.turned.shape_like(held.columns);
  for (std::size_t r = 0; r < held.columns.rows(); ++r)
    std::copy_n(held.columns.row(r), held.columns.tokens, held.turned.row(r));
  spectral::turn_columns(held.turned, *phases, column, 1);
  held.has_turned = true;
}

spectral::RoundingUnits HeadVectors::rounding_units() const {
  return {rounding_unit(head_.query.block->type), rounding_unit(head_.key.block->type)};
}

void HeadVectors::need_key_pairs(std::int64_t first, std::int64_t count) {
  KeyPairs& held = key_pairs_;
  if (first >= held.first && first + count <= held.end) return;
  // Few vectors do not mean few pairs of them: explicit triplets may name a key many times.
  const bool all = few_ && slots_->key_pairs.size() <= 2 * slots_->key_slot.size();
  held.first = all ? 0 : first;
  held.end = all ? static_cast<std::int64_t>(slots_->key_pairs.size()) : first + count;
  const auto n = static_cast<std::size_t>(held.end - held.first);
  const auto* pairs = slots_->key_pairs.data() + held.first;
  held.is_zero.resize(n);
  if (few_) need(Side::kKey, 0, static_cast<std::int64_t>(slots_->key_slot.size()), false);
  for (Loaded* side : {&held.first_key, &held.second_key}) {
    tokens_.resize(n);
    for (std::size_t t = 0; t < n; ++t)
      tokens_[t] = side == &held.first_key ? pairs[t].first : pairs[t].second;
    if (few_) {
      side->columns.shape(*head_.lanes, n);
      side->is_zero.resize(n);
      for (std::size_t t = 0; t < n; ++t)
        side->is_zero[t] = key_.is_zero[static_cast<std::size_t>(tokens_[t])];
      for (std::size_t r = 0; r < side->columns.rows(); ++r) {
        const double* from = key_.columns.row(r);
        double* to = side->columns.row(r);
        for (std::size_t t = 0; t < n; ++t) to[t] = from[tokens_[t]];
      }
    } else {
      load(Side::kKey, tokens_, *side);
    }
  }
  for (std::size_t t = 0; t < n; ++t)
    held.is_zero[t] = held.first_key.is_zero[t] || held.second_key.is_zero[t];
  spectral::difference_columns(held.first_key.columns, held.second_key.columns, rounding_units(),
                               held.difference, held.bounds);
}

std::shared_ptr<const PhaseColumns> HeadVectors::phases_of(Side side, const std::vector<std::int64_t>& tokens,
                                                           bool stored, std::size_t& column) const {
  const SlotPhases* const shared = stored ? head_.stored_phases : phases_;
  const spectral::LaneMap& lanes = stored ? *head_.stored_lanes : *head_.lanes;
  const auto count = static_cast<std::int64_t>(tokens.size());
  bool in_a_row = true;
  for (std::int64_t i = 0; i < count; ++i)
    in_a_row = in_a_row && tokens[static_cast<std::size_t>(i)] == tokens.front() + i;
  if (in_a_row && shared != nullptr) return shared->get(side, tokens.front(), count, column);
  column = 0;
  std::vector<long long> positions;
  positions.reserve(tokens.size());
  for (const std::int64_t token : tokens)
    positions.push_back(positions_of(*slots_, side)[static_cast<std::size_t>(token)]);
  return std::make_shared<PhaseColumns>(spectral::make_phase_columns(lanes.omega, positions));
}

void HeadVectors::change_queries(VectorColumns& columns) const {
  for (std::size_t n = 0; n < columns.n_freq; ++n)
    for (double* row : {columns.row(n), columns.row(columns.n_freq + n)})
      for (std::size_t t = 0; t < columns.tokens; ++t) row[t] *= head_.query_scale[n];
}

void HeadVectors::load(Side side, const std::vector<std::int64_t>& tokens, Loaded& to) {
  constexpr std::size_t kTile = 8;  // vectors converted at a time
  const SideSource& source = side == Side::kQuery ? head_.query : head_.key;
  const auto& slot = side == Side::kQuery ? slots_->query_slot : slots_->key_slot;
  const std::size_t count = tokens.size(), dim = static_cast<std::size_t>(source.block->head_dim);
  const bool turned_otherwise = source.rotation == Rotation::kPost && head_.stored_lanes != nullptr;
  const spectral::LaneMap& lanes = turned_otherwise ? *head_.stored_lanes : *head_.lanes;
  VectorColumns& columns = turned_otherwise ? stored_ : to.columns;
  to.has_turned = to.has_moduli = to.has_bounds = false;
  to.is_zero.resize(count);
  columns.shape(lanes, count);
  rows_.resize(kTile * dim);
  for (std::size_t tile = 0; tile < count; tile += kTile) {
    const std::size_t here = std::min(kTile, count - tile);
    for (std::size_t t = 0; t < here;) {
      const std::int64_t token = slot[static_cast<std::size_t>(tokens[tile + t])];
      std::size_t end = t + 1;  // stored side by side
      while (end < here &&
             slot[static_cast<std::size_t>(tokens[tile + end])] == token + static_cast<std::int64_t>(end - t))
        ++end;
      convert_elements(source.block->type, source.block->at(source.head, token), (end - t) * dim,
                       rows_.data() + t * dim);
      t = end;
    }
    for (std::size_t t = 0; t < here; ++t) to.is_zero[tile + t] = is_zero(rows_.data() + t * dim, dim);
    columns.put(rows_.data(), here, static_cast<int>(dim), lanes, tile);
  }
  if (turned_otherwise && count == 0) to.columns.shape(*head_.lanes, 0);
  if (count == 0) return;
  const LayerModel& layer = *head_.layer;
  if (source.rotation == Rotation::kPost) {
    std::size_t column = 0;
    const auto phases = phases_of(side, tokens, turned_otherwise, column);
    spectral::turn_columns(columns, *phases, column, layer.reversed ? 1 : -1);
  }
  if (turned_otherwise) spectral::regroup_columns(columns, lanes, *head_.lanes, to.columns);
  if (layer.reversed) turn_forward(to.columns);
  std::vector<double> factor;
  if (layer.norm_after_epsilon)
    factor = norm_factors(to.columns, source.attention_factor, *layer.norm_after_epsilon);
  const bool query = side == Side::kQuery;
  if (factor.empty() && !query) return;
  factor.resize(count, 1.0);
  if (query && layer.query_temperature)
    for (std::size_t t = 0; t < count; ++t)
      factor[t] *=
          layer.query_temperature->at(positions_of(*slots_, side)[static_cast<std::size_t>(tokens[t])]);
  scale_columns(to.columns, factor, query ? head_.rotary_scale() : 1.0, query ? head_.tail_scale() : 1.0);
  if (query && head_.query_scale != nullptr) change_queries(to.columns);
}

}  // namespace rope

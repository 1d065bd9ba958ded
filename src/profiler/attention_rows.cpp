#include "profiler/attention_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "spectral/logit_rows.hpp"

namespace rope {
namespace {

using spectral::ColumnPanels;
using spectral::kProductRows;
using spectral::VectorColumns;
using spectral::WeightSums;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kKeyBlock = 256;  // logits of kProductRows queries with them stay in the first cache

/// Turned vectors of some queries as [rows][padded queries], and which of them are zero.
struct QueryBlock {
  std::size_t rows = 0, stride = 0;
  std::vector<double> values;
  std::vector<char> is_zero;

  void load(HeadVectors& vectors, std::int64_t first, std::int64_t count) {
    for (std::int64_t q = 0; q < count; ++q) {
      const HeadVectors::PairColumns columns = vectors.pairs(first + q, 0, 1, true);
      const VectorColumns& from = *columns.turned_query;
      if (q == 0) {
        rows = from.rows();
        stride = (static_cast<std::size_t>(count) + kProductRows - 1) / kProductRows * kProductRows;
        values.assign(rows * stride, 0.0);
        is_zero.assign(stride, 1);
      }
      for (std::size_t r = 0; r < rows; ++r) {
        const double x = from.row(r)[columns.run.q];
        values[r * stride + static_cast<std::size_t>(q)] = x;
        if (x != 0) is_zero[static_cast<std::size_t>(q)] = 0;
      }
    }
  }
};

/// A block of turned keys.
struct KeyBlock {
  std::int64_t first = 0, count = 0;
  ColumnPanels panels;
  std::vector<std::int64_t> zeros;  ///< [count + 1] zero vectors before each key

  void load(HeadVectors& vectors, std::int64_t query, std::int64_t from, std::int64_t keys) {
    first = from;
    count = keys;
    const HeadVectors::PairColumns columns = vectors.pairs(query, from, keys, true);
    const VectorColumns& turned = *columns.turned_key;
    const auto n = static_cast<std::size_t>(keys);
    panels.pack(turned.row(0) + columns.run.first_key, turned.stride, turned.rows(), n);
    std::vector<char> is_zero(n, 1);
    for (std::size_t r = 0; r < turned.rows(); ++r)
      for (std::size_t k = 0; k < n; ++k)
        if (turned.row(r)[columns.run.first_key + k] != 0) is_zero[k] = 0;
    zeros.assign(1, 0);
    for (const char zero : is_zero) zeros.push_back(zeros.back() + zero);
  }
};

/// A row under way. Sums leave the first token out; it joins in the end.
struct RowState {
  KeyRange keys;
  std::int64_t first_local = 0;  // the first key within the local distance
  bool sees_first = false;
  double first_logit = 0;  // S
  std::int64_t zeros = 0;  // zero vectors in reach
  std::span<const double> scales;
  std::vector<WeightSums> rest;  // [scales]
  WeightSums local;              // at the first scale
  std::vector<double> last;      // [offsets] S at each offset, NaN = no such key
};

/// lambda S, or cap * tanh(lambda S / cap).
std::span<const double> shaped(std::span<const double> logits, double scale, double cap,
                               std::vector<double>& to) {
  if (scale == 1 && !(cap > 0)) return logits;
  to.resize(logits.size());
  for (std::size_t k = 0; k < logits.size(); ++k) to[k] = scale * logits[k];
  if (cap > 0) spectral::cap_logits(to, cap);
  return to;
}

double shaped(double logit, double scale, double cap) {
  std::vector<double> one;
  return shaped(std::span<const double>(&logit, 1), scale, cap, one)[0];
}

class RowPass {
 public:
  RowPass(HeadVectors& vectors, std::int64_t first, std::int64_t count, const AttentionRequest& request)
      : vectors_(vectors),
        request_(request),
        slots_(vectors.slots()),
        cap_(vectors.head().layer->softcap),
        first_(first),
        states_(static_cast<std::size_t>(count)),
        logits_(kProductRows * static_cast<std::size_t>(kKeyBlock)) {
    for (std::int64_t q = 0; q < count; ++q) open(q);
  }

  void run() {
    if (states_.empty() || slots_.key_slot.empty()) return;
    queries_.load(vectors_, first_, static_cast<std::int64_t>(states_.size()));
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (const RowState& row : states_) {
      if (row.keys.count() == 0) continue;
      begin = std::min(begin, row.keys.first / kKeyBlock * kKeyBlock);
      end = std::max(end, row.keys.end);
    }
    for (std::int64_t block = begin; block < end; block += kKeyBlock) {
      keys_.load(vectors_, first_, block, std::min(kKeyBlock, end - block));
      for (std::size_t q = 0; q < states_.size(); q += kProductRows) multiply(q);
    }
  }

  std::vector<AttentionRow> rows() const {
    std::vector<AttentionRow> rows;
    for (std::size_t q = 0; q < states_.size(); ++q) rows.push_back(finished(q));
    return rows;
  }

 private:
  void open(std::int64_t q) {
    static constexpr double kOne[] = {1.0};
    RowState& row = states_[static_cast<std::size_t>(q)];
    const std::int64_t query = first_ + q;
    row.keys = key_range(slots_, query, request_.reach);
    row.sees_first = row.keys.first == 0 && row.keys.end > 0;
    row.first_local = row.keys.end;
    if (request_.local > 0)
      row.first_local = std::max(row.keys.first, key_range(slots_, query, {request_.local, false}).first);
    row.scales = kOne;
    if (!request_.scales.empty()) row.scales = request_.scales[static_cast<std::size_t>(query)];
    row.rest.resize(row.scales.size());
    row.last.assign(static_cast<std::size_t>(request_.offsets), kNaN);
  }

  void multiply(std::size_t q) {
    const std::size_t rows = std::min(kProductRows, states_.size() - q);
    std::int64_t begin = keys_.count, end = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      const KeyRange& keys = states_[q + i].keys;
      begin = std::min(begin, std::max<std::int64_t>(0, keys.first - keys_.first));
      end = std::max(end, std::min(keys_.count, keys.end - keys_.first));
    }
    if (begin >= end) return;
    constexpr auto kStride = static_cast<std::size_t>(kKeyBlock);
    spectral::multiply_rows(queries_.values.data() + q, queries_.stride, keys_.panels,
                            static_cast<std::size_t>(end), false, logits_.data(), kStride);
    for (std::size_t i = 0; i < rows; ++i) add(q + i, logits_.data() + i * kStride);
  }

  // The keys of the block that a row sees.
  void add(std::size_t q, const double* logits) {
    RowState& row = states_[q];
    std::int64_t begin = std::max<std::int64_t>(0, row.keys.first - keys_.first);
    const std::int64_t end = std::min(keys_.count, row.keys.end - keys_.first);
    if (begin >= end) return;
    row.zeros += keys_.zeros[static_cast<std::size_t>(end)] - keys_.zeros[static_cast<std::size_t>(begin)];
    keep_last(row, first_ + static_cast<std::int64_t>(q), logits, begin, end);
    if (row.sees_first && keys_.first == 0) {
      row.first_logit = logits[0];
      begin = 1;
    }
    const std::int64_t local = std::clamp(row.first_local - keys_.first, begin, end);
    add_run(row, logits, begin, local, false);
    add_run(row, logits, local, end, true);
  }

  void add_run(RowState& row, const double* logits, std::int64_t begin, std::int64_t end, bool local) {
    if (begin >= end) return;
    const std::span<const double> run(logits + begin, static_cast<std::size_t>(end - begin));
    for (std::size_t j = 0; j < row.scales.size(); ++j) {
      const WeightSums sums =
          spectral::sum_weights(shaped(run, row.scales[j], cap_, shaped_), request_.orders);
      row.rest[j].add(sums, request_.orders);
      if (j == 0 && local) row.local.add(sums, request_.orders);
    }
  }

  void keep_last(RowState& row, std::int64_t query, const double* logits, std::int64_t begin,
                 std::int64_t end) const {
    const long long position = slots_.query_position[static_cast<std::size_t>(query)];
    for (std::int64_t k = end; k-- > begin;) {
      const long long offset = position - slots_.key_position[static_cast<std::size_t>(keys_.first + k)];
      if (offset >= request_.offsets) return;
      row.last[static_cast<std::size_t>(offset)] = logits[k];
    }
  }

  AttentionRow finished(std::size_t q) const {
    const RowState& state = states_[q];
    AttentionRow row;
    row.query = first_ + static_cast<std::int64_t>(q);
    row.keys = state.keys.count();
    row.defined = row.keys > 0 && queries_.is_zero[q] == 0 && state.zeros == 0;
    for (std::size_t j = 0; j < state.scales.size(); ++j) {
      row.at_scale.push_back({state.rest[j], state.rest[j]});
      WeightSums& all = row.at_scale.back().all;
      if (state.sees_first) all.add(shaped(state.first_logit, state.scales[j], cap_), request_.orders);
      row.defined = row.defined && all.finite && std::abs(all.largest) <= kLargestNorm &&
                    std::abs(all.mean) <= kLargestNorm;
    }
    row.offset_weight.assign(state.last.size(), kNaN);
    if (row.defined && !row.at_scale.empty()) weigh(state, row);
    return row;
  }

  void weigh(const RowState& state, AttentionRow& row) const {
    const WeightSums& all = row.at_scale.front().all;
    const double scale = state.scales.front(), sink = request_.sink_logit;
    if (state.sees_first) row.first_weight = all.weight(shaped(state.first_logit, scale, cap_), sink);
    if (request_.local > 0) {
      row.local_weight = all.weight_of(state.local, sink);
      if (state.sees_first && state.first_local == 0) row.local_weight += row.first_weight;
    }
    const double total = all.log_total(sink);  // one exponential per offset
    for (std::size_t d = 0; d < state.last.size(); ++d)
      if (!std::isnan(state.last[d]))
        row.offset_weight[d] = std::exp(shaped(state.last[d], scale, cap_) - total);
  }

  HeadVectors& vectors_;
  const AttentionRequest& request_;
  const PartSlots& slots_;
  double cap_;
  std::int64_t first_;
  std::vector<RowState> states_;
  QueryBlock queries_;
  KeyBlock keys_;
  std::vector<double> logits_;  // [kProductRows][kKeyBlock]
  std::vector<double> shaped_;
};

}  // namespace

AttentionReach attention_reach(const LayerModel& layer, std::int64_t window) {
  return {window, layer.kind == "chunked_attention" && layer.window > 0 && window == layer.window};
}

KeyRange key_range(const PartSlots& slots, std::int64_t query, const AttentionReach& reach) {
  const std::vector<long long>& keys = slots.key_position;
  const long long position = slots.query_position[static_cast<std::size_t>(query)];
  const long long oldest = reach.chunked ? position / reach.window * reach.window
                                         : position - std::min<std::int64_t>(position, reach.window - 1);
  const auto first = std::lower_bound(keys.begin(), keys.end(), oldest);
  const auto end = std::upper_bound(first, keys.end(), position);
  return {first - keys.begin(), end - keys.begin()};
}

std::vector<std::int64_t> queries_by_position(const PartSlots& slots) {
  std::vector<std::int64_t> order(slots.query_slot.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return slots.query_position[static_cast<std::size_t>(a)] <
           slots.query_position[static_cast<std::size_t>(b)];
  });
  return order;
}

std::vector<AttentionRow> attention_rows(HeadVectors& vectors, std::int64_t first, std::int64_t count,
                                         const AttentionRequest& request) {
  RowPass pass(vectors, first, count, request);
  pass.run();
  return pass.rows();
}

std::vector<double> attention_logits(HeadVectors& vectors, std::int64_t query, const AttentionReach& reach) {
  const KeyRange keys = key_range(vectors.slots(), query, reach);
  std::vector<double> logits;
  if (keys.count() == 0) return logits;
  QueryBlock queries;
  queries.load(vectors, query, 1);
  KeyBlock block;
  std::vector<double> products(kProductRows * static_cast<std::size_t>(kKeyBlock));
  for (std::int64_t first = keys.first / kKeyBlock * kKeyBlock; first < keys.end; first += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, keys.end - first);
    block.load(vectors, query, first, count);
    spectral::multiply_rows(queries.values.data(), queries.stride, block.panels,
                            static_cast<std::size_t>(count), false, products.data(),
                            static_cast<std::size_t>(kKeyBlock));
    logits.insert(logits.end(), products.begin() + std::max<std::int64_t>(0, keys.first - first),
                  products.begin() + count);
  }
  if (vectors.head().layer->softcap > 0) spectral::cap_logits(logits, vectors.head().layer->softcap);
  return logits;
}

}  // namespace rope

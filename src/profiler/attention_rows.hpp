#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "profiler/head_vectors.hpp"
#include "profiler/part_slots.hpp"
#include "spectral/effective_length.hpp"

namespace rope {

/// Which keys a query of a layer sees: positions p_k <= p_q with p_q - p_k < window, in a chunked layer those
/// of its own chunk [window * floor(p_q / window), ...).
struct AttentionReach {
  std::int64_t window = std::numeric_limits<std::int64_t>::max();
  bool chunked = false;
};
/// The reach of a layer for a window as layer_window() gives it: `chunked` where it is the layer's chunk that
/// caps it.
AttentionReach attention_reach(const LayerModel& layer, std::int64_t window);

/// Keys [first, end) of the used slots that a query sees. slots: of a full-coverage example, keys by
/// position.
struct KeyRange {
  std::int64_t first = 0, end = 0;
  std::int64_t count() const { return end - first; }
};
KeyRange key_range(const PartSlots& slots, std::int64_t query, const AttentionReach& reach);

/// Indexes of the used queries, by position (ties by slot): the i-th of every example makes length group i.
std::vector<std::int64_t> queries_by_position(const PartSlots& slots);

struct AttentionRequest {
  spectral::LengthOrders orders;
  AttentionReach reach;
  /// lambda > 0 of each query, several at a time from one pass: [slots' queries]; empty: 1 for all. Logits
  /// are lambda S, or cap * tanh(lambda S / cap) where the layer has a softcap.
  std::vector<std::vector<double>> scales{};
  double sink_logit = -std::numeric_limits<double>::infinity();  ///< the head's extra logit, if it has one
  std::int64_t local = 0;    ///< > 0: weight of the keys with p_q - p_k < local
  std::int64_t offsets = 0;  ///< weights at p_q - p_k = 0 ... offsets - 1
};

/// One row of attention weights (theory §12): a query against all keys in its reach.
struct AttentionRow {
  std::int64_t query = 0;  ///< index into the used queries
  std::int64_t keys = 0;   ///< L
  /// False for a row without keys, with a zero vector among query and keys, or with a logit that is not
  /// finite or above kLargestNorm: such rows have no weights.
  bool defined = false;
  struct Sums {
    spectral::WeightSums all;  ///< over all keys
    spectral::WeightSums
        rest;  ///< without the example's first token; equal to `all` where it is out of reach
  };
  std::vector<Sums> at_scale;  ///< [scales of the query]
  // Weights at the first scale, the sink logit in the denominator; 0 where there is no such key.
  double first_weight = 0;            ///< of the example's first token (the used key of smallest position)
  double local_weight = 0;            ///< of the keys with p_q - p_k < local
  std::vector<double> offset_weight;  ///< [offsets] at p_k = p_q - offset; NaN where no such key is in reach
};

/// Rows of queries [first, first + count) of the head that `vectors` holds: one pass over the keys, block by
/// block like blocked attention, so memory grows with the queries asked for and not with the keys. Everything
/// in float64; a row depends on its query alone. The slots must be of a full-coverage example.
std::vector<AttentionRow> attention_rows(HeadVectors& vectors, std::int64_t first, std::int64_t count,
                                         const AttentionRequest& request);

/// The logits of one row, keys in the order of key_range(), at scale 1 and without the sink logit; a softcap
/// is applied. For tests and for rows that are taken up again and again.
std::vector<double> attention_logits(HeadVectors& vectors, std::int64_t query, const AttentionReach& reach);

}  // namespace rope

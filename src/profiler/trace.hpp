#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activation_set.hpp"
#include "profiler/head_job.hpp"
#include "spectral/score_trace.hpp"

namespace rope {

/// Which head, and which of its pairs or triplets, is to be looked at; slots are those of the cache.
struct TraceRequest {
  std::optional<std::string> task, example;
  std::optional<int> layer, head;
  std::optional<std::int64_t> query, key, key2, triplet;
  bool all_pairs = false;
};

/// One head of one example.
struct TracePlace {
  const SetTask* task = nullptr;
  const SetExample* example = nullptr;
  const ActivationFile* file = nullptr;
  const TaskHeader* header = nullptr;
  std::int64_t row = 0;  ///< of the example in the file
  int layer = 0, head = 0;
  std::int64_t head_index = 0;  ///< into ActivationSet::heads()
  ExampleSlots slots;           ///< positions and triplets as stored
};

/// Finds what the request names; where it names nothing and only one thing exists, that. Throws UserError
/// that lists what exists: an unknown or missing task, example, layer or head, a head that does not rotate, a
/// layer that the example does not store.
TracePlace find_trace_place(const ActivationSet& set, const TraceRequest& request, bool check_window);

/// A pair, or (key2 >= 0) two keys of one query, by slot and by index into PartSlots.
struct TraceKeys {
  std::int64_t query_slot = -1, key_slot = -1, key2_slot = -1;
  std::int64_t query = -1, key = -1, key2 = -1;
  std::int64_t query_position = 0, key_position = 0, key2_position = 0;
  bool is_margin() const { return key2 >= 0; }
  std::int64_t distance() const { return query_position - key_position; }
  std::int64_t distance2() const { return query_position - key2_position; }
};

/// The pair or margin that a request names; a missing number is taken where only one slot is used. Throws
/// UserError for a slot that does not exist or is unused, a triplet that does not exist, equal keys, and,
/// under full coverage, a key behind the query.
TraceKeys find_trace_keys(const TracePlace& place, const TraceRequest& request, const PartSlots& slots);
/// Every pair of the head, in the order of PartSlots.
std::vector<TraceKeys> all_trace_keys(const PartSlots& slots);

/// Coefficients of a pair or margin, and what theory §§1 and 3 say of it.
struct TracedVector {
  spectral::TraceVector vector;
  double tails = 0;          ///< |c_0(k_1)| + |c_0(k_2)|, or |c_0|
  bool zero_vector = false;  ///< the query or a key is all zero
  bool finite = true;        ///< false: left out everywhere else
};

/// One head with its vectors at hand. The job must outlive it, and its vectors be decoded.
class TracedHead {
 public:
  explicit TracedHead(const HeadJob& job);
  TracedVector vector(const TraceKeys& keys);

 private:
  std::vector<double> column(bool query, std::int64_t index);

  const HeadJob* job_;
  HeadVectors vectors_;
  std::size_t n_freq_ = 0;
};

/// The vector under a change (theory §7): z_n times its factor, frozen pairs into the constant. lanes: of the
/// head's grid.
spectral::TraceVector change_vector(const spectral::TraceVector& vector, const spectral::LaneMap& lanes,
                                    const HeadChange& change);

/// Sign that makes a margin's D(0) positive; 0 for a tie (theory §3).
double margin_sign(const TracedVector& traced);

/// Distances first, first + stride, ... up to last.
struct TraceRange {
  std::int64_t first = 0, last = 0, stride = 1;
  std::int64_t rows() const { return (last - first) / stride + 1; }
};
/// Calls sink(m, original, changed) in rising order; `changed` may be null, the sink then gets zeros.
/// Computed by up to `threads` threads (0: as OpenMP would); the values do not depend on them. Memory: a few
/// hundred KB, whatever the range.
using TraceSink = std::function<void(std::int64_t m, const spectral::TracePoint& original,
                                     const spectral::TracePoint& changed)>;
void trace_range(const spectral::ScoreTrace& original, const spectral::ScoreTrace* changed,
                 const TraceRange& range, int threads, const TraceSink& sink);

/// Facts of a vector over a window of M distances. NaN = not defined, or not of this kind.
struct TraceFacts {
  std::int64_t window = 0, pairs = 0, high_pairs = 0;  ///< M; rotating pairs; size of H
  double norm = 0, high_norm = 0, norm_share = 0;      ///< U, U_H, r_H
  double constant = 0;                                 ///< c_0 or c_D
  double at_zero = 0, at_distance = 0;                 ///< S(0), S at the pair's own distance (NaN: margin)
  double mean = 0, deviation = 0;                      ///< mu and sigma, exact moments
  double positional = 0, response_max = 0;             ///< P and zeta
  double effective_length = 0, aliasing = 0, aliasing_f16 = 0;  ///< of pairs
  /// Of margins, which turn round where D(m) and D(0) have different signs (§3); NaN for a tie or a zero
  /// vector.
  double reversal = 0, exact_reversal = 0, reversal_gap = 0;
  bool tie = false;  ///< of margins: D(0) = 0 within rounding
};

/// `distance`: m of the pair itself; ignored for margins. softcap: of the layer, acts in E_2. Throws nothing
/// but bad_alloc for finite vectors.
TraceFacts trace_facts(const TracedVector& traced, std::int64_t window, bool is_margin, std::int64_t distance,
                       double softcap);

}  // namespace rope

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/cache_run.hpp"
#include "spectral/effective_length.hpp"
#include "spectral/growth_fit.hpp"

namespace rope {

/// What `length` computes (theory §12).
struct LengthOptions {
  CacheRunOptions cache;
  spectral::LengthOrders orders;  ///< of the lengths that are listed
  bool virtual_lengths = true;
  enum class Attention {
    kWhereCovered,  ///< of the tasks with key_coverage "full"
    kRequired,      ///< every task must have it, or UserError
  };
  Attention attention = Attention::kWhereCovered;
  std::int64_t local = 64;     ///< local mass: keys with p_q - p_k < local
  std::int64_t offsets = 256;  ///< slash: offsets 0 ... offsets - 1; at least 2
  double retrieval_below = 0.25, aggregation_above = 0.75;
};

/// Virtual E_beta of one head in one task: mean over valid pairs, then over examples. NaN: no valid pair.
struct VirtualLengthRow {
  int task = 0;  ///< index into ActivationSet::tasks()
  int layer = 0, head = 0;
  std::size_t order = 0;
  double length = 0;       ///< of softmax S(m)
  double slow = 0;         ///< with the pairs of H stopped
  std::int64_t pairs = 0;  ///< valid ones, over all examples
};

/// A length group of a head: the i-th used query, by position, of every example. Means over examples, then
/// over tasks, of ln E_beta; L alike.
struct LengthGroupRow {
  int layer = 0, head = 0;
  int group = 0;              ///< from 0
  std::int64_t examples = 0;  ///< with a defined row
  double keys = 0;            ///< L: keys in reach
  double keys_without_first = 0;
  std::size_t order = 0;
  double log_length = 0, log_length_without_first = 0;
};

/// Growth of E_2 in the number of keys, with its class.
struct HeadGrowth {
  std::optional<spectral::GrowthFit> fit;
  spectral::GrowthClass growth = spectral::GrowthClass::kNone;
};

/// What attention rows say of a head: means over its rows, then over examples, then over tasks.
struct HeadAttention {
  std::int64_t rows = 0, undefined = 0;  ///< queries with all their keys; those left out
  std::int64_t groups = 0;
  double shortest = 0, longest = 0;                                 ///< L of the first and of the last group
  double effective_length = 0, effective_length_without_first = 0;  ///< exp(mean ln E_2) of the last group
  double entropy = 0;        ///< -sum alpha ln alpha, nats: mean over all rows
  double sink = 0;           ///< weight of the first token
  double local = 0;          ///< of the keys nearer than LengthOptions::local
  double previous = 0;       ///< slash(1)
  double slash = 0;          ///< the largest mean weight at one offset ...
  std::int64_t offset = -1;  ///< ... and that offset, among those that half of the rows have; -1: none
  HeadGrowth growth, without_first;
};

struct LengthHeadRow {
  int layer = 0, head = 0;
  std::int64_t window = 0;  ///< sliding window or chunk of the layer, 0 = none
  bool softcap = false;
  /// Virtual E_beta, mean over tasks, [orders]; empty where not computed.
  std::vector<double> length, slow;
  std::optional<HeadAttention> attention;
};

struct LengthReport {
  std::vector<LengthHeadRow> heads;           ///< the selected, layer-major
  std::vector<VirtualLengthRow> lengths;      ///< by task, head, order
  std::vector<LengthGroupRow> groups;         ///< by head, group, order
  std::vector<std::string> covered, sampled;  ///< tasks with and without all keys
};

/// Called after each example, with examples done and in all, over both passes.
using LengthProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Two passes over the vectors: pairs for the virtual lengths, queries with all their keys for attention.
/// Throws UserError where attention is required and a task has not all keys, and what CacheRun throws.
LengthReport run_length(const CacheRun& run, const LengthOptions& options, const LengthProgress& progress);

/// The text that `length --json` prints (schemas/length.schema.json).
std::string length_json(const LengthReport& report, const CacheRun& run, const LengthOptions& options);

}  // namespace rope

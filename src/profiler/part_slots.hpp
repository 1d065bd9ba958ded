#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/activation_file.hpp"

namespace rope {

/// Which (query, key) pairs and which (query, key, key) triplets exist in one example of one file: the used
/// slots, and under full coverage only keys at or before the query (theory §1; activation-format.md). Shared
/// by all its heads.
///
/// Pairs are numbered query by query, the keys of a query in the order of `key_slot`; triplets alike. A sum
/// over either runs in that order, whatever the blocks it is computed in.
struct PartSlots {
  std::vector<std::int64_t> query_slot, key_slot;       ///< used slots; keys by position under full coverage
  std::vector<long long> query_position, key_position;  ///< of the used slots, tokens
  std::vector<std::int64_t> first_pair;     ///< [queries + 1] number of the first pair of each query
  std::vector<std::int64_t> first_triplet;  ///< [queries + 1]
  std::vector<std::pair<std::int32_t, std::int32_t>> key_pairs;  ///< indexes into key_slot

  std::int64_t pairs() const { return first_pair.back(); }
  std::int64_t triplets() const { return first_triplet.back(); }
};

/// Slots of an example. Default key pairs are slots (0,1), (2,3), ...; one with an unused slot is dropped,
/// not re-paired.
PartSlots make_part_slots(const ExampleSlots& slots, bool full_coverage);

/// Pairs or triplets within a block of neighbouring queries that have the same keys (or key pairs) [first,
/// first + count) there: the block's numbers from `place` on.
struct QueryRun {
  std::int64_t query = 0, first = 0, count = 0;
  std::size_t place = 0;
  std::int64_t queries = 1;
};

/// Runs of numbers [first, first + count), of at most `most` queries each; first_of_query:
/// PartSlots::first_pair or first_triplet.
std::vector<QueryRun> query_runs(const std::vector<std::int64_t>& first_of_query, std::int64_t first,
                                 std::int64_t count, std::int64_t most = 1);

}  // namespace rope

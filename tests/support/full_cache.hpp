#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/cache_writer.hpp"

namespace rope::test {

/// Sizes of full_cache.
struct FullCache {
  std::uint64_t seed = 1;
  int num_layers = 1, query_heads = 4, kv_heads = 2, head_dim = 8;
  std::vector<std::int64_t> examples = {2, 2};  ///< of the tasks "alpha", "beta", ...
  std::vector<std::int64_t> query_position = {15, 31, 63, 127};
  std::int64_t keys = 128;
  double theta = 1000.0;
};

/// A cache of normal random float64 vectors that holds every key (key_coverage = full), its window `keys`.
CacheSpec full_cache(const FullCache& sizes = {});

/// The vector of a query (a key) of such a cache, to read or change.
double* query_of(CacheSpec& cache, std::size_t task, std::int64_t example, int layer, int head,
                 std::int64_t slot);
double* key_of(CacheSpec& cache, std::size_t task, std::int64_t example, int layer, int kv_head,
               std::int64_t slot);

}  // namespace rope::test

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/cache_writer.hpp"

namespace rope::test {

/// One task of a test cache. Vectors are content ("pre") vectors in the half-split layout, whatever the file
/// says: write_cache permutes and rotates them into what CacheSpec::model asks for.
struct TaskSpec {
  TaskHeader header;                         ///< shapes, types, attributes; examples = window.size()
  std::vector<std::int64_t> window;          ///< [E]
  std::vector<std::string> example_id;       ///< [E], used where header.has_example_id
  std::vector<std::int64_t> query_position;  ///< [E, Nq], -1 unused
  std::vector<std::int64_t> key_position;    ///< [E, Nk], -1 unused
  std::vector<std::int64_t> triplets;        ///< [E, T, 2]
  std::vector<double> query;                 ///< [E, L, Hq, Nq, D]
  std::vector<double> key;                   ///< [E, L, Hkv, Nk, D]
  CacheStorage storage;
};

/// A whole cache file.
struct CacheSpec {
  ModelHeader model;  ///< as written; a `post` side is rotated with omega below
  std::string created_by = "rope tests";
  /// Frequencies per model layer [num_layers][h] (or one entry for all layers); needed for `post` sides, and
  /// for the rotary width 2h when it is smaller than head_dim.
  std::vector<std::vector<double>> omega;
  double attention_factor = 1.0;  ///< A, multiplies the rotary lanes of `post` sides
  std::vector<TaskSpec> tasks;
};

/// Sizes of random_cache; the defaults make a file of a few kilobytes.
struct RandomCache {
  std::uint64_t seed = 1;
  int num_layers = 2, query_heads = 4, kv_heads = 2, head_dim = 16;
  std::vector<int> layers = {};  ///< empty = all
  std::int64_t examples = 3, query_slots = 2, key_slots = 6;
  std::int64_t window = 200;  ///< example e gets window + 10 e
  std::vector<std::string> tasks = {"alpha", "beta"};
  ElementType type = ElementType::kFloat16;
  bool example_id = true;
  double theta = 10000.0;
};

/// A valid cache of normal random vectors, with a minimal llama config and omega filled in. Equal arguments
/// give equal content.
CacheSpec random_cache(const RandomCache& sizes = {});

/// A minimal Hugging Face config.json (model_type llama) for these sizes.
std::string llama_config(int num_layers, int query_heads, int kv_heads, int head_dim, double theta);

/// Writes the cache; replaces an existing file.
void write_cache(const std::string& path, const CacheSpec& cache);

/// Keeps only the given examples (rows) or model layers of a task: one cache split over several files.
TaskSpec select_examples(const TaskSpec& task, const std::vector<std::int64_t>& rows);
TaskSpec select_layers(const TaskSpec& task, const std::vector<int>& model_layers);

}  // namespace rope::test

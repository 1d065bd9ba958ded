#include "support/full_cache.hpp"

#include <numeric>

namespace rope::test {

CacheSpec full_cache(const FullCache& sizes) {
  RandomCache random;
  random.seed = sizes.seed;
  random.num_layers = sizes.num_layers;
  random.query_heads = sizes.query_heads;
  random.kv_heads = sizes.kv_heads;
  random.head_dim = sizes.head_dim;
  random.theta = sizes.theta;
  random.type = ElementType::kFloat64;
  random.query_slots = std::ssize(sizes.query_position);
  random.key_slots = sizes.keys;
  random.window = sizes.keys;
  CacheSpec cache;
  for (std::size_t t = 0; t < sizes.examples.size(); ++t) {
    random.seed = sizes.seed + 1000 * t;
    random.examples = sizes.examples[t];
    random.tasks = {std::string(t == 0 ? "alpha" : t == 1 ? "beta" : "gamma")};
    CacheSpec one = random_cache(random);
    TaskSpec& task = one.tasks[0];
    task.header.full_coverage = true;
    task.query_position.clear();
    task.key_position.clear();
    for (std::int64_t e = 0; e < random.examples; ++e) {
      task.window[static_cast<std::size_t>(e)] = sizes.keys;
      task.query_position.insert(task.query_position.end(), sizes.query_position.begin(),
                                 sizes.query_position.end());
      std::vector<std::int64_t> keys(static_cast<std::size_t>(sizes.keys));
      std::iota(keys.begin(), keys.end(), std::int64_t{0});
      task.key_position.insert(task.key_position.end(), keys.begin(), keys.end());
    }
    if (t == 0)
      cache = std::move(one);
    else
      cache.tasks.push_back(std::move(task));
  }
  return cache;
}

namespace {

double* vector_of(std::vector<double>& values, const TaskHeader& header, std::int64_t heads,
                  std::int64_t slots, std::int64_t example, std::int64_t layer, std::int64_t head,
                  std::int64_t slot) {
  const std::int64_t row = ((example * std::ssize(header.layers) + layer) * heads + head) * slots + slot;
  return values.data() + row * header.head_dim;
}

}  // namespace

double* query_of(CacheSpec& cache, std::size_t task, std::int64_t example, int layer, int head,
                 std::int64_t slot) {
  TaskSpec& t = cache.tasks[task];
  return vector_of(t.query, t.header, t.header.query_heads, t.header.query_slots, example, layer, head, slot);
}

double* key_of(CacheSpec& cache, std::size_t task, std::int64_t example, int layer, int kv_head,
               std::int64_t slot) {
  TaskSpec& t = cache.tasks[task];
  return vector_of(t.key, t.header, t.header.kv_heads, t.header.key_slots, example, layer, kv_head, slot);
}

}  // namespace rope::test

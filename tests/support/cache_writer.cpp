#include "support/cache_writer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <span>
#include <stdexcept>

namespace rope::test {
namespace {

double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(random)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(random));
}

/// One side of a task: [E, L, heads, slots, D] rewritten in place into the stored layout and rotation.
void store_form(const CacheSpec& cache, const TaskHeader& task, Rotation rotation, std::int64_t heads,
                const std::vector<std::int64_t>& positions, std::int64_t slots, std::vector<double>& values) {
  const std::size_t dim = static_cast<std::size_t>(task.head_dim);
  const bool interleaved = cache.model.layout == spectral::PairLayout::kInterleaved;
  std::vector<double> row(dim);
  std::size_t at = 0;
  for (std::int64_t e = 0; e < task.examples; ++e)
    for (const int layer : task.layers) {
      std::vector<double> omega;
      if (!cache.omega.empty())
        omega = cache.omega[cache.omega.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
      const std::size_t h = cache.omega.empty() ? dim / 2 : omega.size();
      if (rotation == Rotation::kPost && cache.omega.empty()) throw std::logic_error("post needs omega");
      for (std::int64_t row_index = 0; row_index < heads * slots; ++row_index, at += dim) {
        const std::int64_t position = positions[static_cast<std::size_t>(e * slots + row_index % slots)];
        for (std::size_t n = 0; n < h; ++n) {
          double a = values[at + n], b = values[at + n + h];
          if (rotation == Rotation::kPost && position >= 0) {
            const double angle =
                (cache.model.reversed ? -1.0 : 1.0) * static_cast<double>(position) * omega[n];
            const double c = cache.attention_factor * std::cos(angle);
            const double s = cache.attention_factor * std::sin(angle);
            const double turned = a * c - b * s;
            b = a * s + b * c;
            a = turned;
          }
          row[interleaved ? 2 * n : n] = a;
          row[interleaved ? 2 * n + 1 : n + h] = b;
        }
        for (std::size_t n = 2 * h; n < dim; ++n) row[n] = values[at + n];
        std::copy(row.begin(), row.end(), values.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
}

/// Rows `rows` (of `row_size` values each) of a row-major array.
template <class T>
std::vector<T> pick(const std::vector<T>& from, const std::vector<std::int64_t>& rows,
                    std::int64_t row_size) {
  std::vector<T> out;
  if (from.empty()) return out;
  for (const std::int64_t row : rows)
    out.insert(out.end(), from.begin() + row * row_size, from.begin() + (row + 1) * row_size);
  return out;
}

}  // namespace

std::string llama_config(int num_layers, int query_heads, int kv_heads, int head_dim, double theta) {
  const auto number = [](int value) { return std::to_string(value); };
  return R"({"model_type": "llama", "hidden_size": )" + number(query_heads * head_dim) +
         R"(, "num_hidden_layers": )" + number(num_layers) + R"(, "num_attention_heads": )" +
         number(query_heads) + R"(, "num_key_value_heads": )" + number(kv_heads) + R"(, "head_dim": )" +
         number(head_dim) + R"(, "max_position_embeddings": 8192, "rope_theta": )" + std::to_string(theta) +
         "}";
}

CacheSpec random_cache(const RandomCache& sizes) {
  std::mt19937_64 random(sizes.seed);
  CacheSpec cache;
  ModelHeader& model = cache.model;
  model.name = "random test model";
  model.num_layers = sizes.num_layers;
  model.num_query_heads = sizes.query_heads;
  model.num_kv_heads = sizes.kv_heads;
  model.head_dim = sizes.head_dim;
  model.config =
      llama_config(sizes.num_layers, sizes.query_heads, sizes.kv_heads, sizes.head_dim, sizes.theta);
  std::vector<double> omega;
  for (int n = 0; n < sizes.head_dim / 2; ++n)
    omega.push_back(std::pow(sizes.theta, -2.0 * n / sizes.head_dim));
  cache.omega = {omega};
  for (const std::string& name : sizes.tasks) {
    TaskSpec task;
    TaskHeader& header = task.header;
    header.name = name;
    header.family = "random";
    header.examples = sizes.examples;
    header.query_slots = sizes.query_slots;
    header.key_slots = sizes.key_slots;
    header.query_heads = sizes.query_heads;
    header.kv_heads = sizes.kv_heads;
    header.head_dim = sizes.head_dim;
    header.layers = sizes.layers;
    if (sizes.layers.empty())
      for (int l = 0; l < sizes.num_layers; ++l) header.layers.push_back(l);
    header.has_example_id = sizes.example_id;
    header.query_type = header.key_type = sizes.type;
    for (std::int64_t e = 0; e < sizes.examples; ++e) {
      const std::int64_t window = sizes.window + 10 * e;
      task.window.push_back(window);
      if (sizes.example_id) task.example_id.push_back(name + "-" + std::to_string(e));
      for (std::int64_t i = 0; i < sizes.query_slots; ++i)
        task.query_position.push_back(window - sizes.query_slots + i);
      const std::int64_t span = window - sizes.query_slots;
      for (std::int64_t i = 0; i < sizes.key_slots; ++i)
        task.key_position.push_back(i * span / sizes.key_slots);
    }
    const std::int64_t rows = sizes.examples * std::ssize(header.layers) * sizes.head_dim;
    task.query.resize(static_cast<std::size_t>(rows * sizes.query_heads * sizes.query_slots));
    task.key.resize(static_cast<std::size_t>(rows * sizes.kv_heads * sizes.key_slots));
    for (double& value : task.query) value = normal(random);
    for (double& value : task.key) value = normal(random);
    cache.tasks.push_back(std::move(task));
  }
  return cache;
}

void write_cache(const std::string& path, const CacheSpec& cache) {
  CacheWriter writer(path, cache.model, cache.created_by);
  for (const TaskSpec& task : cache.tasks) {
    TaskHeader header = task.header;
    header.examples = std::ssize(task.window);
    std::vector<double> query = task.query, key = task.key;
    store_form(cache, header, cache.model.query_rotation, header.query_heads, task.query_position,
               header.query_slots, query);
    store_form(cache, header, cache.model.key_rotation, header.kv_heads, task.key_position, header.key_slots,
               key);
    writer.begin_task(header, task.storage);
    const auto part = [&](const auto& all, std::int64_t e) {
      const std::size_t size = all.size() / task.window.size();
      return std::span(all).subspan(static_cast<std::size_t>(e) * size, size);
    };
    for (std::int64_t e = 0; e < header.examples; ++e) {
      ExampleSlots slots;
      const auto copy = [&](const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
        const auto row = part(from, e);
        to.assign(row.begin(), row.end());
      };
      copy(task.query_position, slots.query_position);
      copy(task.key_position, slots.key_position);
      copy(task.triplets, slots.triplets);
      const std::size_t row = static_cast<std::size_t>(e);
      writer.put_example(e, header.has_example_id ? task.example_id[row] : std::string(), task.window[row],
                         slots, part(query, e), part(key, e));
    }
  }
  writer.close();
}

TaskSpec select_examples(const TaskSpec& task, const std::vector<std::int64_t>& rows) {
  const TaskHeader& h = task.header;
  const std::int64_t layers = std::ssize(h.layers);
  TaskSpec out = task;
  out.header.examples = std::ssize(rows);
  out.window = pick(task.window, rows, 1);
  out.example_id = pick(task.example_id, rows, 1);
  out.query_position = pick(task.query_position, rows, h.query_slots);
  out.key_position = pick(task.key_position, rows, h.key_slots);
  out.triplets = pick(task.triplets, rows, 2 * h.triplet_slots);
  out.query = pick(task.query, rows, layers * h.query_heads * h.query_slots * h.head_dim);
  out.key = pick(task.key, rows, layers * h.kv_heads * h.key_slots * h.head_dim);
  return out;
}

TaskSpec select_layers(const TaskSpec& task, const std::vector<int>& model_layers) {
  const TaskHeader& h = task.header;
  std::vector<std::int64_t> rows;  // of [E * L]
  for (std::int64_t e = 0; e < std::ssize(task.window); ++e)
    for (const int layer : model_layers) {
      const auto found = std::find(h.layers.begin(), h.layers.end(), layer);
      if (found == h.layers.end()) throw std::logic_error("layer not in the task");
      rows.push_back(e * std::ssize(h.layers) + (found - h.layers.begin()));
    }
  TaskSpec out = task;
  out.header.layers = model_layers;
  out.query = pick(task.query, rows, std::int64_t{h.query_heads} * h.query_slots * h.head_dim);
  out.key = pick(task.key, rows, std::int64_t{h.kv_heads} * h.key_slots * h.head_dim);
  return out;
}

}  // namespace rope::test

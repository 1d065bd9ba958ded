#include "profiler/margin_measures.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/cache_vectors.hpp"
#include "support/compare.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

/// tau and all zeta of the margins of the given layers (indexes into the task's).
std::pair<double, std::vector<double>> expected_measures(const CacheSpec& cache, const TaskSpec& task,
                                                         const std::vector<std::int64_t>& slots,
                                                         const std::vector<double>& omega) {
  double tau = 0;
  std::vector<double> responses;
  for (std::int64_t e = 0; e < std::ssize(task.window); ++e)
    for (const std::int64_t slot : slots)
      for (int head = 0; head < cache.model.num_query_heads; ++head) {
        const auto margins = cache_vectors(task, e, slot, head).margins;
        const std::int64_t window = task.window[static_cast<std::size_t>(e)];
        const auto sums = reference::sum_over_window(margins, omega, window);
        for (std::size_t v = 0; v < margins.size(); ++v) {
          const double gaussian =
              reference::normal_cdf(-static_cast<double>(sums[v].mean / std::sqrt(sums[v].variance)));
          const double exact = static_cast<double>(sums[v].reversals) / static_cast<double>(window);
          tau = std::max(tau, std::abs(gaussian - exact));
          responses.push_back(sums[v].response_max / static_cast<double>(reference::norm(margins[v])));
        }
      }
  std::sort(responses.begin(), responses.end());
  return {tau, responses};
}

double quantile_of(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(place)),
             high = static_cast<std::size_t>(std::ceil(place));
  return sorted[low] + (place - std::floor(place)) * (sorted[high] - sorted[low]);
}

MarginMeasures measure(const std::vector<std::string>& files, int threads = 1) {
  CacheRunOptions options;
  options.files = files;
  options.threads = threads;
  const CacheRun run(options);
  return measure_margins(run, [](std::size_t) {});
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("measured tau and zeta are those of direct sums over every margin") {
  TempDir folder;
  RandomCache sizes;
  sizes.type = ElementType::kFloat64;
  sizes.key_slots = 7;  // an odd last slot is ignored
  const CacheSpec cache = random_cache(sizes);
  write_cache(folder / "c.h5", cache);
  const MarginMeasures found = measure({folder / "c.h5"});
  REQUIRE(found.grids.size() == 1);
  CHECK(found.grids[0].omega == cache.omega[0]);
  CHECK(found.grids[0].layers == std::vector<int>{0, 1});
  CHECK(found.grids[0].theta == 10000);
  CHECK(found.grids[0].layer_window == 0);
  CHECK(found.exact_quantiles);
  REQUIRE(found.tasks.size() == 2);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto [tau, responses] = expected_measures(cache, cache.tasks[t], {0, 1}, cache.omega[0]);
    CHECK(found.tasks[t].task == cache.tasks[t].header.name);
    CHECK(found.tasks[t].margins == std::ssize(responses));
    CHECK(found.tasks[t].margins == 3 * 2 * 4 * 2 * 3);
    CHECK(tau > 0.01);
    CHECK_COMPARISON(compare_absolute("tau", std::vector{found.tasks[t].tau}, std::vector{tau}, 1e-12));
    std::vector<double> value, expected;
    for (const auto& [q, zeta] : found.tasks[t].response) {
      value.push_back(zeta);
      expected.push_back(quantile_of(responses, q));
    }
    CHECK(value.size() == 3);
    CHECK_COMPARISON(compare_relative("zeta", value, expected, 1e-5));
  }
}

TEST_CASE("margins are measured per grid, at the window of their layer") {
  TempDir folder;
  RandomCache sizes;
  sizes.type = ElementType::kFloat64;
  sizes.num_layers = 3;
  CacheSpec cache = random_cache(sizes);
  // Layers 0 and 2 slide over 64 tokens with a base of their own.
  cache.model.config = R"({"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 8192,
    "query_pre_attn_scalar": 16, "rope_theta": 10000.0, "rope_local_base_freq": 100.0, "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})";
  cache.omega.clear();
  write_cache(folder / "c.h5", cache);
  const MarginMeasures found = measure({folder / "c.h5"});
  REQUIRE(found.grids.size() == 2);
  CHECK(found.grids[0].layers == std::vector<int>{0, 2});
  CHECK(found.grids[0].layer_window == 64);
  CHECK(found.grids[0].theta == 100);
  CHECK(found.grids[1].layers == std::vector<int>{1});
  CHECK(found.grids[1].layer_window == 0);
  REQUIRE(found.tasks.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(found.tasks[i].grid == i % 2);
    TaskSpec task = cache.tasks[i / 2];
    if (i % 2 == 0)
      for (std::int64_t& window : task.window) window = 64;
    const std::vector<std::int64_t> slots =
        i % 2 == 0 ? std::vector<std::int64_t>{0, 2} : std::vector<std::int64_t>{1};
    const auto [tau, responses] = expected_measures(cache, task, slots, found.grids[i % 2].omega);
    CHECK_COMPARISON(compare_absolute("tau", std::vector{found.tasks[i].tau}, std::vector{tau}, 1e-12));
    CHECK_COMPARISON(compare_relative("zeta", std::vector{found.tasks[i].response[1].second},
                                      std::vector{quantile_of(responses, 0.5)}, 1e-5));
  }
}

TEST_CASE("a zero vector, a tie and a window of one token are no margins") {
  TempDir folder;
  RandomCache sizes;
  sizes.type = ElementType::kFloat64;
  sizes.tasks = {"only"};
  CacheSpec cache = random_cache(sizes);
  TaskSpec& task = cache.tasks[0];
  std::fill_n(task.query.begin(), 16, 0.0);                  // query 0 of head 0, layer 0, example 0
  std::copy_n(task.key.begin(), 16, task.key.begin() + 16);  // key 1 = key 0 for two query heads
  write_cache(folder / "c.h5", cache);
  const MarginMeasures found = measure({folder / "c.h5"});
  REQUIRE(found.tasks.size() == 1);
  // Of 3 examples, 2 layers, 4 heads, 2 queries, 3 triplets: 3 undefined, then 3 ties of the other queries.
  CHECK(found.tasks[0].margins == 3 * 2 * 4 * 2 * 3 - 3 - 3);
}

TEST_CASE("response quantiles: exact, then in bins, whatever the order") {
  ResponseQuantiles few;
  CHECK(std::isnan(few.quantile(0.5)));
  for (const double x : {3.0, 1.0, 2.0, 4.0}) few.add(x);
  CHECK(few.quantile(0) == 1);
  CHECK(few.quantile(0.5) == 2.5);
  CHECK(few.quantile(1) == 4);
  few.add(0.0);
  CHECK(few.quantile(0.5) == 2);
  const std::size_t count = 2 * ResponseQuantiles::kExact + 1;
  ResponseQuantiles rising, falling;
  for (std::size_t i = 0; i < count; ++i) {
    rising.add(1e-3 * std::exp(1e-4 * static_cast<double>(i)));
    falling.add(1e-3 * std::exp(1e-4 * static_cast<double>(count - 1 - i)));
  }
  CHECK_FALSE(rising.exact());
  CHECK(rising.count() == std::ssize(std::vector<char>(count)));
  for (const double q : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const double expected = 1e-3 * std::exp(1e-4 * q * static_cast<double>(count - 1));
    CHECK(std::abs(rising.quantile(q) / expected - 1) <= ResponseQuantiles::kRelativeError);
    CHECK(rising.quantile(q) == falling.quantile(q));
  }
}

TEST_SUITE_END();

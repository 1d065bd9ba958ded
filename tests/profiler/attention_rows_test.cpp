#include "profiler/attention_rows.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "profiler/example_reader.hpp"
#include "profiler/head_scan.hpp"
#include "reference/lengths.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/reference_input.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

namespace rope::test {
namespace {

// Every head of every example with its vectors.
template <class Visit>
void for_each_head(const ActivationSet& set, const ScoringOptions& options, const Visit& visit) {
  std::vector<const SetExample*> examples;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples) examples.push_back(&example);
  const std::vector<char> heads(set.heads().size(), 1);
  ScoringResources resources;
  resources.threads = 1;
  scan_heads(
      set, options, resources, examples, heads, {ScanUnit::kHead},
      [&](const ScanBlock& block) {
        visit(*examples[block.example], set.heads()[static_cast<std::size_t>(block.head)], *block.job);
        return std::unique_ptr<ScanResult>();
      },
      [](const ScanBlock&, std::unique_ptr<ScanResult>) {});
}

// The rows of a head against direct sums.
void check_head(const ActivationSet& set, const SetExample& example, const SetHead& head, const HeadJob& job,
                const ScoringOptions& options, const AttentionRequest& request) {
  const reference::HeadInput input = reference_input(set, example, head.layer, head.head, options);
  HeadVectors vectors;
  vectors.assign(job.setting, *job.slots, job.phases.get());
  const auto queries = static_cast<std::int64_t>(job.slots->query_slot.size());
  const std::vector<AttentionRow> rows = attention_rows(vectors, 0, queries, request);
  REQUIRE(static_cast<std::int64_t>(rows.size()) == queries);
  std::vector<double> found, expected;
  const auto add = [&](double value, long double wanted) {
    found.push_back(value);
    expected.push_back(static_cast<double>(wanted));
  };
  std::int64_t first_position = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t position : input.key.position)
    if (position >= 0) first_position = std::min(first_position, position);
  for (const AttentionRow& row : rows) {
    const auto slot = static_cast<std::size_t>(job.slots->query_slot[static_cast<std::size_t>(row.query)]);
    const reference::LogitRow wanted = logit_row(input, slot, request.reach.window, request.reach.chunked);
    CHECK(row.keys == static_cast<std::int64_t>(wanted.logit.size()));
    if (wanted.logit.empty()) {
      CHECK_FALSE(row.defined);
      continue;
    }
    REQUIRE(row.defined);
    const std::vector<double> scales = request.scales.empty()
                                           ? std::vector<double>{1.0}
                                           : request.scales[static_cast<std::size_t>(row.query)];
    REQUIRE(row.at_scale.size() == scales.size());
    const bool sees_first = wanted.position.front() == first_position;
    for (std::size_t j = 0; j < scales.size(); ++j) {
      std::vector<long double> logits = wanted.logit;  // cases with scales have no softcap
      for (long double& x : logits) x *= scales[j];
      for (std::size_t i = 0; i < request.orders.size(); ++i)
        add(log_effective_length(row.at_scale[j].all, request.orders, i),
            reference::log_effective_length(logits, request.orders.beta()[i]));
      long double mean = 0, variance = 0;
      for (const long double x : logits) mean += x / static_cast<long double>(logits.size());
      for (const long double x : logits)
        variance += (x - mean) * (x - mean) / static_cast<long double>(logits.size());
      add(row.at_scale[j].all.variance(), variance);
      if (sees_first) logits.erase(logits.begin());
      if (logits.empty()) {
        CHECK(row.at_scale[j].rest.count == 0);
        continue;
      }
      for (std::size_t i = 0; i < request.orders.size(); ++i)
        add(log_effective_length(row.at_scale[j].rest, request.orders, i),
            reference::log_effective_length(logits, request.orders.beta()[i]));
    }
    std::vector<long double> logits = wanted.logit;
    for (long double& x : logits) x *= scales[0];
    const std::vector<long double> weights = reference::softmax(logits, request.sink_logit);
    add(row.first_weight, sees_first ? weights[0] : 0);
    const std::int64_t at = input.query.position[slot];
    long double local = 0;
    std::vector<double> offset(static_cast<std::size_t>(request.offsets), NAN);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::int64_t distance = at - wanted.position[k];
      if (distance < request.local) local += weights[k];
      if (distance < request.offsets)
        offset[static_cast<std::size_t>(distance)] = static_cast<double>(weights[k]);
    }
    add(row.local_weight, local);
    CHECK(compare_absolute("offsets", row.offset_weight, offset, 1e-12, true).ok());
    const std::vector<double> kept = attention_logits(vectors, row.query, request.reach);
    CHECK(
        compare_absolute("logits", kept, std::vector<double>(wanted.logit.begin(), wanted.logit.end()), 1e-11)
            .ok());
    // A row does not depend on what is asked with it.
    const AttentionRow alone = attention_rows(vectors, row.query, 1, request)[0];
    CHECK(log_effective_length_2(alone.at_scale[0].all) == log_effective_length_2(row.at_scale[0].all));
    CHECK(alone.local_weight == row.local_weight);
  }
  const Comparison comparison = compare_relative("rows", found, expected, 1e-11, 1.0);
  CHECK_MESSAGE(comparison.ok(), comparison.text());
}

// A full-coverage cache: `keys` tokens from position `start` on and some queries among and behind them.
CacheSpec full_cache(std::int64_t keys, const std::vector<std::int64_t>& queries,
                     const RandomCache& sizes_given) {
  RandomCache sizes = sizes_given;
  sizes.key_slots = keys;
  sizes.query_slots = static_cast<std::int64_t>(queries.size());
  sizes.window = keys + 20;
  CacheSpec cache = random_cache(sizes);
  for (TaskSpec& task : cache.tasks) {
    task.header.full_coverage = true;
    task.query_position.clear();
    task.key_position.clear();
    for (std::int64_t e = 0; e < sizes.examples; ++e) {
      for (const std::int64_t q : queries) task.query_position.push_back(q);
      for (std::int64_t k = 0; k < keys; ++k) task.key_position.push_back(k);
    }
  }
  return cache;
}

TEST_SUITE_BEGIN("profiler");

TEST_CASE("attention rows: equal to direct sums, whatever the reach, scale and sink") {
  TempDir folder;
  const std::string path = folder / "full.h5";
  RandomCache sizes;
  sizes.examples = 1;
  sizes.tasks = {"alpha"};
  CacheSpec cache = full_cache(700, {0, 3, 699, -1, 300, 255, 256, 257, 41}, sizes);
  for (double& x : cache.tasks[0].query) x *= 3;  // scores of some size
  write_cache(path, cache);
  // The same with a tail and a pair that does not turn.
  const std::string tail = folder / "tail.h5";
  cache.omega = {{1.0, 0.1, 0.0, 0.001}};
  cache.model.config.reset();
  cache.model.inv_freq_shape = {4};
  cache.model.inv_freq = cache.omega[0];
  cache.model.attention_scale = 0.25;
  write_cache(tail, cache);
  const ActivationSet whole({path}, {}), partial({tail}, {});
  const ScoringOptions options;
  AttentionRequest request;
  request.orders = spectral::LengthOrders({1, 2, INFINITY, 0.5, 4});
  request.local = 64;
  request.offsets = 300;
  for (int variant = 0; variant < 7; ++variant) {
    CAPTURE(variant);
    request.reach = {};
    request.scales.clear();
    request.sink_logit = -INFINITY;
    if (variant == 1) request.reach.window = 100;
    if (variant == 2) request.reach = {128, true};
    if (variant == 3) request.sink_logit = 4.5;
    if (variant == 4) request.scales.assign(8, {0.5, 1.0, 3.0});
    if (variant == 4) request.scales[2] = {2.0};
    if (variant == 5) request.local = 1000;
    const ActivationSet& set = variant == 6 ? partial : whole;
    for_each_head(set, options, [&](const SetExample& example, const SetHead& head, const HeadJob& job) {
      check_head(set, example, head, job, options, request);
    });
  }
}

TEST_CASE("attention rows: post-rotation keys, softcap, local window") {
  TempDir folder;
  const std::string path = folder / "full.h5";
  RandomCache sizes;
  sizes.examples = 2;
  sizes.tasks = {"alpha"};
  sizes.num_layers = 1;
  CacheSpec cache = full_cache(90, {80, 60, 89, 2, 12}, sizes);
  cache.model.key_rotation = Rotation::kPost;
  cache.tasks[0].header.key_type = cache.tasks[0].header.query_type = ElementType::kFloat32;
  for (double& x : cache.tasks[0].query) x *= 3;
  cache.model.config =
      R"({"model_type": "gemma2", "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "hidden_size": 64, "rope_theta": 10000.0, "query_pre_attn_scalar": 16,
          "attn_logit_softcapping": 5.0, "sliding_window": 30, "layer_types": ["sliding_attention"]})";
  write_cache(path, cache);
  const ActivationSet set({path}, {});
  CHECK(set.layer(0).softcap == 5.0);
  const ScoringOptions options;
  for_each_head(set, options, [&](const SetExample& example, const SetHead& head, const HeadJob& job) {
    AttentionRequest request;
    request.reach = attention_reach(set.layer(0), layer_window(options, set.layer(0), example));
    CHECK(request.reach.window == 30);
    CHECK_FALSE(request.reach.chunked);
    request.local = 5;
    request.offsets = 40;
    check_head(set, example, head, job, options, request);
  });
}

TEST_CASE("attention rows: the reach of sliding, chunked and full layers") {
  LayerModel layer;
  layer.window = 128;
  layer.kind = "sliding_attention";
  CHECK_FALSE(attention_reach(layer, 128).chunked);
  layer.kind = "chunked_attention";
  CHECK(attention_reach(layer, 128).chunked);
  CHECK_FALSE(attention_reach(layer, 4096).chunked);  // --no-window-cap
  CHECK(attention_reach(layer, 4096).window == 4096);
  ExampleSlots slots;
  for (std::int64_t k = 0; k < 400; ++k) slots.key_position.push_back(k);
  slots.query_position = {0, 127, 128, 300};
  const PartSlots part = make_part_slots(slots, true);
  const auto range = [&](std::int64_t query, const AttentionReach& reach) {
    const KeyRange keys = key_range(part, query, reach);
    return std::pair(keys.first, keys.end);
  };
  using Range = std::pair<std::int64_t, std::int64_t>;
  CHECK(range(0, {128, true}) == Range{0, 1});
  CHECK(range(1, {128, true}) == Range{0, 128});
  CHECK(range(2, {128, true}) == Range{128, 129});
  CHECK(range(2, {128, false}) == Range{1, 129});
  CHECK(range(3, {128, true}) == Range{256, 301});
  CHECK(range(3, {128, false}) == Range{173, 301});
  CHECK(range(3, {}) == Range{0, 301});
}

TEST_CASE("attention rows: zero and non-finite vectors make rows undefined, and no others") {
  TempDir folder;
  const std::string path = folder / "full.h5";
  RandomCache sizes;
  sizes.examples = 1;
  sizes.tasks = {"alpha"};
  sizes.num_layers = 1;
  sizes.query_heads = sizes.kv_heads = 1;
  CacheSpec cache = full_cache(40, {5, 20, 30, 39}, sizes);
  TaskSpec& task = cache.tasks[0];
  std::fill_n(task.key.begin() + 25 * 16, 16, 0.0);  // rows 2 and 3 see it
  std::fill_n(task.query.begin(), 16, 0.0);          // row 0
  task.key[16 * 35 + 2] = std::numeric_limits<double>::infinity();
  write_cache(path, cache);
  const ActivationSet set({path}, {});
  for_each_head(set, {}, [&](const SetExample&, const SetHead&, const HeadJob& job) {
    HeadVectors vectors;
    vectors.assign(job.setting, *job.slots, job.phases.get());
    AttentionRequest request;
    const auto defined = [&] {
      std::vector<bool> result;
      for (const AttentionRow& row : attention_rows(vectors, 0, 4, request)) result.push_back(row.defined);
      return result;
    };
    CHECK(defined() == std::vector<bool>{false, true, false, false});
    request.reach.window = 5;
    CHECK(defined() == std::vector<bool>{false, true, true, false});  // 30 - 25 = 5: out of reach
    request.reach.window = 6;
    CHECK(defined() == std::vector<bool>{false, true, false, false});
  });
}

TEST_CASE("attention rows: a head too large to be held at once gives the same bytes") {
  TempDir folder;
  const std::string path = folder / "full.h5";
  RandomCache sizes;
  sizes.examples = 1;
  sizes.tasks = {"alpha"};
  sizes.num_layers = 1;
  write_cache(path, full_cache(600, {0, 100, 599, 257}, sizes));
  const ActivationSet set({path}, {});
  for_each_head(set, {}, [&](const SetExample&, const SetHead&, const HeadJob& job) {
    HeadVectors whole, by_runs(0);
    whole.assign(job.setting, *job.slots, job.phases.get());
    by_runs.assign(job.setting, *job.slots, nullptr);
    AttentionRequest request;
    request.local = 7;
    request.offsets = 9;
    const auto a = attention_rows(whole, 0, 4, request), b = attention_rows(by_runs, 0, 4, request);
    for (std::size_t q = 0; q < 4; ++q) {
      CHECK(log_effective_length_1(a[q].at_scale[0].all) == log_effective_length_1(b[q].at_scale[0].all));
      CHECK(a[q].first_weight == b[q].first_weight);
      CHECK(a[q].local_weight == b[q].local_weight);
      CHECK(compare_absolute("offsets", a[q].offset_weight, b[q].offset_weight, 0.0, true).ok());
    }
  });
}

TEST_CASE("attention rows: E_2 falls in the logit scale on real heads; length groups are by position") {
  const std::string shared = shared_folder();
  const std::string path = shared.empty() ? std::string(ROPE_SOURCE_DIR) + "/examples/data/smollm2_full.h5"
                                          : shared + "/data/smollm2_full.h5";
  const ActivationSet set({path}, {});
  const ScoringOptions options;
  int checked = 0;
  for_each_head(set, options, [&](const SetExample& example, const SetHead& head, const HeadJob& job) {
    HeadVectors vectors;
    vectors.assign(job.setting, *job.slots, job.phases.get());
    const auto queries = static_cast<std::int64_t>(job.slots->query_slot.size());
    AttentionRequest request;
    request.scales.assign(static_cast<std::size_t>(queries), {0.25, 0.5, 1.0, 2.0, 8.0});
    for (const AttentionRow& row : attention_rows(vectors, 0, queries, request)) {
      REQUIRE(row.defined);
      double before = std::log(static_cast<double>(row.keys)) + 1e-12;
      for (const AttentionRow::Sums& sums : row.at_scale) {
        const double length = log_effective_length_2(sums.all);
        CHECK(length <= before);
        CHECK(length >= 0);
        before = length + 1e-12;
      }
    }
    const std::vector<std::int64_t> order = queries_by_position(*job.slots);
    for (std::size_t i = 1; i < order.size(); ++i)
      CHECK(job.slots->query_position[static_cast<std::size_t>(order[i - 1])] <
            job.slots->query_position[static_cast<std::size_t>(order[i])]);
    if (checked++ % 37 != 0) return;
    request.scales.clear();
    request.local = 128;
    request.offsets = 128;
    check_head(set, example, head, job, options, request);
  });
  CHECK(checked > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

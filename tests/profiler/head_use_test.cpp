// Frequency use of heads against direct sums (theory §12).

#include "profiler/head_use.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>

#include "profiler/window_task_heads.hpp"
#include "reference/adarope.hpp"
#include "spectral/effective_base.hpp"
#include "support/compare.hpp"
#include "support/full_cache.hpp"
#include "support/reference_input.hpp"
#include "support/temp_dir.hpp"

namespace rope::test {
namespace {

CacheRun open(const std::string& path) {
  CacheRunOptions options;
  options.files = {path};
  options.threads = 2;
  options.digest = false;
  return CacheRun(options);
}

// z and c_0 of every pair of a `pre`, half-split head, in the order of the pairs; and c ||q|| ||k||.
struct Direct {
  std::vector<reference::Vector> vectors;
  double norm_product = 0;
};
Direct direct_pairs(const reference::HeadInput& input) {
  Direct direct;
  const std::size_t h = input.omega.size();
  for (std::size_t i = 0; i < input.query.rows.size(); ++i)
    for (std::size_t j = 0; j < input.key.rows.size(); ++j) {
      if (input.query.position[i] < 0 || input.key.position[j] < 0) continue;
      if (input.causal && input.key.position[j] > input.query.position[i]) continue;
      const std::vector<double>&q = input.query.rows[i], &k = input.key.rows[j];
      reference::Vector vector;
      double qq = 0, kk = 0;
      for (std::size_t n = 0; n < q.size(); ++n) {
        qq += q[n] * q[n];
        kk += k[n] * k[n];
      }
      for (std::size_t n = 0; n < h; ++n) {
        const std::complex<double> z =
            input.softmax_scale * std::complex(q[n], q[n + h]) * std::conj(std::complex(k[n], k[n + h]));
        if (input.omega[n] > 0)
          vector.z.push_back(z);
        else
          vector.constant += z.real();
      }
      direct.norm_product += input.softmax_scale * std::sqrt(qq * kk);
      direct.vectors.push_back(std::move(vector));
    }
  direct.norm_product /= static_cast<double>(direct.vectors.size());
  return direct;
}

// The head's values by hand: mean over examples of each task, then over tasks.
class Expected {
 public:
  Expected(const CacheRun& run, const HeadUse& use, std::int64_t frozen) : frozen_(frozen) {
    for (const SetTask& task : run.set().tasks()) {
      task_count_ = static_cast<double>(run.set().tasks().size());
      example_count_ = static_cast<double>(task.examples.size());
      for (const SetExample& example : task.examples)
        add(reference_input(run.set(), example, use.layer, use.head, run.scoring()));
    }
  }

  double cov = 0, centroid = 0, norm_cov = 0, norm_centroid = 0, mass = 0, amplitude = 0, norm_product = 0,
         length = 0, variance = 0;
  std::vector<double> usage, usage_norm, length_change, variance_change;  // [turning pairs]

 private:
  void add(const reference::HeadInput& input) {
    const double weight = 1 / (task_count_ * example_count_);
    const reference::HeadResult scores = reference::score_head(input);
    const Direct direct = direct_pairs(input);
    cov += weight * scores.usage_cov;
    centroid += weight * scores.usage_centroid;
    norm_cov += weight * scores.usage_norm_cov;
    norm_centroid += weight * scores.usage_norm_centroid;
    mass += weight * scores.frequency_mass;
    norm_product += weight * direct.norm_product;
    std::vector<double> turning;
    for (std::size_t n = 0; n < input.omega.size(); ++n) {
      if (!(input.omega[n] > 0)) continue;
      const std::size_t at = turning.size();
      turning.push_back(input.omega[n]);
      for (auto* values : {&usage, &usage_norm, &length_change, &variance_change})
        if (values->size() <= at) values->resize(at + 1, 0.0);
      usage[at] += weight * scores.usage[n];
      usage_norm[at] += weight * scores.usage_norm[n];
      amplitude += weight * scores.usage_norm[n];
    }
    const auto pairs = static_cast<std::int64_t>(direct.vectors.size());
    const std::int64_t count = std::min(frozen_, pairs);
    for (std::int64_t k = 0; k < count; ++k) {
      const auto& vector = direct.vectors[static_cast<std::size_t>((2 * k + 1) * pairs / (2 * count))];
      const double share = weight / static_cast<double>(count);
      const auto whole = reference::freeze_pair(vector, turning, input.window, -1, input.softcap);
      length += share * whole.effective_length;
      variance += share * whole.variance;
      for (std::size_t n = 0; n < turning.size(); ++n) {
        const auto one =
            reference::freeze_pair(vector, turning, input.window, static_cast<int>(n), input.softcap);
        length_change[n] += share * (one.effective_length - whole.effective_length);
        variance_change[n] += share * (one.variance - whole.variance);
      }
    }
  }

  std::int64_t frozen_;
  double task_count_ = 1, example_count_ = 1;
};

std::vector<double> turning_only(const std::vector<double>& values, const std::vector<double>& omega) {
  std::vector<double> turning;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (omega[n] > 0)
      turning.push_back(values[n]);
    else
      CHECK(std::isnan(values[n]));
  }
  return turning;
}

void check_use(const CacheRun& run, std::int64_t frozen) {
  HeadUseOptions options;
  options.norms = true;
  options.frozen_pairs = frozen;
  const std::vector<HeadUse> uses = measure_use(run, options);
  REQUIRE(uses.size() == static_cast<std::size_t>(run.selected_heads()));
  for (const HeadUse& use : uses) {
    const Expected expected(run, use, frozen);
    const std::vector<double> values{use.usage_cov,           use.usage_centroid,   use.usage_norm_cov,
                                     use.usage_norm_centroid, use.frequency_mass,   use.amplitude,
                                     use.norm_product,        use.effective_length, use.logit_variance};
    const std::vector<double> wanted{expected.cov,           expected.centroid, expected.norm_cov,
                                     expected.norm_centroid, expected.mass,     expected.amplitude,
                                     expected.norm_product,  expected.length,   expected.variance};
    CHECK_COMPARISON(compare_relative("use of a head", values, wanted, 1e-10));
    CHECK_COMPARISON(compare_relative("usage", turning_only(use.usage, use.omega), expected.usage, 1e-11));
    CHECK_COMPARISON(
        compare_relative("|z|", turning_only(use.usage_norm, use.omega), expected.usage_norm, 1e-11));
    CHECK_COMPARISON(compare_absolute("change of E_2", turning_only(use.length_change, use.omega),
                                      expected.length_change, 1e-10 * use.window));
    CHECK_COMPARISON(compare_absolute("change of the variance", turning_only(use.variance_change, use.omega),
                                      expected.variance_change, 1e-11 * use.logit_variance));
    CHECK(use.max_omega() == doctest::Approx(*std::max_element(use.omega.begin(), use.omega.end())));
  }
}

TEST_SUITE_BEGIN("profiler");

TEST_CASE("head use: every value as summed directly, from sampled and from full caches") {
  TempDir folder;
  RandomCache sampled{.head_dim = 8, .examples = 2, .query_slots = 2, .key_slots = 5, .window = 60};
  sampled.type = ElementType::kFloat32;
  write_cache(folder / "sampled.h5", random_cache(sampled));
  check_use(open(folder / "sampled.h5"), HeadUseOptions::kAllPairs);
  check_use(open(folder / "sampled.h5"), 3);
  // More pairs than a block, which chosen pairs have to be found in.
  FullCache sizes{.query_heads = 1, .kv_heads = 1, .examples = {1, 2}, .query_position = {}};
  sizes.query_position = {15, 300, 440, 480, 499};
  sizes.keys = 500;
  write_cache(folder / "full.h5", full_cache(sizes));
  check_use(open(folder / "full.h5"), 7);
}

TEST_CASE("head use: still pairs are left out, a softcap acts in E_2") {
  TempDir folder;
  CacheSpec cache =
      random_cache({.head_dim = 8, .examples = 2, .query_slots = 2, .key_slots = 3, .window = 60});
  cache.model.config.reset();
  cache.model.inv_freq = {1.0, 0.0, 0.3, 0.01};
  cache.model.inv_freq_shape = {4};
  write_cache(folder / "still.h5", cache);
  const CacheRun run = open(folder / "still.h5");
  check_use(run, HeadUseOptions::kAllPairs);
  const HeadUse use = measure_use(run, {}).front();
  CHECK(use.effective_base == spectral::effective_base(std::vector<double>{1.0, 0.3, 0.01}));
  CHECK(use.omega == std::vector<double>{1.0, 0.0, 0.3, 0.01});

  cache = random_cache({.head_dim = 8, .examples = 2, .query_slots = 2, .key_slots = 3, .window = 60});
  cache.model.config =
      R"({"model_type": "gemma2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192, "rope_theta": 10000.0,
          "query_pre_attn_scalar": 8, "attn_logit_softcapping": 1.5, "sliding_window": 4096})";
  write_cache(folder / "capped.h5", cache);
  check_use(open(folder / "capped.h5"), HeadUseOptions::kAllPairs);
}

TEST_CASE("head use: an unused frequency changes nothing when frozen; none are frozen on request") {
  TempDir folder;
  CacheSpec cache = random_cache({.head_dim = 8});
  for (std::size_t i = 0; i < cache.tasks[0].query.size(); i += 8)
    for (auto& task : cache.tasks) task.query[i + 1] = task.query[i + 5] = 0;  // pair 1
  write_cache(folder / "cache.h5", cache);
  const CacheRun run = open(folder / "cache.h5");
  for (const HeadUse& use : measure_use(run, {})) {
    CHECK(use.usage[1] == 0);
    CHECK(use.length_change[1] == 0);
    CHECK(use.variance_change[1] == 0);
    CHECK(use.length_change[0] != 0);
  }
  HeadUseOptions none;
  none.frozen_pairs = 0;
  for (const HeadUse& use : measure_use(run, none)) {
    CHECK(std::isnan(use.length_change[0]));
    CHECK(std::isnan(use.effective_length));
    CHECK(std::isnan(use.norm_product));
    CHECK(use.usage_cov > 0);
  }
}

TEST_CASE("head use: frozen pairs are spread evenly") {
  for (std::int64_t pairs : {1, 2, 5, 64, 1000, 8400})
    for (std::int64_t count = 1; count <= std::min<std::int64_t>(pairs, 70); ++count)
      for (std::int64_t k = 0; k < count; ++k)
        CHECK(spread_pair(k, pairs, count) == (2 * k + 1) * pairs / (2 * count));
  CHECK(spread_pair(999'999'999, std::int64_t{1} << 60, 1'000'000'000) < std::int64_t{1} << 60);
}

TEST_CASE("window task of heads: measured A*, norms, length and frequencies; numbers take their place") {
  TempDir folder;
  write_cache(folder / "cache.h5", random_cache({.head_dim = 8, .window = 80}));
  HeadUseOptions options;
  options.norms = true;
  options.frozen_pairs = 0;
  const std::vector<HeadUse> uses = measure_use(open(folder / "cache.h5"), options);
  WindowTaskRequest request;
  request.window = 16;
  request.slack = 0.25;
  const WindowTaskRun measured = window_task_of_heads(request, uses);
  request.amplitude = 9;
  request.norm_product = 1;
  request.length = 33;
  request.max_omega = 0.01;
  const WindowTaskRun given = window_task_of_heads(request, uses),
                      numbers = window_task_from_numbers(request);
  REQUIRE(measured.heads.size() == uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const HeadWindowTask& head = measured.heads[i];
    CHECK(head.task.amplitude == uses[i].amplitude);
    CHECK(head.task.norm_product == uses[i].norm_product);
    CHECK(head.task.norm_product >= head.task.amplitude);  // Cauchy-Schwarz
    CHECK(head.task.length == 90);                         // windows 80, 90, 100
    CHECK(head.task.max_omega == 1);
    CHECK(head.frequency_mass == uses[i].frequency_mass);
    REQUIRE(head.bounds.has_value());
    CHECK(head.bounds->lower == spectral::window_task_bounds(head.task).lower);
    CHECK(given.heads[i].bounds->lower == numbers.heads[0].bounds->lower);
    CHECK(given.heads[i].bounds->upper == numbers.heads[0].bounds->upper);
  }
  CHECK_FALSE(numbers.heads[0].bounds->has_fast);
  HeadUse empty;  // no valid pair
  empty.omega = {1.0};
  CHECK_FALSE(
      window_task_of_heads(WindowTaskRequest(), std::vector<HeadUse>{empty}).heads[0].bounds.has_value());
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

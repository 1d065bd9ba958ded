// The AdaScale fit on caches whose lambda(L) is known, or computed a second time from direct sums.

#include "profiler/adarope.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "profiler/adarope_json.hpp"
#include "profiler/error.hpp"
#include "reference/adarope.hpp"
#include "support/compare.hpp"
#include "support/full_cache.hpp"
#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace rope::test {
namespace {

AdaropeFit fit_file(const std::string& path, const AdaropeOptions& options = {}, int threads = 2) {
  CacheRunOptions run;
  run.files = {path};
  run.threads = threads;
  run.digest = false;
  return fit_adarope(CacheRun(run), options);
}

AdaropeFit fit_of(const CacheSpec& cache, const AdaropeOptions& options = {}) {
  TempDir folder;
  write_cache(folder / "cache.h5", cache);
  return fit_file(folder / "cache.h5", options);
}

AdaropeOptions reference_at(double length) {
  AdaropeOptions options;
  options.reference_length = length;
  return options;
}

double scale_at(double gamma, double length, double reference) {
  return std::pow(std::log(1 + length / reference) / std::log(2.0), gamma);
}

// Logits of query `slot` of a full_cache with the llama config's softmax scale.
std::vector<long double> row_of(CacheSpec& cache, std::size_t task, std::int64_t example, int layer, int head,
                                std::int64_t slot, std::int64_t reach = 0) {
  const TaskHeader& header = cache.tasks[task].header;
  const auto dim = static_cast<std::ptrdiff_t>(header.head_dim);
  reference::RowInput input;
  const double* query = query_of(cache, task, example, layer, head, slot);
  input.query.assign(query, query + dim);
  input.position =
      cache.tasks[task].query_position[static_cast<std::size_t>(example * header.query_slots + slot)];
  for (std::int64_t k = 0; k < header.key_slots; ++k) {
    const double* key = key_of(cache, task, example, layer, head / (header.query_heads / header.kv_heads), k);
    input.keys.emplace_back(key, key + dim);
    input.key_position.push_back(k);
  }
  input.omega = cache.omega[0];
  input.scale = 1 / std::sqrt(static_cast<double>(dim));
  input.reach = reach;
  return attention_logits(input);
}

TEST_SUITE_BEGIN("profiler");

TEST_CASE("adarope recovers gamma and tau of two-level logits") {
  // One key stands out from N equal ones by a logit ln x: E_2 = (x + N)^2 / (x^2 + N), solved for x. Dividing
  // that logit by lambda(L) makes lambda(L) the scale that holds E_2.
  FullCache sizes{
      .num_layers = 2, .examples = {2, 3}, .query_position = {63, 127, 255, 511, 1023}, .keys = 1024};
  CacheSpec cache = full_cache(sizes);
  cache.model.config.reset();
  cache.model.inv_freq = {1.0, 0.0, 0.0, 0.0};  // pairs 1 to 3 do not turn
  cache.model.inv_freq_shape = {4};
  const double gammas[2][4] = {{0.3, 0.8, 1.5, -0.5}, {1.0, 0.1, 2.0, -1.0}};
  for (std::size_t t = 0; t < cache.tasks.size(); ++t)
    for (std::int64_t e = 0; e < sizes.examples[t]; ++e)
      for (int layer = 0; layer < 2; ++layer) {
        for (int kv = 0; kv < 2; ++kv)
          for (std::int64_t k = 0; k < sizes.keys; ++k) {
            double* key = key_of(cache, t, e, layer, kv, k);
            std::fill_n(key, 8, 0.0);
            key[1] = 1;
            key[3] = k == 0 ? 1 : 0;
          }
        for (int head = 0; head < 4; ++head) {
          const double first = std::exp(1.0 + 0.5 * static_cast<double>(e) + 0.3 * static_cast<double>(t));
          const double target = (first + 63) * (first + 63) / (first * first + 63);
          for (std::int64_t i = 0; i < 5; ++i) {
            const double n = static_cast<double>(sizes.query_position[static_cast<std::size_t>(i)]),
                         length = n + 1;
            const double x = (n + std::sqrt(n * n + (target - 1) * n * (n - target))) / (target - 1);
            double* query = query_of(cache, t, e, layer, head, i);
            std::fill_n(query, 8, 0.0);
            query[3] = std::log(x) / scale_at(gammas[layer][head], length, 64) * std::sqrt(8.0);
          }
        }
      }
  const AdaropeFit fit = fit_of(cache);
  REQUIRE(fit.heads.size() == 8);
  CHECK(fit.left_out == 0);
  CHECK(fit.rows == 5 * 8 * 5);
  for (const HeadFit& head : fit.heads) {
    const double gamma = gammas[head.layer][head.head];
    REQUIRE_MESSAGE(head.fitted(), head.reason);
    CHECK(head.reference_length == 64);
    CHECK(std::abs(head.gamma - gamma) < 1e-6);
    CHECK(head.tau == doctest::Approx(std::pow(std::log(2.0), gamma)).epsilon(1e-6));
    CHECK(head.residual < 1e-7);
    CHECK(head.lengths == std::vector<double>{64, 128, 256, 512, 1024});
    REQUIRE(head.lambda.size() == 5);
    CHECK(head.lambda[0] == 1);
    for (std::size_t i = 1; i < 5; ++i)
      CHECK(head.lambda[i] == doctest::Approx(scale_at(gamma, head.lengths[i], 64)).epsilon(3e-8));
    CHECK(head.xi[0] == 0);
    CHECK(std::isnan(head.xi[1]));
  }
  CHECK(fit.passes <= 8);
}

TEST_CASE("adarope recovers gamma and tau of random rotated vectors") {
  FullCache sizes{.num_layers = 2, .examples = {2, 1}, .query_position = {19, 40, 79, 127}, .keys = 128};
  CacheSpec cache = full_cache(sizes);
  const auto gamma_of = [](int layer, int head) { return 0.4 + 0.3 * head - 0.6 * layer; };
  for (std::size_t t = 0; t < 2; ++t)
    for (std::int64_t e = 0; e < sizes.examples[t]; ++e)
      for (int layer = 0; layer < 2; ++layer)
        for (int head = 0; head < 4; ++head) {
          const long double target = reference::log_length(row_of(cache, t, e, layer, head, 0), 1);
          for (std::int64_t i = 1; i < 4; ++i) {
            const double holding = reference::holding_scale({row_of(cache, t, e, layer, head, i)}, target);
            const auto length = static_cast<double>(sizes.query_position[static_cast<std::size_t>(i)] + 1);
            double* query = query_of(cache, t, e, layer, head, i);
            for (int lane = 0; lane < 8; ++lane)
              query[lane] *= holding / scale_at(gamma_of(layer, head), length, 20);
          }
        }
  for (const HeadFit& head : fit_of(cache).heads) {
    REQUIRE_MESSAGE(head.fitted(), head.reason);
    CHECK(std::abs(head.gamma - gamma_of(head.layer, head.head)) < 1e-6);
    CHECK(head.tau == doctest::Approx(std::pow(std::log(2.0), head.gamma)).epsilon(1e-6));
    for (std::size_t n = 0; n < head.xi.size(); ++n)
      CHECK(head.xi[n] == doctest::Approx(std::log(cache.omega[0][n])).epsilon(1e-12));
  }
}

TEST_CASE("adarope: lengths, E_2, lambda and NoPE scale are means over examples, then over tasks") {
  FullCache sizes{.examples = {1, 3}, .query_position = {9, 30, 60, 99}, .keys = 100};
  CacheSpec cache = full_cache(sizes);
  // Examples that differ in their lengths; the last lacks a query, and stores its queries out of order.
  cache.tasks[1].query_position = {9, 30, 60, 99, 20, 35, 55, 80, 70, 12, -1, 40};
  const std::vector<std::vector<std::vector<std::int64_t>>> order{
      {{0, 1, 2, 3}}, {{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 3, 0}}};  // slots by position
  AdaropeOptions options;
  for (const double wanted : {0.0, 38.0}) {
    if (wanted > 0) options.reference_length = wanted;
    for (const HeadFit& head : fit_of(cache, options).heads) {
      const auto mean = [&](const auto& value, std::size_t group) {
        long double sum = 0;
        int tasks = 0;
        for (std::size_t t = 0; t < 2; ++t) {
          long double of_task = 0;
          int examples = 0;
          for (std::size_t e = 0; e < order[t].size(); ++e) {
            if (group >= order[t][e].size()) continue;
            of_task += value(
                row_of(cache, t, static_cast<std::int64_t>(e), head.layer, head.head, order[t][e][group]));
            ++examples;
          }
          sum += of_task / examples;
          ++tasks;
        }
        return static_cast<double>(sum / tasks);
      };
      const auto log_length = [&](std::size_t group, double scale) {
        return mean([&](const auto& row) { return reference::log_length(row, scale); }, group);
      };
      const std::size_t reference = wanted > 0 ? 1 : 0;  // 31 or (31 + (31 + 36 + 41) / 3) / 2 = 33.5
      const std::size_t groups = 4 - reference;
      REQUIRE(head.lengths.size() == groups);
      std::vector<double> lengths, effective, lambda, nope;
      double variance = 0;
      for (std::size_t g = reference; g < 4; ++g) {
        lengths.push_back(mean([](const auto& row) { return static_cast<long double>(row.size()); }, g));
        effective.push_back(std::exp(log_length(g, 1)));
        variance +=
            mean([](const auto& row) { return reference::variance(row); }, g) / static_cast<double>(groups);
        double low = -20, high = std::log(1e4);
        for (int i = 0; i < 100; ++i)
          (log_length(g, std::exp((low + high) / 2)) > log_length(reference, 1) ? low : high) =
              (low + high) / 2;
        lambda.push_back(std::exp(high));
      }
      for (double length : lengths) nope.push_back(std::sqrt(std::log(length / effective[0]) / variance));
      CHECK_COMPARISON(compare_relative("L", head.lengths, lengths, 1e-12));
      CHECK_COMPARISON(compare_relative("E_2", head.effective_length, effective, 1e-11));
      CHECK_COMPARISON(compare_relative("lambda", head.lambda, lambda, 3e-8));
      CHECK_COMPARISON(compare_relative("NoPE", head.nope_scale, nope, 1e-10));
      CHECK(head.reference_length == doctest::Approx(lengths[0]).epsilon(1e-12));
      CHECK(head.logit_variance == doctest::Approx(variance).epsilon(1e-10));
      const auto fit = reference::fit_scale(lengths, lambda, lengths[0]);
      CHECK(head.tau == doctest::Approx(fit.tau).epsilon(1e-6));
      CHECK(std::abs(head.gamma - fit.gamma) < 1e-6);
      CHECK(head.residual == doctest::Approx(fit.residual).epsilon(1e-5));
    }
  }
}

TEST_CASE("adarope: a sliding window bounds the rows, and equal lengths give no fit") {
  FullCache sizes{.query_position = {9, 30, 60, 99}, .keys = 100};
  CacheSpec cache = full_cache(sizes);
  cache.model.config =
      R"({"model_type": "mistral", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192, "rope_theta": 1000.0,
          "sliding_window": 40})";
  const AdaropeFit fit = fit_of(cache);
  for (const HeadFit& head : fit.heads) {
    CHECK(head.lengths == std::vector<double>{10, 31, 40, 40});
    CHECK(head.fitted());
    long double sum = 0;
    for (std::size_t t = 0; t < 2; ++t)
      for (std::int64_t e = 0; e < 2; ++e)
        sum += reference::log_length(row_of(cache, t, e, head.layer, head.head, 3, 40), 1) / 4;
    CHECK(head.effective_length[3] == doctest::Approx(static_cast<double>(std::exp(sum))).epsilon(1e-11));
  }
  const AdaropeFit late = fit_of(cache, reference_at(40.0));
  for (const HeadFit& head : late.heads) CHECK_FALSE(head.fitted());
  FullCache far{.query_position = {50, 60, 70, 99}, .keys = 100};
  CacheSpec saturated = full_cache(far);
  saturated.model.config = cache.model.config;
  for (const HeadFit& head : fit_of(saturated).heads) {
    CHECK(head.reason.find("same length") != std::string::npos);
    CHECK(std::isnan(head.tau));
    CHECK(head.lambda.size() == 4);
  }
}

TEST_CASE("adarope says why a head has no fit") {
  // Two groups.
  for (const HeadFit& head : fit_of(full_cache({.query_position = {9, 30}, .keys = 40})).heads)
    CHECK(head.reason.find("2 of the 3 groups") == 0);

  // Equal logits at the longest length have E_2 = L at every scale: no lambda reaches a smaller E_2.
  CacheSpec flat = full_cache();
  for (std::size_t t = 0; t < 2; ++t)
    for (std::int64_t e = 0; e < 2; ++e)
      for (std::int64_t k = 0; k < 128; ++k) {
        double* key = key_of(flat, t, e, 0, 0, k);
        std::fill_n(key, 8, 0.0);
        key[0] = 1;
      }
  flat.model.config.reset();
  flat.model.inv_freq = {0.0, 0.5, 0.25, 0.125};
  flat.model.inv_freq_shape = {4};
  const AdaropeFit above = fit_of(flat);
  for (const HeadFit& head : above.heads) {
    CHECK(head.fitted() == (head.head >= 2));  // the other key head is random
    if (head.head >= 2) continue;
    CHECK(head.reason.find("no scale up to 1e4") == 0);
    CHECK(head.reason.find("L = 32") != std::string::npos);
    CHECK(std::isnan(head.lambda[1]));
    CHECK(head.lambda[0] == 1);
    CHECK(std::isnan(head.gamma));
  }

  // A flat reference row, and others of the same length that are not: only lambda = 0 would do.
  CacheSpec below = full_cache({.query_position = {20, 63, 100, 127}});
  below.model.config =
      R"({"model_type": "mistral", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192, "rope_theta": 1000.0,
          "sliding_window": 21})";
  for (std::size_t t = 0; t < 2; ++t)
    for (std::int64_t e = 0; e < 2; ++e)
      for (int head = 0; head < 4; ++head)
        for (int lane = 0; lane < 8; ++lane) query_of(below, t, e, 0, head, 0)[lane] *= 1e-18;
  for (const HeadFit& head : fit_of(below).heads) CHECK(head.reason.find("no scale above 0") == 0);
}

TEST_CASE("adarope: a head whose reference row rests on one key has no fit") {
  CacheSpec cache = full_cache({.query_heads = 1, .kv_heads = 1, .examples = {1}});
  for (std::int64_t slot = 0; slot < 4; ++slot)
    for (int lane = 0; lane < 8; ++lane) query_of(cache, 0, 0, 0, 0, slot)[lane] *= 1e6;
  for (const HeadFit& head : fit_of(cache).heads) {
    CHECK(!head.fitted());
    CHECK(head.reason.find("E_2 at the reference length is 1") == 0);
    CHECK(std::isnan(head.tau));
    CHECK(head.lambda.empty());
    CHECK(head.lengths.empty());
  }
}

TEST_CASE("adarope: capped logits have no fit, and the other layers have theirs") {
  CacheSpec cache = full_cache({.num_layers = 2});
  cache.model.config =
      R"({"model_type": "gemma2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192, "rope_theta": 1000.0,
          "query_pre_attn_scalar": 8, "attn_logit_softcapping": 50.0, "sliding_window": 4096})";
  const AdaropeFit fit = fit_of(cache);
  CHECK(fit.passes == 0);
  for (const HeadFit& head : fit.heads) {
    CHECK(head.reason.find("caps its logits") != std::string::npos);
    CHECK(head.lengths.empty());
    CHECK(std::isnan(head.tau));
    CHECK(head.xi.size() == 4);
  }
}

TEST_CASE("adarope leaves rows of zero or non-finite vectors out and counts them") {
  FullCache sizes;
  CacheSpec cache = full_cache(sizes);
  std::fill_n(query_of(cache, 0, 0, 0, 1, 2), 8, 0.0);
  query_of(cache, 1, 1, 0, 1, 3)[0] = std::nan("");
  const AdaropeFit fit = fit_of(cache);
  CHECK(fit.left_out == 2);
  CHECK(fit.rows == 4 * 4 * 4);
  REQUIRE(fit.warnings.size() == 1);
  CHECK(fit.warnings[0].find("2 of 64 rows") == 0);
  const HeadFit& head = fit.heads[1];
  CHECK(head.fitted());
  const double alone = static_cast<double>(reference::log_length(row_of(cache, 0, 1, 0, 1, 2), 1));
  double beta = 0;
  for (std::int64_t e = 0; e < 2; ++e)
    beta += static_cast<double>(reference::log_length(row_of(cache, 1, e, 0, 1, 2), 1)) / 2;
  CHECK(head.effective_length[2] == doctest::Approx(std::exp((alone + beta) / 2)).epsilon(1e-11));
}

TEST_CASE("adarope: every byte is the same for any threads, memory and file order") {
  TempDir folder;
  CacheSpec cache = full_cache({.num_layers = 2, .examples = {3, 2}});
  write_cache(folder / "all.h5", cache);
  CacheSpec first = cache, second = cache;
  for (std::size_t t = 0; t < 2; ++t) {
    first.tasks[t] = select_examples(cache.tasks[t], {0});
    second.tasks[t] = select_examples(
        cache.tasks[t], t == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1});
  }
  write_cache(folder / "a.h5", first);
  write_cache(folder / "b.h5", second);
  const auto text = [&](const std::vector<std::string>& files, int threads, std::int64_t memory) {
    CacheRunOptions options;
    options.files = files;
    options.threads = threads;
    options.memory = memory;
    options.digest = false;
    const CacheRun run(options);
    AdaropeResult result;
    result.fit = fit_adarope(run, {});
    result.use = measure_use(run, {});
    std::string json = adarope_json(result, &run);
    const std::size_t inputs = json.find("\"inputs\""), end = json.find("\"warnings\"");
    return json.erase(inputs, end - inputs);
  };
  const std::string one = text({folder / "all.h5"}, 1, kLeastMemory);
  CHECK(text({folder / "all.h5"}, 5, std::int64_t{1} << 30) == one);
  CHECK(text({folder / "a.h5", folder / "b.h5"}, 3, kLeastMemory) == one);
  CHECK(text({folder / "b.h5", folder / "a.h5"}, 2, kLeastMemory) == one);
}

TEST_CASE("adarope: sampled keys are refused by file and task") {
  TempDir folder;
  CacheSpec cache = full_cache();
  write_cache(folder / "full.h5", cache);
  write_cache(folder / "sampled.h5", random_cache());
  std::string message;
  try {
    fit_file(folder / "sampled.h5");
  } catch (const UserError& error) {
    message = error.what();
    CHECK(!error.hint().empty());
  }
  for (const char* part : {"sampled.h5", "/tasks/alpha", "key_coverage", "\"full\"", "\"sampled\""})
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

TEST_CASE("adarope: query heads of a group with frequencies of their own are named") {
  CacheSpec cache = full_cache();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {1, 4, 4};
  for (int head = 0; head < 4; ++head)
    for (int n = 0; n < 4; ++n) cache.model.inv_freq.push_back(1.0 / (1 + n + (head == 3 ? 1 : 0)));
  const AdaropeFit fit = fit_of(cache);
  REQUIRE(fit.warnings.size() == 1);
  CHECK(fit.warnings[0].find("different xi") != std::string::npos);
  CHECK(fit.heads[3].xi[0] == doctest::Approx(std::log(0.5)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

// Scores of whole (example, head) units against the slow reference, over every kind of cache.

#include "profiler/example_scorer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "profiler/pair_scores.hpp"
#include "profiler/semantic_score.hpp"
#include "reference/direct.hpp"
#include "spectral/band_split.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/reference_input.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

// float32 blocks promise 1e-5, relatively; all else is float64 throughout.
void check_score(const std::string& what, Score score, std::span<const double> value,
                 std::span<const double> expected, double bound) {
  if (score == Score::kPositional || score == Score::kResponseMax || score == Score::kEffectiveLength)
    CHECK_COMPARISON(compare_relative(what, value, expected, 1e-5, 0.0, true));
  else
    CHECK_COMPARISON(compare_absolute(what, value, expected, bound, true));
}

// Every value and count of every head of a cache.
void check_against_reference(const std::string& what, const CacheSpec& cache, ScoringOptions options = {}) {
  CAPTURE(what);
  options.exact_reversal = options.aliasing = options.near_far = true;
  if (!options.barrier) options.barrier = 0.3;
  TempDir folder;
  write_cache(folder / "cache.h5", cache);
  const ActivationSet set({folder / "cache.h5"}, {});
  ExampleScorer scorer(set, options);
  const std::vector<HeadWork> work(set.heads().size(), HeadWork::kAll);
  std::map<Score, std::vector<double>> values, expected;
  int heads = 0;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples) {
      const std::vector<HeadScores> scores = scorer.score(example, work);
      for (std::size_t n = 0; n < scores.size(); ++n) {
        if (!scores[n].present) continue;
        ++heads;
        const SetHead& place = set.heads()[n];
        const reference::HeadResult r =
            reference::score_head(reference_input(set, example, place.layer, place.head, options));
        auto put = [&](Score score, double reference_value) {
          values[score].push_back(scores[n].score[static_cast<int>(score)]);
          expected[score].push_back(reference_value);
        };
        put(Score::kSemantic, r.semantic);
        put(Score::kExactSemantic, r.exact_semantic);
        put(Score::kReversalGap, r.reversal_gap);
        put(Score::kPositional, r.positional);
        put(Score::kResponseMax, r.response_max);
        put(Score::kNormShare, r.norm_share);
        put(Score::kEffectiveLength, r.effective_length);
        put(Score::kUsageCov, r.usage_cov);
        put(Score::kUsageCentroid, r.usage_centroid);
        put(Score::kUsageNormCov, r.usage_norm_cov);
        put(Score::kUsageNormCentroid, r.usage_norm_centroid);
        put(Score::kFrequencyMass, r.frequency_mass);
        put(Score::kAliasing, r.aliasing);
        put(Score::kAliasingF16, r.aliasing_f16);
        CHECK(r.near_far_doubtful == 0);
        CHECK(r.barrier_doubtful == 0);
        put(Score::kNearFarOrder, r.near_far);
        put(Score::kNearFarGaussian, r.near_far_gaussian);
        put(Score::kBarrierExceedance, r.barrier);
        put(Score::kBarrierGaussian, r.barrier_gaussian);
        put(Score::kBarrierLimit, r.barrier_limit);
        auto count = [&](Count what_count) { return scores[n].count[static_cast<int>(what_count)]; };
        CHECK(count(Count::kTriplets) == r.triplets);
        CHECK(count(Count::kTies) == r.ties);
        CHECK(count(Count::kUndefinedTriplets) == r.undefined_triplets);
        CHECK(count(Count::kNonFiniteTriplets) == r.non_finite_triplets);
        CHECK(count(Count::kFragile) == r.fragile);
        CHECK(count(Count::kPairs) == r.pairs);
        CHECK(count(Count::kUndefinedPairs) == r.undefined_pairs);
        CHECK(count(Count::kNonFinitePairs) == r.non_finite_pairs);
        CHECK(count(Count::kHighPairs) == r.high_pairs);
      }
    }
  REQUIRE(heads > 0);
  for (const auto& [score, value] : values)
    check_score(what + " " + column(score).name, score, value, expected[score], 1e-9);
}

CacheSpec small(const std::function<void(RandomCache&)>& change = {}) {
  RandomCache sizes{.examples = 2, .tasks = {"one"}};
  if (change) change(sizes);
  return random_cache(sizes);
}

void each_task(CacheSpec& cache, const std::function<void(TaskSpec&)>& change) {
  for (TaskSpec& task : cache.tasks) change(task);
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("example scorer: element types, layouts, rotations") {
  for (const auto type :
       {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32, ElementType::kFloat64})
    check_against_reference(element_name(type), small([&](RandomCache& sizes) { sizes.type = type; }));
  CacheSpec cache = small();
  cache.model.layout = spectral::PairLayout::kInterleaved;
  cache.model.key_rotation = Rotation::kPost;
  check_against_reference("interleaved, post keys", cache);
  cache.model.query_rotation = Rotation::kPost;
  cache.model.layout = spectral::PairLayout::kHalf;
  check_against_reference("half, post both", cache);
}

TEST_CASE("example scorer: head counts and layer subsets") {
  check_against_reference("MQA", small([](RandomCache& sizes) { sizes.kv_heads = 1; }));
  check_against_reference("MHA", small([](RandomCache& sizes) { sizes.kv_heads = 4; }));
  check_against_reference("layers 1, 3", small([](RandomCache& sizes) {
                            sizes.num_layers = 5;
                            sizes.layers = {1, 3};
                          }));
  check_against_reference("one pair", small([](RandomCache& sizes) { sizes.head_dim = 2; }));
}

TEST_CASE("example scorer: unused slots, explicit triplets, odd key counts") {
  CacheSpec cache = small([](RandomCache& sizes) { sizes.key_slots = 7; });
  each_task(cache, [](TaskSpec& task) {
    task.key_position[1] = -1;
    task.query_position[0] = -1;
  });
  check_against_reference("unused", cache);
  cache = small();
  each_task(cache, [](TaskSpec& task) {
    task.header.triplet_slots = 3;
    task.triplets = {5, 0, 2, 1, -1, -1, 0, 3, 4, 2, 1, 5};
  });
  check_against_reference("triplets", cache);
}

TEST_CASE("example scorer: full coverage pairs exist only up to the query") {
  CacheSpec cache = small([](RandomCache& sizes) {
    sizes.query_slots = 3;
    sizes.key_slots = 40;
    sizes.window = 60;
  });
  each_task(cache, [](TaskSpec& task) {
    task.header.full_coverage = true;
    for (std::size_t i = 0; i < task.key_position.size(); ++i)
      task.key_position[i] = static_cast<std::int64_t>(i % 40);
    for (std::size_t i = 0; i < task.query_position.size(); i += 3) {
      task.query_position[i] = 4;
      task.query_position[i + 1] = 17;
      task.query_position[i + 2] = 39;
    }
  });
  check_against_reference("full", cache);
}

TEST_CASE("example scorer: blocks of pairs and triplets fold into the same sums") {
  CacheSpec cache = small([](RandomCache& sizes) {
    sizes.num_layers = 1;
    sizes.query_heads = sizes.kv_heads = 1;
    sizes.head_dim = 4;
    sizes.examples = 1;
    sizes.query_slots = 5;
    sizes.key_slots = 2 * kTripletBlock / 4 + 3;
    sizes.window = 600;
  });
  check_against_reference("several blocks", cache);
}

TEST_CASE("example scorer: ties, zero vectors, non-finite values") {
  CacheSpec cache = small([](RandomCache& sizes) { sizes.type = ElementType::kFloat32; });
  each_task(cache, [](TaskSpec& task) {
    const std::size_t dim = static_cast<std::size_t>(task.header.head_dim);
    for (std::size_t i = 0; i < dim; ++i) {
      task.key[i] = task.key[dim + i];  // slots 0 and 1 alike: a tie
      task.key[2 * dim + i] = 0;        // slot 2 without a vector
      task.query[i] = i % 2 ? 0.0 : task.query[i];
    }
    task.key[5 * dim + 1] = std::nan("");
    task.key[4 * dim] = INFINITY;
    for (std::size_t i = 0; i < dim; ++i) task.query[dim + i] = 0;
  });
  check_against_reference("hostile values", cache);
}

TEST_CASE("example scorer: a rotary part with a tail, frozen pairs") {
  CacheSpec cache = small();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {5};
  cache.model.inv_freq = {1.0, 0.3, 0.0, 0.02, 0.0};
  cache.omega = {cache.model.inv_freq};
  check_against_reference("tail and still pairs", cache);
  cache.model.key_rotation = Rotation::kPost;
  check_against_reference("tail and still pairs, post keys", cache);
}

TEST_CASE("example scorer: frequencies per layer and head, attention scale, reversed angles") {
  CacheSpec cache = small();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {2, 4, 8};
  cache.model.attention_scale = 0.7;
  cache.model.reversed = true;
  cache.model.inv_freq.clear();
  for (int i = 0; i < 2 * 4 * 8; ++i) cache.model.inv_freq.push_back(std::pow(0.9, i % 8 + i / 8) * 0.8);
  check_against_reference("per head", cache);
}

TEST_CASE("example scorer: a window in place of the examples', tiny windows") {
  ScoringOptions options;
  options.window = 37;
  check_against_reference("window 37", small(), options);
  options.window = 2;
  check_against_reference("window 2", small(), options);
  options.window = 3;
  options.split = spectral::parse_split("prefix:3");
  check_against_reference("window 3, prefix", small(), options);
}

TEST_CASE(
    "example scorer: softcap, sliding window, query temperature, attention factor come from the config") {
  auto with_config = [](const std::string& config) {
    CacheSpec cache = small();
    cache.model.config = config;
    return cache;
  };
  const std::string sizes =
      R"("num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64,)";
  check_against_reference("gemma2", with_config(R"({"model_type": "gemma2", )" + sizes +
                                                R"( "rope_theta": 10000.0, "query_pre_attn_scalar": 4,
    "attn_logit_softcapping": 3.0, "sliding_window": 50, "max_position_embeddings": 8192})"));
  check_against_reference("yarn", with_config(R"({"model_type": "qwen2", )" + sizes +
                                              R"( "rope_theta": 10000.0, "max_position_embeddings": 400,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100}})"));
  check_against_reference("ministral3", with_config(R"({"model_type": "ministral3", )" + sizes +
                                                    R"( "max_position_embeddings": 400, "rope_parameters":
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16,
     "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0}})"));
  check_against_reference("dynamic", with_config(R"({"model_type": "llama", )" + sizes +
                                                 R"( "rope_theta": 10000.0, "max_position_embeddings": 100,
    "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})"));
}

TEST_CASE("example scorer: a weightless norm after the rotation equals vectors normalised beforehand") {
  CacheSpec cache = small([](RandomCache& sizes) { sizes.type = ElementType::kFloat64; });
  const std::string sizes =
      R"("num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64,
         "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})";
  CacheSpec normed = cache;
  normed.model.config = R"({"model_type": "nanochat", )" + sizes;
  CacheSpec plain = cache;
  plain.model.config = R"({"model_type": "llama", )" + sizes;
  TempDir folder;
  write_cache(folder / "normed.h5", normed);
  const ActivationSet normed_set({folder / "normed.h5"}, {});
  REQUIRE(normed_set.layer(0).norm_after_epsilon);
  const double epsilon = *normed_set.layer(0).norm_after_epsilon;
  plain.model.reversed = normed_set.layer(0).reversed;
  each_task(plain, [&](TaskSpec& task) {
    for (std::vector<double>* side : {&task.query, &task.key})
      for (std::size_t row = 0; row < side->size(); row += 16) {
        double squares = 0;
        for (std::size_t i = 0; i < 16; ++i) squares += (*side)[row + i] * (*side)[row + i];
        for (std::size_t i = 0; i < 16; ++i) (*side)[row + i] /= std::sqrt(squares / 16 + epsilon);
      }
  });
  write_cache(folder / "plain.h5", plain);
  const ActivationSet plain_set({folder / "plain.h5"}, {});
  ExampleScorer a(normed_set, {}), b(plain_set, {});
  const std::vector<HeadWork> work(normed_set.heads().size(), HeadWork::kAll);
  const auto left = a.score(normed_set.tasks()[0].examples[0], work);
  const auto right = b.score(plain_set.tasks()[0].examples[0], work);
  for (std::size_t n = 0; n < left.size(); ++n) {
    for (int i = 0; i < static_cast<int>(Score::kCount); ++i)
      check_score("head " + std::to_string(n), static_cast<Score>(i), {&left[n].score[i], 1},
                  {&right[n].score[i], 1}, 1e-11);
  }
}

TEST_SUITE_END();

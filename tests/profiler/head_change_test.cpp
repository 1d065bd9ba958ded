// Heads scored as if some of their pairs were scaled or stopped (theory §7), against the slow reference,
// against caches written so, and against the algebra of S(m).

#include "profiler/head_change.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <map>

#include "profiler/example_scorer.hpp"
#include "reference/direct.hpp"
#include "spectral/band_split.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/reference_input.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

// Freezes the pairs of H(M) under a split, or scales them, in some heads.
class HighChange : public HeadChanges {
 public:
  enum class Kind { kFreeze, kScale };
  HighChange(Kind kind, double alpha, std::string split = "omega:0.1",
             std::function<bool(int, int)> chosen = {})
      : kind_(kind), alpha_(alpha), split_(spectral::parse_split(split)), chosen_(std::move(chosen)) {}

  HeadChange of(const LayerModel& layer, int head, std::int64_t window,
                const spectral::FrequencyGrid& grid) const override {
    HeadChange change;
    if (chosen_ && !chosen_(layer.layer, head)) return change;
    if (layer.window > 0) window = std::min(window, layer.window);
    const auto high = spectral::high_frequency_mask(split_, grid.omega, grid.rho, window);
    if (kind_ == Kind::kFreeze) {
      change.frozen = high;
      return change;
    }
    for (const char in : high) change.scale.push_back(in ? alpha_ : 1.0);
    return change;
  }

 private:
  Kind kind_;
  double alpha_;
  spectral::SplitRule split_;
  std::function<bool(int, int)> chosen_;
};

std::shared_ptr<const HeadChanges> freeze(const std::string& split = "omega:0.1",
                                          std::function<bool(int, int)> chosen = {}) {
  return std::make_shared<HighChange>(HighChange::Kind::kFreeze, 0.0, split, std::move(chosen));
}
std::shared_ptr<const HeadChanges> scale(double alpha, const std::string& split = "omega:0.1") {
  return std::make_shared<HighChange>(HighChange::Kind::kScale, alpha, split);
}

ScoringOptions everything(std::shared_ptr<const HeadChanges> changes = {}) {
  ScoringOptions options;
  options.exact_reversal = options.aliasing = options.logit_spread = options.fixed_norm = true;
  options.changes = std::move(changes);
  return options;
}

struct Cache {
  explicit Cache(const CacheSpec& cache, const ActivationSetOptions& options = {}) {
    write_cache(folder / "cache.h5", cache);
    set.emplace(std::vector<std::string>{folder / "cache.h5"}, options);
  }
  std::vector<std::vector<HeadScores>> score(const ScoringOptions& options,
                                             ScoringResources resources = {}) const {
    std::vector<const SetExample*> examples;
    for (const SetTask& task : set->tasks())
      for (const SetExample& example : task.examples) examples.push_back(&example);
    std::vector<std::vector<HeadScores>> all;
    ExampleScorer scorer(*set, options, resources);
    scorer.score(examples, std::vector<HeadWork>(set->heads().size(), HeadWork::kAll),
                 [&](std::size_t, std::vector<HeadScores>& scores) { all.push_back(std::move(scores)); });
    return all;
  }
  TempDir folder;
  std::optional<ActivationSet> set;
};

// All values of heads as bytes; NaN are one value.
std::string bytes_of(const HeadScores& head) {
  std::vector<double> values(head.score.begin(), head.score.end());
  values.insert(values.end(), {head.logit_spread, head.positional_fixed_norm});
  values.insert(values.end(), head.usage.begin(), head.usage.end());
  values.insert(values.end(), head.usage_norm.begin(), head.usage_norm.end());
  for (const std::int64_t count : head.count) values.push_back(static_cast<double>(count));
  for (double& value : values)
    if (std::isnan(value)) value = std::nan("");
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

void check_same_bytes(const std::vector<std::vector<HeadScores>>& one,
                      const std::vector<std::vector<HeadScores>>& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t e = 0; e < one.size(); ++e) {
    REQUIRE(one[e].size() == other[e].size());
    for (std::size_t n = 0; n < one[e].size(); ++n) {
      CAPTURE(e);
      CAPTURE(n);
      REQUIRE(one[e][n].present);
      CHECK(bytes_of(one[e][n]) == bytes_of(other[e][n]));
    }
  }
}

// Every value and count of every head, changed, against the slow reference.
void check_against_reference(const std::string& what, const CacheSpec& spec,
                             std::shared_ptr<const HeadChanges> changes, double bound = 1e-9) {
  CAPTURE(what);
  const Cache cache(spec);
  const ActivationSet& set = *cache.set;
  const ScoringOptions options = everything(changes);
  ExampleScorer scorer(set, options);
  std::map<std::string, std::vector<double>> swept, exact, swept_expected, exact_expected;
  bool changed = false;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples) {
      const auto scores = scorer.score(example, std::vector<HeadWork>(set.heads().size(), HeadWork::kAll));
      for (std::size_t n = 0; n < scores.size(); ++n) {
        const auto [layer, head, rotates] = set.heads()[n];
        reference::HeadInput input = reference_input(set, example, layer, head, options);
        const HeadChange change =
            changes->of(set.layer(layer), head, example.window,
                        set.model(example.parts[0].file).grid(layer, head, example.window));
        input.frozen = change.frozen;
        input.factor = change.scale;
        for (const char f : input.frozen) changed = changed || f;
        for (const double f : input.factor) changed = changed || f != 1;
        const reference::HeadResult r = reference::score_head(input);
        const HeadScores& s = scores[n];
        const auto score = [&](Score which) { return s.score[static_cast<int>(which)]; };
        const auto put = [](auto& values, auto& expected, const char* name, double value,
                            double reference_value) {
          values[name].push_back(value);
          expected[name].push_back(reference_value);
        };
        put(swept, swept_expected, "positional", score(Score::kPositional), r.positional);
        put(swept, swept_expected, "fixed norm", s.positional_fixed_norm, r.positional_fixed_norm);
        put(swept, swept_expected, "response max", score(Score::kResponseMax), r.response_max);
        put(swept, swept_expected, "length", score(Score::kEffectiveLength), r.effective_length);
        put(exact, exact_expected, "spread", s.logit_spread, r.logit_spread);
        put(exact, exact_expected, "semantic", score(Score::kSemantic), r.semantic);
        put(exact, exact_expected, "exact semantic", score(Score::kExactSemantic), r.exact_semantic);
        put(exact, exact_expected, "norm share", score(Score::kNormShare), r.norm_share);
        put(exact, exact_expected, "usage", score(Score::kUsageCov), r.usage_cov);
        put(exact, exact_expected, "centroid", score(Score::kUsageCentroid), r.usage_centroid);
        put(exact, exact_expected, "mass", score(Score::kFrequencyMass), r.frequency_mass);
        const auto count = [&](Count which) { return s.count[static_cast<int>(which)]; };
        CHECK(count(Count::kTriplets) == r.triplets);
        CHECK(count(Count::kTies) == r.ties);
        CHECK(count(Count::kFragile) == r.fragile);
        CHECK(count(Count::kPairs) == r.pairs);
        CHECK(count(Count::kUndefinedPairs) == r.undefined_pairs);
        CHECK(count(Count::kNonFinitePairs) == r.non_finite_pairs);
        CHECK(count(Count::kHighPairs) == r.high_pairs);
      }
    }
  REQUIRE(changed);
  for (const auto& [name, values] : swept)
    CHECK_COMPARISON(compare_relative(what + " " + name, values, swept_expected[name], 1e-5, 0.0, true));
  for (const auto& [name, values] : exact)
    CHECK_COMPARISON(compare_absolute(what + " " + name, values, exact_expected[name], bound, true));
}

void check_all_changes(const std::string& what, const CacheSpec& cache,
                       const std::string& split = "omega:0.1") {
  check_against_reference(what + ", frozen", cache, freeze(split));
  for (const double alpha : {0.0, 0.5, 2.5})
    check_against_reference(what + ", times " + std::to_string(alpha), cache, scale(alpha, split));
}

CacheSpec small(const std::function<void(RandomCache&)>& change = {}) {
  RandomCache sizes{.examples = 2, .tasks = {"one"}};
  if (change) change(sizes);
  return random_cache(sizes);
}

// The frequencies of a cache as [L, Hq, h], pairs stopped in some heads.
std::vector<double> frozen_table(const ActivationSet& set, const SetExample& example,
                                 const HeadChanges& changes, int layers, int heads) {
  std::vector<double> table;
  for (int layer = 0; layer < layers; ++layer)
    for (int head = 0; head < heads; ++head) {
      const auto grid = set.model(0).grid(layer, head, example.window);
      const HeadChange change = changes.of(set.layer(layer), head, example.window, grid);
      for (std::size_t n = 0; n < grid.omega.size(); ++n)
        table.push_back(!change.frozen.empty() && change.frozen[n] ? 0.0 : grid.omega[n]);
    }
  return table;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("head change: scaled and stopped pairs, against the reference") {
  check_all_changes("float16", small());
  check_all_changes("several windows", small([](RandomCache& sizes) { sizes.examples = 3; }), "intervention");
  CacheSpec cache = small([](RandomCache& sizes) { sizes.type = ElementType::kFloat64; });
  cache.model.layout = spectral::PairLayout::kInterleaved;
  cache.model.key_rotation = Rotation::kPost;
  check_all_changes("interleaved, post keys", cache);
  cache.model.query_rotation = Rotation::kPost;
  cache.model.layout = spectral::PairLayout::kHalf;
  check_all_changes("post both", cache);
  cache.model.reversed = true;
  check_all_changes("reversed, post both", cache);
}

TEST_CASE("head change: still pairs, a tail, frequencies per head, against the reference") {
  CacheSpec cache = small();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {5};
  cache.model.inv_freq = {1.0, 0.3, 0.0, 0.02, 0.0};
  cache.omega = {cache.model.inv_freq};
  check_all_changes("tail and still pairs", cache);
  cache.model.key_rotation = Rotation::kPost;
  check_all_changes("tail and still pairs, post keys", cache);
  cache = small();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {2, 4, 8};
  cache.model.attention_scale = 0.7;
  cache.model.reversed = true;
  cache.model.inv_freq.clear();
  for (int i = 0; i < 2 * 4 * 8; ++i) cache.model.inv_freq.push_back(std::pow(0.9, i % 8 + i / 8) * 0.8);
  check_all_changes("per head", cache, "omega:0.4");
}

TEST_CASE("head change: softcap, sliding windows and attention factors, against the reference") {
  const std::string sizes =
      R"("num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64,)";
  CacheSpec cache = small();
  cache.model.config =
      R"({"model_type": "gemma2", )" + sizes + R"( "rope_theta": 10000.0, "query_pre_attn_scalar": 4,
    "attn_logit_softcapping": 3.0, "sliding_window": 50, "max_position_embeddings": 8192})";
  check_all_changes("gemma2", cache, "intervention");
  cache.model.config =
      R"({"model_type": "qwen2", )" + sizes + R"( "rope_theta": 10000.0, "max_position_embeddings": 400,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100}})";
  check_all_changes("yarn", cache);
}

TEST_CASE("head change: blocks of pairs, ties, zero and non-finite vectors, against the reference") {
  CacheSpec cache = small([](RandomCache& sizes) {
    sizes.num_layers = 1;
    sizes.query_heads = sizes.kv_heads = 1;
    sizes.head_dim = 4;
    sizes.examples = 1;
    sizes.query_slots = 3;
    sizes.key_slots = 651;  // three blocks of pairs, two of triplets
    sizes.window = 700;
  });
  check_against_reference("blocks, frozen", cache, freeze());
  check_against_reference("blocks, times 0.5", cache, scale(0.5));
  cache = small([](RandomCache& sizes) { sizes.type = ElementType::kFloat32; });
  TaskSpec& task = cache.tasks[0];
  const std::size_t dim = 16;
  for (std::size_t i = 0; i < dim; ++i) {
    task.key[i] = task.key[dim + i];
    task.key[2 * dim + i] = 0;
    if (i % 8 > 1) task.key[3 * dim + i] = 0;  // nothing but fast pairs: U = 0 once they are gone
  }
  task.key[5 * dim + 1] = std::nan("");
  check_all_changes("hostile values", cache);
}

TEST_CASE("head change: a factor of 1 and a freeze of nothing are the baseline, byte for byte") {
  for (const Rotation rotation : {Rotation::kPre, Rotation::kPost}) {
    CacheSpec spec = small([](RandomCache& sizes) { sizes.examples = 3; });
    spec.model.key_rotation = spec.model.query_rotation = rotation;
    const Cache cache(spec);
    const auto baseline = cache.score(everything());
    check_same_bytes(cache.score(everything(scale(1.0))), baseline);
    check_same_bytes(cache.score(everything(freeze("omega:3"))), baseline);
    ScoringOptions plain = everything();
    plain.logit_spread = plain.fixed_norm = false;
    const auto without = cache.score(plain);
    for (std::size_t e = 0; e < without.size(); ++e)
      for (std::size_t n = 0; n < without[e].size(); ++n) {
        CHECK(without[e][n].score[static_cast<int>(Score::kPositional)] ==
              baseline[e][n].positional_fixed_norm);
        CHECK(std::isnan(without[e][n].logit_spread));
        HeadScores filled = without[e][n];
        filled.logit_spread = baseline[e][n].logit_spread;
        filled.positional_fixed_norm = baseline[e][n].positional_fixed_norm;
        CHECK(bytes_of(filled) == bytes_of(baseline[e][n]));
      }
  }
}

TEST_CASE("head change: a freeze is a profile of the cache rewritten with omega = 0, byte for byte") {
  const auto some = [](int layer, int head) { return (layer + head) % 2 == 0; };
  for (const bool with_config : {true, false}) {
    CAPTURE(with_config);
    CacheSpec spec = small([](RandomCache& sizes) { sizes.examples = 1; });
    if (!with_config) {  // rho is then estimated from the frequencies, so the rules made of it would differ
      spec.model.config.reset();
      spec.model.inv_freq_shape = {8};
      spec.model.inv_freq = spec.omega[0];
    }
    const Cache cache(spec);
    // omega:X asks nothing of rho, "intervention" does.
    for (const char* split : {"omega:0.1", "intervention"}) {
      if (!with_config && split != std::string("omega:0.1")) continue;
      ScoringOptions options = everything(freeze(split, some));
      if (!with_config) options.split = spectral::parse_split("omega:0.02");
      const SetExample& example = cache.set->tasks()[0].examples[0];
      CacheSpec rewritten = spec;
      rewritten.model.inv_freq_shape = {2, 4, 8};
      rewritten.model.inv_freq = frozen_table(*cache.set, example, *options.changes, 2, 4);
      REQUIRE(std::count(rewritten.model.inv_freq.begin(), rewritten.model.inv_freq.end(), 0.0) > 4);
      ActivationSetOptions trusting;
      trusting.trust = Trust::kInvFreq;
      const Cache other(rewritten, trusting);
      ScoringOptions plain = options;
      plain.changes.reset();
      auto expected = other.score(plain);
      const auto found = cache.score(options);
      // The rewritten cache knows of no U but its own.
      for (std::size_t n = 0; n < expected[0].size(); ++n)
        expected[0][n].positional_fixed_norm = found[0][n].positional_fixed_norm;
      check_same_bytes(found, expected);
    }
  }
}

TEST_CASE("head change: S' = S + (alpha - 1) S_H at every distance") {
  CacheSpec spec = small();
  spec.model.key_rotation = Rotation::kPost;
  const Cache cache(spec);
  const SetExample& example = cache.set->tasks()[0].examples[0];
  MemoryGate gate(std::int64_t{1} << 30);
  for (const double alpha : {0.0, 0.25, 1.0, 1.5, 3.0}) {
    const auto coefficients = [&](std::shared_ptr<const HeadChanges> changes) {
      ScoringOptions options;
      options.changes = std::move(changes);
      GridCache grids(*cache.set, options.split, 1 << 20);
      ExampleReader reader(*cache.set, options, grids, gate, 1 << 20);
      std::vector<std::vector<std::complex<double>>> z;
      reader.read(
          example, std::vector<HeadWork>(cache.set->heads().size(), HeadWork::kAll),
          [&](std::shared_ptr<HeadJob> job, std::int64_t) {
            job->vectors->decode();
            const PairPart part = job->pair_part(0);
            spectral::CoefficientBatch batch;
            score_pairs({&part, 1}, job->grid->high(), batch);
            for (std::size_t p = 0; p < batch.n_pairs; ++p) {
              z.emplace_back();
              for (std::size_t n = 0; n < batch.n_freq; ++n)
                z.back().emplace_back(batch.re[n * batch.stride + p], batch.im[n * batch.stride + p]);
            }
          },
          [] {});
      return z;
    };
    const auto before = coefficients({}), after = coefficients(scale(alpha));
    REQUIRE(before.size() == 8 * 12);
    REQUIRE(after.size() == before.size());
    const auto omega = cache.set->model(0).grid(0, 0, example.window).omega;
    std::vector<double> changed, expected;
    for (std::size_t p = 0; p < before.size(); p += 7)
      for (std::int64_t m = 0; m < example.window; m += 13) {
        double s = 0, high = 0, now = 0;
        for (std::size_t n = 0; n < omega.size(); ++n) {
          const std::complex<double> turn = std::polar(1.0, static_cast<double>(m) * omega[n]);
          s += (before[p][n] * turn).real();
          if (omega[n] >= 0.1) high += (before[p][n] * turn).real();
          now += (after[p][n] * turn).real();
        }
        changed.push_back(now);
        expected.push_back(s + (alpha - 1) * high);
      }
    CHECK_COMPARISON(compare_absolute("S' at alpha " + std::to_string(alpha), changed, expected, 1e-12));
  }
}

TEST_CASE("head change: the variance of the logits is a parabola in alpha") {
  const Cache cache(small([](RandomCache& sizes) {
    sizes.query_slots = sizes.key_slots = 1;  // one pair: a mean over pairs hides nothing
    sizes.examples = 1;
  }));
  const auto variance = [&](double alpha, std::size_t head) {
    const double spread = cache.score(everything(scale(alpha)))[0][head].logit_spread;
    return spread * spread;
  };
  for (std::size_t head = 0; head < 8; ++head) {
    const double v0 = variance(0, head), v1 = variance(1, head), v2 = variance(2, head);
    const double curve = (v2 - 2 * v1 + v0) / 2, slope = v1 - v0 - curve;
    REQUIRE(curve > 0);  // the variance of S_H
    std::vector<double> found, expected;
    for (const double alpha : {0.3, 1.5, 3.0}) {
      found.push_back(variance(alpha, head));
      expected.push_back(v0 + slope * alpha + curve * alpha * alpha);
    }
    CHECK_COMPARISON(compare_relative("variance", found, expected, 1e-10));
  }
}

TEST_CASE("head change: a head with all pairs stopped has no scores") {
  const Cache cache(small());
  const auto one = [](int layer, int head) { return layer == 1 && head == 2; };
  const auto scores = cache.score(everything(freeze("omega:0", one)));
  const auto baseline = cache.score(everything());
  for (std::size_t e = 0; e < scores.size(); ++e)
    for (std::size_t n = 0; n < scores[e].size(); ++n) {
      CHECK(scores[e][n].present == (n != 6));
      if (n != 6) {
        CHECK(bytes_of(scores[e][n]) == bytes_of(baseline[e][n]));
        continue;
      }
      for (const double score : scores[e][n].score) CHECK(std::isnan(score));
      CHECK(std::isnan(scores[e][n].positional_fixed_norm));
      CHECK(std::isnan(scores[e][n].logit_spread));
    }
}

TEST_CASE("head change: the same bytes for any threads, memory and packing") {
  const Cache cache(small([](RandomCache& sizes) {
    sizes.examples = 5;
    sizes.type = ElementType::kBfloat16;
  }));
  for (const auto& changes : {freeze("intervention"), scale(2.0, "intervention")}) {
    const auto expected = cache.score(everything(changes), {.threads = 1});
    for (const int threads : {2, 5})
      for (const std::size_t lanes : {std::size_t{48}, std::size_t{960}, std::size_t{65536}}) {
        ScoringResources resources{threads, kLeastMemory};
        resources.engine.lanes = lanes;
        check_same_bytes(cache.score(everything(changes), resources), expected);
      }
  }
}

TEST_SUITE_END();

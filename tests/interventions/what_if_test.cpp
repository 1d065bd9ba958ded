// Previews of plans against the slow reference, caches written so, profiles, and each other.

#include "interventions/what_if.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "interventions/alpha_sweep.hpp"
#include "profiler/error.hpp"
#include "reference/direct.hpp"
#include "spectral/band_split.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/make_profile.hpp"
#include "support/reference_input.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

// A cache, its profile over given heads, and plans for them.
struct Bench {
  explicit Bench(const CacheSpec& spec, const std::string& heads = "0.0,0.3,1.1",
                 const std::string& split = "") {
    write_cache(cache, spec);
    ProfileOptions options;
    options.files = {cache};
    options.output = folder / "p.h5";
    options.heads = parse_heads(heads);
    options.heads_given = true;
    if (!split.empty()) options.scoring.split = spectral::parse_split(split);
    run_profile(options, [](const char*, std::int64_t, std::int64_t) {});
    profile.emplace(folder / "p.h5");
    plan_options.heads = options.heads;
    plan_options.strengths = parse_strengths("NR,0,0.5,2.5");
    plan_options.direction = Direction::kSemantic;
  }

  Plan preview(const WhatIfOptions& options, const std::vector<std::string>& files = {}) {
    Plan plan = make_plan(*profile, plan_options);
    const ActivationSet set(files.empty() ? std::vector<std::string>{cache} : files, input);
    warnings = add_preview(plan, *profile, set, options, [](const char*, std::int64_t, std::int64_t) {});
    return plan;
  }
  Plan preview() { return preview(options()); }
  WhatIfOptions options() const {
    WhatIfOptions options;
    options.scoring = profile_scoring(*profile);
    options.resamples = 200;
    return options;
  }

  TempDir folder;
  std::string cache = folder / "cache.h5";
  std::optional<ProfileReader> profile;
  PlanOptions plan_options;
  ActivationSetOptions input;
  std::vector<std::string> warnings;
};

const PlanTask& task_of(const Plan& plan, const std::string& name) {
  for (const PlanTask& task : plan.tasks)
    if (task.task == name) return task;
  throw std::out_of_range(name);
}

const PreviewRow& row_of(const PlanTask& task, const std::string& candidate) {
  for (const PreviewRow& row : task.preview)
    if (row.candidate() == candidate) return row;
  throw std::out_of_range(candidate);
}

// Windows on both sides of where a pair joins H under the intervention split, another under the operational
// one.
CacheSpec small(const std::function<void(RandomCache&)>& change = {}) {
  RandomCache sizes{.examples = 4, .window = 140};
  if (change) change(sizes);
  CacheSpec cache = random_cache(sizes);
  for (TaskSpec& task : cache.tasks)
    for (std::size_t e = 0; e < task.window.size(); ++e) task.window[e] += 10 * static_cast<std::int64_t>(e);
  return cache;
}

using Values = std::array<double, kPreviewScores>;

// H(M) of theory §5 in its own words.
std::vector<char> high_pairs(const std::vector<double>& omega, double rho, double c, double epsilon,
                             double window) {
  std::vector<char> high;
  for (const double w : omega) high.push_back(w > 0 && window * w >= 2 * c / ((1 - rho) * epsilon));
  return high;
}

Values reference_values(const ActivationSet& set, const SetExample& example, const HeadIndex& where,
                        const ScoringOptions& scoring, const std::optional<Intervention>& change) {
  const auto [layer, head] = where;
  reference::HeadInput input = reference_input(set, example, layer, head, scoring);
  const auto grid = set.model(example.parts[0].file).grid(layer, head, example.window);
  const std::int64_t cap = set.layer(layer).window;
  const double length = static_cast<double>(cap > 0 ? std::min(cap, example.window) : example.window);
  input.high = high_pairs(grid.omega, grid.rho, 0.06, 0.1, static_cast<double>(input.window));
  const std::vector<char> mask = high_pairs(grid.omega, grid.rho, 0.05, 0.1, length);
  if (change && change->operation == Operation::kFreeze) input.frozen = mask;
  if (change && change->operation == Operation::kRescale)
    for (const char in : mask) input.factor.push_back(in ? change->alpha : 1.0);
  const reference::HeadResult r = reference::score_head(input);
  return {r.semantic,         r.positional,   r.norm_share,
          r.effective_length, r.logit_spread, r.positional_fixed_norm};
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void check_against_reference(const std::string& what, const CacheSpec& spec) {
  CAPTURE(what);
  Bench bench(spec);
  const Plan plan = bench.preview();
  const ActivationSet set({bench.cache}, {});
  const ScoringOptions scoring = profile_scoring(*bench.profile);
  CHECK(bench.warnings.empty());
  std::array<std::vector<double>, kPreviewScores> value, expected, change, expected_change;
  for (const SetTask& task : set.tasks()) {
    const PlanTask& planned = task_of(plan, task.name);
    REQUIRE(planned.preview.size() == 5);
    for (const PreviewRow& row : planned.preview) {
      CHECK(row.examples == std::ssize(task.examples));
      for (std::size_t s = 0; s < kPreviewScores; ++s) {
        std::vector<double> values, changes;
        for (const SetExample& example : task.examples) {
          std::vector<double> now, before;
          for (const HeadIndex& head : planned.heads) {
            now.push_back(reference_values(set, example, head, scoring, row.intervention)[s]);
            before.push_back(reference_values(set, example, head, scoring, std::nullopt)[s]);
          }
          values.push_back(mean(now));
          changes.push_back(mean(now) - mean(before));
        }
        value[s].push_back(row.score[s].value);
        expected[s].push_back(mean(values));
        if (!row.intervention) {
          CHECK(std::isnan(row.score[s].change));
          CHECK(std::isnan(row.score[s].change_low));
          continue;
        }
        change[s].push_back(row.score[s].change);
        expected_change[s].push_back(mean(changes));
        CHECK(row.score[s].change_low <= row.score[s].change);
        CHECK(row.score[s].change_high >= row.score[s].change);
      }
    }
  }
  for (std::size_t s = 0; s < kPreviewScores; ++s) {
    const std::string name = what + " " + preview_score_name(static_cast<PreviewScore>(s));
    const double size = s == static_cast<std::size_t>(PreviewScore::kEffectiveLength) ? 100 : 1;
    CHECK_COMPARISON(compare_relative(name, value[s], expected[s], 1e-5, 1e-6));
    CHECK_COMPARISON(compare_absolute(name + " change", change[s], expected_change[s], 1e-5 * size));
  }
}

std::string bytes_of(const Plan& plan) {
  std::string bytes;
  for (const PlanTask& task : plan.tasks)
    for (const PreviewRow& row : task.preview) {
      bytes += task.task + ' ' + row.candidate() + ' ' + std::to_string(row.examples);
      for (const PreviewValue& score : row.score)
        for (double x : {score.value, score.change, score.change_low, score.change_high}) {
          if (std::isnan(x)) x = PreviewValue::kNone;
          bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
        }
    }
  return bytes;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("what-if: scores and changes of every candidate, against the reference") {
  check_against_reference("float16", small());
  CacheSpec cache = small([](RandomCache& sizes) { sizes.type = ElementType::kFloat32; });
  cache.model.key_rotation = Rotation::kPost;
  cache.model.layout = spectral::PairLayout::kInterleaved;
  check_against_reference("post keys, interleaved", cache);
  cache = small();
  cache.model.config = R"({"model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64, "rope_theta": 10000.0, "query_pre_attn_scalar": 4,
    "attn_logit_softcapping": 3.0, "sliding_window": 16, "max_position_embeddings": 8192})";
  check_against_reference("sliding window, softcap", cache);
  cache.model.config = R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64, "rope_theta": 10000.0, "max_position_embeddings": 100,
    "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})";
  check_against_reference("frequencies by length", cache);
}

TEST_CASE("what-if: the baseline is the profile's own scores, and alpha = 1 is the baseline, bit for bit") {
  for (const Rotation rotation : {Rotation::kPre, Rotation::kPost}) {
    CacheSpec spec = small();
    spec.model.key_rotation = rotation;
    Bench bench(spec);
    WhatIfOptions options = bench.options();
    options.sweep = parse_alpha_sweep("0:2:0.5");
    const Plan plan = bench.preview(options);
    for (const TaskSummary& summary : summarize_tasks(*bench.profile)) {
      const PlanTask& task = task_of(plan, summary.task);
      const PreviewRow &baseline = row_of(task, "baseline"), &one = row_of(task, "1");
      const auto known = [&](Score score) { return summary.score[static_cast<std::size_t>(score)]; };
      CHECK(baseline.of(PreviewScore::kSemantic).value == known(Score::kSemantic));
      CHECK(baseline.of(PreviewScore::kPositional).value == known(Score::kPositional));
      CHECK(baseline.of(PreviewScore::kPositionalFixedNorm).value == known(Score::kPositional));
      CHECK(baseline.of(PreviewScore::kNormShare).value == known(Score::kNormShare));
      CHECK(baseline.of(PreviewScore::kEffectiveLength).value == known(Score::kEffectiveLength));
      for (std::size_t s = 0; s < kPreviewScores; ++s) {
        CHECK(one.score[s].value == baseline.score[s].value);
        CHECK(one.score[s].change == 0);
        CHECK(one.score[s].change_low == 0);
        CHECK(one.score[s].change_high == 0);
        CHECK(row_of(task, "2").score[s].change != 0);
      }
    }
  }
}

TEST_CASE("what-if: a freeze is a profile of the cache rewritten with omega = 0, bit for bit") {
  CacheSpec spec = small();
  for (TaskSpec& task : spec.tasks) std::fill(task.window.begin(), task.window.end(), 190);
  Bench bench(spec);
  const Plan plan = bench.preview();
  const ActivationSet set({bench.cache}, {});
  CacheSpec rewritten = spec;
  rewritten.model.inv_freq_shape = {2, 4, 8};
  rewritten.model.inv_freq.clear();
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 4; ++head) {
      const auto grid = set.model(0).grid(layer, head, 190);
      const auto high = high_pairs(grid.omega, grid.rho, 0.05, 0.1, 190);
      const auto& heads = plan.tasks[0].heads;
      const bool chosen = std::find(heads.begin(), heads.end(), HeadIndex{layer, head}) != heads.end();
      for (std::size_t n = 0; n < grid.omega.size(); ++n)
        rewritten.model.inv_freq.push_back(chosen && high[n] ? 0.0 : grid.omega[n]);
    }
  CHECK(std::count(rewritten.model.inv_freq.begin(), rewritten.model.inv_freq.end(), 0.0) == 3 * 5);
  write_cache(bench.folder / "rewritten.h5", rewritten);
  ProfileOptions options;
  options.files = {bench.folder / "rewritten.h5"};
  options.input.trust = Trust::kInvFreq;
  options.output = bench.folder / "rewritten_p.h5";
  options.heads = *bench.plan_options.heads;
  options.heads_given = true;
  run_profile(options, [](const char*, std::int64_t, std::int64_t) {});
  for (const TaskSummary& summary : summarize_tasks(ProfileReader(bench.folder / "rewritten_p.h5"))) {
    const PreviewRow& frozen = row_of(task_of(plan, summary.task), "NR");
    const auto known = [&](Score score) { return summary.score[static_cast<std::size_t>(score)]; };
    CHECK(frozen.of(PreviewScore::kSemantic).value == known(Score::kSemantic));
    CHECK(frozen.of(PreviewScore::kPositional).value == known(Score::kPositional));
    CHECK(frozen.of(PreviewScore::kNormShare).value == known(Score::kNormShare));
    CHECK(frozen.of(PreviewScore::kEffectiveLength).value == known(Score::kEffectiveLength));
  }
}

TEST_CASE("what-if: the same values for any threads, memory and order of files") {
  const CacheSpec spec = small();
  Bench bench(spec);
  CacheSpec first = spec, second = spec;
  for (std::size_t t = 0; t < spec.tasks.size(); ++t) {
    first.tasks[t] = select_examples(spec.tasks[t], {0, 2});
    second.tasks[t] = select_examples(spec.tasks[t], {1, 3});
  }
  write_cache(bench.folder / "a.h5", first);
  write_cache(bench.folder / "b.h5", second);
  WhatIfOptions options = bench.options();
  options.sweep = parse_alpha_sweep("0:2:1");
  const std::string expected = bytes_of(bench.preview(options));
  for (const int threads : {1, 3}) {
    options.resources.threads = threads;
    options.resources.memory = threads == 1 ? kLeastMemory : std::int64_t{1} << 30;
    CHECK(bytes_of(bench.preview(options)) == expected);
    CHECK(bytes_of(bench.preview(options, {bench.folder / "a.h5", bench.folder / "b.h5"})) == expected);
    CHECK(bytes_of(bench.preview(options, {bench.folder / "b.h5", bench.folder / "a.h5"})) == expected);
  }
  CacheSpec lower = spec, upper = spec;
  for (std::size_t t = 0; t < spec.tasks.size(); ++t) {
    lower.tasks[t] = select_layers(spec.tasks[t], {0});
    upper.tasks[t] = select_layers(spec.tasks[t], {1});
  }
  write_cache(bench.folder / "lower.h5", lower);
  write_cache(bench.folder / "upper.h5", upper);
  CHECK(bytes_of(bench.preview(options, {bench.folder / "upper.h5", bench.folder / "lower.h5"})) == expected);
  options.seed = 1;
  CHECK(bytes_of(bench.preview(options)) != expected);
  options.seed = bench.options().seed;
  bench.plan_options.task_globs = {"beta"};  // the other task is not in the draws
  const Plan one = bench.preview(options);
  REQUIRE(one.tasks.size() == 1);
  CHECK(expected.find(bytes_of(one)) != std::string::npos);
}

TEST_CASE("what-if: rows are baseline, candidates, sweep, each intervention once") {
  Bench bench(small([](RandomCache& sizes) { sizes.tasks = {"one", "two"}; }));
  WhatIfOptions options = bench.options();
  options.sweep = parse_alpha_sweep("0:1.5:0.5");
  const Plan plan = bench.preview(options);
  std::vector<std::string> ids;
  for (const PreviewRow& row : plan.tasks[0].preview) {
    ids.push_back(row.candidate() + (row.in_plan ? " plan" : "") + (row.in_sweep ? " sweep" : ""));
  }
  CHECK(ids == std::vector<std::string>{"baseline", "NR plan", "0 plan sweep", "0.5 plan sweep", "2.5 plan",
                                        "1 sweep", "1.5 sweep"});
}

TEST_CASE("what-if: all pairs frozen is undefined") {
  Bench bench(small());
  bench.plan_options.split = spectral::parse_split("omega:0");
  const Plan plan = bench.preview();
  for (const PlanTask& task : plan.tasks) {
    for (std::size_t s = 0; s < kPreviewScores; ++s) {
      CHECK(std::isnan(row_of(task, "NR").score[s].value));
      CHECK(std::isnan(row_of(task, "NR").score[s].change));
      CHECK(std::isnan(row_of(task, "NR").score[s].change_low));
      CHECK(std::isfinite(row_of(task, "0.5").score[s].value));
      CHECK(std::isfinite(row_of(task, "baseline").score[s].value));
    }
    CHECK(row_of(task, "0.5").of(PreviewScore::kPositional).change == doctest::Approx(0).epsilon(1e-6));
    CHECK(row_of(task, "0.5").of(PreviewScore::kLogitSpread).value ==
          doctest::Approx(0.5 * row_of(task, "baseline").of(PreviewScore::kLogitSpread).value));
    CHECK(row_of(task, "0.5").of(PreviewScore::kPositionalFixedNorm).value ==
          doctest::Approx(0.5 * row_of(task, "baseline").of(PreviewScore::kPositional).value));
  }
}

TEST_CASE("what-if: the profile's own window and split are the scores', the prompt's length the mask's") {
  const CacheSpec spec = small();
  Bench bench(spec, "0.0,1.1", "prefix:2");
  const ActivationSet set({bench.cache}, {});
  WhatIfOptions options = bench.options();
  CHECK(options.scoring.split.name() == "prefix:2");
  // H = the two fastest pairs, which a freeze of five takes along: the next two are then H, as in a profile.
  const Plan plan = bench.preview(options);
  for (const PlanTask& task : plan.tasks) {
    CHECK(row_of(task, "NR").of(PreviewScore::kNormShare).value > 0);
    CHECK(row_of(task, "0").of(PreviewScore::kNormShare).value == 0);
  }
  ProfileOptions wider;
  wider.files = {bench.cache};
  wider.output = bench.folder / "w.h5";
  wider.heads = *bench.plan_options.heads;
  wider.heads_given = true;
  wider.scoring.window = 64;
  run_profile(wider, [](const char*, std::int64_t, std::int64_t) {});
  bench.profile.emplace(bench.folder / "w.h5");
  const ScoringOptions scoring = profile_scoring(*bench.profile);
  CHECK(scoring.window == 64);
  CHECK(scoring.window_cap);
}

TEST_CASE("what-if: a profile whose settings say nothing usable is refused") {
  TempDir folder;
  const auto refusal = [&](const std::string& name, const std::string& value) {
    ProfileHeader header = recipe_header({});
    header.settings = {{"split", "operational"}, {"window", "example"}, {"window_cap", "true"}};
    for (auto& [key, text] : header.settings)
      if (key == name) text = value;
    if (value.empty()) std::erase_if(header.settings, [&](const auto& one) { return one.first == name; });
    const std::string path = folder / (name + std::to_string(value.size()) + value.substr(0, 1) + ".h5");
    ProfileWriter writer(path, true, header);
    writer.commit();
    const ProfileReader profile(path);
    return error_of([&] { profile_scoring(profile); });
  };
  CHECK(refusal("none", "").empty());
  CHECK(refusal("window", "64").empty());
  for (const char* name : {"split", "window", "window_cap"}) {
    CHECK(refusal(name, "").find(std::string("the setting ") + name) != std::string::npos);
    CHECK(refusal(name, "nonsense").find(std::string("/settings/") + name) != std::string::npos);
  }
  for (const char* window : {"1", "-5", "16777217", "64 ", "99999999999999999999", "nan"})
    CHECK(refusal("window", window).find("/settings/window: expected") != std::string::npos);
}

TEST_CASE("what-if: examples and tasks that do not match are counted and named") {
  const CacheSpec spec = small([](RandomCache& sizes) { sizes.tasks = {"alpha", "beta", "gamma"}; });
  Bench bench(spec);
  CacheSpec fewer = spec;
  fewer.tasks.pop_back();
  fewer.tasks[0] = select_examples(spec.tasks[0], {0, 1, 3});
  fewer.tasks[1].example_id[2] = "not in the profile";
  write_cache(bench.folder / "fewer.h5", fewer);
  const Plan plan = bench.preview(bench.options(), {bench.folder / "fewer.h5"});
  CHECK(task_of(plan, "gamma").preview.empty());
  CHECK(row_of(task_of(plan, "alpha"), "NR").examples == 3);
  CHECK(row_of(task_of(plan, "beta"), "NR").examples == 3);
  std::string all;
  for (const std::string& warning : bench.warnings) all += warning + "\n";
  CAPTURE(all);
  CHECK(bench.warnings.size() == 4);
  CHECK(all.find("alpha: over 3 of the profile's 4 examples") != std::string::npos);
  CHECK(all.find("beta: left out are 1 of the caches' 4 examples") != std::string::npos);
  CHECK(all.find("no example of gamma") != std::string::npos);
}

TEST_CASE("what-if: caches of another model are refused") {
  const CacheSpec spec = small();
  Bench bench(spec);
  const auto refusal = [&](const std::function<void(CacheSpec&)>& change) {
    CacheSpec other = spec;
    change(other);
    write_cache(bench.folder / "other.h5", other);
    return error_of([&] { bench.preview(bench.options(), {bench.folder / "other.h5"}); });
  };
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  };
  CHECK(refusal([](CacheSpec&) {}).empty());
  says(refusal([](CacheSpec& cache) { cache.model.name = "another"; }), "attribute name: expected \"");
  says(refusal([](CacheSpec& cache) { cache.model.config = llama_config(2, 4, 2, 16, 20000); }),
       "frequencies of layer 0 head 0: expected");
  says(refusal([](CacheSpec& cache) { cache.model.attention_scale = 0.5; }), "softmax scale of layer 0");
  says(refusal([](CacheSpec& cache) { cache.tasks[0].window[1] += 1; }),
       "/tasks/alpha/window[1]: expected 160 tokens");
  says(refusal([](CacheSpec& cache) {
         for (TaskSpec& task : cache.tasks) task.header.name += "-other";
       }),
       "no example of the plan's tasks");
  RandomCache more{.num_layers = 3, .examples = 4, .window = 140};
  says(refusal([&](CacheSpec& cache) { cache = random_cache(more); }), "attribute num_layers: expected 2");
  more = {.query_heads = 8, .kv_heads = 4, .examples = 4, .window = 140};
  says(refusal([&](CacheSpec& cache) {
         cache = random_cache(more);
         cache.model.name = spec.model.name;
       }),
       "query heads of layer 0");
}

TEST_CASE("what-if: heads of layers that the caches lack are left out and named") {
  const CacheSpec spec = small();
  Bench bench(spec);
  CacheSpec half = spec;
  for (TaskSpec& task : half.tasks) task = select_layers(task, {0});
  write_cache(bench.folder / "half.h5", half);
  const Plan plan = bench.preview(bench.options(), {bench.folder / "half.h5"});
  REQUIRE(bench.warnings.size() == 1);
  CHECK(bench.warnings[0].find("no vectors of layer 1") != std::string::npos);
  Bench only(spec, "0.0,0.3");
  CHECK(row_of(plan.tasks[0], "0.5").of(PreviewScore::kSemantic).value ==
        row_of(task_of(only.preview(), plan.tasks[0].task), "0.5").of(PreviewScore::kSemantic).value);
}

TEST_SUITE_END();

// The audit of theory §8 from caches to counts, against the long-double reference.

#include "profiler/audit.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "profiler/json_text.hpp"
#include "profiler/pair_scores.hpp"
#include "reference/envelope.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/reference_input.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

CacheRunOptions options_for(const std::vector<std::string>& files, const char* split) {
  CacheRunOptions options;
  options.files = files;
  options.scoring.split = spectral::parse_split(split);
  options.threads = 2;
  return options;
}

std::string audit_text(const CacheRunOptions& options, const AuditOptions& audit = {}) {
  nlohmann::ordered_json json;
  append_audit(run_audit(CacheRun(options), audit), json);
  return json_text(json);
}

/// z of every used query and key of a `pre` cache in the half layout, turning pairs only, and their grid.
struct PlainHead {
  std::vector<double> omega;
  std::vector<char> high;
  std::vector<reference::Vector> pairs;
};
PlainHead plain_head(const reference::HeadInput& in) {
  PlainHead head;
  const std::size_t h = in.omega.size();
  for (std::size_t n = 0; n < h; ++n) {
    if (in.omega[n] == 0) continue;
    head.omega.push_back(in.omega[n]);
    head.high.push_back(in.high[n]);
  }
  for (std::size_t i = 0; i < in.query.rows.size(); ++i) {
    for (std::size_t j = 0; j < in.key.rows.size(); ++j) {
      if (in.query.position[i] < 0 || in.key.position[j] < 0) continue;
      reference::Vector v;
      for (std::size_t n = 0; n < h; ++n) {
        const auto &q = in.query.rows[i], &k = in.key.rows[j];
        if (in.omega[n] > 0)
          v.z.push_back(in.softmax_scale * in.attention_factor * in.attention_factor *
                        std::complex<double>(q[n], q[n + h]) * std::complex<double>(k[n], -k[n + h]));
      }
      head.pairs.push_back(v);
    }
  }
  return head;
}

struct Expected {
  std::vector<double> ratio, floor, share, zeta, envelope;
  std::int64_t without_floor = 0, undefined = 0;
  double mean_share = 0, variance_share = 0;
  std::map<std::pair<int, int>, std::vector<double>> by_head;  // zeta / T
};

Expected expected(const CacheRun& run) {
  Expected e;
  const double eps = spectral::band_constants(run.scoring().split).epsilon;
  for (const SetExample* example : run.examples()) {
    for (std::size_t n = 0; n < run.set().heads().size(); ++n) {
      if (run.heads()[n] == 0) continue;
      const SetHead& place = run.set().heads()[n];
      const auto input = reference_input(run.set(), *example, place.layer, place.head, run.scoring());
      const PlainHead head = plain_head(input);
      for (const reference::Vector& v : head.pairs) {
        if (reference::norm(v) == 0) {
          ++e.undefined;
          continue;
        }
        const auto f = reference::envelope_facts(v, head.omega, head.high, input.window);
        e.share.push_back(static_cast<double>(f.norm_share));
        e.zeta.push_back(static_cast<double>(f.zeta));
        e.envelope.push_back(static_cast<double>(f.envelope));
        e.ratio.push_back(static_cast<double>(f.zeta / f.envelope));
        e.by_head[{place.layer, place.head}].push_back(e.ratio.back());
        if (f.high_norm > 0) {
          const long double u = f.high_norm;
          e.floor.push_back(static_cast<double>(f.norm_floor / f.norm_share));
          e.mean_share = std::max(e.mean_share, static_cast<double>(std::abs(f.band_mean) / (eps * u)));
          e.variance_share = std::max(
              e.variance_share, static_cast<double>(std::abs(f.band_variance - u * u / 2) / (eps * u * u)));
        } else {
          ++e.without_floor;
        }
      }
    }
  }
  return e;
}

/// The fast sweep is right to 1e-5, differences of it alike.
void check_against_reference(const std::string& name, const CacheSpec& cache, const char* split,
                             std::int64_t window = 0) {
  CAPTURE(name);
  TempDir folder;
  write_cache(folder / "c.h5", cache);
  CacheRunOptions options = options_for({folder / "c.h5"}, split);
  options.scoring.window = window;
  const CacheRun run(options);
  const AuditResult result = run_audit(run);
  const Expected e = expected(run);
  const EnvelopeTally& t = result.all.tally;
  const AuditStatistics& s = result.all.statistics;
  CHECK(t.pairs == std::ssize(e.ratio));
  CHECK(result.undefined == e.undefined);
  CHECK(t.without_floor == e.without_floor);
  CHECK(t.violations_response == 0);
  CHECK(t.violations_norm_floor == 0);
  CHECK(t.band.vectors == std::ssize(e.floor));
  std::vector<double> value{s.median_response_ratio, t.largest_response_ratio},
      want{reference::quantile(e.ratio, 0.5), *std::max_element(e.ratio.begin(), e.ratio.end())};
  if (!e.floor.empty()) {
    value.push_back(s.median_norm_floor_ratio);
    want.push_back(reference::quantile(e.floor, 0.5));
    value.push_back(t.largest_norm_floor_ratio);
    want.push_back(*std::max_element(e.floor.begin(), e.floor.end()));
    value.push_back(t.band.mean_share);
    want.push_back(e.mean_share);
    value.push_back(t.band.variance_share);
    want.push_back(e.variance_share);
  }
  const auto comparison = compare_relative(name, value, want, 5e-5, 0.01);
  CHECK_MESSAGE(comparison.ok(), comparison.text());
  REQUIRE(result.heads.size() == e.by_head.size());
  std::int64_t of_heads = 0, of_layers = 0;
  for (const AuditGroup& group : result.heads) {
    const auto& ratios = e.by_head.at({group.layer, group.head});
    CHECK(group.tally.pairs == std::ssize(ratios));
    CHECK(group.statistics.median_response_ratio ==
          doctest::Approx(reference::quantile(ratios, 0.5)).epsilon(1e-5));
    of_heads += group.tally.pairs;
  }
  for (const AuditGroup& group : result.layers) of_layers += group.statistics.rows;
  CHECK(of_heads == t.pairs);
  CHECK(of_layers == t.pairs);
  if (!s.share_varies) return;
  const std::vector<double> rho{s.spearman_share_response, s.spearman_share_envelope},
      counted{reference::spearman_by_counting(e.share, e.zeta),
              reference::spearman_by_counting(e.share, e.envelope)};
  // Neighbours of nearly equal zeta may change places.
  CHECK(compare_absolute("rho", rho, counted, 1e-4).ok());
}

/// zeta / T of the first head of the first example, its largest, over pairs that are finite and not 0.
double largest_ratio(const CacheRun& run) {
  const auto input = reference_input(run.set(), *run.examples()[0], 0, 0, run.scoring());
  const PlainHead head = plain_head(input);
  long double largest = 0;
  for (const reference::Vector& v : head.pairs) {
    if (!(reference::norm(v) > 0) || !std::isfinite(reference::norm(v))) continue;
    const auto f = reference::envelope_facts(v, head.omega, head.high, input.window);
    largest = std::max(largest, f.zeta / f.envelope);
  }
  return static_cast<double>(largest);
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("audit: counts and statistics equal the reference") {
  check_against_reference("operational", random_cache(), "operational");
  check_against_reference("some of the fast", random_cache({.seed = 5}), "prefix:3");
  check_against_reference("certified: H is empty", random_cache({.examples = 1}), "certified");
  check_against_reference("H is everything", random_cache({.examples = 1}), "omega:0");
  check_against_reference("window 2", random_cache({.examples = 2}), "prefix:2", 2);
  check_against_reference("window 3", random_cache({.examples = 2}), "prefix:2", 3);
  check_against_reference("separation", random_cache({.examples = 1, .tasks = {"one"}}), "separation:1,0.2");
  CacheSpec still = random_cache({.examples = 1});
  still.model.config.reset();
  still.model.inv_freq_shape = {8};
  still.model.inv_freq = {1.0, 0.3, 0.0, 0.1, 0.02, 0.0, 1e-3, 1e-5};
  still.omega = {still.model.inv_freq};
  check_against_reference("still pairs", still, "omega:0.05");
}

TEST_CASE("audit: pairs without U, without U_H, not finite, and equality at the envelope") {
  CacheSpec cache = random_cache({.num_layers = 1,
                                  .query_heads = 1,
                                  .kv_heads = 1,
                                  .examples = 1,
                                  .query_slots = 4,
                                  .key_slots = 3,
                                  .tasks = {"one"},
                                  .type = ElementType::kFloat64});
  TaskSpec& task = cache.tasks[0];
  const std::size_t dim = 16;
  for (std::size_t i = 0; i < dim; ++i) {
    task.query[i] = 0;                                  // query 0: U = 0
    task.query[dim + i] = i == 5 || i == 13 ? 1.0 : 0;  // query 1: a single slow pair, U_H = 0
    task.query[2 * dim + i] = i == 0 ? 1.0 : 0;         // query 2: a single fast pair
  }
  task.key[2 * dim] = std::nan("");
  TempDir folder;
  write_cache(folder / "c.h5", cache);
  CacheRunOptions options = options_for({folder / "c.h5"}, "prefix:2");
  options.scoring.window = 4000;  // long enough for one fast pair to come close to its largest step
  const CacheRun run(options);
  const AuditResult result = run_audit(run);
  CHECK(result.all_pairs == 12);
  CHECK(result.undefined == 2);
  CHECK(result.non_finite == 4);
  CHECK(result.all.tally.pairs == 6);
  CHECK(result.all.tally.without_floor == 2);
  CHECK(result.all.tally.band.vectors == 4);
  CHECK(result.violations() == 0);
  // A single pair: zeta = T within the margin, so float64 decides.
  CHECK(result.evaluated_again >= 2);
  CHECK(result.all.tally.largest_response_ratio > 1 - 1e-5);
  CHECK(result.all.tally.largest_response_ratio <= 1 + result.rounding_response);
  CHECK(std::abs(result.all.tally.largest_response_ratio - largest_ratio(run)) < 1e-14);
  CHECK(result.nearest.values.pair >= 0);
  CHECK(result.nearest.query_slot == 1);  // slow steps are sampled most densely about their largest
  CHECK(result.nearest.task == "one");
  CHECK(result.worst.values.pair < 0);
  CHECK_FALSE(std::isnan(result.layers.at(0).statistics.median_norm_floor_ratio));

  // The fast pair alone: float32 blocks have its step to 1e-7, the audit to float64.
  for (std::size_t i = 0; i < dim; ++i) task.query[dim + i] = task.query[3 * dim + i] = 0;
  write_cache(folder / "fast.h5", cache);
  options.files = {folder / "fast.h5"};
  const CacheRun fast(options);
  const AuditResult one = run_audit(fast);
  CHECK(one.evaluated_again == one.all.tally.pairs);
  CHECK(std::abs(one.all.tally.largest_response_ratio - largest_ratio(fast)) < 1e-14);
}

TEST_CASE("audit: a window of one token has no step; no pairs at all are no error") {
  CacheSpec cache = random_cache({.examples = 2, .tasks = {"one"}});
  cache.model.config =
      R"({"model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "hidden_size": 64, "rope_theta": 10000.0, "query_pre_attn_scalar": 16,
          "sliding_window": 1, "max_position_embeddings": 8192})";  // layer 0 slides, layer 1 does not
  TempDir folder;
  write_cache(folder / "c.h5", cache);
  const AuditResult result = run_audit(CacheRun(options_for({folder / "c.h5"}, "prefix:2")));
  CHECK(result.all_pairs == 2 * 2 * 4 * 12);
  CHECK(result.without_distance == 2 * 4 * 12);
  CHECK(result.all.tally.pairs == 2 * 4 * 12);
  CHECK(result.layers.size() == 1);
  REQUIRE(result.grids.size() == 2);
  CHECK(result.grids[0].window_max == 1);
  CHECK(result.grids[1].window_max == 210);
  for (auto& position : cache.tasks[0].key_position) position = -1;
  write_cache(folder / "none.h5", cache);
  const AuditResult none = run_audit(CacheRun(options_for({folder / "none.h5"}, "prefix:2")));
  CHECK(none.all_pairs == 0);
  CHECK(none.all.tally.pairs == 0);
  CHECK(none.heads.empty());
  CHECK(none.violations() == 0);
  CHECK(none.nearest.values.pair < 0);
}

TEST_CASE("audit: the same bytes for any threads, memory, file order and division into files") {
  TempDir folder;
  const CacheSpec whole = random_cache({.examples = 5, .query_slots = 30, .key_slots = 40});
  write_cache(folder / "whole.h5", whole);
  CacheSpec first = whole, second = whole;
  for (std::size_t t = 0; t < whole.tasks.size(); ++t) {
    first.tasks[t] = select_examples(whole.tasks[t], {0, 3});
    second.tasks[t] = select_examples(whole.tasks[t], {1, 2, 4});
  }
  write_cache(folder / "a.h5", first);
  write_cache(folder / "b.h5", second);
  for (const std::size_t exact_pairs : {PairSample::kExactPairs, std::size_t{5000}}) {
    AuditOptions audit;
    audit.exact_pairs = exact_pairs;
    CacheRunOptions options = options_for({folder / "whole.h5"}, "prefix:3");
    options.threads = 1;
    const std::string one = audit_text(options, audit);
    CHECK(one.find(exact_pairs == 5000 ? "\"sample\"" : "\"exact\"") != std::string::npos);
    options.threads = 5;
    CHECK(audit_text(options, audit) == one);
    options.memory = kLeastMemory;
    CHECK(audit_text(options, audit) == one);
    options.files = {folder / "a.h5", folder / "b.h5"};
    CHECK(audit_text(options, audit) == one);
    options.files = {folder / "b.h5", folder / "a.h5"};
    CHECK(audit_text(options, audit) == one);
  }
}

TEST_CASE("audit: statistics of the sample lie within its error of the exact ones, counts stay exact") {
  TempDir folder;
  write_cache(folder / "c.h5", random_cache({.examples = 4, .query_slots = 40, .key_slots = 50}));
  const CacheRun run(options_for({folder / "c.h5"}, "prefix:3"));
  const AuditResult exact = run_audit(run);
  AuditOptions few;
  few.exact_pairs = 20'000;
  const AuditResult sampled = run_audit(run, few);
  CHECK(exact.exact);
  CHECK(exact.rank_error == 0);
  CHECK_FALSE(sampled.exact);
  CHECK(sampled.sampled <= 20'000);
  CHECK(sampled.rank_error == doctest::Approx(PairSample::rank_error(sampled.sampled)));
  CHECK(sampled.all.tally.pairs == exact.all.tally.pairs);
  CHECK(sampled.all.tally.band.mean_holds == exact.all.tally.band.mean_holds);
  CHECK(sampled.all.tally.largest_response_ratio == exact.all.tally.largest_response_ratio);
  REQUIRE(sampled.all.statistics.bins.size() == 32);
  // Ranks are within the error; a correlation of n values wanders by about 1/sqrt(n).
  CHECK(std::abs(sampled.all.statistics.spearman_share_response -
                 exact.all.statistics.spearman_share_response) <
        5 / std::sqrt(static_cast<double>(sampled.sampled)));
  CHECK(sampled.all.statistics.median_response_ratio !=
        exact.all.statistics.median_response_ratio);  // it is another number
  CHECK(sampled.all.statistics.median_response_ratio ==
        doctest::Approx(exact.all.statistics.median_response_ratio).epsilon(0.02));
}

TEST_CASE("audit: Prop. 1 counts as violated only where it is proved") {
  TempDir folder;
  write_cache(folder / "c.h5", random_cache());
  // 6 pairs over a window of 200: the slowest does not turn once, and the bounds fail for most vectors.
  const AuditResult open = run_audit(CacheRun(options_for({folder / "c.h5"}, "prefix:6")));
  CHECK(open.all.tally.band.mean_holds < open.all.tally.band.vectors);
  CHECK(open.all.tally.band.mean_share > 1);
  CHECK(open.all.tally.band.violations == 0);
  CHECK_FALSE(open.grids.at(0).proved);
  CHECK(open.violations() == 0);
  CacheRunOptions options = options_for({folder / "c.h5"}, "separation");
  options.scoring.window = 20'000;
  const AuditResult proved = run_audit(CacheRun(options));
  CHECK(proved.grids.at(0).proved);
  CHECK(proved.grids.at(0).high_min >= 2);
  CHECK(proved.grids.at(0).high_min == proved.grids.at(0).prefix_min);
  CHECK(proved.all.tally.band.mean_holds == proved.all.tally.pairs);
  CHECK(proved.all.tally.band.variance_holds == proved.all.tally.pairs);
  CHECK(proved.all.tally.band.mean_share < 0.33);
  CHECK(proved.grids.at(0).layers == std::vector<int>{0, 1});
}

TEST_CASE("audit: a step beyond the envelope is counted, kept as the worst and named") {
  // No vector can break zeta <= T, so zeta is made up here.
  spectral::EnvelopeTerms terms;
  terms.norm = 1;
  terms.high_norm = 0.5;
  terms.low_step = 0.25;
  terms.high_step = 0.25;
  EnvelopeTally tally;
  CHECK_FALSE(tally.add(terms, 0.4, 32));
  CHECK_FALSE(tally.add(terms, 0.5 * (1 + 0.5 * spectral::response_rounding(32)), 32));  // rounding
  CHECK(tally.violations_response == 0);
  CHECK(tally.add(terms, 0.5 * (1 + 1e-13), 32));
  CHECK(tally.add(terms, 0.6, 32));
  CHECK(tally.pairs == 4);
  CHECK(tally.violations_response == 2);
  CHECK(tally.violations_norm_floor == 2);
  CHECK(tally.largest_response_ratio == doctest::Approx(1.2));
  CHECK(tally.add(terms, std::nan(""), 32));
  terms.high_norm = terms.high_step = 0;
  CHECK_FALSE(tally.add(terms, 0.2, 32));
  CHECK(tally.without_floor == 1);
  CHECK(tally.add(terms, 0.3, 32));
  CHECK(tally.violations_response == 4);
  CHECK(tally.violations_norm_floor == 3);  // no f_pos where U_H = 0

  // The same through a scan: blocks with a pair that claims more than its envelope.
  TempDir folder;
  write_cache(folder / "c.h5", random_cache({.examples = 2, .tasks = {"alpha"}}));
  const CacheRun run(options_for({folder / "c.h5"}, "prefix:3"));
  AuditGrids grids(run.scoring().split);
  AuditFold fold(run, 1000);
  run.scan(
      {ScanUnit::kPairs, 0},
      [&](const ScanBlock& block) { return audit_block(block, grids.of(block.job->grid)); },
      [&](const ScanBlock& block, std::unique_ptr<ScanResult> part) {
        auto& own = static_cast<AuditBlock&>(*part);
        if (block.example == 1 && block.head == 5) {
          spectral::EnvelopeTerms made;
          made.norm = made.low_step = 1;
          own.worst.pair = 8;  // query 1, key 2: six keys a query
          own.worst.response = 1.5;
          own.worst.envelope = 1;
          own.worst.breaks_response = own.tally.add(made, 1.5, 8);
        }
        fold.add(block, own);
      });
  const AuditResult result = fold.finish();
  CHECK(result.violations() == 1);
  CHECK(result.all.tally.violations_response == 1);
  REQUIRE(result.worst.values.pair == 8);
  CHECK(result.worst.example_id == run.examples()[1]->id);
  CHECK(result.worst.layer == 1);
  CHECK(result.worst.head == 1);
  CHECK(result.worst.query_slot == 1);
  CHECK(result.worst.key_slot == 2);
  CHECK(result.layers.at(1).tally.violations_response == 1);
  CHECK(result.heads.at(5).tally.violations_response == 1);
}

TEST_CASE("audit: the nearest pair is named rightly beyond the first block of a head") {
  CacheSpec cache = random_cache({.num_layers = 1,
                                  .query_heads = 1,
                                  .kv_heads = 1,
                                  .examples = 1,
                                  .query_slots = 40,
                                  .key_slots = 50,
                                  .tasks = {"one"}});
  for (std::size_t i = 0; i < 16; ++i)  // the last query holds one pair of lanes alone
    cache.tasks[0].query[39 * 16 + i] = i == 2 ? 1.0 : 0;
  TempDir folder;
  write_cache(folder / "c.h5", cache);
  const CacheRun run(options_for({folder / "c.h5"}, "prefix:3"));
  const NamedPair nearest = run_audit(run).nearest;
  CHECK(nearest.query_slot == 39);
  CHECK(nearest.values.pair >= 2 * kPairBlock);
  const auto input = reference_input(run.set(), *run.examples()[0], 0, 0, run.scoring());
  const PlainHead head = plain_head(input);
  const auto f =
      reference::envelope_facts(head.pairs.at(static_cast<std::size_t>(39 * 50 + nearest.key_slot)),
                                head.omega, head.high, input.window);
  CHECK(nearest.values.ratio() == doctest::Approx(static_cast<double>(f.zeta / f.envelope)).epsilon(1e-6));
  CHECK(nearest.values.norm_share == doctest::Approx(static_cast<double>(f.norm_share)).epsilon(1e-9));
  CHECK(nearest.query_position == input.query.position[39]);
  CHECK(nearest.key_position == input.key.position[static_cast<std::size_t>(nearest.key_slot)]);
}

TEST_CASE("audit: layers of two kinds have their own sets; real caches keep the inequalities") {
  const std::string shared = shared_folder() + "/data/";
  CacheRunOptions options = options_for({ROPE_SOURCE_DIR "/examples/data/smollm2.h5"}, "certified");
  options.scoring.window = 32768;
  options.scoring.window_cap = false;
  options.input.task_globs = {"list_index"};
  options.heads = parse_heads("0.0,0.5,17.3,29.8");
  const AuditResult smollm = run_audit(CacheRun(options));
  REQUIRE(smollm.grids.size() == 1);
  CHECK(smollm.grids[0].high_min == 6);
  CHECK(smollm.grids[0].high_max == 6);
  CHECK(smollm.grids[0].proved);
  CHECK(smollm.violations() == 0);
  CHECK(smollm.all.tally.band.mean_holds == smollm.all.tally.pairs);
  CHECK(smollm.heads.size() == 4);
  if (!std::filesystem::exists(shared + "gemma3.h5")) {
    MESSAGE("left out: the shared caches are not here");
    return;
  }
  options.files = {shared + "gemma3.h5"};
  options.heads = parse_heads("0.0,4.3,5.1,16.2,17.0");
  const AuditResult gemma = run_audit(CacheRun(options));
  REQUIRE(gemma.grids.size() == 2);
  CHECK(gemma.grids[0].kind == "sliding_attention");
  CHECK(gemma.grids[0].layers == std::vector<int>{0, 4, 16});
  CHECK(gemma.grids[0].high_max == 9);
  CHECK(gemma.grids[1].kind == "full_attention");
  CHECK(gemma.grids[1].layers == std::vector<int>{5, 17});
  CHECK(gemma.grids[1].high_min == 10);
  CHECK(gemma.violations() == 0);
}

TEST_CASE("audit: ranges of numbers") {
  CHECK(number_ranges({}) == "");
  CHECK(number_ranges({3}) == "3");
  CHECK(number_ranges({0, 1}) == "0, 1");
  CHECK(number_ranges({0, 1, 2, 5, 7, 8, 9}) == "0-2, 5, 7-9");
}

TEST_SUITE_END();

// Walking over heads block by block: what is found must not depend on threads or memory.

#include "profiler/head_scan.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "profiler/cache_run.hpp"
#include "profiler/error.hpp"
#include "profiler/pair_scores.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

struct ShareSum : ScanResult {
  double sum = 0;
  std::int64_t pairs = 0;
};

struct Seen {
  std::vector<std::size_t> example;
  std::vector<std::int64_t> head, index, first, count;
  std::vector<char> last;
  std::vector<double> value;
  bool operator==(const Seen&) const = default;
};

Seen shares(const CacheRun& run, ScanUnit unit = ScanUnit::kPairs) {
  Seen seen;
  ScanOptions options;
  options.unit = unit;
  options.queries_per_block = 1;
  run.scan(
      options,
      [](const ScanBlock& block) {
        auto result = std::make_unique<ShareSum>();
        PairPart part = block.job->pair_part(0);
        if (block.index * kPairBlock < block.job->slots->pairs()) part = block.job->pair_part(block.index);
        spectral::CoefficientBatch batch;
        const auto blocks = score_pairs({&part, 1}, block.job->grid->high(), batch);
        result->sum = blocks[0].sums.norm_share;
        return result;
      },
      [&](const ScanBlock& block, std::unique_ptr<ScanResult> result) {
        seen.example.push_back(block.example);
        seen.head.push_back(block.head);
        seen.index.push_back(block.index);
        seen.first.push_back(block.first);
        seen.count.push_back(block.count);
        seen.last.push_back(block.last);
        seen.value.push_back(static_cast<const ShareSum&>(*result).sum);
      });
  return seen;
}

CacheRunOptions options_for(const std::string& file) {
  CacheRunOptions options;
  options.files = {file};
  return options;
}

}  // namespace

TEST_SUITE("head_scan") {
  TEST_CASE("blocks come in order and cover every pair once, whatever the threads") {
    TempDir folder;
    RandomCache sizes{.examples = 3, .query_slots = 40, .key_slots = 60};  // 2400 pairs: three blocks
    write_cache(folder / "cache.h5", random_cache(sizes));
    CacheRunOptions options = options_for(folder / "cache.h5");
    options.threads = 1;
    options.memory = kLeastMemory;
    const CacheRun one(options);
    const Seen alone = shares(one);
    REQUIRE(alone.example.size() == 2 * 3 * 8 * 3);  // tasks, examples, heads, blocks
    std::int64_t pairs = 0;
    for (std::size_t i = 0; i < alone.example.size(); ++i) {
      CHECK(alone.first[i] == alone.index[i] * kPairBlock);
      CHECK(static_cast<bool>(alone.last[i]) == (alone.index[i] == 2));
      if (i > 0)
        CHECK(std::tuple(alone.example[i - 1], alone.head[i - 1], alone.index[i - 1]) <
              std::tuple(alone.example[i], alone.head[i], alone.index[i]));
      pairs += alone.count[i];
    }
    CHECK(pairs == 2 * 3 * 8 * 2400);
    options.threads = 5;
    options.memory = std::int64_t{512} << 20;
    CHECK(shares(CacheRun(options)) == alone);
  }

  TEST_CASE("the sums of the blocks are the norm shares of the profile") {
    TempDir folder;
    write_cache(folder / "cache.h5", random_cache({.query_slots = 40, .key_slots = 60}));
    const CacheRun run(options_for(folder / "cache.h5"));
    const Seen seen = shares(run);
    ExampleScorer scorer(run.set(), run.scoring());
    const std::vector<HeadWork> work(run.set().heads().size(), HeadWork::kWithoutSweep);
    std::size_t at = 0;
    std::vector<double> mean, expected;
    for (const SetExample* example : run.examples())
      for (const HeadScores& scores : scorer.score(*example, work)) {
        double sum = 0;
        for (int block = 0; block < 3; ++block) sum += seen.value.at(at++);
        mean.push_back(sum / 2400);
        expected.push_back(scores.score[static_cast<int>(Score::kNormShare)]);
      }
    CHECK(at == seen.value.size());
    CHECK_COMPARISON(compare_relative("norm share", mean, expected, 1e-14));
  }

  TEST_CASE("queries, triplets and whole heads") {
    TempDir folder;
    write_cache(folder / "cache.h5", random_cache({.examples = 1, .query_slots = 3, .tasks = {"one"}}));
    CacheRunOptions options = options_for(folder / "cache.h5");
    options.heads = parse_heads("1.2");
    const CacheRun run(options);
    CHECK(run.selected_heads() == 1);
    const Seen queries = shares(run, ScanUnit::kQueries);
    CHECK(queries.count == std::vector<std::int64_t>{1, 1, 1});
    CHECK(queries.head == std::vector<std::int64_t>{6, 6, 6});
    CHECK(shares(run, ScanUnit::kTriplets).count == std::vector<std::int64_t>{9});
    CHECK(shares(run, ScanUnit::kHead).count == std::vector<std::int64_t>{1});
  }

  TEST_CASE("what a worker or the fold throws arrives, and the scan ends") {
    TempDir folder;
    write_cache(folder / "cache.h5", random_cache({.examples = 20}));
    const CacheRun run(options_for(folder / "cache.h5"));
    const auto nothing = [](const ScanBlock&) { return std::unique_ptr<ScanResult>(); };
    CHECK_THROWS_AS(
        run.scan(
            {}, [](const ScanBlock&) -> std::unique_ptr<ScanResult> { throw std::runtime_error("work"); },
            [](const ScanBlock&, std::unique_ptr<ScanResult>) {}),
        std::runtime_error);
    CHECK_THROWS_AS(run.scan({}, nothing,
                             [](const ScanBlock& block, std::unique_ptr<ScanResult>) {
                               if (block.example == 3) throw std::runtime_error("fold");
                             }),
                    std::runtime_error);
  }

  TEST_CASE("top:F takes the heads that profile would take; the record says where from") {
    TempDir folder;
    write_cache(folder / "cache.h5", random_cache({.seed = 3}));
    CacheRunOptions options = options_for(folder / "cache.h5");
    options.heads = parse_heads("top:0.25");
    options.scoring.split = spectral::parse_split("custom:0.05,0.1");
    const CacheRun run(options);
    CHECK(run.selected_heads() == 2);
    const nlohmann::ordered_json record = run.record("rope-profiler/test");
    CHECK(record["settings"]["heads"] == "top:0.25");
    CHECK(record["settings"]["split"] == "custom:0.05,0.1");
    CHECK(record["inputs"].size() == 1);
    CHECK(record["inputs"][0]["sha256"].get<std::string>().size() == 64);
    options.heads = parse_heads("7.0");
    CHECK_THROWS_AS(CacheRun{options}, UserError);
  }
}

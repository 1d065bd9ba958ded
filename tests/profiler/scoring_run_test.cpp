// The pool, the packing and the memory budget behind ExampleScorer: none of them may show in a result.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "profiler/background_digest.hpp"
#include "profiler/batch_task.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"
#include "profiler/example_scorer.hpp"
#include "profiler/profile.hpp"
#include "spectral/backend.hpp"
#include "support/cache_writer.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

ScoringOptions everything() {
  ScoringOptions options;
  options.exact_reversal = options.aliasing = options.near_far = true;
  options.barrier = 0.25;
  return options;
}

std::vector<const SetExample*> examples_of(const ActivationSet& set) {
  std::vector<const SetExample*> examples;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples) examples.push_back(&example);
  return examples;
}

template <class Value>
void append(std::string& bytes, const Value* values, std::size_t count) {
  if (count > 0) bytes.append(reinterpret_cast<const char*>(values), count * sizeof(Value));
}

// Every value of a run as bytes, in the order in which examples were handed over.
std::string bytes_of_run(ExampleScorer& scorer, const ActivationSet& set, const std::vector<HeadWork>& work) {
  std::string bytes;
  std::size_t next = 0;
  scorer.score(examples_of(set), work, [&](std::size_t e, const std::vector<HeadScores>& heads) {
    CHECK(e == next++);
    CHECK(heads.size() == set.heads().size());
    for (const HeadScores& head : heads) {
      append(bytes, head.score.data(), head.score.size());
      append(bytes, head.count.data(), head.count.size());
      append(bytes, head.usage.data(), head.usage.size());
      append(bytes, head.usage_norm.data(), head.usage_norm.size());
    }
  });
  CHECK(next == examples_of(set).size());
  return bytes;
}

struct Cache {
  explicit Cache(const CacheSpec& cache) {
    write_cache(folder / "cache.h5", cache);
    set.emplace(std::vector<std::string>{folder / "cache.h5"}, ActivationSetOptions{});
  }
  explicit Cache(const RandomCache& sizes) : Cache(random_cache(sizes)) {}
  std::vector<HeadWork> all(HeadWork work = HeadWork::kAll) const {
    return std::vector<HeadWork>(set->heads().size(), work);
  }
  TempDir folder;
  std::optional<ActivationSet> set;
};

std::int64_t vector_bytes(const ActivationSet& set, int query_heads, int kv_heads) {
  const TaskHeader& task = set.files()[0].tasks()[0];
  return task.head_dim * static_cast<std::int64_t>(element_size(task.query_type)) *
         (query_heads * task.query_slots + kv_heads * task.key_slots);
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("scoring run: the same bytes for any threads, memory and packing") {
  const Cache cache({.examples = 7, .query_slots = 3, .key_slots = 9, .window = 150});
  const ScoringOptions options = everything();
  std::string expected;
  for (const int threads : {1, 2, 5})
    for (const std::int64_t memory : {kLeastMemory, 512 * kMiB})
      for (const std::size_t lanes :
           {std::size_t{48}, std::size_t{480}, std::size_t{960}, std::size_t{65536}}) {
        ScoringResources resources{threads, memory};
        resources.engine.lanes = lanes;
        resources.engine.waiting_threads = lanes > 960 ? 2 : 0;
        ExampleScorer scorer(*cache.set, options, resources);
        const std::string bytes = bytes_of_run(scorer, *cache.set, cache.all());
        if (expected.empty()) expected = bytes;
        CAPTURE(threads);
        CAPTURE(memory);
        CAPTURE(lanes);
        CHECK(!bytes.empty());
        CHECK(bytes == expected);
      }
}

TEST_CASE("scoring run: lanes of many examples share a batch") {
  const Cache cache({.num_layers = 1,
                     .query_heads = 1,
                     .kv_heads = 1,
                     .examples = 200,
                     .query_slots = 1,
                     .key_slots = 3,
                     .tasks = {"one"}});
  ScoringOptions options;
  options.window = 100;  // all on one grid and window
  options.usage = options.semantic = options.share = false;
  std::mutex mutex;
  std::vector<std::size_t> sizes;
  std::atomic<int> calls{0};
  ScoringResources resources{1};
  resources.engine.lanes = 96;
  resources.engine.sweep = [&](const auto& plan, const auto& batch, const auto& request, auto& result) {
    // The first batch keeps the only worker busy until all has been read and packed: nothing starves.
    if (calls++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    spectral::sweep_cpu(plan, batch, request, result);
    const std::lock_guard lock(mutex);
    sizes.push_back(batch.n_pairs);
  };
  ExampleScorer scorer(*cache.set, options, resources);
  bytes_of_run(scorer, *cache.set, cache.all());
  std::size_t lanes = 0;
  for (const std::size_t size : sizes) {
    CHECK(size <= 96);
    lanes += size;
  }
  CHECK(lanes == 600);
  CHECK(scorer.facts().swept_lanes == 600);
  CHECK(scorer.facts().swept_batches == std::ssize(sizes));
  CHECK(sizes.size() <= 50);  // one by one it would be 200; 7 where nothing starves
}

TEST_CASE("scoring run: packing keeps grids, windows, kinds and sweeps apart, and fills what it can") {
  const Cache cache({.num_layers = 1,
                     .query_heads = 2,
                     .kv_heads = 1,
                     .examples = 1,
                     .query_slots = 4,
                     .key_slots = 16,
                     .tasks = {"one"}});
  const ScoringOptions options = everything();
  GridCache grids(*cache.set, options.split, kMiB);
  MemoryGate gate(64 * kMiB);
  ExampleReader reader(*cache.set, options, grids, gate, kMiB);
  std::vector<BatchTask> tasks;
  BatchPacker packer(192, [&](BatchTask&& task) { tasks.push_back(std::move(task)); });
  const SetExample& example = cache.set->tasks()[0].examples[0];
  const auto add = [&](const std::vector<HeadWork>& work, int times) {
    for (int i = 0; i < times; ++i)
      CHECK(reader.read(
          example, work, [&](const std::shared_ptr<HeadJob>& job, std::int64_t) { packer.add(job); }, [] {}));
  };
  add({HeadWork::kAll, HeadWork::kWithoutSweep}, 6);
  packer.flush();
  CHECK(packer.empty());
  std::map<std::pair<bool, bool>, std::vector<std::int64_t>> lanes;  // (pairs, sweep) -> of each task
  for (const BatchTask& task : tasks) {
    std::int64_t sum = 0;
    for (const BatchPart& part : task.parts) {
      const bool pairs = task.kind == BatchTask::Kind::kPairs;
      sum += pairs ? part.job->pair_part(part.block).pairs() : part.job->triplet_part(part.block).triplets();
      CHECK(part.job->grid == task.grid);
      CHECK((pairs ? part.job->sweeps_pairs() : part.job->sweeps_triplets()) == task.sweep);
    }
    CHECK(sum == task.lanes);
    lanes[{task.kind == BatchTask::Kind::kPairs, task.sweep}].push_back(sum);
  }
  CHECK(lanes[{true, true}] == std::vector<std::int64_t>{192, 192});
  CHECK(lanes[{true, false}] == std::vector<std::int64_t>{192, 192});
  CHECK(lanes[{false, true}] == std::vector<std::int64_t>{192});
  CHECK(lanes[{false, false}] == std::vector<std::int64_t>{192});
  CHECK(task_lanes(960, 8192) == 960);
  CHECK(task_lanes(960, 1 << 18) == 240);
  CHECK(task_lanes(960, 1 << 24) == 48);
}

TEST_CASE("scoring run: reads the vectors of wanted heads once and no others") {
  const Cache cache({.examples = 4});
  const std::int64_t examples = std::ssize(examples_of(*cache.set));
  ExampleScorer light(*cache.set, {});
  bytes_of_run(light, *cache.set, cache.all(HeadWork::kWithoutSweep));
  CHECK(light.facts().vector_bytes == examples * 2 * vector_bytes(*cache.set, 4, 2));
  CHECK(light.facts().swept_batches == 0);

  std::vector<HeadWork> work = cache.all(HeadWork::kNone);
  work[5] = HeadWork::kSweepOnly;  // layer 1, head 1: one key head and its two query heads
  ExampleScorer selected(*cache.set, {});
  bytes_of_run(selected, *cache.set, work);
  CHECK(selected.facts().vector_bytes == examples * vector_bytes(*cache.set, 2, 1));
  CHECK(selected.facts().swept_lanes == examples * 12);
}

TEST_CASE("scoring run: memory stays within its shares, whatever the number of examples") {
  for (const std::int64_t examples : {40, 160}) {
    const Cache cache({.num_layers = 4,
                       .query_heads = 8,
                       .kv_heads = 8,
                       .head_dim = 64,
                       .examples = examples,
                       .query_slots = 8,
                       .key_slots = 64,
                       .window = 300,
                       .tasks = {"one"}});
    ScoringResources resources{2, kLeastMemory};
    const MemoryShares shares = share_memory(resources, 2, 32);
    ExampleScorer scorer(*cache.set, {}, resources);
    bytes_of_run(scorer, *cache.set, cache.all(HeadWork::kWithoutSweep));
    const ScoringFacts& facts = scorer.facts();
    CHECK(facts.vector_bytes == examples * 4 * vector_bytes(*cache.set, 8, 8));
    CHECK(facts.peak_vectors > 0);
    CHECK(facts.peak_vectors <= shares.vectors);
    CHECK(facts.peak_results <= shares.results);
    MESSAGE("peak of vectors " << facts.peak_vectors << " of " << facts.vector_bytes << " read");
  }
  for (const int workers : {1, 16, 1024})
    for (const std::int64_t memory : {kLeastMemory, 512 * kMiB, 8192 * kMiB})
      for (const std::size_t h : {std::size_t{1}, std::size_t{64}, std::size_t{512}}) {
        ScoringResources resources{workers, memory};
        resources.engine.lanes = 65536;
        const MemoryShares s = share_memory(resources, workers, h);
        CHECK(s.vectors > 0);
        CHECK(s.lanes >= 48);
        CHECK(s.lanes % 16 == 0);
        const std::int64_t batches = s.lanes * workers * static_cast<std::int64_t>(h) * 16;
        if (s.lanes > 48) CHECK(s.vectors + s.results + s.windows + batches <= memory);
      }
}

TEST_CASE("scoring run: an error of any thread ends the run and reaches the caller") {
  CacheSpec spec = random_cache({.examples = 30});
  spec.tasks[1].key_position[5 * 6] = 100000;  // beyond the window of task 1's example 5
  {
    const Cache cache(spec);
    ExampleScorer scorer(*cache.set, {});
    CHECK_THROWS_WITH_AS(bytes_of_run(scorer, *cache.set, cache.all()), doctest::Contains("/tasks/beta"),
                         UserError);
  }
  const Cache cache({.examples = 30});
  for (const int threads : {1, 4}) {
    ScoringResources resources{threads};
    resources.engine.lanes = 48;
    std::atomic<int> calls{0};
    resources.engine.sweep = [&](const auto& plan, const auto& batch, const auto& request, auto& result) {
      if (++calls == 3) throw spectral::DeviceError("device lost");
      spectral::sweep_cpu(plan, batch, request, result);
    };
    ExampleScorer scorer(*cache.set, {}, resources);
    CHECK_THROWS_WITH_AS(bytes_of_run(scorer, *cache.set, cache.all()), "device lost", spectral::DeviceError);
  }
  ExampleScorer scorer(*cache.set, {});
  const auto refuse = [](std::size_t e, const std::vector<HeadScores>&) {
    if (e == 2) throw UserError("disk full");
  };
  CHECK_THROWS_WITH_AS(scorer.score(examples_of(*cache.set), cache.all(), refuse), "disk full", UserError);
  CHECK(!bytes_of_run(scorer, *cache.set, cache.all()).empty());  // and the scorer is usable again
}

TEST_CASE("scoring run: no examples, no wanted heads") {
  const Cache cache({.examples = 3});
  ExampleScorer scorer(*cache.set, {});
  scorer.score({}, cache.all(), [](std::size_t, const std::vector<HeadScores>&) { FAIL("nothing to take"); });
  int taken = 0;
  scorer.score(examples_of(*cache.set), cache.all(HeadWork::kNone),
               [&](std::size_t, const std::vector<HeadScores>& heads) {
                 ++taken;
                 for (const HeadScores& head : heads) CHECK(!head.present);
               });
  CHECK(taken == 6);
  CHECK(scorer.facts().vector_bytes == 0);
}

TEST_CASE("memory gate: waits for bytes, lets what is too large pass alone, ends by closing") {
  MemoryGate gate(100);
  CHECK(gate.try_take(60));
  CHECK(!gate.try_take(41));
  CHECK(gate.try_take(40));
  std::atomic<bool> taken{false};
  std::thread waiting([&] {
    CHECK(gate.take(1000));
    taken = true;
  });
  gate.give_back(60);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!taken);  // 40 are still out
  gate.give_back(40);
  waiting.join();
  CHECK(taken);
  CHECK(gate.peak() == 1000);
  CHECK(!gate.try_take(1));
  std::thread hopeless([&] { CHECK(!gate.take(1)); });
  gate.close();
  hopeless.join();
  {
    MemoryGate other(10);
    CHECK(other.try_take(10));
    MemoryLease whole(other, 10);
    MemoryLease part = whole.split(4);
    CHECK(!other.try_take(1));
    { const MemoryLease gone = std::move(part); }
    CHECK(other.try_take(4));
    CHECK(!other.try_take(1));
    other.give_back(4);
  }
}

TEST_CASE("grid cache: windows are shared while memory lasts, the last used stay") {
  const Cache cache({.examples = 1, .tasks = {"one"}});
  const spectral::SplitRule split;
  GridCache grids(*cache.set, split,
                  3 * WindowedGrid(GridCache(*cache.set, split, 1).grid(0, 0, 0, 200), 200, split).bytes());
  const Grid& grid = grids.grid(0, 0, 0, 200);
  CHECK(&grid == &grids.grid(0, 1, 3, 300));  // equal frequencies are one grid
  const auto a = grids.at_window(grid, 200), b = grids.at_window(grid, 201), c = grids.at_window(grid, 202);
  CHECK(grids.at_window(grid, 200) == a);
  const auto d = grids.at_window(grid, 203);  // b is the oldest now
  CHECK(grids.at_window(grid, 200) == a);
  CHECK(grids.at_window(grid, 202) == c);
  CHECK(grids.at_window(grid, 203) == d);
  CHECK(grids.at_window(grid, 201) != b);
  CHECK(b->plan().window() == 201);  // what is dropped lives on in its users
}

TEST_CASE("digests in the background: those of the files; errors come out; a long one can be broken off") {
  const TempDir folder;
  std::ofstream(folder / "a") << "abc";
  std::ofstream(folder / "b") << std::string(3'000'000, 'b');
  BackgroundDigest digests({folder / "a", folder / "b"}, nullptr);
  CHECK(digests.wait() ==
        std::vector<std::string>{sha256_of_file(folder / "a"), sha256_of_file(folder / "b")});
  BackgroundDigest missing({folder / "a", folder / "none"}, nullptr);
  CHECK_THROWS_AS(missing.wait(), UserError);
  const std::atomic<bool> broken_off{true};
  CHECK(sha256_of_file(folder / "b", &broken_off).empty());
  { const BackgroundDigest never_awaited({folder / "b"}, nullptr); }
}

TEST_CASE("scoring run: an input that changes while it is read is refused, and no profile is left behind") {
  const TempDir folder;
  write_cache(folder / "cache.h5", random_cache({.examples = 4}));
  ProfileOptions options;
  options.files = {folder / "cache.h5"};
  options.output = folder / "profile.h5";
  options.heads.kind = HeadRequest::Kind::kAll;
  const auto touch = [&](const char*, std::int64_t, std::int64_t) {
    std::filesystem::last_write_time(options.files[0],
                                     std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  };
  CHECK_THROWS_WITH_AS(run_profile(options, touch), doctest::Contains("changed meanwhile"), UserError);
  CHECK_FALSE(std::filesystem::exists(options.output));
}

TEST_SUITE_END();

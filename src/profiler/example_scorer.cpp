#include "profiler/example_scorer.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <system_error>
#include <thread>

#include "profiler/batch_queue.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::size_t kTasksAhead = 64;  // of each worker: some tens of milliseconds

/// An example whose heads are being scored.
struct ExampleUnderWay {
  MemoryLease lease;
  std::vector<HeadScores> scores;
  std::atomic<std::int64_t> open{1};  // heads, and one until all are known
};

/// One call of ExampleScorer::score.
class Run {
 public:
  Run(const ActivationSet& set, const ScoringOptions& options, const ScoringResources& resources,
      const MemoryShares& shares, int workers, GridCache& grids, std::span<const SetExample* const> examples,
      std::span<const HeadWork> work)
      : set_(set),
        options_(options),
        resources_(resources),
        grids_(grids),
        examples_(examples),
        work_(work),
        vectors_(shares.vectors),
        results_(shares.results),
        queue_(kTasksAhead * static_cast<std::size_t>(workers)),
        reader_(set, options, grids, vectors_, std::max<std::int64_t>(shares.vectors / 8, 1)),
        packer_(shares.lanes, [this](BatchTask&& task) { hand_out(std::move(task)); }) {}

  ~Run() {
    stop();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(int workers);
  /// Hands over the results in order; throws what any thread threw.
  void take_all(const ExampleScorer::Take& take);
  ScoringFacts facts() const;

 private:
  using Example = std::shared_ptr<ExampleUnderWay>;
  void read_all();
  bool read_one(const SetExample& example, const Example& under_way);
  void compute();
  void hand_out(BatchTask&& task);
  void finish_head(HeadJob& job);
  void close_one(const Example& example);
  void stop();
  void fail(std::exception_ptr failure);
  template <class Work>
  void guard(const Work& work);

  const ActivationSet& set_;
  const ScoringOptions& options_;
  const ScoringResources& resources_;
  GridCache& grids_;
  std::span<const SetExample* const> examples_;
  std::span<const HeadWork> work_;
  MemoryGate vectors_, results_;  // before all that holds leases
  BatchQueue queue_;
  ExampleReader reader_;
  BatchPacker packer_;
  std::atomic<bool> stopped_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Example> under_way_;  // by index
  std::exception_ptr failure_;
  ScoringFacts facts_;

  std::vector<std::thread> threads_;
};

template <class Work>
void Run::guard(const Work& work) {
  try {
    work();
  } catch (...) {
    fail(std::current_exception());
  }
}

void Run::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  stop();
}

void Run::stop() {
  stopped_ = true;
  queue_.stop();
  vectors_.close();
  results_.close();
  const std::lock_guard lock(mutex_);  // a waiter has either seen it or is waiting
  changed_.notify_all();
}

void Run::start(int workers) {
  try {
    threads_.emplace_back([this] {
      const PhaseThread booked(resources_.clock, Phase::kReading);
      guard([&] { read_all(); });
    });
    for (int w = 0; w < workers; ++w)
      threads_.emplace_back([this] {
        const PhaseThread booked(resources_.clock);
        guard([&] { compute(); });
      });
  } catch (const std::system_error& error) {
    throw usage_error(fmt::format("--threads {}: the system does not start so many threads: {}",
                                  resources_.threads, error.what()),
                      "ask for fewer");
  }
}

void Run::read_all() {
  for (std::size_t e = 0; e < examples_.size() && !stopped_; ++e) {
    const std::int64_t bytes = reader_.bytes_of(*examples_[e]);
    if (!results_.try_take(bytes)) {
      packer_.flush();
      if (!results_.take(bytes)) return;
    }
    const auto example = std::make_shared<ExampleUnderWay>();
    example->lease = MemoryLease(results_, bytes);
    example->scores.resize(set_.heads().size());
    {
      const std::lock_guard lock(mutex_);
      under_way_[e] = example;
    }
    if (!read_one(*examples_[e], example)) return;
    close_one(example);
    if (queue_.starving()) packer_.flush();
  }
  packer_.flush();
  queue_.close();
}

bool Run::read_one(const SetExample& example, const Example& under_way) {
  const auto emit = [&](std::shared_ptr<HeadJob> job, std::int64_t head) {
    ++under_way->open;
    job->owner = under_way;
    job->target = &under_way->scores[static_cast<std::size_t>(head)];
    packer_.add(job);
    if (job->done_one()) finish_head(*job);
  };
  return reader_.read(example, work_, emit, [this] { packer_.flush(); });
}

void Run::hand_out(BatchTask&& task) {
  // What many tasks would wait for is made ahead of them.
  if (task.sweep && task.grid->window() >= 2 && task.grid->claim_plan()) {
    BatchTask plan;
    plan.kind = BatchTask::Kind::kPlan;
    plan.grid = task.grid;
    queue_.push_first(std::move(plan));
  }
  const bool moments_wanted = task.kind == BatchTask::Kind::kTriplets || options_.logit_spread ||
                              (task.sweep && options_.orders_pairs());
  if (moments_wanted && task.grid->claim_moments()) {
    BatchTask moments;
    moments.kind = BatchTask::Kind::kMoments;
    moments.grid = task.grid;
    queue_.push_first(std::move(moments));
  }
  ++facts_.batches;
  facts_.lanes += task.lanes;
  if (task.sweep) {
    ++facts_.swept_batches;
    facts_.swept_lanes += task.lanes;
  }
  queue_.push(std::move(task));
}

void Run::compute() {
  omp_set_num_threads(1);  // for this thread alone: what it calls must not start teams of its own
  BatchScorer scorer(options_, resources_.engine);
  while (const std::optional<BatchTask> task = queue_.pop())
    scorer.run(*task, [this](HeadJob& job) { finish_head(job); });
}

void Run::finish_head(HeadJob& job) {
  *job.target = job.scores();
  close_one(std::static_pointer_cast<ExampleUnderWay>(job.owner));
}

void Run::close_one(const Example& example) {
  if (example->open.fetch_sub(1) != 1) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Run::take_all(const ExampleScorer::Take& take) {
  for (std::size_t e = 0; e < examples_.size(); ++e) {
    Example example;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        if (failure_) return true;
        const auto found = under_way_.find(e);
        return found != under_way_.end() && found->second->open == 0;
      });
      if (failure_) std::rethrow_exception(failure_);
      example = under_way_[e];
      under_way_.erase(e);
    }
    take(e, example->scores);
  }
}

ScoringFacts Run::facts() const {
  ScoringFacts facts = facts_;
  facts.vector_bytes = reader_.bytes_read();
  facts.peak_vectors = vectors_.peak();
  facts.peak_results = results_.peak();
  return facts;
}

std::size_t most_frequencies(const ActivationSet& set) {
  std::size_t most = 1;
  for (const ActivationFile& file : set.files())
    most = std::max(most, static_cast<std::size_t>(file.model().head_dim) / 2);
  return most;
}

int worker_count(const ScoringResources& resources) {
  return (resources.threads > 0 ? resources.threads : omp_get_max_threads()) +
         resources.engine.waiting_threads;
}

}  // namespace

MemoryShares share_memory(const ScoringResources& resources, int workers, std::size_t most_frequencies) {
  constexpr std::int64_t kProgram = std::int64_t{32}
                                    << 20;  // itself, its libraries, the profile being written
  constexpr std::int64_t kMostAhead = std::int64_t{64} << 20;  // more vectors than that only cool down
  constexpr std::int64_t kStep = 48;
  const std::int64_t bytes = std::max(resources.memory, kLeastMemory) - kProgram;
  // An eighth is left for decoded chunks that are kept. Coefficients, and about as much again for what is
  // made on the way to them.
  const auto lane_bytes = static_cast<std::int64_t>(most_frequencies * 2 * 2 * sizeof(double));
  const std::int64_t lanes = bytes * 3 / 8 / workers / lane_bytes / kStep * kStep;
  return {std::min(kMostAhead, bytes / 4), bytes / 8, bytes / 8,
          std::clamp(lanes, kStep, static_cast<std::int64_t>(resources.engine.lanes))};
}

ExampleScorer::ExampleScorer(const ActivationSet& set, const ScoringOptions& options,
                             ScoringResources resources)
    : set_(&set),
      options_(options),
      resources_(std::move(resources)),
      workers_(worker_count(resources_)),
      shares_(share_memory(resources_, workers_, most_frequencies(set))),
      grids_(set, options.split, shares_.windows) {}

void ExampleScorer::score(std::span<const SetExample* const> examples, std::span<const HeadWork> work,
                          const Take& take) {
  Run run(*set_, options_, resources_, shares_, workers_, grids_, examples, work);
  run.start(workers_);
  run.take_all(take);
  facts_ = run.facts();
}

std::vector<HeadScores> ExampleScorer::score(const SetExample& example, std::span<const HeadWork> work) {
  std::vector<HeadScores> result;
  const SetExample* const only = &example;
  score({&only, 1}, work, [&](std::size_t, std::vector<HeadScores>& scores) { result = std::move(scores); });
  return result;
}

}  // namespace rope

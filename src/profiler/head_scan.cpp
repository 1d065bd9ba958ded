#include "profiler/head_scan.hpp"

#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/error.hpp"

namespace rope {
namespace {

/// Blocks handed out and not yet folded: enough to keep the workers busy while the fold waits for a slow one.
constexpr std::int64_t kMostUnderWay = 128;

/// Blocks on their way from the reader to the workers and from there, in order, to the caller.
class ScanQueue {
 public:
  /// Waits while too many are under way; false when the scan was stopped.
  bool push(ScanBlock&& block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || pushed_ - folded_ < kMostUnderWay; });
    if (stopped_) return false;
    waiting_.emplace_back(pushed_++, std::move(block));
    changed_.notify_all();
    return true;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    stopped_ = true;
    changed_.notify_all();
  }

  /// Ends all waiting, for good.
  void stop() {
    std::deque<Numbered> dropped;  // freed outside the lock
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
    changed_.notify_all();
  }

  using Numbered = std::pair<std::int64_t, ScanBlock>;
  std::optional<Numbered> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || closed_ || !waiting_.empty(); });
    if (stopped_ || waiting_.empty()) return std::nullopt;
    std::optional<Numbered> block(std::move(waiting_.front()));
    waiting_.pop_front();
    return block;
  }

  void put(std::int64_t number, ScanBlock&& block, std::unique_ptr<ScanResult> result) {
    const std::lock_guard lock(mutex_);
    done_.emplace(number, std::pair(std::move(block), std::move(result)));
    changed_.notify_all();
  }

  using Done = std::pair<ScanBlock, std::unique_ptr<ScanResult>>;
  /// The next in order; nothing after the last. Throws what a thread of the scan threw.
  std::optional<Done> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return failure_ || done_.contains(folded_) || (closed_ && folded_ == pushed_); });
    if (failure_) std::rethrow_exception(failure_);
    const auto found = done_.find(folded_);
    if (found == done_.end()) return std::nullopt;
    std::optional<Done> done(std::move(found->second));
    done_.erase(found);
    return done;
  }

  void folded() {
    const std::lock_guard lock(mutex_);
    ++folded_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Numbered> waiting_;
  std::map<std::int64_t, Done> done_;
  std::int64_t pushed_ = 0, folded_ = 0;
  bool closed_ = false, stopped_ = false;
  std::exception_ptr failure_;
};

std::size_t most_frequencies(const ActivationSet& set) {
  std::size_t most = 1;
  for (const ActivationFile& file : set.files())
    most = std::max(most, static_cast<std::size_t>(file.model().head_dim) / 2);
  return most;
}

int worker_count(const ScoringResources& resources) {
  return resources.threads > 0 ? resources.threads : omp_get_max_threads();
}

class Scan {
 public:
  Scan(const ActivationSet& set, const ScoringOptions& scoring, const ScoringResources& resources,
       const ScanOptions& options)
      : scoring_(scoring),
        options_(options),
        workers_(worker_count(resources)),
        shares_(share_memory(resources, workers_, most_frequencies(set))),
        grids_(set, scoring.split, shares_.windows),
        gate_(shares_.vectors),
        reader_(set, scoring_, grids_, gate_, std::max<std::int64_t>(shares_.vectors / 8, 1)) {}

  ~Scan() {
    queue_.stop();
    gate_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(std::span<const SetExample* const> examples, std::span<const HeadWork> wanted,
             const ScanWork& work, PhaseClock* clock) {
    try {
      threads_.emplace_back([=, this] {
        const PhaseThread booked(clock, Phase::kReading);
        guard([&] { read(examples, wanted); });
      });
      for (int w = 0; w < workers_; ++w)
        threads_.emplace_back([=, &work, this] {
          const PhaseThread booked(clock);
          guard([&] { compute(work); });
        });
    } catch (const std::system_error& error) {
      throw usage_error("--threads: the system does not start so many threads: " + std::string(error.what()),
                        "ask for fewer");
    }
  }

  void fold_all(const ScanFold& fold) {
    while (std::optional<ScanQueue::Done> done = queue_.take()) {
      fold(done->first, std::move(done->second));
      done.reset();  // its vectors go before others are waited for
      queue_.folded();
    }
  }

 private:
  void read(std::span<const SetExample* const> examples, std::span<const HeadWork> wanted) {
    for (std::size_t e = 0; e < examples.size(); ++e) {
      bool going_on = true;
      const auto emit = [&](std::shared_ptr<HeadJob> job, std::int64_t head) {
        if (going_on) going_on = push_blocks(std::move(job), e, head);
      };
      if (!reader_.read(*examples[e], wanted, emit, [] {}) || !going_on) return;
    }
    queue_.close();
  }

  bool push_blocks(std::shared_ptr<const HeadJob> job, std::size_t example, std::int64_t head) {
    const auto [units, per_block] = units_of(*job);
    for (std::int64_t first = 0, index = 0; first < units; first += per_block, ++index) {
      const std::int64_t count = std::min(per_block, units - first);
      if (!queue_.push({example, head, job, index, first, count, first + count == units})) return false;
    }
    return true;
  }

  std::pair<std::int64_t, std::int64_t> units_of(const HeadJob& job) const {
    switch (options_.unit) {
      case ScanUnit::kPairs:
        return {job.slots->pairs(), kPairBlock};
      case ScanUnit::kTriplets:
        return {job.slots->triplets(), kTripletBlock};
      case ScanUnit::kQueries:
        return {std::ssize(job.slots->query_slot), std::max<std::int64_t>(options_.queries_per_block, 1)};
      case ScanUnit::kHead:
        return {1, 1};
    }
    return {0, 1};
  }

  void compute(const ScanWork& work) {
    omp_set_num_threads(1);  // for this thread alone: what it calls must not start teams of its own
    while (std::optional<ScanQueue::Numbered> next = queue_.pop()) {
      ScanBlock& block = next->second;
      block.job->vectors->decode();
      std::unique_ptr<ScanResult> result = work(block);
      queue_.put(next->first, std::move(block), std::move(result));
    }
  }

  template <class Work>
  void guard(const Work& work) {
    try {
      work();
    } catch (...) {
      queue_.fail(std::current_exception());
      gate_.close();
    }
  }

  ScoringOptions scoring_;
  ScanOptions options_;
  int workers_;
  MemoryShares shares_;
  GridCache grids_;
  MemoryGate gate_;  // before all that holds leases
  ScanQueue queue_;
  ExampleReader reader_;
  std::vector<std::thread> threads_;
};

}  // namespace

void scan_heads(const ActivationSet& set, const ScoringOptions& scoring, const ScoringResources& resources,
                std::span<const SetExample* const> examples, std::span<const char> heads,
                const ScanOptions& options, const ScanWork& work, const ScanFold& fold) {
  std::vector<HeadWork> wanted(set.heads().size(), HeadWork::kNone);
  for (std::size_t n = 0; n < wanted.size(); ++n)
    if (heads[n] != 0 && set.heads()[n].rotates) wanted[n] = HeadWork::kAll;
  Scan scan(set, scoring, resources, options);
  scan.start(examples, wanted, work, resources.clock);
  scan.fold_all(fold);
}

}  // namespace rope

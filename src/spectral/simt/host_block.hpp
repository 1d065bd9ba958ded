#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "spectral/simt/block.hpp"

// Runs kernels (block.hpp) on the host, for tests; no product source includes it. Threads of a phase run one
// after another in a chosen order; shared memory and per-thread values start as NaN patterns; every access to
// shared memory is recorded. What it cannot see: races in global memory that do not write an element twice,
// memory ordering, launch limits, speed.

namespace rope::spectral::simt {

enum class ThreadOrder { kForward, kReversed, kShuffled };

/// What the executor found wrong; all zero for a sound kernel.
struct HostReport {
  std::int64_t races = 0;         ///< one thread's write beside another's access in one phase
  std::int64_t unwritten = 0;     ///< reads of shared memory that nothing has written
  std::int64_t out_of_range = 0;  ///< indexes outside a shared array
  std::int64_t outside = 0;       ///< shared memory touched outside a phase
  std::int64_t stored_twice = 0;  ///< elements of global memory written by two threads or blocks
  std::int64_t phases = 0;
  std::string first;  ///< the first finding in words

  bool clean() const { return races + unwritten + out_of_range + outside + stored_twice == 0; }
  std::string text() const {
    return std::to_string(races) + " races, " + std::to_string(unwritten) + " reads of unwritten memory, " +
           std::to_string(out_of_range) + " indexes out of range, " + std::to_string(outside) +
           " accesses outside a phase, " + std::to_string(stored_twice) + " elements stored twice" +
           (first.empty() ? "" : "; first: " + first);
  }
};

/// All bytes 0xff: NaN as a floating-point number, -1 as a signed one.
template <class T>
T poison() {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memset(static_cast<void*>(&value), 0xff, sizeof value);
  return value;
}

/// Who runs, and what was found; shared by all arrays of a launch.
struct HostRecorder {
  HostReport report;
  int thread = -1;          ///< -1 outside phases
  std::uint32_t phase = 0;  ///< of the block that runs
  std::uint64_t block = 0;
  std::map<const void*, std::pair<std::uint64_t, int>> stores;

  void note(std::int64_t& counter, const char* what, int index) {
    if (report.clean())
      report.first = std::string(what) + ": element " + std::to_string(index) + ", thread " +
                     std::to_string(thread) + ", phase " + std::to_string(phase);
    ++counter;
  }
};

/// Shared array that records. Copies share the memory, as pointers do.
template <class T>
class HostArray {
 public:
  class Element {
   public:
    Element(HostArray* array, int index) : array_(array), index_(index) {}
    operator T() const { return array_->read(index_); }
    const Element& operator=(T value) const {
      array_->write(index_, value);
      return *this;
    }
    // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): a read and a write, also of one element
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }
    const Element& operator+=(T value) const { return *this = static_cast<T>(*this) + value; }

   private:
    HostArray* array_;
    int index_;
  };

  Element operator[](int i) { return {this, i}; }
  Float4 load4(int i) { return {read(i), read(i + 1), read(i + 2), read(i + 3)}; }

  void reset(HostRecorder& recorder, int count) {
    recorder_ = &recorder;
    values_.assign(static_cast<std::size_t>(count), poison<T>());
    cells_.assign(static_cast<std::size_t>(count), Cell{});
  }

 private:
  struct Cell {
    std::uint32_t written_in = 0, read_in = 0;  // phases, from 1 on
    int writer = -1, reader = -1;               // -2: several readers
  };

  bool usable(int i) {
    if (i < 0 || i >= static_cast<int>(values_.size())) {
      recorder_->note(recorder_->report.out_of_range, "index out of range", i);
      return false;
    }
    if (recorder_->thread < 0) recorder_->note(recorder_->report.outside, "access outside a phase", i);
    return true;
  }
  T read(int i) {
    if (!usable(i)) return poison<T>();
    Cell& cell = cells_[static_cast<std::size_t>(i)];
    const std::uint32_t phase = recorder_->phase;
    const int thread = recorder_->thread;
    if (cell.written_in == 0) recorder_->note(recorder_->report.unwritten, "read of unwritten memory", i);
    if (cell.written_in == phase && cell.writer != thread)
      recorder_->note(recorder_->report.races, "race (read after another thread's write)", i);
    cell.reader = cell.read_in == phase && cell.reader != thread ? -2 : thread;
    cell.read_in = phase;
    return values_[static_cast<std::size_t>(i)];
  }
  void write(int i, T value) {
    if (!usable(i)) return;
    Cell& cell = cells_[static_cast<std::size_t>(i)];
    const std::uint32_t phase = recorder_->phase;
    const int thread = recorder_->thread;
    if (cell.written_in == phase && cell.writer != thread)
      recorder_->note(recorder_->report.races, "race (two threads write)", i);
    if (cell.read_in == phase && cell.reader != thread)
      recorder_->note(recorder_->report.races, "race (write after another thread's read)", i);
    cell.written_in = phase;
    cell.writer = thread;
    values_[static_cast<std::size_t>(i)] = value;
  }

  HostRecorder* recorder_ = nullptr;
  std::vector<T> values_;
  std::vector<Cell> cells_;
};

/// Shared array without a record, for long runs of kernels that are known to be sound.
template <class T>
class PlainArray {
 public:
  T& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  Float4 load4(int i) const {
    const T* from = values_.data() + i;
    return {from[0], from[1], from[2], from[3]};
  }
  void reset(HostRecorder&, int count) { values_.assign(static_cast<std::size_t>(count), poison<T>()); }

 private:
  std::vector<T> values_;
};

template <bool kRecording>
class HostBlock {
 public:
  template <class T>
  using Array = std::conditional_t<kRecording, HostArray<T>, PlainArray<T>>;

  template <class T>
  class PerThread {
   public:
    PerThread() : values_(kMostThreads, poison<T>()) {}
    T& operator[](int t) { return values_[static_cast<std::size_t>(t)]; }

   private:
    std::vector<T> values_;
  };

  HostBlock(HostRecorder& recorder, const std::vector<int>& order, int x, int y)
      : recorder_(&recorder), order_(&order), x_(x), y_(y) {}

  int x() const { return x_; }
  int y() const { return y_; }

  template <class F>
  void phase(F&& f) {
    ++recorder_->phase;
    ++recorder_->report.phases;
    for (int t : *order_) {
      recorder_->thread = t;
      f(t);
    }
    recorder_->thread = -1;
  }

  template <class T>
  void store(T* to, T value) {
    if constexpr (kRecording) {
      const std::pair owner(recorder_->block, recorder_->thread);
      const auto [place, fresh] = recorder_->stores.try_emplace(to, owner);
      if (!fresh && place->second != owner)
        recorder_->note(recorder_->report.stored_twice, "global element stored by two threads", 0);
    }
    *to = value;
  }

  static Float4 load4(const float* from) { return {from[0], from[1], from[2], from[3]}; }

 private:
  static constexpr std::size_t kMostThreads = 1024;
  HostRecorder* recorder_;
  const std::vector<int>* order_;
  int x_, y_;
};

class HostArena {
 public:
  explicit HostArena(HostRecorder& recorder) : recorder_(&recorder) {}
  template <class Array>
  void take(Array& array, int count) {
    array.reset(*recorder_, count);
  }

 private:
  HostRecorder* recorder_;
};

/// The threads 0 ... count - 1 in the order asked for; `seed` is that of the shuffle.
inline std::vector<int> thread_order(ThreadOrder order, int count, std::uint64_t seed) {
  std::vector<int> threads(static_cast<std::size_t>(count));
  for (int t = 0; t < count; ++t)
    threads[static_cast<std::size_t>(t)] = order == ThreadOrder::kReversed ? count - 1 - t : t;
  if (order == ThreadOrder::kShuffled) {
    std::mt19937_64 random(seed);
    for (std::size_t i = threads.size(); i > 1; --i) std::swap(threads[i - 1], threads[random() % i]);
  }
  return threads;
}

/// Runs the blocks (0, 0) ... (blocks_x - 1, blocks_y - 1) of a kernel one after another.
template <class Kernel, bool kRecording = true>
HostReport run_on_host(int blocks_x, int blocks_y, const typename Kernel::Args& args, ThreadOrder order,
                       std::uint64_t seed = 1) {
  using Block = HostBlock<kRecording>;
  HostRecorder recorder;
  for (int y = 0; y < blocks_y; ++y) {
    for (int x = 0; x < blocks_x; ++x) {
      const std::vector<int> threads = thread_order(order, Kernel::kThreads, seed + recorder.block);
      recorder.phase = 0;
      typename Kernel::template Shared<Block> shared;
      HostArena arena(recorder);
      shared.lay_out(arena, args);
      Block block(recorder, threads, x, y);
      Kernel::run(block, shared, args);
      ++recorder.block;
    }
  }
  return recorder.report;
}

}  // namespace rope::spectral::simt

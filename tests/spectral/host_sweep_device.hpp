#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "spectral/simt/host_block.hpp"
#include "spectral/simt/sweep_device.hpp"

namespace rope::test {

namespace simt = spectral::simt;

/// How a HostSweepDevice behaves.
struct HostDeviceOptions {
  simt::ThreadOrder order = simt::ThreadOrder::kForward;
  bool recording = true;
  /// Work happens when the stream is waited for, not when it is given: finds memory that is used again too
  /// early.
  bool deferred = true;
  std::size_t memory = std::size_t{1} << 40;  ///< bytes that can be allocated
  std::size_t shared_memory = 200 << 10;
  int lost_at = -1;           ///< that operation (from 0 on) and all later ones fail
  int out_of_memory_at = -1;  ///< that operation fails once, unless it only waits
};

/// What happened, kept after the device is gone.
struct HostDeviceLog {
  std::string findings;  ///< of the executor
  int operations = 0, launches = 0, refused = 0, largest_block = 0, smallest_block = 1 << 30;
  std::size_t in_use = 0, peak = 0;
};

/// A SweepDevice that runs the kernels on the host (host_block.hpp). New memory is poisoned.
class HostSweepDevice : public simt::SweepDevice {
 public:
  HostSweepDevice(HostDeviceOptions options, HostDeviceLog& log) : options_(options), log_(&log) {}

  std::string name() const override { return "host device"; }
  std::size_t shared_memory() const override { return options_.shared_memory; }

  void* allocate(std::size_t bytes) override {
    operation();
    const std::lock_guard lock(mutex_);
    if (log_->in_use + bytes > options_.memory) {
      ++log_->refused;
      throw simt::OutOfDeviceMemory("host device: no room for " + std::to_string(bytes) + " bytes");
    }
    log_->in_use += bytes;
    log_->peak = std::max(log_->peak, log_->in_use);
    return new_memory(bytes);
  }
  void* allocate_pinned(std::size_t bytes) override {
    operation();
    const std::lock_guard lock(mutex_);
    return new_memory(bytes);
  }
  void release(void* memory) noexcept override {
    if (!memory) return;
    const std::lock_guard lock(mutex_);
    log_->in_use -= memory_[memory].size();
    memory_.erase(memory);
  }
  void release_pinned(void* memory) noexcept override {
    const std::lock_guard lock(mutex_);
    memory_.erase(memory);
  }

  void upload(int stream, void* to, const void* from, std::size_t bytes) override {
    operation();
    add(stream, [=] { std::memcpy(to, from, bytes); });
  }
  void download(int stream, void* to, const void* from, std::size_t bytes) override {
    upload(stream, to, from, bytes);
  }
  void launch(int stream, int groups, int chunks, const simt::SweepKernel<false>::Args& args) override {
    sweep<simt::SweepKernel<false>>(stream, groups, chunks, args);
  }
  void launch(int stream, int groups, int chunks, const simt::SweepKernel<true>::Args& args) override {
    sweep<simt::SweepKernel<true>>(stream, groups, chunks, args);
  }
  void launch(int stream, int groups, const simt::FoldKernel::Args& args) override {
    operation();
    add(stream, [=, this] { run<simt::FoldKernel>(groups, 1, args); });
  }
  void synchronize(int stream) override {
    operation(false);
    auto& queue = queues_[stream];
    while (!queue.empty()) {
      queue.front()();
      queue.pop_front();
    }
  }

 private:
  void* new_memory(std::size_t bytes) {
    std::vector<unsigned char> memory(bytes, 0xff);
    void* at = memory.data();
    memory_.emplace(at, std::move(memory));
    return at;
  }
  void operation(bool takes_memory = true) {
    const std::lock_guard lock(mutex_);
    const int index = log_->operations++;
    if (options_.lost_at >= 0 && index >= options_.lost_at) throw spectral::DeviceError("host device: lost");
    if (takes_memory && index == options_.out_of_memory_at) {
      ++log_->refused;
      throw simt::OutOfDeviceMemory("host device: out of memory");
    }
  }
  void add(int stream, std::function<void()> work) {
    if (options_.deferred)
      queues_[stream].push_back(std::move(work));
    else
      work();
  }
  template <class Kernel>
  void sweep(int stream, int groups, int chunks, const typename Kernel::Args& args) {
    operation();
    {
      const std::lock_guard lock(mutex_);
      ++log_->launches;
      log_->largest_block = std::max(log_->largest_block, args.batch.pairs);
      log_->smallest_block = std::min(log_->smallest_block, args.batch.pairs);
    }
    add(stream, [=, this] { run<Kernel>(groups, chunks, args); });
  }
  template <class Kernel>
  void run(int x, int y, const typename Kernel::Args& args) {
    const simt::HostReport report = options_.recording
                                        ? simt::run_on_host<Kernel, true>(x, y, args, options_.order)
                                        : simt::run_on_host<Kernel, false>(x, y, args, options_.order);
    const std::lock_guard lock(mutex_);
    if (!report.clean() && log_->findings.empty()) log_->findings = report.text();
  }

  std::mutex mutex_;
  HostDeviceOptions options_;
  HostDeviceLog* log_;
  std::map<void*, std::vector<unsigned char>> memory_;
  std::deque<std::function<void()>> queues_[kStreams];
};

}  // namespace rope::test

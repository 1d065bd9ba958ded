#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace rope {

/// A budget of bytes that a producer takes from before it makes something large, and consumers give back to.
/// What is larger than the whole budget may pass alone: when nothing else is out.
class MemoryGate {
 public:
  explicit MemoryGate(std::int64_t limit) : limit_(limit) {}

  /// Takes `bytes` if they are there.
  bool try_take(std::int64_t bytes);
  /// Waits for them; false when the gate was closed.
  bool take(std::int64_t bytes);
  void give_back(std::int64_t bytes);
  /// Ends all waiting, for good.
  void close();

  std::int64_t limit() const { return limit_; }
  std::int64_t peak() const;  ///< most bytes that were out at a time

 private:
  bool fits(std::int64_t bytes) const { return used_ == 0 || bytes <= limit_ - used_; }
  void add(std::int64_t bytes);

  const std::int64_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t used_ = 0, peak_ = 0;
  bool closed_ = false;
};

/// Bytes taken from a gate, given back at its end.
class MemoryLease {
 public:
  MemoryLease() = default;
  MemoryLease(MemoryGate& gate, std::int64_t bytes) : gate_(&gate), bytes_(bytes) {}
  MemoryLease(MemoryLease&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)), bytes_(other.bytes_) {}
  MemoryLease& operator=(MemoryLease&& other) noexcept {
    std::swap(gate_, other.gate_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryLease() {
    if (gate_ != nullptr) gate_->give_back(bytes_);
  }
  /// Divides the lease: the returned one holds `bytes` of it.
  MemoryLease split(std::int64_t bytes) {
    bytes_ -= bytes;
    return {*gate_, bytes};
  }

 private:
  MemoryGate* gate_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace rope

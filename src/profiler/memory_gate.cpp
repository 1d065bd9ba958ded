#include "profiler/memory_gate.hpp"

#include <algorithm>

namespace rope {

void MemoryGate::add(std::int64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

bool MemoryGate::try_take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !fits(bytes)) return false;
  add(bytes);
  return true;
}

bool MemoryGate::take(std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || fits(bytes); });
  if (closed_) return false;
  add(bytes);
  return true;
}

void MemoryGate::give_back(std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
  }
  changed_.notify_all();
}

void MemoryGate::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

std::int64_t MemoryGate::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace rope

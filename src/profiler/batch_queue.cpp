#include "profiler/batch_queue.hpp"

#include <utility>

namespace rope {

void BatchQueue::push(BatchTask&& task) {
  {
    std::unique_lock lock(mutex_);
    if (tasks_.size() >= most_) drained_.wait(lock, [&] { return closed_ || tasks_.size() <= most_ / 2; });
    if (closed_) return;  // stopped meanwhile
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void BatchQueue::push_first(BatchTask&& task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.push_front(std::move(task));
  }
  changed_.notify_one();
}

std::optional<BatchTask> BatchQueue::pop() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
  --waiting_;
  if (tasks_.empty()) return std::nullopt;
  std::optional<BatchTask> task(std::move(tasks_.front()));
  tasks_.pop_front();
  if (tasks_.size() == most_ / 2) drained_.notify_one();
  return task;
}

bool BatchQueue::starving() const {
  const std::lock_guard lock(mutex_);
  return waiting_ > 0 && tasks_.empty();
}

void BatchQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void BatchQueue::stop() {
  std::deque<BatchTask> dropped;  // freed outside the lock
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
  drained_.notify_all();
}

}  // namespace rope

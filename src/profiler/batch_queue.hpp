#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "profiler/batch_task.hpp"

namespace rope {

/// Tasks on their way from the reader to the workers.
class BatchQueue {
 public:
  /// `most`: tasks that the reader is ahead. Further ones would find their vectors cold, in pages that have
  /// to be made first.
  explicit BatchQueue(std::size_t most) : most_(most) {}

  /// Where `most` tasks lie in it, waits until half of them are taken.
  void push(BatchTask&& task);
  /// At once and ahead of all others: what several of those wait for.
  void push_first(BatchTask&& task);
  /// The next task; waits for it. Nothing when the queue was closed and is empty, or was stopped.
  std::optional<BatchTask> pop();
  /// True when somebody waits in vain.
  bool starving() const;
  void close();  ///< no more pushes
  void stop();   ///< and what is in it is dropped

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, drained_;
  std::deque<BatchTask> tasks_;
  int waiting_ = 0;
  bool closed_ = false;
};

}  // namespace rope

#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "profiler/batch_task.hpp"

namespace rope {

/// Tasks on their way from the reader to the workers. What it holds is bounded by the memory that the reader
/// may take, not here.
class BatchQueue {
 public:
  void push(BatchTask&& task) { add(std::move(task), false); }
  /// Ahead of all others: what several of those wait for.
  void push_first(BatchTask&& task) { add(std::move(task), true); }
  /// The next task; waits for it. Nothing when the queue was closed and is empty, or was stopped.
  std::optional<BatchTask> pop();
  /// True when somebody waits in vain.
  bool starving() const;
  void close();  ///< no more pushes
  void stop();   ///< and what is in it is dropped

 private:
  void add(BatchTask&& task, bool first);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BatchTask> tasks_;
  int waiting_ = 0;
  bool closed_ = false;
};

}  // namespace rope

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/hdf5_read.hpp"

namespace rope {

/// One list of checks for two uses: opening a cache stops at the first failure (it throws), `inspect` writes
/// every outcome down and goes on.
class CheckLog {
 public:
  explicit CheckLog(bool go_on) : go_on_(go_on) {}
  /// Runs one check, which fails by throwing UserError. True when it passed.
  bool run(const std::string& name, const std::function<void()>& check);
  bool goes_on() const { return go_on_; }
  std::vector<CheckResult> results;

 private:
  bool go_on_;
};

/// The open datasets of one task.
struct TaskData {
  Hdf5Dataset query, key, query_position, key_position, window;
  std::optional<Hdf5Dataset> example_id, triplets;
};

/// What a cache says about itself; `tasks` holds those whose checks all passed.
struct CacheContents {
  ModelHeader model;
  std::string created_by;
  std::vector<TaskHeader> tasks;
  std::vector<std::string> warnings;
};

CacheContents read_contents(const Hdf5Source& source, CheckLog& log);

/// Opens the datasets of a task that read_contents has accepted.
TaskData open_task(const Hdf5Source& source, const TaskHeader& task);

/// Element type of a dataset of vectors, by its float fields or its `dtype` attribute. Throws UserError.
ElementType vector_element_type(const Hdf5Source& source, const Hdf5Dataset& set);

// ---- values of single examples (activation_examples.cpp) -----------------------------------------------
std::vector<std::int64_t> read_task_windows(const Hdf5Source& source, const TaskData& data,
                                            std::int64_t first, std::int64_t count);
std::vector<std::string> read_task_ids(const Hdf5Source& source, const TaskData& data, std::int64_t first,
                                       std::int64_t count);
ExampleSlots read_task_slots(const Hdf5Source& source, const TaskHeader& task, const TaskData& data,
                             std::int64_t example, std::int64_t window, bool check_window);
/// Every example_id of the file's task occurs once.
void check_unique_ids(const Hdf5Source& source, const TaskHeader& task, const TaskData& data);

}  // namespace rope

#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "profiler/error.hpp"

namespace rope {

/// Size and time of last change of files: reads beyond an end that moved come back as zeros, and nothing else
/// tells of it.
class InputStamps {
 public:
  explicit InputStamps(std::vector<std::string> paths) : paths_(std::move(paths)) {
    for (const std::string& path : paths_) stamps_.push_back(stamp(path));
  }

  void require_unchanged() const {
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (stamp(paths_[i]) != stamps_[i])
        throw input_error(paths_[i], "", "a file that stays as it is while it is read",
                          "one that was changed meanwhile");
  }

 private:
  using Stamp = std::pair<std::uintmax_t, std::filesystem::file_time_type>;
  static Stamp stamp(const std::string& path) {
    std::error_code failed;  // a file that is gone counts as changed
    return {std::filesystem::file_size(path, failed), std::filesystem::last_write_time(path, failed)};
  }

  std::vector<std::string> paths_;
  std::vector<Stamp> stamps_;
};

}  // namespace rope

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace rope::test {

/// Folder of shared reference data when the machine has one (environment ROPE_SHARED, else ../shared beside
/// the repository), or empty.
inline std::string shared_folder() {
  const char* set = std::getenv("ROPE_SHARED");
  const std::filesystem::path folder = set ? set : std::filesystem::path(ROPE_SOURCE_DIR) / ".." / "shared";
  return std::filesystem::is_directory(folder / "data") ? folder.string() : std::string();
}

}  // namespace rope::test

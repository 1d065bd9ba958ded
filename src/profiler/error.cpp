#include "profiler/error.hpp"

namespace rope {

UserError input_error(const std::string& file, const std::string& path, const std::string& expected,
                      const std::string& found, const std::string& hint) {
  std::string text = file + ": ";
  if (!path.empty()) text += path + ": ";
  return UserError(text + "expected " + expected + ", found " + found, hint, ExitCode::kInput);
}

UserError usage_error(const std::string& message, const std::string& hint) {
  return UserError(message, hint, ExitCode::kUsage);
}

}  // namespace rope

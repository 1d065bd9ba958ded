#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace rope {

/// Exit codes of the program.
enum class ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,  ///< a requested check said no
  kUsage = 2,        ///< the command line is wrong
  kInput = 3,        ///< a file cannot be used
  kDevice = 4,       ///< device missing, lost or out of memory
  kInternal = 70,    ///< our bug
};

/// A mistake that the user can mend. `what()` is one line; `hint` (may be empty) says what to try.
/// Thrown by cli, profiler and interventions; caught and printed once, in run_cli.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message, std::string hint = {}, ExitCode code = ExitCode::kInput)
      : std::runtime_error(message), hint_(std::move(hint)), code_(code) {}

  const std::string& hint() const { return hint_; }
  ExitCode code() const { return code_; }

 private:
  std::string hint_;
  ExitCode code_;
};

/// "FILE: HDF5-PATH: expected X, found Y". `path` may be empty for the file as a whole.
UserError input_error(const std::string& file, const std::string& path, const std::string& expected,
                      const std::string& found, const std::string& hint = {});

/// A wrong command line (exit 2).
UserError usage_error(const std::string& message, const std::string& hint = {});

}  // namespace rope

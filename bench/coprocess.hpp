#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>

namespace rope::bench {

/// A baseline in another language: a program that is asked by a line on its standard input and answers with a
/// line, so that its runs can alternate with ours.
class Coprocess {
 public:
  /// Starts `command` by the shell; throws std::runtime_error where that fails.
  explicit Coprocess(const std::string& command);
  ~Coprocess();
  Coprocess(const Coprocess&) = delete;
  Coprocess& operator=(const Coprocess&) = delete;

  /// Throws std::runtime_error when the program has ended.
  std::string ask(const std::string& line);

 private:
  pid_t child_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace rope::bench

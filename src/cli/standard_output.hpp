#pragma once

#include <stdexcept>
#include <streambuf>
#include <string>
#include <vector>

namespace rope::cli {

/// Standard output could not be written. `closed_pipe()`: its reader went away, which is no error.
class OutputError : public std::runtime_error {
 public:
  explicit OutputError(int error_number);
  bool closed_pipe() const { return closed_pipe_; }

 private:
  bool closed_pipe_;
};

/// A buffered stream over a file descriptor that reports failures: std::cout loses the reason. Throws
/// OutputError; the owner's stream must rethrow it (exceptions(std::ios::badbit)).
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  void write_all(const char* text, std::size_t count);
  void flush_buffer();

  int descriptor_;
  std::vector<char> buffer_;
};

}  // namespace rope::cli

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "cli/run_cli.hpp"
#include "cli/standard_output.hpp"
#include "profiler/atomic_file.hpp"

namespace {

/// With a closed 0, 1 or 2 the next file opened would take its number, and a table would be printed into it.
/// The other direction makes later use fail, as on a closed descriptor.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) == -1)
      if (open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor) std::abort();
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return rope::cli::Streams{}.width;
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe comes back as an error of write(), after clean-up
  std::signal(SIGXFSZ, SIG_IGN);  // so does a file-size limit
  rope::remove_partial_outputs_on_signals();
  rope::cli::DescriptorBuffer buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);

  rope::cli::Streams streams;
  streams.out = &out;
  streams.err = &std::cerr;
  streams.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  streams.err_is_terminal = isatty(STDERR_FILENO) != 0;
  streams.width = terminal_width();
  return rope::cli::run_cli(std::vector<std::string>(argv + 1, argv + argc), streams);
}

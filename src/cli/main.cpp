#include <unistd.h>

#include <iostream>

#include "cli/run_cli.hpp"

int main(int argc, char** argv) {
  rope::cli::Streams streams;
  streams.out = &std::cout;
  streams.err = &std::cerr;
  streams.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  streams.err_is_terminal = isatty(STDERR_FILENO) != 0;
  return rope::cli::run_cli(std::vector<std::string>(argv + 1, argv + argc), streams);
}

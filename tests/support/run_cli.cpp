#include "support/run_cli.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cli/run_cli.hpp"

namespace rope::test {
namespace {

[[noreturn]] void exec_program(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> argv{const_cast<char*>(ROPE_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execv(ROPE_PROGRAM, argv.data());
  _exit(127);
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  return ends;
}

/// The two ends of a pseudo-terminal: ours, and the one for the program.
std::array<int, 2> make_terminal() {
  const int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0) throw std::runtime_error("no pseudo-terminal");
  const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (theirs < 0) throw std::runtime_error("no pseudo-terminal");
  return {ours, theirs};
}

void drain(std::array<pollfd, 2> from, std::array<std::string*, 2> to) {
  while (from[0].fd >= 0 || from[1].fd >= 0) {
    if (poll(from.data(), from.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].fd < 0 || from[i].revents == 0) continue;
      std::array<char, 65536> block;
      const ssize_t count = read(from[i].fd, block.data(), block.size());
      if (count > 0)
        to[i]->append(block.data(), static_cast<std::size_t>(count));
      else
        from[i].fd = -1;  // closed; a terminal says EIO
    }
  }
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  cli::Streams streams;
  streams.out = &out;
  streams.err = &err;
  ProgramResult result;
  result.exit_code = cli::run_cli(arguments, streams);
  result.out = out.str();
  result.err = err.str();
  return result;
}

bool terminals_available() {
  try {
    for (const int end : make_terminal()) close(end);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

ProgramResult run_binary(const std::vector<std::string>& arguments, const BinaryOptions& options) {
  const auto in = make_pipe(), err = make_pipe();
  const auto out = options.terminal ? make_terminal() : make_pipe();
  if (options.close_out_early) close(out[0]);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    if (options.file_limit > 0) {
      const rlimit limit{static_cast<rlim_t>(options.file_limit), static_cast<rlim_t>(options.file_limit)};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    const int target = options.out_path.empty() ? out[1] : open(options.out_path.c_str(), O_WRONLY);
    dup2(in[0], STDIN_FILENO);
    dup2(target, STDOUT_FILENO);
    dup2(options.terminal ? out[1] : err[1], STDERR_FILENO);
    exec_program(arguments, options.environment);
  }
  for (const int end : {in[0], out[1], err[1]}) close(end);
  const auto previous = std::signal(SIGPIPE, SIG_IGN);  // the program need not read its input
  if (!options.input.empty() && write(in[1], options.input.data(), options.input.size()) < 0)
    MESSAGE("the program did not read its input");
  std::signal(SIGPIPE, previous);
  close(in[1]);

  ProgramResult result;
  drain({pollfd{options.close_out_early ? -1 : out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}},
        {&result.out, &result.err});
  if (!options.close_out_early) close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = exit_code_of(status);
  return result;
}

BinaryProcess::BinaryProcess(const std::vector<std::string>& arguments) {
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ != 0) return;
  const int null = open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, descriptor);
  exec_program(arguments, {});
}

BinaryProcess::~BinaryProcess() {
  if (!running()) return;
  send(SIGKILL);
  wait();
}

void BinaryProcess::send(int signal_number) const { kill(pid_, signal_number); }

bool BinaryProcess::running() {
  if (!done_ && waitpid(pid_, &status_, WNOHANG) == pid_) done_ = true;
  return !done_;
}

int BinaryProcess::wait() {
  if (!done_) waitpid(pid_, &status_, 0);
  done_ = true;
  return exit_code_of(status_);
}

void check_failure(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts) {
  INFO("stdout: ", result.out);
  INFO("stderr: ", result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  std::vector<std::string> errors;
  std::size_t hints = 0;
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("rope-profiler: error: ", 0) == 0)
      errors.push_back(line);
    else if (line.rfind("hint: ", 0) == 0)
      ++hints;
    else
      CHECK_MESSAGE(line.rfind("rope-profiler: warning: ", 0) == 0, "unexpected line: ", line);
  }
  CHECK(hints <= 1);
  REQUIRE(errors.size() == 1);
  for (const std::string& part : parts)
    CHECK_MESSAGE(errors[0].find(part) != std::string::npos, "missing in the error: ", part);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "cannot read ", path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace rope::test

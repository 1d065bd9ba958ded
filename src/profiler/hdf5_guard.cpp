#include "profiler/hdf5_guard.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <new>

#include "profiler/error.hpp"

namespace rope {
namespace {

rlim_t file_bytes(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<rlim_t>(info.st_size) : 0;
}

/// While it lives, the process can map 256 MiB and the file's size more than at the start. Linux only; under
/// the address sanitizer, which reserves terabytes, nothing is limited.
class MemoryLimit {
 public:
  explicit MemoryLimit(const std::string& path) {
#ifndef __SANITIZE_ADDRESS__
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    if (!(sizes >> pages) || getrlimit(RLIMIT_AS, &before_) != 0) return;
    rlimit limited = before_;
    limited.rlim_cur = std::min(before_.rlim_cur, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) +
                                                      (rlim_t{256} << 20) + file_bytes(path));
    set_ = setrlimit(RLIMIT_AS, &limited) == 0;
#else
    static_cast<void>(path);
#endif
  }
  ~MemoryLimit() {
    if (set_) setrlimit(RLIMIT_AS, &before_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
  bool set_ = false;
};

/// Ends a child that computes without end. Processor time, so that a slow disk is no fault; many times what
/// the headers of a sound file of this size take: 10 s, and 1 s more for every MB of file.
void limit_child(const std::string& path) {
  const rlim_t seconds = 10 + file_bytes(path) / 1'000'000;
  const rlimit processor{seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &processor);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void run_child(const std::string& path, const std::function<void()>& read) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGXCPU, SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, SIG_DFL);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);  // "free(): invalid pointer" and the like
  }
  limit_child(path);
  try {
    const MemoryLimit limit(path);
    read();
  } catch (...) {  // the parent meets it itself
  }
  _exit(0);
}

/// Throws UserError unless a child gets through `read`.
void try_in_child(const std::string& path, const std::function<void()>& read) {
  const pid_t child = fork();
  if (child < 0) return;  // no more processes: go on unguarded rather than refuse good files
  if (child == 0) run_child(path, read);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const bool endless = WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
  throw input_error(path, "", "an undamaged HDF5 file",
                    endless ? "damage on which the HDF5 library runs without end"
                            : "damage on which the HDF5 library crashes",
                    "copy or write the file again");
}

}  // namespace

void read_guarded(const std::string& path, const std::function<void()>& read) {
  try_in_child(path, read);
  try {
    const MemoryLimit limit(path);
    read();
  } catch (const std::bad_alloc&) {
    throw input_error(path, "", "a file that opens within 256 MiB and its own size of memory",
                      "claims of more");
  }
}

}  // namespace rope

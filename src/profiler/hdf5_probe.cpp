#include "profiler/hdf5_probe.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "profiler/error.hpp"

namespace rope {
namespace {

/// Ends the child that computes or allocates without end. Processor time, so that a slow disk is no fault:
/// 2 s, and 1 s more for every 20 MB of file.
void limit_child(const std::string& path) {
  struct stat info {};
  const rlim_t bytes = stat(path.c_str(), &info) == 0 ? static_cast<rlim_t>(info.st_size) : 0;
  const rlim_t seconds = 2 + bytes / 20'000'000;
  const rlimit processor{seconds, seconds + 1};
  setrlimit(RLIMIT_CPU, &processor);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
#ifndef __SANITIZE_ADDRESS__  // the address sanitizer reserves terabytes
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  if (sizes >> pages) {
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{2} << 30);
    const rlimit memory{most, most};
    setrlimit(RLIMIT_AS, &memory);
  }
#endif
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
    read();
  } catch (...) {  // the caller meets it itself
  }
  _exit(0);
}

}  // namespace

void probe_hdf5(const std::string& path, const std::function<void()>& read) {
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

}  // namespace rope

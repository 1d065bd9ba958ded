#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rope::test {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + N when signal N ended it, as a shell shows it
  std::string out, err;
};

/// The whole program in this process; standard output and error are strings, not terminals.
ProgramResult run_program(const std::vector<std::string>& arguments);

/// How the real binary is run. `environment`: "NAME=value", on top of this process's own.
struct BinaryOptions {
  std::vector<std::string> environment;
  std::string input;             ///< text on standard input
  std::string out_path;          ///< standard output goes to this file (e.g. /dev/full) instead
  long file_limit = 0;           ///< > 0: no file may grow beyond so many bytes, as on a full disk
  bool close_out_early = false;  ///< the reader of standard output goes away before anything is read
  bool terminal = false;         ///< standard output and error are one pseudo-terminal; its text is in `out`
};
/// False where the system gives no pseudo-terminals (a bare chroot): tests that need one are left out.
bool terminals_available();
ProgramResult run_binary(const std::vector<std::string>& arguments, const BinaryOptions& options = {});

/// A running copy of the real binary, to be sent signals. Its output is thrown away.
class BinaryProcess {
 public:
  explicit BinaryProcess(const std::vector<std::string>& arguments);
  ~BinaryProcess();  ///< kills it if it still runs
  BinaryProcess(const BinaryProcess&) = delete;
  BinaryProcess& operator=(const BinaryProcess&) = delete;
  void send(int signal_number) const;
  bool running();
  int wait();  ///< exit code, 128 + N after signal N

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool done_ = false;
};

/// Checks of a failed run: the exit code, nothing on stdout, one error line that holds every one of `parts`,
/// and at most one hint line.
void check_failure(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts);

/// All of a file.
std::string read_file(const std::string& path);

}  // namespace rope::test

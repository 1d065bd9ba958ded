#include "coprocess.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace rope::bench {

Coprocess::Coprocess(const std::string& command) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
    throw std::runtime_error("a pipe to \"" + command + "\" failed");
  signal(SIGPIPE, SIG_IGN);  // a program that ended early is an error of ask()
  child_ = fork();
  if (child_ < 0) throw std::runtime_error("starting \"" + command + "\" failed");
  if (child_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = fdopen(to[1], "w");
  from_ = fdopen(from[0], "r");
}

Coprocess::~Coprocess() {
  if (to_ != nullptr) std::fclose(to_);  // its standard input ends: it stops
  if (from_ != nullptr) std::fclose(from_);
  waitpid(child_, nullptr, 0);
}

std::string Coprocess::ask(const std::string& line) {
  std::fputs((line + "\n").c_str(), to_);
  std::fflush(to_);
  std::string answer;
  for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
    if (c == EOF) throw std::runtime_error("the baseline program ended without an answer");
    answer += static_cast<char>(c);
  }
  return answer;
}

}  // namespace rope::bench

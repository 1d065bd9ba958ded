#include "profiler/atomic_file.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "profiler/error.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using rope::test::TempDir;

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

ExitCode refusal(const std::string& path, bool force = false) {
  try {
    AtomicFile file(path, force);
  } catch (const UserError& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    return error.code();
  }
  return ExitCode::kDone;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("AtomicFile: nothing at the name until commit, everything after it") {
  TempDir folder;
  const std::string path = folder / "out.txt";
  {
    AtomicFile file(path, false);
    file.write("one ");
    file.write("two");
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(std::filesystem::path(file.partial_path()).parent_path() == folder.path());
    file.commit();
    CHECK(content(path) == "one two");
  }
  CHECK(files_in(folder.path()) == 1);
  struct stat status {};
  stat(path.c_str(), &status);
  const mode_t mask = umask(0);
  umask(mask);
  CHECK((status.st_mode & 0777) == (0666 & ~mask));
}

TEST_CASE("AtomicFile: without commit nothing is left") {
  TempDir folder;
  {
    AtomicFile file(folder / "out.txt", false);
    file.write("half");
    AtomicFile moved(std::move(file));
    moved.write("more");
    CHECK(content(moved.partial_path()) == "halfmore");
  }
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("AtomicFile: an existing file is replaced only by force, and keeps its permissions") {
  TempDir folder;
  const std::string path = folder / "out.txt";
  std::ofstream(path) << "old";
  CHECK(refusal(path) == ExitCode::kUsage);
  CHECK(content(path) == "old");
  chmod(path.c_str(), 0640);
  AtomicFile file(path, true);
  file.write("new");
  CHECK(content(path) == "old");
  file.commit();
  CHECK(content(path) == "new");
  struct stat status {};
  stat(path.c_str(), &status);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("AtomicFile: a file that appears meanwhile is not overwritten") {
  TempDir folder;
  const std::string path = folder / "out.txt";
  {
    AtomicFile file(path, false);
    file.write("ours");
    std::ofstream(path) << "theirs";
    CHECK_THROWS_AS(file.commit(), UserError);
  }
  CHECK(content(path) == "theirs");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("AtomicFile: folders and missing folders are refused at once") {
  TempDir folder;
  CHECK(refusal(folder.path().string(), true) == ExitCode::kUsage);
  CHECK(refusal(folder / "new/", true) == ExitCode::kUsage);
  CHECK(refusal(folder / "none/out.txt") == ExitCode::kInput);
  std::ofstream(folder / "plain") << "x";
  CHECK(refusal(folder / "plain/out.txt") == ExitCode::kInput);
  if (geteuid() != 0) {  // root may write anywhere
    std::filesystem::create_directory(folder / "locked");
    chmod((folder / "locked").c_str(), 0555);
    CHECK(refusal(folder / "locked/out.txt") == ExitCode::kInput);
    chmod((folder / "locked").c_str(), 0755);
  }
}

TEST_CASE("AtomicFile: links are followed, devices and pipes are written to") {
  TempDir folder;
  std::ofstream(folder / "target") << "old";
  std::filesystem::create_symlink("target", folder / "link");
  CHECK(refusal(folder / "link") == ExitCode::kUsage);
  {
    AtomicFile file(folder / "link", true);
    file.write("new");
    file.commit();
  }
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(content(folder / "target") == "new");
  std::filesystem::create_symlink("later", folder / "dangling");
  {
    AtomicFile file(folder / "dangling", false);
    file.write("made");
    file.commit();
  }
  CHECK(content(folder / "later") == "made");
  {
    AtomicFile file("/dev/null", false);
    file.write("gone");
    file.commit();
  }
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("AtomicFile: /dev/fd/N is that descriptor, at its own place in the file") {
  TempDir folder;
  FILE* sink = std::fopen((folder / "sink").c_str(), "w");
  std::fputs("before ", sink);
  std::fflush(sink);
  {
    AtomicFile file("/dev/fd/" + std::to_string(fileno(sink)), false);
    file.write("bytes");
    file.commit();
  }
  std::fclose(sink);
  CHECK(content(folder / "sink") == "before bytes");
}

TEST_CASE("AtomicFile: a scratch file lives in TMPDIR and vanishes") {
  TempDir folder;
  const char* old = std::getenv("TMPDIR");
  const std::string kept = old ? old : "";
  setenv("TMPDIR", folder.path().c_str(), 1);
  {
    AtomicFile file("", false);
    file.write("x");
    CHECK(files_in(folder.path()) == 1);
    file.commit();
  }
  CHECK(files_in(folder.path()) == 0);
  old ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

TEST_CASE("signals remove partial outputs and then kill") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    TempDir folder;
    const pid_t child = fork();
    if (child == 0) {
      signal(number, SIG_DFL);
      remove_partial_outputs_on_signals();
      AtomicFile first(folder / "a", false), second(folder / "b", false);
      first.write("x");
      raise(number);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK(files_in(folder.path()) == 0);
  }
}

TEST_SUITE_END();

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command_app.hpp"
#include "cli/help.hpp"
#include "cli/suggest.hpp"
#include "cli/text.hpp"
#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("cli");

using namespace rope::test;

namespace {

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    longest = std::max(longest, rope::cli::display_width(line));
  return longest;
}

}  // namespace

TEST_CASE("help names every command, the exit codes, and stays within its width") {
  const ProgramResult result = run_program({"--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(longest_line(result.out) <= 80);
  for (const auto& app : rope::cli::all_command_apps()) {
    CHECK(result.out.find("\n  " + app->command().name()) != std::string::npos);
    CHECK(result.out.find(app->command().group() + ":\n") != std::string::npos);
  }
  for (const char* code : {"0", "1", "2", "3", "4", "70"})
    CHECK(result.out.find(std::string("\n  ") + code + " ") != std::string::npos);
  CHECK(run_program({"-h"}).out == result.out);
  CHECK(run_program({"help"}).out == result.out);
}

TEST_CASE("every command has help with its options and an example") {
  for (const auto& app : rope::cli::all_command_apps()) {
    const std::string name = app->command().name();
    CAPTURE(name);
    const ProgramResult result = run_program({name, "--help"});
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(longest_line(result.out) <= 100);
    CHECK(result.out.find("Usage: rope-profiler " + name) != std::string::npos);
    CHECK(result.out.find("\nExample:\n  rope-profiler " + name) != std::string::npos);
    for (const char* option : {"-q, --quiet", "-v, --verbose", "--threads N", "-h, --help", "--version"})
      CHECK_MESSAGE(result.out.find(option) != std::string::npos, option);
    for (const auto& view : rope::cli::option_views(app->app())) {
      CHECK_MESSAGE(!view.description.empty(), view.synopsis());
      CHECK_MESSAGE(result.out.find(view.synopsis()) != std::string::npos, view.synopsis());
    }
    CHECK(run_program({"help", name}).out == result.out);
    CHECK(run_program({name, "--version"}).out == run_program({"--version"}).out);
    check_failure(run_program({name, "--no-such-option"}), 2, {name, "unknown option '--no-such-option'"});
    check_failure(run_program({name, "--threads", "0"}), 2, {name, "--threads"});
    check_failure(run_program({name, "--threads", "x"}), 2, {name, "--threads"});
    check_failure(run_program({name, "--threads", "1025"}), 2, {name, "--threads"});
  }
}

TEST_CASE("the example of every command works as typed from the repository root, in the order of the table") {
  const TempDir folder;  // stands for the repository, so that outputs do not land there
  std::filesystem::create_directory_symlink(ROPE_SOURCE_DIR "/examples", folder / "examples");
  std::filesystem::create_symlink(ROPE_PROGRAM, folder / "rope-profiler");
  for (const auto& app : rope::cli::all_command_apps()) {
    std::ofstream(folder / "script") << app->command().example() << "\n";
    const std::string command = "cd '" + folder.path().string() +
                                "' && PATH=\"$PWD:$PATH\" bash -e -o pipefail script > log 2>&1 < /dev/null";
    const int status = std::system(command.c_str());
    CHECK_MESSAGE(status == 0, app->command().example(), "\n", read_file(folder / "log"));
  }
}

TEST_CASE("the version goes to standard output") {
  const ProgramResult result = run_program({"--version"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == std::string("rope-profiler ") + ROPE_PROFILER_VERSION + "\n");
}

TEST_CASE("a wrong command line exits 2 with one line and a hint") {
  check_failure(run_program({"frobnicate"}), 2, {"unknown command 'frobnicate'"});
  check_failure(run_program({"--frobnicate"}), 2, {"unknown option '--frobnicate' before the command"});
  check_failure(run_program({"help", "frobnicate"}), 2, {"unknown command 'frobnicate'"});
  check_failure(run_program({""}), 2, {"unknown command ''"});
  check_failure(run_program({"evil\x1b[31m\n"}), 2, {"unknown command 'evil\\x1b[31m\\n'"});
  CHECK(run_program({"--versoin"}).err.find("hint: did you mean --version?\n") != std::string::npos);
}

TEST_CASE("no command at all shows the help on stderr and exits 2") {
  const ProgramResult result = run_program({});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.err == run_program({"--help"}).out);
}

TEST_CASE("near words are suggested, far ones are not") {
  using rope::cli::nearest;
  const std::vector<std::string> commands{"inspect", "profile", "rank", "export", "sample", "synth"};
  CHECK(nearest("porfile", commands) == std::vector<std::string>{"profile"});
  CHECK(nearest("ex", commands) == std::vector<std::string>{"export"});
  CHECK(nearest("rnak", commands) == std::vector<std::string>{"rank"});
  CHECK(nearest("zzzz", commands).empty());
  CHECK(nearest("", commands).empty());
  CHECK(nearest(std::string(100000, 'a'), commands).empty());
  CHECK(nearest("--theads", {"--threads", "--trust"}) == std::vector<std::string>{"--threads"});
}

TEST_CASE("the binary ends quietly when its reader goes away") {
  BinaryOptions options;
  options.close_out_early = true;
  const ProgramResult result = run_binary({"--help"}, options);
  CHECK(result.exit_code == 141);
  CHECK(result.err.empty());
}

TEST_CASE("a full disk behind standard output is an error") {
  BinaryOptions options;
  options.out_path = "/dev/full";
  check_failure(run_binary({"--help"}, options), 3, {"standard output", "No space left on device"});
}

TEST_CASE("an unknown instruction set in the environment is a usage error") {
  BinaryOptions options;
  options.environment = {"ROPE_PROFILER_SIMD=ABACUS"};
  check_failure(run_binary({"sample", "x", "-o", "-"}, options), 2, {"ABACUS"});
}

TEST_CASE("the binary prints what the program prints") {
  CHECK(run_binary({"--help"}).out == run_program({"--help"}).out);
  CHECK(run_binary({"frobnicate"}).err == run_program({"frobnicate"}).err);
}

TEST_CASE("errors are in colour only on a terminal") {
  if (!terminals_available()) {
    MESSAGE("left out: no pseudo-terminals here");
    return;
  }
  BinaryOptions options;
  options.terminal = true;
  options.environment = {"TERM=xterm", "NO_COLOR="};
  CHECK(run_binary({"frobnicate"}, options).out.find("\x1b[31merror: \x1b[0m") != std::string::npos);
  options.environment = {"TERM=xterm", "NO_COLOR=1"};
  CHECK(run_binary({"frobnicate"}, options).out.find('\x1b') == std::string::npos);
  options.environment = {"TERM=dumb", "NO_COLOR="};
  CHECK(run_binary({"frobnicate"}, options).out.find('\x1b') == std::string::npos);
}

TEST_SUITE_END();

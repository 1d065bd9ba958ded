#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace rope::cli {

/// Group of the options that every command has.
inline constexpr const char* kCommonGroup = "Common options";

/// A command with its parser: its own options plus those that every command has.
class CommandApp {
 public:
  explicit CommandApp(std::unique_ptr<Command> command);
  CommandApp(const CommandApp&) = delete;  // the parser points into this object
  CommandApp& operator=(const CommandApp&) = delete;

  Command& command() { return *command_; }
  const Command& command() const { return *command_; }
  CLI::App& app() { return app_; }
  const CLI::App& app() const { return app_; }
  bool quiet() const { return quiet_; }
  bool verbose() const { return verbose_; }
  int threads() const;  ///< --threads, or what OpenMP would use

 private:
  std::unique_ptr<Command> command_;
  CLI::App app_;
  bool quiet_ = false, verbose_ = false;
  int threads_ = 0;
};

/// The command table, ready to parse, document and complete.
std::vector<std::unique_ptr<CommandApp>> all_command_apps();

/// One option or argument as help, manual and completions show it.
struct OptionView {
  std::vector<std::string> names;    ///< "-o", "--output"; empty for an argument
  std::string argument;              ///< name of an argument, e.g. "FILE"
  std::string value;                 ///< placeholder, "FILE", "N", "auto|cpu|cuda"; empty for a flag
  std::vector<std::string> choices;  ///< all values, where they are a closed list
  std::string description, fallback, group;
  bool takes_file = false, takes_folder = false, repeated = false, required = false;

  bool is_argument() const { return names.empty(); }
  std::string synopsis() const;  ///< "-o, --output FILE", "FILE..."
};

/// What an App offers, in the order it was added; hidden options (group "") are left out.
std::vector<OptionView> option_views(const CLI::App& app);

/// "rope-profiler NAME [options] FILE..."
std::string usage_line(const CommandApp& command);

}  // namespace rope::cli

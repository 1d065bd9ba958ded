#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.hpp"

namespace rope::cli {

/// Headings of the list of commands.
inline constexpr const char* kMainGroup = "From caches to a ranking";
inline constexpr const char* kChangeGroup = "From a ranking to a measured change";
inline constexpr const char* kTheoryGroup = "The papers' theory on a model";
inline constexpr const char* kInputGroup = "Making inputs";
inline constexpr const char* kMachineGroup = "This machine";

/// One command: its options (which are also its help, manual and completions) and its work.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string group() const { return kMainGroup; }  ///< heading in the list of commands
  virtual std::string summary() const = 0;                  ///< one line, lower case, no full stop
  virtual std::string details() const = 0;                  ///< paragraphs for --help and the manual
  virtual std::string example() const = 0;  ///< a command line that works as typed from the repository root
  /// Placeholders are type names: FILE and DIR are completed as such, N and X are numbers. A closed list of
  /// values: check(CLI::IsMember(...)), or a type name "a|b|c"; parts in capitals ("top:F") are no values.
  /// Whether a file can be read is for run() to find (exit 3): no CLI::ExistingFile here.
  virtual void add_options(CLI::App& app) = 0;
  /// Exit code 0 or 1; everything else is a UserError.
  virtual int run(Console& console, int threads) = 0;
};

/// One maker per command, in the order of help. Defined in command_<name>.cpp.
std::unique_ptr<Command> make_inspect();
std::unique_ptr<Command> make_profile();
std::unique_ptr<Command> make_rank();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_apply();
std::unique_ptr<Command> make_outcome();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_audit();
std::unique_ptr<Command> make_band();
std::unique_ptr<Command> make_bound();
std::unique_ptr<Command> make_trace();
std::unique_ptr<Command> make_adarope();
std::unique_ptr<Command> make_length();
std::unique_ptr<Command> make_export();
std::unique_ptr<Command> make_sample();
std::unique_ptr<Command> make_synth();
std::unique_ptr<Command> make_devices();

/// The command table.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace rope::cli

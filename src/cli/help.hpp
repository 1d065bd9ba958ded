#pragma once

#include <cstddef>
#include <string>

#include "cli/command_app.hpp"

namespace rope::cli {

/// What a person reads on a terminal; lines of at most `width` columns wherever words allow.
std::string program_help(const std::vector<std::unique_ptr<CommandApp>>& commands, std::size_t width);
std::string command_help(const CommandApp& command, std::size_t width);

/// What the program is, in one line and in a paragraph.
extern const char* const kProgramSummary;
extern const char* const kProgramDetails;

/// (code, meaning) of every exit code, for help, manual and reference.
const std::vector<std::pair<std::string, std::string>>& exit_code_list();
/// (variable, effect) of the environment variables that matter.
const std::vector<std::pair<std::string, std::string>>& environment_list();

}  // namespace rope::cli

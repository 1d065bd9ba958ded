#include "cli/command.hpp"

namespace rope::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  return commands;
}

}  // namespace rope::cli

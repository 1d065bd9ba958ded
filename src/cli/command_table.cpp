#include "cli/command.hpp"

namespace rope::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_inspect());
  commands.push_back(make_profile());
  commands.push_back(make_rank());
  commands.push_back(make_plan());
  commands.push_back(make_apply());
  commands.push_back(make_outcome());
  commands.push_back(make_compare());
  commands.push_back(make_audit());
  commands.push_back(make_band());
  commands.push_back(make_bound());
  commands.push_back(make_trace());
  commands.push_back(make_adarope());
  commands.push_back(make_length());
  commands.push_back(make_export());
  commands.push_back(make_sample());
  commands.push_back(make_synth());
  commands.push_back(make_devices());
  return commands;
}

}  // namespace rope::cli

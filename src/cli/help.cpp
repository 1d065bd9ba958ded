#include "cli/help.hpp"

#include <algorithm>

#include "cli/text.hpp"

namespace rope::cli {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// "  left    right ..." with the right side wrapped beside a left column of at most `most` columns.
void add_two_columns(std::string& text, const Pairs& pairs, std::size_t width, std::size_t most) {
  std::size_t left = 0;
  for (const auto& [name, meaning] : pairs)
    if (display_width(name) <= most) left = std::max(left, display_width(name));
  const std::size_t indent = 2 + left + 2;
  for (const auto& [name, meaning] : pairs) {
    std::string line = "  " + name;
    bool first = display_width(name) <= left;
    if (!first) text += line + "\n";
    for (const std::string& part : wrap_text(meaning, width - indent)) {
      if (!first) line.clear();
      line.append(indent - display_width(line), ' ');
      text += line + part + "\n";
      first = false;
    }
  }
}

void add_paragraphs(std::string& text, const std::string& paragraphs, std::size_t width) {
  for (const std::string& line : wrap_text(paragraphs, width)) text += line + "\n";
}

std::string full_description(const OptionView& view) {
  std::string text = view.description;
  if (!view.fallback.empty()) text += " [default: " + view.fallback + "]";
  return text;
}

}  // namespace

const char* const kProgramSummary = "how robust are a model's attention scores to position?";
const char* const kProgramDetails =
    "Reads cached query and key vectors of a language model with rotary position embeddings (HDF5), computes "
    "how strongly its attention scores depend on position and on content, and ranks benchmark tasks by "
    "their susceptibility.";

const Pairs& exit_code_list() {
  static const Pairs list{{"0", "done"},
                          {"1", "a requested check said no"},
                          {"2", "the command line is wrong"},
                          {"3", "a file cannot be read or written, or does not fit in memory"},
                          {"4", "the compute device is missing, lost or out of memory"},
                          {"70", "an internal error: please report it"},
                          {"141", "the reader of standard output went away (head, less)"}};
  return list;
}

const Pairs& environment_list() {
  static const Pairs list{
      {"NO_COLOR", "set and not empty: no colour"},
      {"TERM", "dumb: no colour and no progress line"},
      {"ROPE_PROFILER_SIMD", "instruction set to use, one that `devices` lists; auto = the best"},
      {"OMP_NUM_THREADS", "threads to compute with where --threads does not say"}};
  return list;
}

std::string program_help(const std::vector<std::unique_ptr<CommandApp>>& commands, std::size_t width) {
  std::string text = std::string("rope-profiler - ") + kProgramSummary + "\n\n";
  text += "Usage: rope-profiler COMMAND [options] [files]\n\n";
  add_paragraphs(text, kProgramDetails, width);
  std::vector<std::string> groups;
  for (const auto& command : commands)
    if (std::find(groups.begin(), groups.end(), command->command().group()) == groups.end())
      groups.push_back(command->command().group());
  for (const std::string& group : groups) {
    text += "\n" + group + ":\n";
    Pairs pairs;
    for (const auto& command : commands)
      if (command->command().group() == group)
        pairs.emplace_back(command->command().name(), command->command().summary());
    add_two_columns(text, pairs, width, 12);
  }
  text += "\nOptions:\n";
  add_two_columns(text, {{"-h, --help", "print this help"}, {"--version", "print the version"}}, width, 24);
  text += "\nExit codes:\n";
  add_two_columns(text, exit_code_list(), width, 24);
  text += "\nEnvironment:\n";
  add_two_columns(text, environment_list(), width, 24);
  return text + "\n`rope-profiler COMMAND --help` explains a command, with an example.\n";
}

std::string command_help(const CommandApp& command, std::size_t width) {
  const Command& c = command.command();
  std::string text = "rope-profiler " + c.name() + " - " + c.summary() + "\n\n";
  text += "Usage: " + usage_line(command) + "\n\n";
  add_paragraphs(text, c.details(), width);

  const std::vector<OptionView> views = option_views(command.app());
  const auto section = [&](const std::string& title, auto belongs) {
    Pairs pairs;
    for (const OptionView& view : views)
      if (belongs(view)) pairs.emplace_back(view.synopsis(), full_description(view));
    if (pairs.empty()) return;
    text += "\n" + title + ":\n";
    add_two_columns(text, pairs, width, 26);
  };
  section("Arguments", [](const OptionView& v) { return v.is_argument(); });
  std::vector<std::string> groups;
  for (const OptionView& view : views)
    if (!view.is_argument() && std::find(groups.begin(), groups.end(), view.group) == groups.end())
      groups.push_back(view.group);
  for (const std::string& group : groups)
    section(group, [&](const OptionView& v) { return !v.is_argument() && v.group == group; });

  text += "\nExample:\n";
  for (const std::string& line : wrap_text(c.example(), 1000)) text += "  " + line + "\n";
  return text;
}

}  // namespace rope::cli

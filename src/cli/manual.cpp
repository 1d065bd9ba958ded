#include "cli/generate.hpp"
#include "cli/help.hpp"

namespace rope::cli {
namespace {

/// Text that troff shows as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string full_description(const OptionView& view) {
  std::string text = view.description;
  if (view.required && !view.is_argument()) text += " (required)";
  if (!view.fallback.empty()) text += " [default: " + view.fallback + "]";
  return text;
}

void roff_paragraphs(std::string& page, const std::string& details) {
  for (const Paragraph& paragraph : paragraphs(details)) {
    page += paragraph.verbatim ? ".PP\n.nf\n" : ".PP\n";
    std::string line;
    for (const char c : paragraph.text + "\n") {
      if (c != '\n') {
        line += c;
        continue;
      }
      page += roff(line) + "\n";
      line.clear();
    }
    if (paragraph.verbatim) page += ".fi\n";
  }
}

void roff_list(std::string& page, const std::vector<std::pair<std::string, std::string>>& list) {
  for (const auto& [name, meaning] : list) page += ".TP\n.B " + roff(name) + "\n" + roff(meaning) + "\n";
}

/// Text in a cell of a markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') out += '\\';
    out += c;
  }
  return out;
}

/// `text` as code in a cell; a bar still needs its backslash there.
std::string code_cell(const std::string& text) {
  std::string out = "`";
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out + "`";
}

std::string markdown_command(const CommandApp& app) {
  const Command& command = app.command();
  std::string text =
      "\n## " + command.name() + "\n\n" + command.summary() + "\n\n    " + usage_line(app) + "\n";
  for (const Paragraph& paragraph : paragraphs(command.details())) {
    text += '\n';
    text += paragraph.verbatim ? "```\n" + paragraph.text + "\n```\n" : paragraph.text + "\n";
  }
  text += "\n| option | meaning |\n|---|---|\n";
  for (const OptionView& view : option_views(app.app()))
    if (view.group != kCommonGroup)
      text += "| " + code_cell(view.synopsis()) + " | " + cell(full_description(view)) + " |\n";
  return text + "\nExample:\n\n```\n" + command.example() + "\n```\n";
}

}  // namespace

std::vector<Paragraph> paragraphs(std::string_view details) {
  std::vector<Paragraph> list;
  while (!details.empty()) {
    const std::size_t end = details.find("\n\n");
    std::string_view text = details.substr(0, end);
    details.remove_prefix(end == std::string_view::npos ? details.size() : end + 2);
    while (!text.empty() && (text.front() == '\n' || text.back() == '\n')) {
      if (text.front() == '\n') text.remove_prefix(1);
      if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    }
    if (!text.empty()) list.push_back({std::string(text), text.front() == ' '});
  }
  return list;
}

std::string man_page(const std::vector<std::unique_ptr<CommandApp>>& commands) {
  std::string page = std::string(".TH ROPE\\-PROFILER 1 \"\" \"rope\\-profiler ") + ROPE_PROFILER_VERSION +
                     "\" \"User Commands\"\n";
  page += std::string(".SH NAME\nrope\\-profiler \\- ") + roff(kProgramSummary) + "\n";
  page += ".SH SYNOPSIS\n.B rope\\-profiler\n.I COMMAND\n[options] [files]\n";
  page += std::string(".SH DESCRIPTION\n") + roff(kProgramDetails) + "\n";
  for (const auto& app : commands) {
    const Command& command = app->command();
    page += ".SH \"" + roff(command.name()) + "\"\n" + roff(command.summary()) + "\n.PP\n.B " +
            roff(usage_line(*app)) + "\n";
    roff_paragraphs(page, command.details());
    for (const OptionView& view : option_views(app->app()))
      if (view.group != kCommonGroup) roff_list(page, {{view.synopsis(), full_description(view)}});
    page += ".PP\nExample:\n.PP\n.nf\n" + roff(command.example()) + "\n.fi\n";
  }
  page += ".SH \"COMMON OPTIONS\"\n";
  if (!commands.empty())
    for (const OptionView& view : option_views(commands[0]->app()))
      if (view.group == kCommonGroup) roff_list(page, {{view.synopsis(), full_description(view)}});
  page += ".SH \"EXIT STATUS\"\n";
  roff_list(page, exit_code_list());
  page += ".SH ENVIRONMENT\n";
  roff_list(page, environment_list());
  return page;
}

std::string markdown_reference(const std::vector<std::unique_ptr<CommandApp>>& commands) {
  std::string text =
      "<!-- Made by `rope-profiler --generate markdown`; a test compares it. Do not edit. -->\n"
      "# Command reference\n\n    rope-profiler COMMAND [options] [files]\n\n";
  text += std::string(kProgramDetails) + "\n\n| command | job |\n|---|---|\n";
  for (const auto& app : commands) {
    const std::string name = app->command().name();
    text += "| [`" + name + "`](#" + name + ") | " + cell(app->command().summary()) + " |\n";
  }
  text += "\nEvery command takes:\n\n| option | meaning |\n|---|---|\n";
  if (!commands.empty())
    for (const OptionView& view : option_views(commands[0]->app()))
      if (view.group == kCommonGroup)
        text += "| " + code_cell(view.synopsis()) + " | " + cell(full_description(view)) + " |\n";
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const auto& [code, meaning] : exit_code_list()) text += "| " + code + " | " + cell(meaning) + " |\n";
  text += "\n| environment | effect |\n|---|---|\n";
  for (const auto& [name, effect] : environment_list()) text += "| `" + name + "` | " + cell(effect) + " |\n";
  for (const auto& app : commands) text += markdown_command(*app);
  return text;
}

}  // namespace rope::cli

#include <algorithm>

#include "cli/generate.hpp"
#include "cli/suggest.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

using Commands = std::vector<std::unique_ptr<CommandApp>>;

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// `text` inside single quotes of a shell; in fish a backslash escapes, elsewhere the quote must be closed.
std::string quoted(const std::string& text, const std::string& escaped_quote) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? escaped_quote : std::string(1, c);
  return out + "'";
}

bool takes_files(const CommandApp& command) {
  const auto views = option_views(command.app());
  return std::any_of(views.begin(), views.end(),
                     [](const OptionView& v) { return v.is_argument() && v.takes_file; });
}

// ---- bash --------------------------------------------------------------------------------------

/// One arm of `case $previous`: how the value of an option is completed.
std::string bash_value(const OptionView& view) {
  std::string action;  // a value that only the user knows: nothing is offered
  if (!view.choices.empty())
    action = "COMPREPLY=($(compgen -W '" + joined(view.choices, " ") + "' -- \"$current\")); ";
  else if (view.takes_file)
    action = "_rope_profiler_files; ";
  else if (view.takes_folder)
    action = "COMPREPLY=($(compgen -d -- \"$current\")); ";
  return "        " + joined(view.names, "|") + ") " + action + "return ;;\n";
}

std::string bash_command(const CommandApp& command) {
  std::vector<std::string> names;
  std::string values;
  for (const OptionView& view : option_views(command.app())) {
    names.insert(names.end(), view.names.begin(), view.names.end());
    if (!view.is_argument() && !view.value.empty()) values += bash_value(view);
  }
  std::string text = "    " + command.command().name() + ")\n";
  if (!values.empty()) text += "      case \"$previous\" in\n" + values + "      esac\n";
  text += "      options='" + joined(names, " ") + "'\n";
  if (takes_files(command)) text += "      files=yes\n";
  return text + "      ;;\n";
}

// ---- zsh ---------------------------------------------------------------------------------------

std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const OptionView& view) {
  std::string value;
  if (view.is_argument() || !view.value.empty()) {
    value = ":" + zsh_text(view.is_argument() ? view.argument : view.value) + ":";
    if (!view.choices.empty())
      value += "(" + joined(view.choices, " ") + ")";
    else if (view.takes_file)
      value += "_files";
    else if (view.takes_folder)
      value += "_files -/";
    else
      value += " ";
  }
  if (view.is_argument()) return quoted((view.repeated ? "*" : "") + value, "'\\''");
  const std::string rest = "[" + zsh_text(view.description) + "]" + value;
  const std::string all = joined(view.names, " ");
  if (view.names.size() == 1) return quoted((view.repeated ? "*" : "") + view.names[0] + rest, "'\\''");
  // Several names: one spec each, excluding one another unless the option may be repeated.
  const std::string prefix = view.repeated ? "'*'" : "'(" + all + ")'";
  return prefix + "{" + joined(view.names, ",") + "}" + quoted(rest, "'\\''");
}

// ---- fish --------------------------------------------------------------------------------------

std::string fish_option(const std::string& command, const OptionView& view) {
  const std::string when = "complete -c rope-profiler -n '__fish_seen_subcommand_from " + command + "'";
  if (view.is_argument()) return view.takes_file ? when + " -F\n" : "";
  std::string text = when;
  for (const std::string& name : view.names)
    text += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!view.choices.empty())
    text += " -x -a '" + joined(view.choices, " ") + "'";
  else if (view.takes_file || view.takes_folder)
    text += " -r -F";
  else if (!view.value.empty())
    text += " -x";
  return text + " -d " + quoted(view.description, "\\'") + "\n";
}

}  // namespace

std::string bash_completion(const Commands& commands) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command->command().name());
  std::string text =
      "# bash completion for rope-profiler; made by `rope-profiler --generate bash`\n"
      "_rope_profiler_files() {\n"
      "  local IFS=$'\\n'  # names may hold spaces\n"
      "  COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  compopt -o filenames 2>/dev/null || true\n"
      "}\n"
      "_rope_profiler() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local options='' files='' IFS=$' \\n'\n"
      "  COMPREPLY=()\n"
      "  # --option=value arrives as three words.\n"
      "  if [[ $current == = ]]; then\n"
      "    current=''\n"
      "  elif [[ $previous == = ]]; then\n"
      "    previous=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
      "  fi\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      joined(names, " ") +
      " --help --version' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${COMP_WORDS[1]}\" in\n";
  for (const auto& command : commands) text += bash_command(*command);
  return text +
         "  esac\n"
         "  if [[ $current == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
         "  elif [[ -n $files ]]; then\n"
         "    _rope_profiler_files\n"
         "  fi\n"
         "}\n"
         "complete -F _rope_profiler rope-profiler\n";
}

std::string zsh_completion(const Commands& commands) {
  std::string text =
      "#compdef rope-profiler\n"
      "# zsh completion for rope-profiler; made by `rope-profiler --generate zsh`\n"
      "_rope-profiler() {\n"
      "  local curcontext=\"$curcontext\" state line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C '(- *)'{-h,--help}'[print help]' '(- *)--version[print the version]' \\\n"
      "    '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "  command)\n"
      "    local -a commands\n"
      "    commands=(\n";
  for (const auto& command : commands)
    text += "      " +
            quoted(command->command().name() + ":" + zsh_text(command->command().summary()), "'\\''") + "\n";
  text +=
      "    )\n"
      "    _describe command commands\n"
      "    ;;\n"
      "  argument)\n"
      "    case $line[1] in\n";
  for (const auto& command : commands) {
    text += "    " + command->command().name() + ")\n      _arguments -s";
    for (const OptionView& view : option_views(command->app())) text += " \\\n        " + zsh_option(view);
    text += "\n      ;;\n";
  }
  return text +
         "    esac\n"
         "    ;;\n"
         "  esac\n"
         "}\n"
         "# Run when loaded by compinit; defined only, when sourced.\n"
         "if [[ ${funcstack[1]} == _rope-profiler ]]; then\n"
         "  _rope-profiler \"$@\"\n"
         "else\n"
         "  compdef _rope-profiler rope-profiler\n"
         "fi\n";
}

std::string fish_completion(const Commands& commands) {
  std::string text =
      "# fish completion for rope-profiler; made by `rope-profiler --generate fish`\n"
      "complete -c rope-profiler -f\n"
      "complete -c rope-profiler -n __fish_use_subcommand -s h -l help -d 'print help'\n"
      "complete -c rope-profiler -n __fish_use_subcommand -l version -d 'print the version'\n";
  for (const auto& command : commands)
    text += "complete -c rope-profiler -n __fish_use_subcommand -a " + command->command().name() + " -d " +
            quoted(command->command().summary(), "\\'") + "\n";
  for (const auto& command : commands)
    for (const OptionView& view : option_views(command->app()))
      text += fish_option(command->command().name(), view);
  return text;
}

std::string generate(const std::string& kind, const Commands& commands) {
  if (kind == "man") return man_page(commands);
  if (kind == "markdown") return markdown_reference(commands);
  if (kind == "bash") return bash_completion(commands);
  if (kind == "zsh") return zsh_completion(commands);
  if (kind == "fish") return fish_completion(commands);
  const std::vector<std::string> kinds{"man", "markdown", "bash", "zsh", "fish"};
  throw usage_error("--generate: unknown kind '" + kind + "'",
                    did_you_mean(kind, kinds, "the kinds are " + joined(kinds, ", ")));
}

}  // namespace rope::cli

#include "cli/command_app.hpp"

#include <omp.h>

#include <algorithm>

namespace rope::cli {
namespace {

constexpr int kMostThreads = 1024;

/// Values of "{a,b,c}" (CLI::IsMember) or "a|b|c" (a type name).
std::vector<std::string> closed_list(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.rfind('}');
  const bool braces = open != std::string::npos && close != std::string::npos && open < close;
  if (!braces && type.find('|') == std::string::npos) return {};
  const std::string list = braces ? type.substr(open + 1, close - open - 1) : type;
  std::vector<std::string> values(1);
  for (const char c : list) {
    if (c == (braces ? ',' : '|'))
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

/// "top:F" or "LAYER.HEAD" in a list stands for something: the list is a hint, not all there is.
bool is_literal(const std::string& value) {
  return std::none_of(value.begin(), value.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string value_label(const std::string& type, const std::vector<std::string>& list) {
  if (!list.empty()) {
    std::string joined;
    for (const std::string& value : list) joined += (joined.empty() ? "" : "|") + value;
    return joined;
  }
  std::string head = type.substr(0, type.find(':'));
  if (head == "INT" || head == "UINT") return "N";
  if (head == "FLOAT") return "X";
  return head;
}

// Longer lists of choices stand in the description, where lines can break.
constexpr std::size_t kWidestChoices = 70;

OptionView view_of(const CLI::Option& option) {
  OptionView view;
  for (const std::string& name : option.get_snames()) view.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) view.names.push_back("--" + name);
  const bool flag = option.get_items_expected_max() == 0;
  const std::string type = option.get_type_name();
  if (!flag) {
    const auto list = closed_list(type);
    view.value = value_label(type, list);
    std::copy_if(list.begin(), list.end(), std::back_inserter(view.choices), is_literal);
  }
  if (view.names.empty()) view.argument = option.get_name(true);
  view.takes_file = type.find("FILE") != std::string::npos || view.argument.find("FILE") != std::string::npos;
  view.takes_folder = type.find("DIR") != std::string::npos;
  view.repeated = option.get_items_expected_max() > 1;
  view.required = option.get_required();
  view.description = option.get_description();
  if (view.value.size() > kWidestChoices && !view.choices.empty()) {
    view.value = "NAME";
    for (std::size_t i = 0; i < view.choices.size(); ++i)
      view.description += (i == 0 ? ": " : ", ") + view.choices[i];
  }
  view.fallback = option.get_default_str();
  view.group = option.get_group();
  return view;
}

}  // namespace

CommandApp::CommandApp(std::unique_ptr<Command> command)
    : command_(std::move(command)), app_(command_->summary(), command_->name()) {
  app_.set_help_flag();
  command_->add_options(app_);
  const std::string common = kCommonGroup;
  app_.add_flag("-q,--quiet", quiet_, "no progress and no notes; warnings and errors stay")->group(common);
  app_.add_flag("-v,--verbose", verbose_, "say on stderr what is being done")->group(common);
  app_.add_option("--threads", threads_,
                  "threads to compute with (default: all cores that this process may use); results do not "
                  "depend on it")
      ->check(CLI::Range(1, kMostThreads))
      ->type_name("N")
      ->group(common);
  app_.set_help_flag("-h,--help", "print this help")->group(common);
  app_.set_version_flag("--version", ROPE_PROFILER_VERSION, "print the version")->group(common);
}

int CommandApp::threads() const { return threads_ > 0 ? threads_ : omp_get_max_threads(); }

std::vector<std::unique_ptr<CommandApp>> all_command_apps() {
  std::vector<std::unique_ptr<CommandApp>> apps;
  for (auto& command : all_commands()) apps.push_back(std::make_unique<CommandApp>(std::move(command)));
  return apps;
}

std::string OptionView::synopsis() const {
  if (is_argument()) return argument + (repeated ? "..." : "");
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return value.empty() ? text : text + " " + value;
}

std::vector<OptionView> option_views(const CLI::App& app) {
  std::vector<OptionView> views;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) views.push_back(view_of(*option));
  return views;
}

std::string usage_line(const CommandApp& command) {
  std::string text = "rope-profiler " + command.command().name() + " [options]";
  for (const OptionView& view : option_views(command.app())) {
    if (!view.required && !view.is_argument()) continue;
    // A long list of choices stays in the list of options.
    const std::string value = view.value.size() > 24 ? "VALUE" : view.value;
    const std::string name = view.is_argument() ? view.synopsis() : view.names[0] + " " + value;
    text += view.required ? " " + name : " [" + name + "]";
  }
  return text;
}

}  // namespace rope::cli

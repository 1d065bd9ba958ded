#include "cli/run_cli.hpp"

#include <omp.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <ostream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "cli/command_app.hpp"
#include "cli/generate.hpp"
#include "cli/help.hpp"
#include "cli/standard_output.hpp"
#include "cli/suggest.hpp"
#include "profiler/error.hpp"
#include "spectral/backend.hpp"
#include "spectral/simd_targets.hpp"

namespace rope::cli {
namespace {

using Commands = std::vector<std::unique_ptr<CommandApp>>;
constexpr int kClosedPipe = 141;  // what a shell shows for a filter that SIGPIPE ended

/// Help never needs more than this; and a file or a pipe gets the same text everywhere.
std::size_t help_width(const Streams& streams) {
  return streams.out_is_terminal ? static_cast<std::size_t>(std::clamp(streams.width, 60, 100)) : 80;
}

std::vector<std::string> command_names(const Commands& commands) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command->command().name());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

CommandApp& find_command(const Commands& commands, const std::string& name) {
  for (const auto& command : commands)
    if (command->command().name() == name) return *command;
  const std::vector<std::string> names = command_names(commands);
  if (!name.empty() && name[0] == '-')
    throw usage_error("unknown option '" + name + "' before the command",
                      did_you_mean(name, {"--help", "--version"}, "options follow the command's name"));
  throw usage_error("unknown command '" + name + "'",
                    did_you_mean(name, names, "the commands are " + joined(names)));
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

/// The first argument that the parser could not place.
UserError unknown_argument(CommandApp& command, const std::string& fallback) {
  const std::string name = command.command().name();
  const std::string help = "`rope-profiler " + name + " --help` lists the options";
  const std::vector<std::string> remaining = command.app().remaining();
  if (remaining.empty()) return usage_error(name + ": " + fallback, help);
  const auto dashed = std::find_if(remaining.begin(), remaining.end(), is_option);
  if (dashed == remaining.end())
    return usage_error(name + ": unexpected argument '" + remaining[0] + "'", help);
  const std::string word = dashed->substr(0, dashed->find('='));
  std::vector<std::string> known;
  for (const OptionView& view : option_views(command.app()))
    known.insert(known.end(), view.names.begin(), view.names.end());
  return usage_error(name + ": unknown option '" + word + "'", did_you_mean(word, known, help));
}

/// Turns what CLI11 found into our one line. Parse order: argv[1...] after the command's name.
void parse(CommandApp& command, std::vector<std::string> arguments) {
  const std::string name = command.command().name();
  const std::string help = "`rope-profiler " + name + " --help` explains the options";
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    command.app().parse(std::move(arguments));
    for (const CLI::Option* option : command.app().get_options())
      for (const std::string& value : option->results())  // an unset variable of a script, most likely
        if (value.empty()) throw usage_error(name + ": " + option->get_name() + ": the value is empty", help);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ExtrasError& error) {
    throw unknown_argument(command, error.what());
  } catch (const CLI::RequiredError& error) {
    // An unknown option explains a missing one better than the missing one itself.
    const std::vector<std::string> remaining = command.app().remaining();
    if (std::any_of(remaining.begin(), remaining.end(), is_option))
      throw unknown_argument(command, error.what());
    throw usage_error(name + ": " + error.what(), "usage: " + usage_line(command));
  } catch (const CLI::ParseError& error) {
    throw usage_error(name + ": " + error.what(), help);
  }
}

/// OpenMP ends the program when the system refuses a thread; so many more than there are cores are tried out.
void require_threads(int count) {
  if (count <= static_cast<int>(std::thread::hardware_concurrency())) return;
  std::mutex all_there;
  std::vector<std::thread> threads;
  bool refused = false;
  {
    const std::lock_guard hold(all_there);
    try {
      for (int t = 0; t < count; ++t) threads.emplace_back([&] { const std::lock_guard wait(all_there); });
    } catch (const std::system_error&) {
      refused = true;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (refused)
    throw usage_error("--threads " + std::to_string(count) + ": the system allows only " +
                          std::to_string(threads.size()) + " more threads",
                      "ask for fewer; more than the cores gain nothing");
}

int run_command(CommandApp& command, const std::vector<std::string>& arguments, const Streams& streams) {
  try {
    parse(command, arguments);
  } catch (const CLI::CallForVersion&) {
    *streams.out << "rope-profiler " << ROPE_PROFILER_VERSION << '\n';
    return 0;
  } catch (const CLI::Success&) {
    *streams.out << command_help(command, help_width(streams));
    return 0;
  }
  if (command.quiet() && command.verbose())
    throw usage_error(command.command().name() + ": --quiet and --verbose exclude each other");
  try {
    spectral::obey_simd_environment();
  } catch (const std::invalid_argument& error) {
    throw usage_error(error.what(), "unset ROPE_PROFILER_SIMD to use the best one");
  }
  Console console(streams, command.quiet(), command.verbose());
  require_threads(command.threads());
  omp_set_num_threads(command.threads());
  return command.command().run(console, command.threads());
}

int dispatch(const std::vector<std::string>& arguments, const Streams& streams) {
  const Commands commands = all_command_apps();
  if (arguments.empty()) {
    *streams.err << program_help(commands, help_width(streams));
    return static_cast<int>(ExitCode::kUsage);
  }
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  const std::string& first = arguments[0];
  if (first == "--version") {
    *streams.out << "rope-profiler " << ROPE_PROFILER_VERSION << '\n';
    return 0;
  }
  if (first == "--generate") {  // for the build: manual, reference and completions from the command table
    if (rest.size() != 1) throw usage_error("--generate takes one of man, markdown, bash, zsh, fish");
    *streams.out << generate(rest[0], commands);
    return 0;
  }
  const bool asks_help = first == "--help" || first == "-h" || first == "help";
  if (asks_help && rest.empty()) {
    *streams.out << program_help(commands, help_width(streams));
    return 0;
  }
  if (asks_help) {
    *streams.out << command_help(find_command(commands, rest[0]), help_width(streams));
    return 0;
  }
  return run_command(find_command(commands, first), rest, streams);
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments, const Streams& streams) {
  const auto fail = [&](const std::string& message, const std::string& hint, ExitCode code) {
    print_error(streams, message, hint);
    return static_cast<int>(code);
  };
  try {
    const int code = dispatch(arguments, streams);
    streams.out->flush();
    return code;
  } catch (const OutputError& error) {
    return error.closed_pipe() ? kClosedPipe : fail(error.what(), {}, ExitCode::kInput);
  } catch (const UserError& error) {
    return fail(error.what(), error.hint(), error.code());
  } catch (const spectral::DeviceError& error) {
    return fail(error.what(), "`rope-profiler devices` says what can be used", ExitCode::kDevice);
  } catch (const std::bad_alloc&) {
    // Not a bug of ours and no device: this input does not fit this machine.
    return fail("out of memory", "fewer --threads need less; close other programs or use a larger machine",
                ExitCode::kInput);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(),
                "please report this, with the command line and the version (rope-profiler --version)",
                ExitCode::kInternal);
  }
}

}  // namespace rope::cli

#include "cli/run_cli.hpp"

#include "cli/command.hpp"
#include "profiler/error.hpp"

namespace rope::cli {

int run_cli(const std::vector<std::string>& arguments, const Streams& streams) {
  for (auto& command : all_commands())
    if (!arguments.empty() && arguments[0] == command->name()) return 0;
  *streams.err << "rope-profiler: error: unknown command\n";
  return static_cast<int>(ExitCode::kUsage);
}

}  // namespace rope::cli

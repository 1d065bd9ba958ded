#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"

namespace rope::cli {

/// The whole program: parse, dispatch, the only place that prints an error. Returns the exit code.
/// `arguments` without the program's name.
int run_cli(const std::vector<std::string>& arguments, const Streams& streams);

}  // namespace rope::cli

#pragma once

#include <string>
#include <vector>

namespace rope {

/// Whether a task's name matches one of the shell patterns of `--tasks`; none: every name does.
bool matches_any_glob(const std::string& name, const std::vector<std::string>& globs);

}  // namespace rope

#include "profiler/task_globs.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace rope {

bool matches_any_glob(const std::string& name, const std::vector<std::string>& globs) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

}  // namespace rope

#pragma once

#include <string>

namespace rope {

/// Refuses (UserError) a folder, pipe or device in place of a file that is read more than once, so that
/// nothing waits for a pipe that nobody writes. A path that does not exist passes: whoever opens it says so.
void require_regular_file(const std::string& path);

}  // namespace rope

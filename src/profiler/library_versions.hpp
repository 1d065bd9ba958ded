#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rope {

/// (name, version) of the libraries that reading, hashing and computing depend on, as they run here.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace rope

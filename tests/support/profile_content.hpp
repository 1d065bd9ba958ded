#pragma once

#include <map>
#include <string>

namespace rope::test {

/// Every object of an HDF5 file by path: type, shape, attributes and raw bytes, as text. Equal maps = equal
/// content.
using ProfileContent = std::map<std::string, std::string>;

/// All objects but those below /inputs.
ProfileContent profile_content(const std::string& path);

}  // namespace rope::test

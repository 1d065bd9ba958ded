#pragma once

#include <string>
#include <vector>

namespace rope::test {

/// Records of a CSV text (RFC 4180: quotes, doubled quotes, line breaks inside quotes).
std::vector<std::vector<std::string>> parse_csv(const std::string& text);

}  // namespace rope::test

#pragma once

#include <string>
#include <string_view>

namespace rope {

/// SHA-256 (FIPS 180-4) as lower-case hex.
std::string sha256_of_bytes(std::string_view bytes);
/// The same of a whole file, read as a stream. Throws UserError when it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace rope

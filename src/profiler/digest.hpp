#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace rope {

/// SHA-256 (FIPS 180-4) as lower-case hex.
std::string sha256_of_bytes(std::string_view bytes);
/// The same of a whole file, read as a stream. Throws UserError when it cannot be read. Once `broken_off`
/// (may be null) is set it stops, with an empty result.
std::string sha256_of_file(const std::string& path, const std::atomic<bool>* broken_off = nullptr);

}  // namespace rope

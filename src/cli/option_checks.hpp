#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace rope::cli {

/// A whole number from 0 to 2^64 - 1. CLI11 itself wraps and clamps what does not fit.
inline std::string check_seed(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end
             ? std::string()
             : "expected a whole number from 0 to 18446744073709551615, found " + text;
}

}  // namespace rope::cli

#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "profiler/error.hpp"
#include "profiler/example_scorer.hpp"

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

/// Bytes of "1048576", "1024K", "1M" or "2G" (powers of 1024); nothing where it is no such number or has more
/// than 62 bits.
inline std::optional<std::int64_t> parse_bytes(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || value < 0) return std::nullopt;
  int shift = 0;
  if (parsed.ptr != end) {
    const std::size_t unit = std::string_view("KMGT").find(*parsed.ptr);
    if (parsed.ptr + 1 != end || unit == std::string_view::npos) return std::nullopt;
    shift = 10 * (static_cast<int>(unit) + 1);
  }
  if (value > (std::int64_t{1} << 62) >> shift) return std::nullopt;
  return value << shift;
}

/// What `--trust` says; "" is none of both.
inline Trust trust_of(const std::string& text) {
  return text == "config" ? Trust::kConfig : text == "inv_freq" ? Trust::kInvFreq : Trust::kError;
}

/// Bytes of `--memory`. Throws UserError (usage).
inline std::int64_t parse_memory(const std::string& text) {
  const std::optional<std::int64_t> memory = parse_bytes(text);
  if (!memory || *memory < kLeastMemory)
    throw usage_error(
        "--memory: expected a whole number of bytes, or one with K, M, G or T, of at least 64M; found " +
            text,
        "for example 512M");
  return *memory;
}

}  // namespace rope::cli

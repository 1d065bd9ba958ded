#include "profiler/clean_text.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace rope {
namespace {

/// Bytes of the UTF-8 character at the start of `text`, 0 when it is malformed.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  std::uint32_t code = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const std::uint32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least || code > 0x10ffff || surrogate ? 0 : size;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

bool is_clean_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0 || is_control(text.substr(0, size))) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "\"";
  while (!text.empty()) {
    if (out.size() > kLongest) return out + "...\"";
    std::size_t size = character_size(text);
    if (size > 0 && !is_control(text.substr(0, size))) {
      out += text.substr(0, size);
    } else {
      size = 1;
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(size);
  }
  return out + "\"";
}

}  // namespace rope

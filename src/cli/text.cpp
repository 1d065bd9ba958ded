#include "cli/text.hpp"

#include <array>

#include "cli/console.hpp"

namespace rope::cli {
namespace {

struct Range {
  long first, last;
};

// Coarse blocks are enough: a table that is off by a column in a rare script is still readable.
constexpr std::array kZeroWidth{Range{0x0300, 0x036F}, Range{0x0483, 0x0489}, Range{0x0591, 0x05BD},
                                Range{0x0610, 0x061A}, Range{0x064B, 0x065F}, Range{0x1AB0, 0x1AFF},
                                Range{0x1DC0, 0x1DFF}, Range{0x200B, 0x200D}, Range{0x20D0, 0x20FF},
                                Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
constexpr std::array kDoubleWidth{Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
                                  Range{0xA960, 0xA97C},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
                                  Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
                                  Range{0x1F300, 0x1F64F}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
/// Characters that move the cursor, turn the writing direction or break lines.
constexpr std::array kUnprintable{Range{0x0000, 0x001F}, Range{0x007F, 0x009F}, Range{0x061C, 0x061C},
                                  Range{0x200E, 0x200F}, Range{0x2028, 0x202E}, Range{0x2066, 0x2069},
                                  Range{0xFEFF, 0xFEFF}, Range{0xFFF9, 0xFFFB}, Range{0xE0000, 0xE007F}};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, long code) {
  for (const Range& range : ranges)
    if (code >= range.first && code <= range.last) return true;
  return false;
}

std::string escaped_byte(unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

void wrap_line(std::string_view line, std::size_t width, std::vector<std::string>& out) {
  std::string current;
  while (!line.empty()) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    if (word.empty()) continue;
    if (!current.empty() && display_width(current) + 1 + display_width(word) > width) {
      out.push_back(current);
      current.clear();
    }
    if (!current.empty()) current += ' ';
    current += word;
  }
  out.push_back(current);
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {static_cast<long>(lead), 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  long code = static_cast<long>(lead & (0x7FU >> length));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = (code << 6) | static_cast<long>(byte(i) & 0x3FU);
  }
  constexpr std::array<long, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, length};
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    width += contains(kZeroWidth, c.code) ? 0 : contains(kDoubleWidth, c.code) ? 2 : 1;
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  std::vector<std::string> out;
  for (std::string_view line : split_lines(text)) {
    if (line.empty() || line.front() == ' ')
      out.emplace_back(line);
    else
      wrap_line(line, width, out);
  }
  return out;
}

std::string printable(const std::string& text) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const Utf8Char c = decode_utf8(rest);
    if (c.code < 0 || contains(kUnprintable, c.code))
      for (std::size_t i = 0; i < c.bytes; ++i) out += escaped_byte(static_cast<unsigned char>(rest[i]));
    else
      out += rest.substr(0, c.bytes);
    rest.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace rope::cli

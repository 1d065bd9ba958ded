#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rope::cli {

/// One decoded character: its code point, or -1 for a byte that is not valid UTF-8; `bytes` it takes (>= 1).
struct Utf8Char {
  long code = -1;
  std::size_t bytes = 1;
};
/// Decodes the character at the start of `text` (not empty). Overlong forms and surrogates are invalid.
Utf8Char decode_utf8(std::string_view text);

/// Columns that `text` takes on a terminal: 2 for wide East Asian characters, 0 for combining marks.
std::size_t display_width(std::string_view text);

/// Breaks a paragraph at spaces into lines of at most `width` columns; a longer word gets its own line. Blank
/// lines stay, and lines that begin with a space are kept as they are.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

}  // namespace rope::cli

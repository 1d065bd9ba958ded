#pragma once

#include <string>
#include <string_view>

namespace rope {

/// Well-formed UTF-8 (no overlong forms, surrogates or values past U+10FFFF).
bool is_utf8(std::string_view text);

/// UTF-8 without control characters: fit for a name that is printed, exported and hashed.
bool is_clean_text(std::string_view text);

/// Text from a file for a message: quoted, control characters and bad bytes as \xNN, shortened.
std::string quoted(std::string_view text);

}  // namespace rope

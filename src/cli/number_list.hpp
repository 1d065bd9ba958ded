#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rope::cli {

/// Most numbers that one list may stand for.
inline constexpr std::size_t kMostListed = 100'000;

/// Which numbers an option takes.
struct NumberRange {
  double least = 0, most = 0;
  bool open_least = false, open_most = false;  ///< the ends themselves are not taken
  std::string text() const;                    ///< "above 0 and below 0.5"
};

/// Numbers of a list such as "0.1,0.5" or of ranges in it: FIRST:LAST:STEP adds, FIRST:LAST:xFACTOR
/// multiplies
/// ("1024:1e12:x2"), both up to and with LAST. In the order given. Throws UserError (usage) that names
/// `option`.
std::vector<double> parse_numbers(const std::string& option, const std::string& text,
                                  const NumberRange& range);

/// The same in whole numbers ("1e12" is one), rising, each once; members of a range are rounded. least, most:
/// at most 2^53 in size.
std::vector<std::int64_t> parse_whole_numbers(const std::string& option, const std::string& text,
                                              std::int64_t least, std::int64_t most);

}  // namespace rope::cli

#include <algorithm>
#include <charconv>

#include "profiler/error.hpp"
#include "profiler/head_selection.hpp"

namespace rope {
namespace {

constexpr int kMaxDecimals = 12;  // times 2^22 heads still fits 63 bits

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

UserError bad_fraction(std::string_view text) {
  return usage_error("\"" + std::string(text) + "\" is no share of the heads",
                     "a decimal above 0 and up to 1 with at most 12 decimals, e.g. 0.05");
}

UserError bad_heads(std::string_view text) {
  return usage_error("--heads \"" + std::string(text) + "\" is not understood",
                     "all, top:F with 0 < F <= 1, or a list LAYER.HEAD,LAYER.HEAD");
}

/// A whole decimal number below 2^20.
bool read_index(std::string_view text, int& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return !text.empty() && all_digits(text) && parsed.ec == std::errc() && parsed.ptr == end &&
         value < (1 << 20);
}

}  // namespace

std::int64_t DecimalFraction::ceil_of(std::int64_t count) const {
  return (numerator * count + denominator - 1) / denominator;
}

DecimalFraction parse_fraction(std::string_view text) {
  const std::size_t point = text.find('.');
  std::string_view whole = text.substr(0, point);
  std::string_view part = point == std::string_view::npos ? "" : text.substr(point + 1);
  if (whole.size() + part.size() == 0 || !all_digits(whole) || !all_digits(part)) throw bad_fraction(text);
  while (!whole.empty() && whole.front() == '0') whole.remove_prefix(1);
  while (!part.empty() && part.back() == '0') part.remove_suffix(1);
  if (part.size() > kMaxDecimals || whole.size() > 1) throw bad_fraction(text);

  DecimalFraction fraction;
  fraction.numerator = whole.empty() ? 0 : whole[0] - '0';
  for (const char digit : part) {
    fraction.numerator = 10 * fraction.numerator + (digit - '0');
    fraction.denominator *= 10;
  }
  if (fraction.numerator == 0 || fraction.numerator > fraction.denominator) throw bad_fraction(text);
  // One spelling for one value: it ends up in the profile.
  fraction.text = (whole.empty() ? "0" : std::string(whole)) + (part.empty() ? "" : "." + std::string(part));
  return fraction;
}

HeadRequest parse_heads(std::string_view text) {
  HeadRequest request;
  if (text == "all") {
    request.kind = HeadRequest::Kind::kAll;
    return request;
  }
  if (text.substr(0, 4) == "top:") {
    request.fraction = parse_fraction(text.substr(4));
    return request;
  }
  request.kind = HeadRequest::Kind::kList;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t point = item.find('.');
    std::pair<int, int> head;
    if (point == std::string_view::npos || !read_index(item.substr(0, point), head.first) ||
        !read_index(item.substr(point + 1), head.second))
      throw bad_heads(text);
    request.list.push_back(head);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(request.list.begin(), request.list.end());
  request.list.erase(std::unique(request.list.begin(), request.list.end()), request.list.end());
  return request;
}

}  // namespace rope

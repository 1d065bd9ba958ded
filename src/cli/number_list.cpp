#include "cli/number_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "cli/console.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

using Wide = long double;

constexpr const char* kHint =
    "numbers separated by commas, FIRST:LAST:STEP or FIRST:LAST:xFACTOR, for example 1024:1e12:x2";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// One list: what it says, and how to complain.
class List {
 public:
  List(const std::string& option, const NumberRange& range, bool whole)
      : option_(option), range_(range), whole_(whole) {}

  std::vector<double> read(const std::string& text) {
    for (const std::string_view item : split(text, ',')) {
      const auto parts = split(item, ':');
      if (parts.size() == 1)
        add(in_range(item));
      else if (parts.size() == 3)
        add_range(item, parts);
      else
        throw bad(item);
    }
    return values_;
  }

 private:
  UserError bad(std::string_view item) const {
    return usage_error(
        fmt::format("{}: expected {}{}, found \"{}\"", option_, whole_ ? "whole numbers " : "numbers ",
                    range_.text(), printable(std::string(item))),
        kHint);
  }

  double in_range(std::string_view item) const {
    const std::optional<double> value = number(item);
    const bool fits = value && (range_.open_least ? *value > range_.least : *value >= range_.least) &&
                      (range_.open_most ? *value < range_.most : *value <= range_.most) &&
                      (!whole_ || (std::floor(*value) == *value && reads_exactly(item, *value)));
    if (!fits) throw bad(item);
    return *value;
  }

  /// Digits beyond float64 are not dropped silently: 2^53 + 1 is refused, not rounded.
  static bool reads_exactly(std::string_view item, double value) {
    std::int64_t exact = 0;
    const auto parsed = std::from_chars(item.data(), item.data() + item.size(), exact);
    return parsed.ptr != item.data() + item.size() ||
           (parsed.ec == std::errc() && static_cast<double>(exact) == value &&
            exact == static_cast<std::int64_t>(value));
  }

  void add(double value) {
    if (values_.size() >= kMostListed)
      throw usage_error(fmt::format("{}: more than {} numbers", option_, kMostListed), kHint);
    values_.push_back(value);
  }

  void add_range(std::string_view item, const std::vector<std::string_view>& parts) {
    const double first = in_range(parts[0]), last = in_range(parts[1]);
    const bool multiplies = parts[2].starts_with('x');
    const std::optional<double> step = number(parts[2].substr(multiplies ? 1 : 0));
    if (!(first <= last) || !step || !(multiplies ? *step > 1 && first > 0 : *step > 0)) throw bad(item);
    // A last member that misses the end by rounding is the end.
    const Wide end = last + 1e-12L * std::abs(static_cast<Wide>(last));
    for (std::int64_t k = 0;; ++k) {
      const Wide value = multiplies ? first * std::pow(static_cast<Wide>(*step), static_cast<Wide>(k))
                                    : first + static_cast<Wide>(k) * static_cast<Wide>(*step);
      if (value > end) return;
      const double rounded = static_cast<double>(whole_ ? std::round(value) : value);
      add(std::min(rounded, last));
    }
  }

  std::string option_;
  NumberRange range_;
  bool whole_;
  std::vector<double> values_;
};

}  // namespace

std::string NumberRange::text() const {
  // Whole ones without an exponent: they are window lengths.
  const auto shown = [](double value) {
    return std::abs(value) < 0x1p54 && std::floor(value) == value
               ? fmt::format("{}", static_cast<std::int64_t>(value))
               : fmt::format("{}", value);
  };
  const std::string low = open_least ? "above " + shown(least) : "of at least " + shown(least);
  if (std::isinf(most)) return low;
  if (open_least || open_most) return low + (open_most ? " and below " : " and up to ") + shown(most);
  return "from " + shown(least) + " to " + shown(most);
}

std::vector<double> parse_numbers(const std::string& option, const std::string& text,
                                  const NumberRange& range) {
  return List(option, range, false).read(text);
}

std::vector<std::int64_t> parse_whole_numbers(const std::string& option, const std::string& text,
                                              std::int64_t least, std::int64_t most) {
  NumberRange range{static_cast<double>(least), static_cast<double>(most)};
  std::vector<std::int64_t> values;
  for (const double value : List(option, range, true).read(text))
    values.push_back(static_cast<std::int64_t>(value));
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace rope::cli

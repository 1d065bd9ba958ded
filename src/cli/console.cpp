#include "cli/console.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>

namespace rope::cli {
namespace {

bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no_color && *no_color) && !(term && std::string(term) == "dumb");
}

std::string paint(const std::string& text, Style style, bool colour) {
  if (!colour || style == Style::kPlain) return text;
  constexpr std::array kCodes{"", "1", "2", "31", "32", "33", "36"};
  return std::string("\x1b[") + kCodes[static_cast<std::size_t>(style)] + "m" + text + "\x1b[0m";
}

}  // namespace

Console::Console(Streams streams, bool quiet, bool verbose)
    : streams_(streams),
      quiet_(quiet),
      verbose_(verbose),
      colour_out_(streams.out_is_terminal && colour_wanted()),
      colour_err_(streams.err_is_terminal && colour_wanted()) {}

std::string Console::styled(const std::string& text, Style style, bool for_err) const {
  return paint(text, style, for_err ? colour_err_ : colour_out_);
}

void Console::warning(const std::string& sentence) { line("warning: ", Style::kYellow, sentence); }

void Console::note(const std::string& sentence) {
  if (!quiet_) line("", Style::kPlain, sentence);
}

void Console::detail(const std::string& sentence) {
  if (verbose_) line("", Style::kPlain, sentence);
}

void print_error(const Streams& streams, const std::string& sentence, const std::string& hint) {
  const bool colour = streams.err_is_terminal && colour_wanted();
  *streams.err << "rope-profiler: " << paint("error: ", Style::kRed, colour) << printable(sentence) << '\n';
  if (!hint.empty()) *streams.err << paint("hint: ", Style::kCyan, colour) << printable(hint) << '\n';
  streams.err->flush();
}

std::string exact_number(double value) {
  if (std::isnan(value)) return {};
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string short_number(double value, int digits) {
  if (std::isnan(value)) return "-";
  if (value == 0.0) value = 0.0;  // no minus sign on a zero
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%#.*g", std::clamp(digits, 1, 17), value);
  std::string text = buffer.data();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace rope::cli

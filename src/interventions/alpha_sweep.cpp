#include "interventions/alpha_sweep.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::size_t kPlaces = 9;
constexpr std::int64_t kOne = 1'000'000'000;  // 10^kPlaces

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A plain decimal in units of 10^-9, below 10^9.
std::optional<std::int64_t> parse_decimal(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
  if (whole.empty() || whole.size() > 9 || part.size() > kPlaces) return std::nullopt;
  if (point != std::string_view::npos && part.empty()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : whole) {
    if (!is_digit(c)) return std::nullopt;
    value = 10 * value + (c - '0');
  }
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const char c = i < part.size() ? part[i] : '0';
    if (!is_digit(c)) return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

[[noreturn]] void refuse(std::string_view text) {
  throw usage_error(
      fmt::format("--alpha-sweep: expected FROM:TO:STEP with 0 <= FROM <= TO <= {:.0f}, STEP > 0 "
                  "and at most {} decimal places, found \"{}\"",
                  kLargestStrength, kPlaces, text),
      "for example 0:3:0.1");
}

}  // namespace

std::vector<Intervention> parse_alpha_sweep(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) refuse(text);
  const auto from = parse_decimal(text.substr(0, first));
  const auto to = parse_decimal(text.substr(first + 1, second - first - 1));
  const auto step = parse_decimal(text.substr(second + 1));
  if (!from || !to || !step || *step == 0 || *from > *to ||
      *to > static_cast<std::int64_t>(kLargestStrength) * kOne)
    refuse(text);
  const std::int64_t points = (*to - *from) / *step + 1;
  if (points > static_cast<std::int64_t>(kMostSweepPoints))
    throw usage_error(
        fmt::format("--alpha-sweep: {} has {} points, more than {}", text, points, kMostSweepPoints),
        "take a larger step");
  std::vector<Intervention> sweep;
  // Both sides of the division are whole numbers below 2^53: the quotient is the float64 nearest to the
  // decimal.
  for (std::int64_t i = 0; i < points; ++i)
    sweep.push_back(
        {Operation::kRescale, static_cast<double>(*from + i * *step) / static_cast<double>(kOne)});
  return sweep;
}

}  // namespace rope

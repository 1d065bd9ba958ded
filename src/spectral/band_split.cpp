#include "spectral/band_split.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace rope::spectral {
namespace {

using Kind = SplitRule::Kind;
constexpr double kTwoPi = 2.0 * std::numbers::pi;

/// Shortest decimal that reads back as the same double.
std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("unknown split \"" + std::string(text) +
                              "\"; valid are operational, intervention, certified, separation, "
                              "separation:C,EPSILON, custom:C,EPSILON, omega:X, periods:X and prefix:K "
                              "(C > 0, 0 < EPSILON < 1, X >= 0, K a whole number >= 0)");
}

/// "C,EPSILON" into the rule.
void read_pair(std::string_view whole, std::string_view numbers, SplitRule& rule) {
  const auto comma = numbers.find(',');
  if (comma == std::string_view::npos) refuse(whole);
  const auto c = parse_number(numbers.substr(0, comma)), epsilon = parse_number(numbers.substr(comma + 1));
  if (!c || !epsilon || !(*c > 0) || !(*epsilon > 0) || !(*epsilon < 1)) refuse(whole);
  rule.c = *c;
  rule.epsilon = *epsilon;
}

SplitRule with(Kind kind, double c, double epsilon) {
  SplitRule rule;
  rule.kind = kind;
  rule.c = c;
  rule.epsilon = epsilon;
  return rule;
}

/// Size of the largest prefix of `order` with M delta >= 2 C / epsilon, delta the smallest distance modulo 2
/// pi between members of {0, +omega_n, -omega_n} of the prefix, distinct by index (theory §5).
std::size_t separation_size(const SplitRule& rule, std::span<const double> omega,
                            const std::vector<int>& order, std::int64_t window) {
  const double needed = 2 * rule.c / rule.epsilon;
  const auto around = [](double x) { return std::min(std::abs(x), kTwoPi - std::abs(x)); };  // |x| <= 2 pi
  double delta = std::numbers::pi;
  for (std::size_t size = 0; size < order.size(); ++size) {
    const double w = omega[order[size]];
    delta = std::min({delta, around(w), around(2 * w)});
    for (std::size_t other = 0; other < size; ++other) {
      const double v = omega[order[other]];
      delta = std::min({delta, around(v - w), around(v + w)});
    }
    if (!(static_cast<double>(window) * delta >= needed)) return size;  // delta only falls
  }
  return order.size();
}

}  // namespace

std::string SplitRule::name() const {
  const std::string pair = shortest(c) + "," + shortest(epsilon);
  switch (kind) {
    case Kind::kOperational:
      return "operational";
    case Kind::kIntervention:
      return "intervention";
    case Kind::kCertified:
      return "certified";
    case Kind::kSeparation:
      return c == kTwoPi && epsilon == 0.01 ? "separation" : "separation:" + pair;
    case Kind::kCustom:
      return "custom:" + pair;
    case Kind::kOmega:
      return "omega:" + shortest(threshold);
    case Kind::kPeriods:
      return "periods:" + shortest(threshold);
    case Kind::kPrefix:
      return "prefix:" + std::to_string(prefix);
  }
  throw std::logic_error("SplitRule::name: unknown kind");
}

SplitRule parse_split(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (word == "operational") return with(Kind::kOperational, 0.06, 0.1);
    if (word == "intervention") return with(Kind::kIntervention, 0.05, 0.1);
    if (word == "certified") return with(Kind::kCertified, kTwoPi, 0.01);
    if (word == "separation") return with(Kind::kSeparation, kTwoPi, 0.01);
    refuse(text);
  }
  const std::string_view argument = text.substr(colon + 1);
  SplitRule rule;
  if (word == "separation" || word == "custom") {
    rule.kind = word == "custom" ? Kind::kCustom : Kind::kSeparation;
    read_pair(text, argument, rule);
  } else if (word == "omega" || word == "periods") {
    rule.kind = word == "omega" ? Kind::kOmega : Kind::kPeriods;
    const auto x = parse_number(argument);
    if (!x || !(*x >= 0)) refuse(text);
    rule.threshold = *x;
  } else if (word == "prefix") {
    rule.kind = Kind::kPrefix;
    const auto [end, error] =
        std::from_chars(argument.data(), argument.data() + argument.size(), rule.prefix);
    if (error != std::errc() || end != argument.data() + argument.size() || rule.prefix < 0) refuse(text);
  } else {
    refuse(text);
  }
  return rule;
}

double split_gamma(const SplitRule& rule, double rho) { return 2 * rule.c / ((1 - rho) * rule.epsilon); }

std::vector<char> high_frequency_mask(const SplitRule& rule, std::span<const double> omega, double rho,
                                      std::int64_t window) {
  std::vector<char> mask(omega.size(), 0);
  const double m = static_cast<double>(window);
  const auto keep_if = [&](auto&& test) {
    for (std::size_t n = 0; n < omega.size(); ++n) mask[n] = omega[n] > 0 && test(omega[n]) ? 1 : 0;
  };
  switch (rule.kind) {
    case Kind::kOperational:
    case Kind::kIntervention:
    case Kind::kCertified:
    case Kind::kCustom: {
      if (!(rho >= 0 && rho <= 1)) throw std::logic_error("high_frequency_mask: rho outside [0, 1]");
      if (rho == 1) break;  // equal frequencies: gamma is infinite, H empty
      const double gamma = split_gamma(rule, rho);
      keep_if([&](double w) { return m * w >= gamma; });
      break;
    }
    case Kind::kOmega:
      keep_if([&](double w) { return w >= rule.threshold; });
      break;
    case Kind::kPeriods:
      keep_if([&](double w) { return m * w >= kTwoPi * rule.threshold; });
      break;
    case Kind::kSeparation:
    case Kind::kPrefix: {
      const std::vector<int> order = falling_order(omega);
      const std::size_t size = rule.kind == Kind::kPrefix
                                   ? std::min(order.size(), static_cast<std::size_t>(rule.prefix))
                                   : separation_size(rule, omega, order, window);
      for (std::size_t i = 0; i < size; ++i) mask[order[i]] = 1;
      break;
    }
  }
  return mask;
}

std::vector<int> falling_order(std::span<const double> omega) {
  std::vector<int> order;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (omega[n] > 0) order.push_back(static_cast<int>(n));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return omega[a] > omega[b]; });
  return order;
}

double rho_of_grid(std::span<const double> omega) {
  const std::vector<int> order = falling_order(omega);
  if (order.size() < 2) return 0.0;
  return std::pow(omega[order.back()] / omega[order.front()], 1.0 / static_cast<double>(order.size() - 1));
}

bool is_geometric(std::span<const double> omega) {
  constexpr double kTolerance = 1e-5;  // stored frequencies are float32
  const std::vector<int> order = falling_order(omega);
  if (order.empty()) return true;
  if (!(omega[order.front()] <= 1 + kTolerance)) return false;
  const double rho = rho_of_grid(omega);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (!(omega[order[i]] < omega[order[i - 1]])) return false;
    const double ratio = omega[order[i]] / omega[order[i - 1]];
    if (!(std::abs(ratio - rho) <= kTolerance * rho)) return false;
  }
  return true;
}

}  // namespace rope::spectral

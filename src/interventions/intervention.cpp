#include "interventions/intervention.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "profiler/error.hpp"

namespace rope {

const char* operation_name(Operation operation) {
  return operation == Operation::kFreeze ? "freeze" : "rescale";
}

std::string Intervention::id() const {
  if (operation == Operation::kFreeze) return kFreezeId;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, alpha).ptr;
  return {text, end};
}

Intervention parse_intervention(std::string_view text, const std::string& option) {
  if (text == kFreezeId) return {Operation::kFreeze, 1.0};
  double alpha = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !(alpha >= 0 && alpha <= kLargestStrength))
    throw usage_error(
        option + ": expected NR or a strength from 0 to 10000, found \"" + std::string(text) + "\"",
        "NR freezes the rotation, a number multiplies the high-frequency part of the score");
  return {Operation::kRescale, std::abs(alpha)};  // -0 is 0
}

std::vector<Intervention> parse_strengths(std::string_view text) {
  std::vector<Intervention> list;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const Intervention one = parse_intervention(text.substr(start, end - start), "--strengths");
    if (one == Intervention{Operation::kRescale, 1.0})
      throw usage_error("--strengths: a strength of 1 changes nothing", "1 is the baseline; leave it out");
    if (std::find(list.begin(), list.end(), one) != list.end())
      throw usage_error("--strengths: " + one.id() + " is named twice", "name every candidate once");
    if (list.size() == kMostStrengths)
      throw usage_error("--strengths: more than " + std::to_string(kMostStrengths) + " candidates",
                        "a preview takes more with --alpha-sweep");
    list.push_back(one);
    start = end + 1;
  }
  return list;
}

}  // namespace rope

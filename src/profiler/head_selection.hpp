#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/profile_file.hpp"

namespace rope {

/// An exact decimal 0 < f <= 1, e.g. "0.05": ceil(f * heads) without binary rounding (theory §6).
struct DecimalFraction {
  std::int64_t numerator = 0, denominator = 1;
  std::string text;
  std::int64_t ceil_of(std::int64_t count) const;
};
DecimalFraction parse_fraction(std::string_view text);  ///< throws UserError (usage)

/// What `--heads` says.
struct HeadRequest {
  enum class Kind { kTop, kAll, kList };
  Kind kind = Kind::kTop;
  DecimalFraction fraction{1, 20, "0.05"};
  std::vector<std::pair<int, int>> list;  ///< (layer, head)
};
HeadRequest parse_heads(std::string_view text);  ///< throws UserError (usage)

/// The heads [N] that `all` or a list names; none for `top`, which needs norm shares first. Throws UserError
/// (usage) where a listed head is not among `heads` or does not rotate.
std::vector<char> requested_heads(const std::vector<ProfileHead>& heads, const HeadRequest& request);

/// nu_h and the falling order of heads from norm shares (theory §6; P 180, F.2).
/// share: [T][N] mean r_H of task t and head n, NaN where there is none. stored: [T][N] whether the task
/// stores the head. T = 1: variance undefined for all, every counted head selected whatever the fraction.
HeadSelection select_heads(const std::vector<ProfileHead>& heads,
                           const std::vector<std::vector<double>>& share,
                           const std::vector<std::vector<char>>& stored, const HeadRequest& request);

/// Selection read from another profile: the same, or its order cut anew at `fraction`.
HeadSelection reuse_selection(const ProfileReader& from, const std::vector<ProfileHead>& heads,
                              const DecimalFraction* recut);

/// Stage column of `export --table selection`: 5, 10, or 0 for none, for the head at `position` in the order.
int stage_of(std::int64_t position, std::int64_t counted);

}  // namespace rope

#pragma once

#include <string_view>
#include <vector>

#include "interventions/intervention.hpp"

namespace rope {

inline constexpr std::size_t kMostSweepPoints = 1000;

/// "FROM:TO:STEP" of `--alpha-sweep`: rescalings by FROM, FROM + STEP, ... up to TO, each the float64 nearest
/// to its exact decimal ("0:3:0.1": 0, 0.1, ..., 3; never 0.30000000000000004). 0 <= FROM <= TO <=
/// kLargestStrength, STEP > 0, at most 9 decimal places and kMostSweepPoints strengths. 1 may be among them:
/// it changes nothing. Throws UserError (usage).
std::vector<Intervention> parse_alpha_sweep(std::string_view text);

}  // namespace rope

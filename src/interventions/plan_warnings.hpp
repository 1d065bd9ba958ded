#pragma once

#include <string>
#include <vector>

#include "interventions/plan.hpp"

namespace rope {

/// Chosen heads that share their keys with heads that are not chosen: what a freeze has to give them keys of
/// their own for.
std::vector<HeadIndex> heads_with_shared_keys(const PlanModel& model, const std::vector<HeadIndex>& heads);

/// What the user should know before applying the plan: keys shared with heads that are not chosen, norms
/// after the rotation, layers without rotation, empty masks, directions that mean nothing. One sentence each.
std::vector<std::string> plan_warnings(const Plan& plan, const ProfileReader& profile,
                                       const PlanOptions& options);

}  // namespace rope

#pragma once

#include "interventions/outcome.hpp"
#include "interventions/plan.hpp"

namespace rope {

/// The parts of a plan that `outcome` joins records with.
OutcomePlan outcome_plan(const Plan& plan);

}  // namespace rope

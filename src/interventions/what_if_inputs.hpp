#pragma once

#include <string>
#include <vector>

#include "interventions/plan.hpp"
#include "profiler/activation_set.hpp"

namespace rope::detail {

/// Throws UserError unless the caches are of the plan's model: name, layers, heads and frequencies of the
/// plan's heads (within 1e-5), and what the profile knows of their layers.
void require_plan_model(const Plan& plan, const ProfileReader& profile, const ActivationSet& set);

/// Examples of one task of a plan that both the profile and the caches have.
struct MatchedExamples {
  std::vector<const SetExample*> examples;  ///< in canonical order
  std::int64_t not_in_profile = 0, not_in_caches = 0;
  bool task_in_caches = false;
};
MatchedExamples match_examples(const ProfileReader& profile, const ActivationSet& set,
                               const std::string& task);

/// What the user should know about examples and heads that a preview leaves out; matched: by task of the
/// plan.
std::vector<std::string> preview_warnings(const Plan& plan, const ActivationSet& set,
                                          const std::vector<MatchedExamples>& matched);

}  // namespace rope::detail

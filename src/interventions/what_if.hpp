#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interventions/plan.hpp"
#include "profiler/activation_set.hpp"
#include "profiler/example_scorer.hpp"
#include "profiler/profile.hpp"

namespace rope {

/// What decides a preview besides plan and caches.
struct WhatIfOptions {
  ScoringOptions scoring;           ///< split of the norm share and window of the scores: see profile_scoring
  std::vector<Intervention> sweep;  ///< strengths beside the plan's candidates
  std::int64_t resamples = BootstrapOptions{}.resamples;
  std::uint64_t seed = BootstrapOptions{}.seed;
  ScoringResources resources;
};

/// Split, window and window cap that a profile was made with. Throws UserError where it does not say.
ScoringOptions profile_scoring(const ProfileReader& profile);

/// Predicts the scores of the plan's tasks under its candidates and the sweep, without running the model
/// (theory §7, what-if): §§2-5 and E_2 again from the cached vectors, with z or omega changed in the pairs
/// H(M) of the plan's split at each example's own prompt length, averaged over the plan's heads. The baseline
/// is computed on the same heads by the same code. Rows of a task: baseline, the plan's candidates, then the
/// other points of the sweep; each intervention once. A change is the mean over examples of the change of the
/// example's mean over the heads that have both values, with a paired bootstrap over examples.
///
/// Only examples that the profile has (task and id) are used. Fills `preview` of the plan's tasks; tasks that
/// the caches do not hold get no rows. Returns warnings. Throws UserError where the caches are not of the
/// plan's model, or hold none of its tasks. Does not depend on threads, memory or the order of files.
std::vector<std::string> add_preview(Plan& plan, const ProfileReader& profile, const ActivationSet& set,
                                     const WhatIfOptions& options, const ProgressCallback& progress);

}  // namespace rope

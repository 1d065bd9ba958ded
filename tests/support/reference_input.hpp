#pragma once

#include "profiler/activation_set.hpp"
#include "profiler/head_job.hpp"
#include "reference/direct.hpp"

namespace rope::test {

/// What the slow reference needs of one head of an example that lies in one file, read from the cache.
reference::HeadInput reference_input(const ActivationSet& set, const SetExample& example, int layer, int head,
                                     const ScoringOptions& options);

}  // namespace rope::test

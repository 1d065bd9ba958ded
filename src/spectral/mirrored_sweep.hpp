#pragma once

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {

/// The sweep in float64 throughout, without compression: relative errors near 1e-13, a sixth of the speed at
/// h = 64. Every output of the request; lanes must be finite or get results of no meaning.
void mirrored_sweep(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
                    SweepResult& result);

}  // namespace rope::spectral

#pragma once

#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// The batch with every lane times its unit_scale, a power of two: largest coefficients of about 1, so that
/// no square over- or underflows. The constants are 0. scale: [n_pairs] what each lane was multiplied by.
CoefficientBatch unit_lanes(const CoefficientBatch& batch, std::vector<double>& scale);

}  // namespace rope::spectral

#include "spectral/unit_lanes.hpp"

#include <algorithm>

namespace rope::spectral {

CoefficientBatch unit_lanes(const CoefficientBatch& batch, std::vector<double>& scale) {
  CoefficientBatch unit = batch;
  scale.resize(batch.n_pairs);
  lane_scales(batch, scale);
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    double *re = unit.re.data() + n * unit.stride, *im = unit.im.data() + n * unit.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      re[p] *= scale[p];
      im[p] *= scale[p];
    }
  }
  std::fill(unit.constant.begin(), unit.constant.end(), 0.0);
  return unit;
}

}  // namespace rope::spectral

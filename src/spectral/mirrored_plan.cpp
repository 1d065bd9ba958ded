#include "spectral/mirrored_plan.hpp"

#include "spectral/phase.hpp"

namespace rope::spectral {

MirroredPlan::MirroredPlan(std::span<const double> frequencies)
    : omega(frequencies.begin(), frequencies.end()) {
  const std::size_t h = omega.size();
  half = h <= 128 ? 64 : 32;  // table, rows and coefficients of a group share the second-level cache
  table.resize(half * h * 2);
  advance.resize(2 * h);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t t = 1; t <= half; ++t) {
      const std::size_t tile = (t - 1) / kTileOffsets, row = (t - 1) % kTileOffsets;
      double* entry = table.data() + (tile * h + n) * 2 * kTileOffsets + row;
      const double offset = static_cast<double>(t);
      // t / 2 * omega is exact but for one rounding, small against the value: no correction needed.
      entry[0] = cos_minus_one(offset * omega[n]);
      entry[kTileOffsets] = phase_at(offset, omega[n]).sin;
    }
    const Phase turn = phase_at(static_cast<double>(2 * half), omega[n]);
    advance[2 * n] = turn.cos;
    advance[2 * n + 1] = turn.sin;
  }
}

}  // namespace rope::spectral

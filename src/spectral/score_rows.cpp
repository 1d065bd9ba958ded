#include "spectral/score_rows.hpp"

#include <algorithm>

#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/sweep_basis.hpp"

namespace rope::spectral {
namespace {

// Distances at a time: 16 blocks of the kernel (two with more than 128 frequencies), after which it makes
// its phases anew anyway.
constexpr std::int64_t kPiece = 2048;

}  // namespace

std::size_t ScoreRows::lanes() { return simd_lanes(); }

void ScoreRows::evaluate(const CoefficientBatch& batch, std::size_t first_lane, std::size_t kept,
                         std::int64_t first, std::int64_t count, std::span<double> rows) {
  const MirroredPlan& tables = basis_->impl().mirrored();
  const std::size_t width = simd_lanes();
  block_.resize(static_cast<std::size_t>(std::min(kPiece, count)) * width);
  scratch_.resize(mirrored_scratch_size(tables));
  MirroredGroup group;
  const std::size_t vector = first_lane / width * width;
  group.re = batch.re.data() + vector;
  group.im = batch.im.data() + vector;
  group.constant = batch.constant.data() + vector;
  group.stride = batch.stride;
  group.scores = block_.data();
  group.scratch = scratch_.data();
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - done);
    group.origin = static_cast<double>(first + done);
    mirrored_group(MirroredWindow(tables, piece), group, 1);
    for (std::size_t i = 0; i < kept; ++i) {
      double* to = rows.data() + static_cast<std::int64_t>(i) * count + done;
      const double* from = block_.data() + (first_lane - vector) + i;
      for (std::int64_t m = 0; m < piece; ++m) to[m] = from[m * static_cast<std::int64_t>(width)];
    }
  }
}

}  // namespace rope::spectral

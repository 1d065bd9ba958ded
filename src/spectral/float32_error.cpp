#include "spectral/float32_error.hpp"

#include <algorithm>
#include <cmath>

namespace rope::spectral {
namespace {

constexpr double kUnit = 0x1p-24, kAccepted = 1e-5, kLog2E = 1.4426950408889634;
// Bounds on the error of a float32 score against sum |z_n| and against |c_0|: tables right to 2e-7, about ten
// roundings on the way.
constexpr double kScoreError = 4e-6, kConstantError = 3e-7;

}  // namespace

LaneSizes::LaneSizes(const CoefficientBatch& batch, std::span<const double> omega)
    : scale(batch.n_pairs),
      norm(batch.n_pairs),
      reach(batch.n_pairs),
      doubt(batch.n_pairs),
      finite(batch.n_pairs) {
  const std::size_t pairs = batch.n_pairs;
  lane_scales(batch, scale);
  std::vector<double> sum(pairs);
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double *re = batch.re.data() + n * batch.stride, *im = batch.im.data() + n * batch.stride;
    const double most = std::min(2.0, 64 * omega[n]), most_squared = most * most;
    for (std::size_t p = 0; p < pairs; ++p) {
      const double x = re[p] * scale[p], y = im[p] * scale[p], square = x * x + y * y;
      norm[p] += square;
      reach[p] += square * most_squared;
      sum[p] += std::abs(x) + std::abs(y);
    }
  }
  for (std::size_t p = 0; p < pairs; ++p) {
    const double constant = std::abs(batch.constant[p]) * scale[p];
    norm[p] = std::sqrt(norm[p]) / scale[p];
    reach[p] = std::sqrt(reach[p]) / scale[p];
    doubt[p] = static_cast<float>((kScoreError * sum[p] + kConstantError * constant) * kLog2E);
    finite[p] = std::isfinite(sum[p]) && std::isfinite(batch.constant[p]);
  }
}

bool mean_is_right(double mean, double reach, std::int64_t window) {
  const double bound = 1 + 6 / std::sqrt(static_cast<double>(window - 1));
  return bound * kUnit * reach <= kAccepted * mean;
}

bool max_is_right(double max, double reach) { return 6 * kUnit * reach <= kAccepted * max; }

bool effective_length_is_right(double length, double norm) {
  const double error = 12 * kUnit * norm;
  return error <= 0.05 && error * std::min(1.0, 2 * (1 - 1 / length)) <= kAccepted;
}

}  // namespace rope::spectral

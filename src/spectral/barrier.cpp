#include "spectral/barrier.hpp"

#include <algorithm>

#include "spectral/normal_law.hpp"
#include "spectral/unit_lanes.hpp"

namespace rope::spectral {
namespace {

/// The batch with the rows outside a mask set to zero.
CoefficientBatch only(const CoefficientBatch& batch, std::span<const char> mask) {
  CoefficientBatch part = batch;
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    if (mask[n]) continue;
    std::fill_n(part.re.begin() + static_cast<std::ptrdiff_t>(n * part.stride), part.stride, 0.0);
    std::fill_n(part.im.begin() + static_cast<std::ptrdiff_t>(n * part.stride), part.stride, 0.0);
  }
  return part;
}

}  // namespace

void barrier_margins(const CoefficientBatch& batch, double level, CoefficientBatch& margins) {
  margins = batch;
  for (auto* values : {&margins.re, &margins.im})
    for (double& z : *values) z = -z;
  for (std::size_t p = 0; p < batch.n_pairs; ++p) margins.constant[p] = level - batch.constant[p];
}

double score_at_zero(const CoefficientBatch& batch, std::size_t lane) {
  double sum = 0;
  for (std::size_t n = 0; n < batch.n_freq; ++n) sum += batch.re[n * batch.stride + lane];
  return sum + batch.constant[lane];
}

BarrierGaussian barrier_gaussian(const WindowMoments& moments, std::span<const char> high,
                                 const CoefficientBatch& batch, double level) {
  const std::size_t pairs = batch.n_pairs;
  std::vector<double> scale, mean(pairs), variance(pairs), high_mean(pairs), high_variance(pairs),
      norm(pairs), high_norm(pairs);
  const CoefficientBatch unit = unit_lanes(batch, scale);
  moments.evaluate(unit, mean, variance);
  moments.evaluate(only(unit, high), high_mean, high_variance);
  pair_norms(unit, high, norm, high_norm);
  BarrierGaussian result;
  result.exact_moments.resize(pairs);
  result.limit_variance.resize(pairs);
  for (std::size_t p = 0; p < pairs; ++p) {
    const double margin = mean[p] + (batch.constant[p] - level) * scale[p];
    result.exact_moments[p] = chance_above_zero(margin, variance[p]);
    // Var_N + 2 Cov = Var - Var_H.
    const double replaced = variance[p] + (0.5 * high_norm[p] * high_norm[p] - high_variance[p]);
    result.limit_variance[p] = chance_above_zero(margin, replaced);
  }
  return result;
}

}  // namespace rope::spectral

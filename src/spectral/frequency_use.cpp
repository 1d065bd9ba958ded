#include "spectral/frequency_use.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "spectral/phase.hpp"

namespace rope::spectral {

double usage_variation(std::span<const double> usage) {
  double sum = 0;
  for (double u : usage) sum += u;
  if (!(sum > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum / static_cast<double>(usage.size());
  double squares = 0;
  for (double u : usage) squares += (u - mean) * (u - mean);
  return std::sqrt(squares / static_cast<double>(usage.size())) / mean;
}

double usage_centroid(std::span<const double> usage, std::span<const double> omega) {
  double sum = 0, weighted = 0;
  for (std::size_t n = 0; n < usage.size(); ++n) {
    sum += usage[n];
    weighted += usage[n] * std::log(omega[n]);
  }
  return sum > 0 ? weighted / sum : std::numeric_limits<double>::quiet_NaN();
}

PhaseTable make_phase_table(std::span<const double> omega, std::span<const std::int64_t> distances) {
  PhaseTable table;
  table.n_freq = omega.size();
  table.n_pairs = distances.size();
  table.stride = padded(distances.size());
  table.cos.assign(table.n_freq * table.stride, 0.0);
  table.sin.assign(table.n_freq * table.stride, 0.0);
  for (std::size_t n = 0; n < omega.size(); ++n) {
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const Phase e = phase_at(static_cast<double>(distances[i]), omega[n]);
      table.cos[n * table.stride + i] = e.cos;
      table.sin[n * table.stride + i] = e.sin;
    }
  }
  return table;
}

void accumulate_usage(const CoefficientBatch& batch, std::size_t first_lane, const PhaseTable& phases,
                      std::span<const char> valid, std::span<double> usage, std::span<double> usage_norm) {
  if (phases.n_freq != batch.n_freq || first_lane + phases.n_pairs > batch.n_pairs ||
      valid.size() != phases.n_pairs || usage.size() != batch.n_freq || usage_norm.size() != batch.n_freq)
    throw std::logic_error("accumulate_usage: shapes");
  std::vector<double> scale(batch.n_pairs);
  lane_scales(batch, scale);
  std::vector<double> seen(phases.n_pairs), modulus(phases.n_pairs);
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double* re = batch.re.data() + n * batch.stride + first_lane;
    const double* im = batch.im.data() + n * batch.stride + first_lane;
    const double* c = phases.cos.data() + n * phases.stride;
    const double* s = phases.sin.data() + n * phases.stride;
    const double* lane = scale.data() + first_lane;
    for (std::size_t i = 0; i < phases.n_pairs; ++i) {
      const double x = re[i] * lane[i], y = im[i] * lane[i];
      seen[i] = std::abs(re[i] * c[i] - im[i] * s[i]);
      modulus[i] = std::sqrt(x * x + y * y) / lane[i];
    }
    for (std::size_t i = 0; i < phases.n_pairs; ++i) {
      if (!valid[i]) continue;
      usage[n] += seen[i];
      usage_norm[n] += modulus[i];
    }
  }
}

void frequency_mass(const CoefficientBatch& batch, std::span<const double> omega, std::span<double> mass) {
  if (omega.size() != batch.n_freq || mass.size() < batch.n_pairs)
    throw std::logic_error("frequency_mass: shapes");
  std::vector<double> scale(batch.n_pairs), sum(batch.n_pairs, 0.0), weighted(batch.n_pairs, 0.0);
  lane_scales(batch, scale);
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double* re = batch.re.data() + n * batch.stride;
    const double* im = batch.im.data() + n * batch.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      const double x = re[p] * scale[p], y = im[p] * scale[p];
      const double modulus = std::sqrt(x * x + y * y);
      sum[p] += modulus;
      weighted[p] += modulus * omega[n];
    }
  }
  for (std::size_t p = 0; p < batch.n_pairs; ++p) mass[p] = weighted[p] / sum[p];  // 0 / 0 is NaN
}

}  // namespace rope::spectral

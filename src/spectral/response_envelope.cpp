#include "spectral/response_envelope.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace rope::spectral {
namespace {

constexpr double kUnit = 0x1p-53;

}  // namespace

std::vector<double> response_factors(std::span<const double> omega) {
  std::vector<double> factors;
  for (const double w : omega) factors.push_back(2.0 * std::abs(std::sin(0.5 * w)));
  return factors;
}

double response_rounding(std::size_t pairs) { return (2.0 * static_cast<double>(pairs) + 20.0) * kUnit; }
double norm_floor_rounding(std::size_t pairs) { return (3.0 * static_cast<double>(pairs) + 30.0) * kUnit; }

double EnvelopeTerms::norm_floor(double zeta) const {
  const double rest = zeta - low_response();
  return rest < 0 ? 0.0 : rest / high_slope();  // NaN stays
}

bool EnvelopeTerms::breaks_envelope(double zeta, std::size_t pairs) const {
  return !(zeta <= envelope() * (1.0 + response_rounding(pairs)));
}

bool EnvelopeTerms::breaks_norm_floor(double zeta, std::size_t pairs) const {
  if (!has_floor()) return false;
  const double slack = norm_floor_rounding(pairs) * envelope() / high_slope();
  return !(norm_floor(zeta) <= norm_share() + slack);
}

std::vector<EnvelopeTerms> envelope_terms(const CoefficientBatch& batch, std::span<const double> factors,
                                          std::span<const char> high) {
  if (factors.size() != batch.n_freq || high.size() != batch.n_freq)
    throw std::logic_error("envelope_terms: batch of another grid");
  std::vector<EnvelopeTerms> terms(batch.n_pairs);
  std::vector<double> norm(batch.n_pairs), high_norm(batch.n_pairs);
  pair_norms(batch, high, norm, high_norm);
  for (std::size_t p = 0; p < batch.n_pairs; ++p) {
    terms[p].norm = norm[p];
    terms[p].high_norm = high_norm[p];
  }
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double *re = batch.re.data() + n * batch.stride, *im = batch.im.data() + n * batch.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      const double step = factors[n] * std::hypot(re[p], im[p]);
      (high[n] ? terms[p].high_step : terms[p].low_step) += step;
    }
  }
  return terms;
}

void scale_lanes(CoefficientBatch& batch) {
  std::vector<double> scale(batch.n_pairs);
  lane_scales(batch, scale);
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    double *re = batch.re.data() + n * batch.stride, *im = batch.im.data() + n * batch.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      re[p] *= scale[p];
      im[p] *= scale[p];
    }
  }
  std::fill(batch.constant.begin(), batch.constant.end(), 0.0);
}

}  // namespace rope::spectral

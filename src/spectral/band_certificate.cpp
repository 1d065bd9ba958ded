#include "spectral/band_certificate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace rope::spectral {

BandCertificates::BandCertificates(std::span<const double> omega, std::span<const char> high,
                                   std::int64_t window, double epsilon)
    : n_freq_(omega.size()), epsilon_(epsilon) {
  if (high.size() != omega.size() || !(epsilon > 0))
    throw std::logic_error("BandCertificates: bad arguments");
  std::vector<double> band;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (!high[n]) continue;
    rows_.push_back(n);
    band.push_back(omega[n]);
  }
  if (band.empty()) throw std::logic_error("BandCertificates: empty H");
  moments_ = std::make_unique<WindowMoments>(band, window);
  const double size = static_cast<double>(band.size());
  const double mean_error = 1e-15 * std::sqrt(size), variance_error = 1e-13 * 0.5 * size;
  // U_H^2 is right to (|H| + 2) 2^-53, against the 1/2 that is taken off.
  rounding_ = (std::max(mean_error, variance_error) + (size + 4.0) * 0x1p-53) / epsilon;
}

std::vector<BandCertificate> BandCertificates::evaluate(const CoefficientBatch& batch,
                                                        std::span<const double> high_norm) const {
  if (batch.n_freq != n_freq_ || high_norm.size() != batch.n_pairs)
    throw std::logic_error("BandCertificates: batch of another grid");
  CoefficientBatch band;
  band.reset(rows_.size(), batch.n_pairs);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::copy_n(batch.re.data() + rows_[i] * batch.stride, batch.n_pairs, band.re.data() + i * band.stride);
    std::copy_n(batch.im.data() + rows_[i] * batch.stride, batch.n_pairs, band.im.data() + i * band.stride);
  }
  std::vector<double> mean(batch.n_pairs), variance(batch.n_pairs);
  moments_->evaluate(band, mean, variance);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<BandCertificate> certificates(batch.n_pairs, {kNaN, kNaN});
  for (std::size_t p = 0; p < batch.n_pairs; ++p) {
    const double u = high_norm[p];
    if (!(u > 0)) continue;
    certificates[p].mean_share = std::abs(mean[p]) / (epsilon_ * u);
    certificates[p].variance_share = std::abs(variance[p] / u / u - 0.5) / epsilon_;
  }
  return certificates;
}

}  // namespace rope::spectral

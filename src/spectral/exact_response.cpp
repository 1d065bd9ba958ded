#include "spectral/exact_response.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "spectral/phase.hpp"
#include "spectral/response_envelope.hpp"

namespace rope::spectral {

ExactResponse::ExactResponse(std::span<const double> omega, std::int64_t window)
    : omega_(omega.begin(), omega.end()), factors_(response_factors(omega)), window_(window) {
  if (window < 2 || window > (std::int64_t{1} << 24))
    throw std::logic_error("ExactResponse: window outside 2 ... 2^24");
  table_.reserve(2 * kBlock * omega_.size());
  for (std::size_t t = 0; t < kBlock; ++t) {
    for (const double w : omega_) {
      const Phase e = phase_at(static_cast<double>(t) + 0.5, w);
      table_.push_back(e.sin);
      table_.push_back(e.cos);
    }
  }
}

void ExactResponse::largest_of(const CoefficientBatch& batch, std::span<const std::size_t> lanes,
                               double* result) const {
  const std::size_t h = omega_.size();
  // gamma_n z_n of the lanes, and the same turned to the first distance of a block.
  std::vector<double> re(h * kLanes), im(h * kLanes), turned_re(h * kLanes), turned_im(h * kLanes);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t p = 0; p < lanes.size(); ++p) {
      re[n * kLanes + p] = factors_[n] * batch.re[n * batch.stride + lanes[p]];
      im[n * kLanes + p] = factors_[n] * batch.im[n * batch.stride + lanes[p]];
    }
  }
  double top[kLanes] = {};
  for (std::int64_t first = 0; first < window_ - 1; first += static_cast<std::int64_t>(kBlock)) {
    for (std::size_t n = 0; n < h; ++n) {
      const Phase e = phase_at(static_cast<double>(first), omega_[n]);
      for (std::size_t p = 0; p < kLanes; ++p) {
        const double x = re[n * kLanes + p], y = im[n * kLanes + p];
        turned_re[n * kLanes + p] = x * e.cos - y * e.sin;
        turned_im[n * kLanes + p] = x * e.sin + y * e.cos;
      }
    }
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kBlock, window_ - 1 - first));
    for (std::size_t t = 0; t < count; ++t) {
      const double* phases = table_.data() + 2 * h * t;
      double sum[kLanes] = {};
      for (std::size_t n = 0; n < h; ++n) {
        const double s = phases[2 * n], c = phases[2 * n + 1];
        for (std::size_t p = 0; p < kLanes; ++p)
          sum[p] += turned_re[n * kLanes + p] * s + turned_im[n * kLanes + p] * c;
      }
      for (std::size_t p = 0; p < kLanes; ++p) top[p] = std::max(top[p], std::abs(sum[p]));
    }
  }
  std::copy_n(top, lanes.size(), result);
}

std::vector<double> ExactResponse::largest(const CoefficientBatch& batch,
                                           std::span<const std::size_t> lanes) const {
  if (batch.n_freq != omega_.size()) throw std::logic_error("ExactResponse: batch of another grid");
  std::vector<double> result(lanes.size());
  for (std::size_t first = 0; first < lanes.size(); first += kLanes)
    largest_of(batch, lanes.subspan(first, std::min(kLanes, lanes.size() - first)), result.data() + first);
  return result;
}

}  // namespace rope::spectral

#include "spectral/window_moments.hpp"

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "spectral/phase.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/window_covariance.hpp"
#include "spectral/window_moments_kernel.hpp"

namespace rope::spectral {
namespace {

/// Factor of a covariance block in the order of its pivots, times the scales, packed in tiles.
MomentFactor factorize(const WindowCovariance& covariance, const WindowCovariance::Block& block) {
  const std::size_t h = covariance.h, stride = covariance.stride;
  std::vector<std::size_t> pivots;
  const std::vector<double> columns = pivoted_cholesky(block, h, stride, pivots);
  const std::size_t rank = pivots.size();
  std::vector<char> used(h, 0);
  for (const std::size_t pivot : pivots) used[pivot] = 1;
  for (std::size_t i = 0; i < h; ++i)
    if (!used[i]) pivots.push_back(i);  // the rows below the triangle, in any order

  MomentFactor factor;
  factor.tiles = (rank + kTileColumns - 1) / kTileColumns;
  factor.place.resize(h);
  for (std::size_t row = 0; row < h; ++row) factor.place[covariance.order[pivots[row]]] = row;
  for (std::size_t tile = 0; tile < factor.tiles; ++tile) {
    for (std::size_t row = tile * kTileColumns; row < h; ++row) {
      for (std::size_t k = tile * kTileColumns; k < (tile + 1) * kTileColumns; ++k)
        factor.table.push_back(k < rank ? columns[k * stride + pivots[row]] * block.scale[pivots[row]] : 0.0);
    }
  }
  return factor;
}

}  // namespace

struct WindowMoments::Impl {
  MomentFactors factors;
  int rank = 0;
};

WindowMoments::WindowMoments(std::span<const double> omega, std::int64_t window)
    : impl_(std::make_unique<Impl>()) {
  if (window < 1) throw std::logic_error("WindowMoments: window < 1");
  for (double w : omega) {
    if (!(w > 0 && w <= std::numbers::pi)) throw std::logic_error("WindowMoments: frequency outside (0, pi]");
  }
  obey_simd_environment();
  const std::size_t h = omega.size();
  const WindowCovariance covariance = make_window_covariance(omega, window);
  MomentFactors& factors = impl_->factors;
  factors.h = h;
  factors.phase.resize(2 * h);
  factors.weight.resize(h);
  for (std::size_t i = 0; i < h; ++i) {
    const std::size_t n = covariance.order[i];
    const Phase centre = phase_at(0.5 * static_cast<double>(window - 1), omega[n]);
    factors.phase[2 * n] = centre.cos;
    factors.phase[2 * n + 1] = centre.sin;
    factors.weight[n] = covariance.mean[i];
  }
  factors.cosine = factorize(covariance, covariance.cosine);
  factors.sine = factorize(covariance, covariance.sine);
  impl_->rank = static_cast<int>((factors.cosine.tiles + factors.sine.tiles) * kTileColumns);
}

WindowMoments::~WindowMoments() = default;
WindowMoments::WindowMoments(WindowMoments&&) noexcept = default;
WindowMoments& WindowMoments::operator=(WindowMoments&&) noexcept = default;
int WindowMoments::rank() const { return impl_->rank; }

void WindowMoments::evaluate(const CoefficientBatch& batch, std::span<double> mean,
                             std::span<double> variance) const {
  const MomentFactors& factors = impl_->factors;
  if (batch.n_freq != factors.h || mean.size() < batch.n_pairs || variance.size() < batch.n_pairs)
    throw std::logic_error("WindowMoments::evaluate: batch of another grid, or outputs too short");
  const std::size_t room = padded(batch.n_pairs);
  std::vector<double> means(room), variances(room);  // the kernel writes whole vectors
  const auto scratch = hwy::AllocateAligned<double>(moments_scratch_size(factors) + 1);
  if (!scratch) throw std::bad_alloc();
  for (std::size_t lane = 0; lane < batch.n_pairs;) {
    lane += evaluate_moments(factors, batch, lane, means.data(), variances.data(), scratch.get());
  }
  std::copy_n(means.data(), batch.n_pairs, mean.data());
  std::copy_n(variances.data(), batch.n_pairs, variance.data());
}

}  // namespace rope::spectral

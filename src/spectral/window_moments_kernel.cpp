#include "spectral/window_moments_kernel.hpp"

#include <algorithm>

#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/window_moments_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

/// Vectors of lanes side by side: with 4 columns, accumulators for 16 or 32 registers.
constexpr std::size_t kVectors = HWY_MAX_BYTES == 64 ? 4 : 3;

/// One row of a tile's columns, of which the first kColumns are not zero.
template <int kV, int kColumns>
HWY_INLINE void AddRow(const double* HWY_RESTRICT u, const double* HWY_RESTRICT table,
                       V (&acc)[kTileColumns][kV]) {
  static_assert(kTileColumns == 4);
  const D d;
  V x[kV];
  for (int v = 0; v < kV; ++v) x[v] = hn::LoadU(d, u + v * hn::Lanes(d));
  for (int k = 0; k < kColumns; ++k) {
    const V t = hn::Set(d, table[k]);
    for (int v = 0; v < kV; ++v) acc[k][v] = hn::MulAdd(t, x[v], acc[k][v]);
  }
}

/// square[v] += sum over the columns of (sum_n factor[n] u[n][v])^2.
template <int kV>
HWY_INLINE void AddSquares(const MomentFactor& factor, const double* HWY_RESTRICT u, std::size_t h,
                           V (&square)[kV]) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const double* HWY_RESTRICT table = factor.table.data();
  for (std::size_t tile = 0; tile < factor.tiles; ++tile) {
    V acc[kTileColumns][kV];
    for (auto& column : acc) {
      for (V& a : column) a = hn::Zero(d);
    }
    std::size_t n = tile * kTileColumns;
    const double* HWY_RESTRICT row = u + n * kV * lanes;
    if (n + 4 <= h) {  // the tile's first rows are a triangle
      AddRow<kV, 1>(row, table, acc);
      AddRow<kV, 2>(row + kV * lanes, table + 4, acc);
      AddRow<kV, 3>(row + 2 * kV * lanes, table + 8, acc);
      AddRow<kV, 4>(row + 3 * kV * lanes, table + 12, acc);
      n += 4;
      row += 4 * kV * lanes;
      table += 16;
    }
    for (; n < h; ++n, row += kV * lanes, table += 4) AddRow<kV, 4>(row, table, acc);
    for (auto& column : acc) {
      for (int v = 0; v < kV; ++v) square[v] = hn::MulAdd(column[v], column[v], square[v]);
    }
  }
}

template <int kV>
void EvaluateLanes(const MomentFactors& factors, const CoefficientBatch& batch, std::size_t first,
                   double* mean, double* variance, double* u) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), h = factors.h;
  V average[kV], square[kV];
  for (int v = 0; v < kV; ++v) {
    average[v] = hn::Zero(d);
    square[v] = hn::Zero(d);
  }
  for (std::size_t n = 0; n < h; ++n) {
    const V c = hn::Set(d, factors.phase[2 * n]), s = hn::Set(d, factors.phase[2 * n + 1]);
    const V weight = hn::Set(d, factors.weight[n]);
    double* even = u + factors.cosine.place[n] * kV * lanes;
    double* odd = u + (h + factors.sine.place[n]) * kV * lanes;
    for (int v = 0; v < kV; ++v) {
      const V re = hn::LoadU(d, batch.re.data() + n * batch.stride + first + v * lanes);
      const V im = hn::LoadU(d, batch.im.data() + n * batch.stride + first + v * lanes);
      const V centred = hn::MulSub(re, c, hn::Mul(im, s));
      average[v] = hn::MulAdd(weight, centred, average[v]);
      hn::StoreU(centred, d, even + v * lanes);
      hn::StoreU(hn::MulAdd(re, s, hn::Mul(im, c)), d, odd + v * lanes);
    }
  }
  AddSquares<kV>(factors.cosine, u, h, square);
  AddSquares<kV>(factors.sine, u + h * kV * lanes, h, square);
  for (int v = 0; v < kV; ++v) {
    const V constant = hn::LoadU(d, batch.constant.data() + first + v * lanes);
    hn::StoreU(hn::Add(constant, average[v]), d, mean + first + v * lanes);
    hn::StoreU(square[v], d, variance + first + v * lanes);
  }
}

std::size_t EvaluateMoments(const MomentFactors& factors, const CoefficientBatch& batch, std::size_t first,
                            double* mean, double* variance, double* scratch) {
  const std::size_t lanes = hn::Lanes(D());
  const std::size_t vectors = std::min(kVectors, (batch.n_pairs - first + lanes - 1) / lanes);
  if (vectors == 1) EvaluateLanes<1>(factors, batch, first, mean, variance, scratch);
  if (vectors == 2) EvaluateLanes<2>(factors, batch, first, mean, variance, scratch);
  if (vectors == 3) EvaluateLanes<3>(factors, batch, first, mean, variance, scratch);
  if (vectors == 4) EvaluateLanes<4>(factors, batch, first, mean, variance, scratch);
  return vectors * lanes;
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(EvaluateMoments);

std::size_t moments_scratch_size(const MomentFactors& factors) { return 4 * simd_lanes() * 2 * factors.h; }

std::size_t evaluate_moments(const MomentFactors& factors, const CoefficientBatch& batch,
                             std::size_t first_lane, double* mean, double* variance, double* scratch) {
  return HWY_DYNAMIC_DISPATCH(EvaluateMoments)(factors, batch, first_lane, mean, variance, scratch);
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

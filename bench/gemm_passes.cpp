#include <algorithm>
#include <cmath>

#include "baselines.hpp"
#include "spectral/simd_targets.hpp"

#ifdef ROPE_BENCH_OPENBLAS
#include <cblas.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_passes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Float = hn::ScalableTag<float>;
using Vector = hn::Vec<Float>;

/// e^x for x <= 0, relative error 4e-6 (enough here); 2^-126 below.
HWY_INLINE Vector Exp(Vector x) {
  const Float d;
  const hn::RebindToSigned<Float> di;
  const Vector y = hn::Max(hn::Mul(x, hn::Set(d, 1.44269504f)), hn::Set(d, -126.0f));
  const Vector magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vector shifted = hn::Add(y, magic);
  const Vector f = hn::Sub(y, hn::Sub(shifted, magic));
  Vector p = hn::Set(d, 0.009676037f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.055922036f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022107f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69312103f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

PairResult RowOfScores(const float* s, std::size_t window, const spectral::SweepRequest& request) {
  constexpr std::size_t kUnroll = 4;
  const Float d;
  const std::size_t lanes = hn::Lanes(d), stride = kUnroll * lanes, steps = window - 1;
  PairResult result;
  Vector top[kUnroll], total[kUnroll], most[kUnroll];
  for (std::size_t u = 0; u < kUnroll; ++u) {
    top[u] = hn::Set(d, s[0]);
    total[u] = most[u] = hn::Zero(d);
  }
  std::size_t m = 0;
  for (; m + stride <= steps; m += stride)
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const float* at = s + m + u * lanes;
      const Vector here = hn::LoadU(d, at), step = hn::Abs(hn::Sub(hn::LoadU(d, at + 1), here));
      total[u] = hn::Add(total[u], step);
      most[u] = hn::Max(most[u], step);
      top[u] = hn::Max(top[u], here);
    }
  for (std::size_t u = 1; u < kUnroll; ++u) {
    total[0] = hn::Add(total[0], total[u]);
    most[0] = hn::Max(most[0], most[u]);
    top[0] = hn::Max(top[0], top[u]);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, total[0])), largest = hn::GetLane(hn::MaxOfLanes(d, most[0])),
        highest = std::max(hn::GetLane(hn::MaxOfLanes(d, top[0])), s[steps]);
  for (; m < steps; ++m) {
    sum += std::fabs(s[m + 1] - s[m]);
    largest = std::max(largest, std::fabs(s[m + 1] - s[m]));
    highest = std::max(highest, s[m]);
  }
  result.mean = sum / static_cast<float>(steps);
  result.max = largest;
  if (!request.effective_length) return result;

  Vector weight[kUnroll], square[kUnroll];
  for (std::size_t u = 0; u < kUnroll; ++u) weight[u] = square[u] = hn::Zero(d);
  const Vector offset = hn::Set(d, highest);
  for (m = 0; m + stride <= window; m += stride)
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const Vector e = Exp(hn::Sub(hn::LoadU(d, s + m + u * lanes), offset));
      weight[u] = hn::Add(weight[u], e);
      square[u] = hn::MulAdd(e, e, square[u]);
    }
  double first = 0, second = 0;
  for (std::size_t u = 0; u < kUnroll; ++u) {
    first += hn::GetLane(hn::SumOfLanes(d, weight[u]));
    second += hn::GetLane(hn::SumOfLanes(d, square[u]));
  }
  for (; m < window; ++m) {
    const double e = std::exp(s[m] - highest);
    first += e;
    second += e * e;
  }
  result.effective_length = first * first / second;
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::bench {

HWY_EXPORT(RowOfScores);

GemmPasses::GemmPasses(std::span<const double> omega, std::int64_t window,
                       const spectral::CoefficientBatch& batch, std::size_t pairs)
    : h_(omega.size()), window_(static_cast<std::size_t>(window)), pairs_(pairs) {
  table_.resize(2 * h_ * window_);
  z_.resize(pairs * 2 * h_);
  scores_.resize(pairs * window_);
  results_.resize(pairs);
  for (std::size_t n = 0; n < h_; ++n) {
    for (std::size_t m = 0; m < window_; ++m) {
      table_[n * window_ + m] = static_cast<float>(std::cos(static_cast<double>(m) * omega[n]));
      table_[(h_ + n) * window_ + m] = static_cast<float>(-std::sin(static_cast<double>(m) * omega[n]));
    }
    for (std::size_t p = 0; p < pairs; ++p) {
      z_[p * 2 * h_ + n] = static_cast<float>(batch.re[n * batch.stride + p]);
      z_[p * 2 * h_ + h_ + n] = static_cast<float>(batch.im[n * batch.stride + p]);
    }
  }
}

void GemmPasses::run(const spectral::SweepRequest& request) {
#ifdef ROPE_BENCH_OPENBLAS
  openblas_set_num_threads(1);
  const auto size = [](std::size_t n) { return static_cast<int>(n); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size(pairs_), size(window_), size(2 * h_), 1.0f,
              z_.data(), size(2 * h_), table_.data(), size(window_), 0.0f, scores_.data(), size(window_));
#endif
  for (std::size_t p = 0; p < pairs_; ++p)
    results_[p] = HWY_DYNAMIC_DISPATCH(RowOfScores)(scores_.data() + p * window_, window_, request);
}

bool GemmPasses::available() {
#ifdef ROPE_BENCH_OPENBLAS
  return true;
#else
  return false;
#endif
}

std::string GemmPasses::description() {
#ifdef ROPE_BENCH_OPENBLAS
  return std::string(openblas_get_config()) + ", kernels for " + openblas_get_corename();
#else
  return "";
#endif
}

}  // namespace rope::bench
#endif  // HWY_ONCE

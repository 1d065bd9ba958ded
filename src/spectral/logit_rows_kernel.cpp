#include <algorithm>
#include <cmath>

#include "spectral/logit_rows.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/logit_rows_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "spectral/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

/// Vectors of columns side by side: with kProductRows rows, accumulators for 32 or 16 registers.
constexpr std::size_t kVectors = HWY_MAX_BYTES == 64 ? 4 : 2;
constexpr std::size_t kWidth = ColumnPanels::kWidth;

void MultiplyRows(const double* HWY_RESTRICT left, std::size_t left_stride, const ColumnPanels& columns,
                  std::size_t end_panel, bool add, double* HWY_RESTRICT to, std::size_t to_stride) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t p = 0; p < end_panel; ++p, to += kWidth) {
    const double* HWY_RESTRICT panel = columns.panel(p);
    for (std::size_t part = 0; part < kWidth; part += kVectors * lanes) {
      V sum[kProductRows][kVectors];
      for (std::size_t i = 0; i < kProductRows; ++i)
        for (std::size_t v = 0; v < kVectors; ++v)
          sum[i][v] = add ? hn::LoadU(d, to + i * to_stride + part + v * lanes) : hn::Zero(d);
      for (std::size_t r = 0; r < columns.depth(); ++r) {
        V x[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, panel + r * kWidth + part + v * lanes);
        for (std::size_t i = 0; i < kProductRows; ++i) {
          const V factor = hn::Set(d, left[r * left_stride + i]);
          for (std::size_t v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(factor, x[v], sum[i][v]);
        }
      }
      for (std::size_t i = 0; i < kProductRows; ++i)
        for (std::size_t v = 0; v < kVectors; ++v)
          hn::StoreU(sum[i][v], d, to + i * to_stride + part + v * lanes);
    }
  }
}

void CombineMirrored(double constant, const double* even, const double* odd, std::size_t count, double* up,
                     double* down) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V c = hn::Set(d, constant);
  std::size_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    const V e = hn::Add(c, hn::LoadU(d, even + j)), o = hn::LoadU(d, odd + j);
    hn::StoreU(hn::Add(e, o), d, up + j);
    hn::StoreU(hn::Sub(e, o), d, down + j);
  }
  for (; j < count; ++j) {
    up[j] = constant + even[j] + odd[j];
    down[j] = constant + even[j] - odd[j];
  }
}

void CapLogits(double* logits, std::size_t count, double cap) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t j = 0;
  for (; j + lanes <= count; j += lanes) hn::StoreU(SoftCap(d, hn::LoadU(d, logits + j), cap), d, logits + j);
  if (j == count) return;
  HWY_ALIGN double rest[HWY_MAX_BYTES / sizeof(double)] = {};
  std::copy(logits + j, logits + count, rest);
  hn::StoreU(SoftCap(d, hn::LoadU(d, rest), cap), d, rest);
  std::copy(rest, rest + (count - j), logits + j);
}

/// What sum_weights adds up.
struct Sums {
  V sum, square, slope, square_slope, shift, shift_square;
  V power[LengthOrders::kMostPowers];
};

template <bool kPartial>
HWY_INLINE void AddWeights(V x, V largest, const double* beta, std::size_t powers, hn::Mask<D> used,
                           Sums& sums) {
  const D d;
  const auto kept = [&](V v) HWY_ATTR { return kPartial ? hn::IfThenElseZero(used, v) : v; };
  const V y = kept(hn::Sub(x, largest));
  const V low = hn::Max(y, hn::Set(d, -708.0));  // below, y e^y is 0 as far as sums with a 1 can tell
  const V e = kept(ExpOfNonPositive(d, low));
  const V e2 = hn::Mul(e, e);
  sums.sum = hn::Add(sums.sum, e);
  sums.square = hn::Add(sums.square, e2);
  sums.slope = hn::MulAdd(low, e, sums.slope);
  sums.square_slope = hn::MulAdd(low, e2, sums.square_slope);
  sums.shift = hn::Add(sums.shift, y);
  sums.shift_square = hn::MulAdd(y, y, sums.shift_square);
  for (std::size_t k = 0; k < powers; ++k)
    sums.power[k] = hn::Add(sums.power[k], kept(ExpOfNonPositive(d, hn::Mul(hn::Set(d, beta[k]), y))));
}

void SumWeights(const double* logits, std::size_t count, const LengthOrders& orders, WeightSums& result) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), powers = orders.powers().size();
  const double* beta = orders.powers().data();
  V most = hn::Set(d, logits[0]);
  std::size_t j = 0;
  for (; j + lanes <= count; j += lanes) most = hn::Max(most, hn::LoadU(d, logits + j));
  double top = hn::GetLane(hn::MaxOfLanes(d, most));
  for (std::size_t k = j; k < count; ++k) top = std::max(top, logits[k]);

  Sums sums;
  for (V* v : {&sums.sum, &sums.square, &sums.slope, &sums.square_slope, &sums.shift, &sums.shift_square})
    *v = hn::Zero(d);
  for (V& v : sums.power) v = hn::Zero(d);
  const V largest = hn::Set(d, top);
  const auto all = hn::FirstN(d, lanes);
  for (j = 0; j + lanes <= count; j += lanes)
    AddWeights<false>(hn::LoadU(d, logits + j), largest, beta, powers, all, sums);
  if (j < count) {
    HWY_ALIGN double rest[HWY_MAX_BYTES / sizeof(double)] = {};
    std::copy(logits + j, logits + count, rest);
    AddWeights<true>(hn::Load(d, rest), largest, beta, powers, hn::FirstN(d, count - j), sums);
  }
  const auto total = [&](V v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(d, v)); };
  const auto n = static_cast<double>(count);
  const double shift = total(sums.shift) / n;
  result.count = static_cast<std::int64_t>(count);
  result.largest = top;
  result.sum = total(sums.sum);
  result.square = total(sums.square);
  result.slope = total(sums.slope);
  result.square_slope = total(sums.square_slope);
  result.mean = top + shift;
  const double squares = total(sums.shift_square);
  result.deviation = std::isfinite(squares) ? std::max(0.0, squares - n * shift * shift) : HUGE_VAL;
  result.finite = std::isfinite(top) && std::isfinite(shift);  // a NaN or infinity anywhere gets into `shift`
  for (std::size_t k = 0; k < powers; ++k) result.power[k] = total(sums.power[k]);
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(MultiplyRows);
HWY_EXPORT(CombineMirrored);
HWY_EXPORT(CapLogits);
HWY_EXPORT(SumWeights);

void ColumnPanels::pack(const double* from, std::size_t stride, std::size_t depth, std::size_t columns) {
  depth_ = depth;
  columns_ = columns;
  values_.resize(panels() * depth * kWidth);
  double* to = values_.data();
  for (std::size_t p = 0; p < panels(); ++p) {
    const std::size_t first = p * kWidth, count = std::min(kWidth, columns - first);
    for (std::size_t r = 0; r < depth; ++r, to += kWidth) {
      std::copy_n(from + r * stride + first, count, to);
      std::fill(to + count, to + kWidth, 0.0);
    }
  }
}

void multiply_rows(const double* left, std::size_t left_stride, const ColumnPanels& columns,
                   std::size_t count, bool add, double* to, std::size_t to_stride) {
  obey_simd_environment();
  const std::size_t panels = (count + ColumnPanels::kWidth - 1) / ColumnPanels::kWidth;
  HWY_DYNAMIC_DISPATCH(MultiplyRows)(left, left_stride, columns, panels, add, to, to_stride);
}

void combine_mirrored(double constant, const double* even, const double* odd, std::size_t count, double* up,
                      double* down) {
  obey_simd_environment();
  HWY_DYNAMIC_DISPATCH(CombineMirrored)(constant, even, odd, count, up, down);
}

void cap_logits(std::span<double> logits, double cap) {
  obey_simd_environment();
  HWY_DYNAMIC_DISPATCH(CapLogits)(logits.data(), logits.size(), cap);
}

WeightSums sum_weights(std::span<const double> logits, const LengthOrders& orders) {
  obey_simd_environment();
  WeightSums result;
  if (!logits.empty()) HWY_DYNAMIC_DISPATCH(SumWeights)(logits.data(), logits.size(), orders, result);
  return result;
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

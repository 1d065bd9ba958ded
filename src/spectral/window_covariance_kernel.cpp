#include <algorithm>
#include <cmath>

#include "spectral/pair_coefficients.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/window_covariance.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/window_covariance_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

/// Neighbours, M (w + v) > kShort: D(w - v) and D(w + v) by the addition formulas.
void NearRange(const WindowTerms& t, std::size_t row, std::size_t first, std::size_t end, double* cosine,
               double* sine) {
  const D d;
  const auto load = [&](const std::vector<double>& values, std::size_t l)
                        HWY_ATTR { return hn::LoadU(d, values.data() + l); };
  const V sw = hn::Set(d, t.s[row]), cw = hn::Set(d, t.c[row]);
  const V big_sw = hn::Set(d, t.big_s[row]), big_cw = hn::Set(d, t.big_c[row]);
  const V fw = hn::Set(d, t.deficit[row]), m = hn::Set(d, t.window);
  const V one = hn::Set(d, 1.0), half = hn::Set(d, 0.5);
  for (std::size_t l = first; l < end; l += hn::Lanes(d)) {
    const V sv = load(t.s, l), cv = load(t.c, l), big_sv = load(t.big_s, l), big_cv = load(t.big_c, l);
    const V fv = load(t.deficit, l);
    const V one_way = hn::Mul(sw, cv), other_way = hn::Mul(cw, sv);
    const V big_one = hn::Mul(big_sw, big_cv), big_other = hn::Mul(big_cw, big_sv);
    const V minus =
        hn::Sub(one, hn::Div(hn::Sub(big_one, big_other), hn::Mul(m, hn::Sub(one_way, other_way))));
    const V plus =
        hn::Sub(one, hn::Div(hn::Add(big_one, big_other), hn::Mul(m, hn::Add(one_way, other_way))));
    const V both = hn::Sub(hn::Sub(fw, hn::Mul(half, minus)), hn::Sub(hn::Mul(half, plus), fv));
    hn::StoreU(hn::NegMulAdd(fw, fv, both), d, cosine + l);
    hn::StoreU(hn::Mul(half, hn::Sub(plus, minus)), d, sine + l);
  }
}

/// v <= w / 2: see ExactCovariance::far_apart.
void FarRange(const WindowTerms& t, std::size_t row, std::size_t first, std::size_t end, double* cosine,
              double* sine) {
  const D d;
  const auto load = [&](const std::vector<double>& values, std::size_t l)
                        HWY_ATTR { return hn::LoadU(d, values.data() + l); };
  const V sw = hn::Set(d, t.s[row]), ssw = hn::Mul(sw, sw);
  const V big_sw = hn::Set(d, t.big_s[row]);
  const V turned = hn::Set(d, t.big_c[row] * t.c[row] * t.s[row]);
  const V big_sw_cw = hn::Set(d, t.big_s[row] * t.c[row]), big_cw_sw = hn::Set(d, t.big_c[row] * t.s[row]);
  const V mean = hn::Set(d, 1.0 - t.deficit[row]), m = hn::Set(d, t.window);
  for (std::size_t l = first; l < end; l += hn::Lanes(d)) {
    const V sv = load(t.s, l), cv = load(t.c, l), big_sv = load(t.big_s, l), big_cv = load(t.big_c, l);
    const V lack = load(t.one_minus_c, l), big_lack = load(t.one_minus_big_c, l);
    const V ssv = hn::Mul(sv, sv);
    const V below = hn::Mul(m, hn::Sub(ssw, ssv));
    const V loss = hn::NegMulAdd(big_lack, lack, hn::Add(big_lack, lack));
    const V above =
        hn::Sub(hn::Mul(big_sw, hn::NegMulAdd(ssw, loss, ssv)), hn::Mul(turned, hn::Mul(big_sv, sv)));
    const V bend = hn::Div(above, hn::Mul(sw, below));
    hn::StoreU(hn::MulAdd(mean, load(t.deficit, l), bend), d, cosine + l);
    const V sines = hn::Sub(hn::Mul(big_sw_cw, hn::Mul(big_cv, sv)), hn::Mul(big_cw_sw, hn::Mul(big_sv, cv)));
    hn::StoreU(hn::Div(sines, below), d, sine + l);
  }
}

/// M (w + v) <= kShort: power series.
void ShortRange(const WindowTerms& t, std::size_t row, std::size_t first, std::size_t end, double* cosine,
                double* sine) {
  const D d;
  for (std::size_t l = first; l < end; l += hn::Lanes(d)) {
    V even = hn::Zero(d), odd = hn::Zero(d);
    for (std::size_t j = WindowTerms::kSeries; j-- > 0;) {  // the small terms first
      const std::size_t at = j * t.stride;
      even = hn::MulAdd(hn::Set(d, t.even[at + row]), hn::LoadU(d, t.even_moved.data() + at + l), even);
      odd = hn::MulAdd(hn::Set(d, t.odd[at + row]), hn::LoadU(d, t.odd_moved.data() + at + l), odd);
    }
    hn::StoreU(even, d, cosine + l);
    hn::StoreU(odd, d, sine + l);
  }
}

/// Each range may write beyond its end; the next one writes there afterwards.
void CovarianceRow(const WindowTerms& t, std::size_t row, double* cosine, double* sine) {
  const double w = t.omega[row];
  std::size_t far = row, brief = row;
  while (far < t.h && 2 * t.omega[far] > w) ++far;
  while (brief < t.h && t.window * (w + t.omega[brief]) > WindowTerms::kShort) ++brief;
  NearRange(t, row, row, std::min(far, brief), cosine, sine);
  if (brief > row) {  // of a frequency with itself: D(0) = 1
    const double plus = 1 - t.big_s[row] * t.big_c[row] / (t.window * t.s[row] * t.c[row]);
    const double deficit = t.deficit[row];
    cosine[row] = 2 * deficit - 0.5 * plus - deficit * deficit;
    sine[row] = 0.5 * plus;
  }
  FarRange(t, row, far, brief, cosine, sine);
  ShortRange(t, row, brief, t.h, cosine, sine);
}

/// The next column: row `pivot` of what is left of the matrix, over the root of its diagonal. open: 0 at the
/// pivots used, else 1. Entries count also where rounding leaves nothing of the diagonal: they are as large
/// as the root of its last digit.
void NextColumn(const double* HWY_RESTRICT row, const std::vector<double>& columns, std::size_t rank,
                std::size_t pivot, double root, std::size_t stride, double* HWY_RESTRICT left,
                double* HWY_RESTRICT open, double* HWY_RESTRICT to) {
  const D d;
  constexpr std::size_t kV = 4;
  const std::size_t lanes = hn::Lanes(d);
  const V inverse = hn::Set(d, 1.0 / root), zero = hn::Zero(d);
  const std::size_t vectors = stride / lanes;  // stride is a multiple of 16
  for (std::size_t first = 0; first < vectors; first += kV) {
    V acc[kV];
    for (std::size_t v = 0; v < kV; ++v)
      acc[v] = first + v < vectors ? hn::LoadU(d, row + (first + v) * lanes) : zero;
    for (std::size_t k = 0; k < rank; ++k) {
      const double* column = columns.data() + k * stride;
      const V factor = hn::Set(d, column[pivot]);
      for (std::size_t v = 0; v < kV; ++v)  // reads up to kV - 1 vectors into the next column, unused
        acc[v] = hn::NegMulAdd(factor, hn::LoadU(d, column + (first + v) * lanes), acc[v]);
    }
    for (std::size_t v = 0; v < kV && first + v < vectors; ++v) {
      const std::size_t at = (first + v) * lanes;
      const V is_open = hn::LoadU(d, open + at);
      const V entry = hn::IfThenElseZero(hn::Gt(is_open, zero), hn::Mul(acc[v], inverse));
      hn::StoreU(entry, d, to + at);
      hn::StoreU(hn::Max(hn::NegMulAdd(entry, entry, hn::LoadU(d, left + at)), zero), d, left + at);
    }
  }
  to[pivot] = root;
  left[pivot] = open[pivot] = 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(CovarianceRow);
HWY_EXPORT(NextColumn);

void covariance_row(const WindowTerms& terms, std::size_t row, double* cosine, double* sine) {
  HWY_DYNAMIC_DISPATCH(CovarianceRow)(terms, row, cosine, sine);
}

std::vector<double> pivoted_cholesky(const WindowCovariance::Block& block, std::size_t h, std::size_t stride,
                                     std::vector<std::size_t>& pivots) {
  constexpr double kTruncation = 4e-16;  // of a unit diagonal
  std::vector<double> left(stride, 0.0), open(stride, 0.0), columns;
  for (std::size_t i = 0; i < h; ++i)
    open[i] = left[i] = block.matrix[i * stride + i];  // 1, or 0: no variance
  pivots.clear();
  columns.reserve((h + 1) * stride + 4 * kLaneAlign);
  for (std::size_t rank = 0; rank < h; ++rank) {
    const auto pivot = static_cast<std::size_t>(std::max_element(left.begin(), left.end()) - left.begin());
    if (!(left[pivot] > kTruncation)) break;
    pivots.push_back(pivot);
    columns.resize((rank + 1) * stride + 4 * kLaneAlign);
    HWY_DYNAMIC_DISPATCH(NextColumn)
    (block.matrix.data() + pivot * stride, columns, rank, pivot, std::sqrt(left[pivot]), stride, left.data(),
     open.data(), columns.data() + rank * stride);
  }
  return columns;
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

#include "spectral/mirrored_sweep_kernel.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "spectral/phase.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/mirrored_sweep_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "spectral/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// Blocks between two fresh computations of the block phases from float64 angles; in between they are turned
// by a constant phase, which loses at most one rounding per step.
constexpr std::int64_t kReseed = 16;

/// Running results of one vector of lanes over the blocks.
struct Totals {
  V sum, max;             // |S(m+1) - S(m)|
  V top, weight, square;  // largest logit so far; sums of exp(logit - top) and of its square
  V aliased, aliased_f16, negative;
};

/// u = z e^{i centre omega} and its sum over n, for a fresh centre.
template <int kV>
HWY_NOINLINE void SeedBlock(const MirroredPlan& plan, const MirroredGroup& group, double centre, double* u) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes, h = plan.omega.size();
  for (std::size_t n = 0; n < h; ++n) {
    const Phase e = phase_at(centre, plan.omega[n]);
    const V c = hn::Set(d, e.cos), s = hn::Set(d, e.sin);
    for (int v = 0; v < kV; ++v) {
      const V re = hn::LoadU(d, group.re + n * group.stride + v * lanes);
      const V im = hn::LoadU(d, group.im + n * group.stride + v * lanes);
      hn::StoreU(hn::MulSub(re, c, hn::Mul(im, s)), d, u + n * width + v * lanes);
      hn::StoreU(hn::MulAdd(re, s, hn::Mul(im, c)), d, u + (h + n) * width + v * lanes);
    }
  }
}

/// Turns u from one block's centre to the next one's.
template <int kV>
HWY_NOINLINE void AdvanceBlock(const MirroredPlan& plan, double* u) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes, h = plan.omega.size();
  for (std::size_t n = 0; n < h; ++n) {
    const V c = hn::Set(d, plan.advance[2 * n]), s = hn::Set(d, plan.advance[2 * n + 1]);
    for (int v = 0; v < kV; ++v) {
      double *re_at = u + n * width + v * lanes, *im_at = u + (h + n) * width + v * lanes;
      const V re = hn::LoadU(d, re_at), im = hn::LoadU(d, im_at);
      hn::StoreU(hn::MulSub(re, c, hn::Mul(im, s)), d, re_at);
      hn::StoreU(hn::MulAdd(re, s, hn::Mul(im, c)), d, im_at);
    }
  }
}

/// acc[r][v] = sum_n table[8 n + r] u[n][v], in index order.
template <int kV>
HWY_INLINE void TileSums(const double* HWY_RESTRICT table, const double* HWY_RESTRICT u, std::size_t h,
                         V (&acc)[kTileOffsets][kV]) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (auto& row : acc) {
    for (V& a : row) a = hn::Zero(d);
  }
  for (std::size_t n = 0; n < h; ++n) {
    V x[kV];
    for (int v = 0; v < kV; ++v) x[v] = hn::LoadU(d, u + (n * kV + v) * lanes);
    for (std::size_t r = 0; r < kTileOffsets; ++r) {
      const V t = hn::Set(d, table[n * 2 * kTileOffsets + r]);
      for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(t, x[v], acc[r][v]);
    }
  }
}

/// S(centre + t) - S(centre) into row `half + t` of rows, for offsets |t| up to `reach`: even part from Re u,
/// odd part from Im u.
template <int kV>
HWY_NOINLINE void FillRows(const MirroredPlan& plan, const double* HWY_RESTRICT u, std::size_t reach,
                           double* HWY_RESTRICT rows) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes, h = plan.omega.size();
  for (int v = 0; v < kV; ++v) hn::StoreU(hn::Zero(d), d, rows + plan.half * width + v * lanes);
  for (std::size_t first = 1; first <= reach; first += kTileOffsets) {
    const double* table = plan.table.data() + (first - 1) * h * 2;
    double* up = rows + (plan.half + first) * width;
    double* down = rows + (plan.half - first) * width;
    V acc[kTileOffsets][kV];
    TileSums<kV>(table, u, h, acc);
    for (std::size_t r = 0; r < kTileOffsets; ++r) {
      for (int v = 0; v < kV; ++v) hn::StoreU(acc[r][v], d, up + r * width + v * lanes);
    }
    TileSums<kV>(table + kTileOffsets, u + h * width, h, acc);
    for (std::size_t r = 0; r < kTileOffsets; ++r) {
      for (int v = 0; v < kV; ++v) {
        const V even = hn::LoadU(d, up + r * width + v * lanes);
        hn::StoreU(hn::Sub(even, acc[r][v]), d, up + r * width + v * lanes);
        hn::StoreU(hn::Add(even, acc[r][v]), d, down - r * width + v * lanes);
      }
    }
  }
}

/// Mean and largest |difference| of neighbouring rows first ... last.
template <int kV>
HWY_NOINLINE void Differences(const double* HWY_RESTRICT rows, std::size_t first, std::size_t last,
                              Totals* HWY_RESTRICT totals) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes;
  V before[kV], sum[kV], top[kV];
  for (int v = 0; v < kV; ++v) {
    before[v] = hn::LoadU(d, rows + first * width + v * lanes);
    sum[v] = hn::Zero(d);
    top[v] = totals[v].max;
  }
  for (std::size_t r = first + 1; r <= last; ++r) {
    for (int v = 0; v < kV; ++v) {
      const V here = hn::LoadU(d, rows + r * width + v * lanes);
      const V step = hn::Abs(hn::Sub(here, before[v]));
      sum[v] = hn::Add(sum[v], step);
      top[v] = hn::Max(top[v], step);
      before[v] = here;
    }
  }
  for (int v = 0; v < kV; ++v) {
    totals[v].sum = hn::Add(totals[v].sum, sum[v]);
    totals[v].max = top[v];
  }
}

/// Adds exp(logit - top) and its square over rows first ... last - 1; base[v] = S(centre), with c_0 where
/// there is a softcap.
template <int kV>
HWY_NOINLINE void SoftmaxSums(const double* HWY_RESTRICT rows, std::size_t first, std::size_t last,
                              double cap, const V* base, Totals* HWY_RESTRICT totals) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes;
  V largest[kV], weight[kV], square[kV];
  for (int v = 0; v < kV; ++v) largest[v] = hn::LoadU(d, rows + first * width + v * lanes);
  for (std::size_t r = first + 1; r < last; ++r) {
    for (int v = 0; v < kV; ++v) largest[v] = hn::Max(largest[v], hn::LoadU(d, rows + r * width + v * lanes));
  }
  for (int v = 0; v < kV; ++v) {
    V top = hn::Add(base[v], largest[v]);
    if (cap > 0) top = SoftCap(d, top, cap);  // rising, so the largest logit stays the largest
    top = hn::Max(top, totals[v].top);
    const V rescale = ExpOfNonPositive(d, hn::Sub(totals[v].top, top));
    totals[v].top = top;
    totals[v].weight = hn::Mul(totals[v].weight, rescale);
    totals[v].square = hn::Mul(totals[v].square, hn::Mul(rescale, rescale));
    weight[v] = square[v] = hn::Zero(d);
  }
  for (std::size_t r = first; r < last; ++r) {
    for (int v = 0; v < kV; ++v) {
      const V row = hn::LoadU(d, rows + r * width + v * lanes);
      // Rounded as `top` was, so that it is the largest also where |S| is so large that rounding shows.
      V logit = hn::Add(base[v], row);
      if (cap > 0) logit = SoftCap(d, logit, cap);
      const V e = ExpOfNonPositive(d, hn::Sub(logit, totals[v].top));
      weight[v] = hn::Add(weight[v], e);
      square[v] = hn::MulAdd(e, e, square[v]);
    }
  }
  for (int v = 0; v < kV; ++v) {
    totals[v].weight = hn::Add(totals[v].weight, weight[v]);
    totals[v].square = hn::Add(totals[v].square, square[v]);
  }
}

/// Adds to `counts` the neighbours among rows first ... last that are equal in a narrow format; so are two
/// infinities of one sign.
template <class Format, int kV>
HWY_NOINLINE void CountAliased(const double* HWY_RESTRICT rows, std::size_t first, std::size_t last,
                               const V* base, V Totals::*count, Totals* HWY_RESTRICT totals) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes;
  for (int v = 0; v < kV; ++v) {
    V equal = totals[v].*count;
    V before = RoundTo<Format>(d, hn::Add(base[v], hn::LoadU(d, rows + first * width + v * lanes)));
    for (std::size_t r = first + 1; r <= last; ++r) {
      const V here = RoundTo<Format>(d, hn::Add(base[v], hn::LoadU(d, rows + r * width + v * lanes)));
      equal = hn::Add(equal, hn::IfThenElseZero(hn::Eq(before, here), hn::Set(d, 1.0)));
      before = here;
    }
    totals[v].*count = equal;
  }
}

/// Counts rows first ... last - 1 with S < 0; where |S| is within its rounding error the sign is that of
/// direct_score.
template <int kV>
HWY_NOINLINE void CountNegative(const MirroredPlan& plan, const MirroredGroup& group,
                                const double* HWY_RESTRICT rows, std::size_t first, std::size_t last,
                                std::int64_t centre, const V* base, const V* doubt,
                                Totals* HWY_RESTRICT totals) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes;
  for (int v = 0; v < kV; ++v) {
    for (std::size_t r = first; r < last; ++r) {
      V score = hn::Add(base[v], hn::LoadU(d, rows + r * width + v * lanes));
      const auto unsure = hn::Lt(hn::Abs(score), doubt[v]);
      if (HWY_UNLIKELY(!hn::AllFalse(d, unsure))) {
        HWY_ALIGN double values[HWY_MAX_BYTES / sizeof(double)], bounds[HWY_MAX_BYTES / sizeof(double)];
        hn::Store(score, d, values);
        hn::Store(doubt[v], d, bounds);
        const double distance = group.origin + static_cast<double>(centre + static_cast<std::int64_t>(r)) -
                                static_cast<double>(plan.half);
        for (std::size_t p = 0; p < lanes; ++p) {
          if (std::abs(values[p]) < bounds[p])
            values[p] = direct_score(plan.omega, group.re + v * lanes + p, group.im + v * lanes + p,
                                     group.stride, group.constant[v * lanes + p], distance);
        }
        score = hn::Load(d, values);
      }
      totals[v].negative =
          hn::Add(totals[v].negative, hn::IfThenElseZero(hn::Lt(score, hn::Zero(d)), hn::Set(d, 1.0)));
    }
  }
}

/// Every S of rows first ... last - 1 to where the group wants them.
template <int kV>
HWY_NOINLINE void StoreScores(const double* HWY_RESTRICT rows, std::size_t first, std::size_t last,
                              const V* base, double* HWY_RESTRICT to) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes;
  for (std::size_t r = first; r < last; ++r) {
    for (int v = 0; v < kV; ++v) {
      const V score = hn::Add(base[v], hn::LoadU(d, rows + r * width + v * lanes));
      hn::StoreU(score, d, to + (r - first) * width + v * lanes);
    }
  }
}

/// Bound on the rounding error of S + c_0 as the kernel computes it, with a margin of two.
template <int kV>
HWY_NOINLINE void ErrorBounds(const MirroredPlan& plan, const MirroredGroup& group, V* doubt) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), h = plan.omega.size();
  for (int v = 0; v < kV; ++v) {
    V sum = hn::Abs(hn::LoadU(d, group.constant + v * lanes));
    for (std::size_t n = 0; n < h; ++n) {
      sum = hn::Add(sum, hn::Abs(hn::LoadU(d, group.re + n * group.stride + v * lanes)));
      sum = hn::Add(sum, hn::Abs(hn::LoadU(d, group.im + n * group.stride + v * lanes)));
    }
    doubt[v] = hn::Mul(sum, hn::Set(d, DBL_EPSILON * (static_cast<double>(h) + 4.0 * kReseed)));
  }
}

template <int kV>
void Finish(const MirroredWindow& window, const MirroredGroup& group, const Totals* totals) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V steps = hn::Set(d, static_cast<double>(window.window - 1));
  for (int v = 0; v < kV; ++v) {
    const Totals& t = totals[v];
    if (group.mean) hn::StoreU(hn::Div(t.sum, steps), d, group.mean + v * lanes);
    if (group.max) hn::StoreU(t.max, d, group.max + v * lanes);
    if (group.effective)
      hn::StoreU(hn::Div(hn::Mul(t.weight, t.weight), t.square), d, group.effective + v * lanes);
    if (group.aliased) hn::StoreU(hn::Div(t.aliased, steps), d, group.aliased + v * lanes);
    if (group.aliased_f16) hn::StoreU(hn::Div(t.aliased_f16, steps), d, group.aliased_f16 + v * lanes);
    if (group.negative) hn::StoreU(t.negative, d, group.negative + v * lanes);
  }
}

template <int kV>
void SweepLanes(const MirroredWindow& window, const MirroredGroup& group) {
  const D d;
  const MirroredPlan& plan = window.plan;
  const std::size_t lanes = hn::Lanes(d), width = kV * lanes, h = plan.omega.size();
  double *u = group.scratch, *rows = group.scratch + 2 * h * width;
  const bool with_constant = group.softcap > 0;
  Totals totals[kV];
  V doubt[kV];
  for (Totals& t : totals) {
    t.sum = t.max = t.weight = t.square = t.aliased = t.aliased_f16 = t.negative = hn::Zero(d);
    t.top = hn::Set(d, -DBL_MAX);
  }
  if (group.negative) ErrorBounds<kV>(plan, group, doubt);
  for (std::int64_t index = 0; index < window.blocks; ++index) {
    const MirroredBlock block = window.block(index);
    const bool last_block = index == window.blocks - 1;
    // The last block may be shorter, which moves its centre.
    if (index % kReseed == 0 || last_block) {
      SeedBlock<kV>(plan, group, group.origin + static_cast<double>(block.centre), u);
    } else {
      AdvanceBlock<kV>(plan, u);
    }
    FillRows<kV>(plan, u, block.above, rows);
    const std::size_t first = plan.half - block.below, last = plan.half + block.above;
    const std::size_t end = last_block ? last + 1 : last;  // a shared boundary distance counts once
    if (group.mean || group.max) Differences<kV>(rows, first, last, totals);
    if (!group.effective && !group.aliased && !group.aliased_f16 && !group.negative && !group.scores)
      continue;
    V centre_score[kV], full_score[kV];  // without and with c_0
    for (int v = 0; v < kV; ++v) {
      V sum = hn::Zero(d);
      for (std::size_t n = 0; n < h; ++n) sum = hn::Add(sum, hn::LoadU(d, u + n * width + v * lanes));
      centre_score[v] = sum;
      full_score[v] = hn::Add(sum, hn::LoadU(d, group.constant + v * lanes));
    }
    if (group.effective)
      SoftmaxSums<kV>(rows, first, end, group.softcap, with_constant ? full_score : centre_score, totals);
    if (group.aliased)
      CountAliased<Bfloat16Format, kV>(rows, first, last, full_score, &Totals::aliased, totals);
    if (group.aliased_f16)
      CountAliased<Float16Format, kV>(rows, first, last, full_score, &Totals::aliased_f16, totals);
    if (group.scores)
      StoreScores<kV>(rows, first, end, centre_score,
                      group.scores + static_cast<std::size_t>(index * window.span()) * width);
    if (group.negative)
      CountNegative<kV>(plan, group, rows, first, end, block.centre, full_score, doubt, totals);
  }
  Finish<kV>(window, group, totals);
}

void SweepVectors(const MirroredWindow& window, const MirroredGroup& group, std::size_t vectors) {
  switch (vectors) {
    case 1:
      return SweepLanes<1>(window, group);
    case 2:
      return SweepLanes<2>(window, group);
    default:
      return SweepLanes<3>(window, group);
  }
}

std::size_t VectorLanes() { return hn::Lanes(D()); }

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(SweepVectors);
HWY_EXPORT(VectorLanes);

double direct_score(std::span<const double> omega, const double* re, const double* im, std::size_t stride,
                    double constant, double distance) {
  double sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    const Phase e = phase_at(distance, omega[n]);
    sum += re[n * stride] * e.cos - im[n * stride] * e.sin;
  }
  return sum + constant;
}

double score_error_bound(std::span<const double> omega, const double* re, const double* im,
                         std::size_t stride) {
  double sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) sum += std::abs(re[n * stride]) + std::abs(im[n * stride]);
  return sum * DBL_EPSILON * (static_cast<double>(omega.size()) + 4.0 * HWY_NAMESPACE::kReseed);
}

std::size_t simd_lanes() { return HWY_DYNAMIC_DISPATCH(VectorLanes)(); }

std::size_t mirrored_scratch_size(const MirroredPlan& plan) {
  return kGroupVectors * simd_lanes() * (2 * plan.omega.size() + 2 * plan.half + 1);
}

void mirrored_group(const MirroredWindow& window, const MirroredGroup& group, std::size_t vectors) {
  HWY_DYNAMIC_DISPATCH(SweepVectors)(window, group, vectors);
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

#include "spectral/compressed_sweep_kernel.hpp"

#include <algorithm>
#include <cmath>

#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/phase.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/compressed_sweep_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "spectral/compressed_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

using DD = hn::ScalableTag<double>;
using VD = hn::Vec<DD>;
constexpr int kParts = HWY_TARGET == HWY_SCALAR ? 1 : 2;  // float64 vectors to one of float32

// One vector is fastest where 32 registers hold all sums beside the tile, two where there are 16 (measured on
// Zen 4: 0.45 ns against 0.52 with AVX-512, 0.75 against 1.1 with AVX2, with rows in memory).
constexpr int kGroup = kManyRegisters ? 1 : 2;

constexpr double kUnit = std::numbers::log2e * kExpSteps;  // coefficients to logits in the units of Exp2
constexpr int kRaise = 48;                                 // powers of two by which an offset is raised
constexpr int kMostRaises = 128;  // enough for the widest lane that comes here; ends lanes that are infinite
constexpr float kTooLarge = 0x1p100f;  // sums of squares beyond it ask for a raise
constexpr std::size_t kRows = 2 * kInnerHalf + 1;

/// Sums and the offset of one softmax: logits are taken relative to a whole power of two, near the largest
/// so far.
struct Softmax {
  double *offset, *weight, *square;  // [width]; offset in units of Exp2
};

/// Where a group keeps its things between steps; carved out of one scratch buffer.
template <int kV>
struct Work {
  const CompressedPlan& plan;
  std::size_t lanes = hn::Lanes(D()), width = kV * lanes, size = 0;
  double *phase, *constant, *step, *scale, *gain, *negative;
  Softmax plain;
  double* scaled;  // [scales][3][width]
  float *direct_a, *direct_b, *outer_a, *outer_b, *rest_a, *rest_b, *even[2], *odd[2], *shift[2];
  float *centre, *top, *rows;

  Work(const CompressedPlan& p, std::size_t scales, double* scratch) : plan(p) {
    const auto doubles = [&](std::size_t n) {
      double* at = scratch == nullptr ? nullptr : scratch + size;
      size += (n + 7) / 8 * 8;
      return at;
    };
    const auto floats = [&](std::size_t n) { return reinterpret_cast<float*>(doubles((n * width + 1) / 2)); };
    phase = doubles(2 * p.n_freq);
    constant = doubles(width);
    step = doubles(width);
    scale = doubles(width);
    gain = doubles(width);
    negative = doubles(width);
    plain = {doubles(width), doubles(width), doubles(width)};
    scaled = doubles(3 * width * scales);
    direct_a = floats(p.n_direct);
    direct_b = floats(p.n_direct);
    outer_a = floats(p.n_middle + CompressedPlan::tiles(p.outer_even) * kPlanTile);
    outer_b = floats(p.n_middle + CompressedPlan::tiles(p.outer_odd) * kPlanTile);
    rest_a = floats(p.n_rest());
    rest_b = floats(p.n_rest());
    for (int side : {0, 1}) {
      even[side] = floats(p.even_size());
      odd[side] = floats(p.odd_size());
      shift[side] = floats(1);
    }
    centre = floats(1);
    top = floats(1);
    rows = floats(kRows);
  }

  Softmax scaled_softmax(std::size_t i) const {
    double* at = scaled + 3 * width * i;
    return {at, at + width, at + 2 * width};
  }
};

/// y[r] = sum_k table x, rows in tiles.
template <int kV>
HWY_INLINE void TiledProduct(const float* table, std::size_t rows, std::size_t columns, const float* x,
                             float* y) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t first = 0; first < rows; first += kPlanTile) {
    V acc[kPlanTile][kV];
    Clear<kV>(acc);
    TileSums<kV>(table + first * columns, x, 0, columns, acc);
    for (std::size_t r = 0; r < kPlanTile; ++r) {
      for (int v = 0; v < kV; ++v) hn::Store(acc[r][v], d, y + ((first + r) * kV + v) * lanes);
    }
  }
}

HWY_INLINE V Demote(const VD (&parts)[kParts]) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  return hn::DemoteTo(d, parts[0]);
#else
  const hn::Half<D> dh;
  return hn::Combine(d, hn::DemoteTo(dh, parts[1]), hn::DemoteTo(dh, parts[0]));
#endif
}

/// The same into memory, in halves: nothing has to be put together.
HWY_INLINE void StoreDemoted(const VD (&parts)[kParts], float* to) {
#if HWY_TARGET == HWY_SCALAR
  hn::Store(hn::DemoteTo(D(), parts[0]), D(), to);
#else
  const hn::Half<D> dh;
  hn::Store(hn::DemoteTo(dh, parts[0]), dh, to);
  hn::Store(hn::DemoteTo(dh, parts[1]), dh, to + hn::Lanes(dh));
#endif
}

/// to[lane] += value - floor, in float64.
HWY_INLINE void Fold(V value, double* to, double floor = 0) {
  const DD dd;
  const VD taken = hn::Set(dd, floor);
#if HWY_TARGET == HWY_SCALAR
  hn::Store(hn::Add(hn::Load(dd, to), hn::Sub(hn::PromoteTo(dd, value), taken)), dd, to);
#else
  const hn::Half<D> dh;
  const VD lower = hn::PromoteTo(dd, hn::LowerHalf(dh, value));
  const VD upper = hn::PromoteTo(dd, hn::UpperHalf(dh, value));
  hn::Store(hn::Add(hn::Load(dd, to), hn::Sub(lower, taken)), dd, to);
  to += hn::Lanes(dd);
  hn::Store(hn::Add(hn::Load(dd, to), hn::Sub(upper, taken)), dd, to);
#endif
}

/// U = z e^{i C omega} in float64, rounded once to float32; the projections of the slowest; S(C) of all but
/// the direct ones.
template <int kV>
HWY_NOINLINE void OuterBlock(const Work<kV>& w, const CompressedGroup& group, const double* phase) {
  const DD dd;
  const CompressedPlan& plan = w.plan;
  const std::size_t half = hn::Lanes(dd);
  VD constant[kParts * kV], scale[kParts * kV];
  bool is_scaled = false;
  for (int v = 0; v < kParts * kV; ++v) {
    constant[v] = hn::Zero(dd);
    scale[v] = hn::Load(dd, w.scale + v * half);
    is_scaled = is_scaled || !hn::AllTrue(dd, hn::Eq(scale[v], hn::Set(dd, 1.0)));
  }
  for (std::size_t n = 0; n < plan.n_freq; ++n) {
    const double *re = group.re + plan.order[n] * group.stride, *im = group.im + plan.order[n] * group.stride;
    const VD c = hn::Set(dd, kUnit * phase[2 * n]), s = hn::Set(dd, kUnit * phase[2 * n + 1]);
    const std::size_t m = n - plan.n_direct, rest = m - plan.n_middle;
    float* a = n < plan.n_direct   ? w.direct_a + n * w.width
               : m < plan.n_middle ? w.outer_a + m * w.width
                                   : w.rest_a + rest * w.width;
    float* b = n < plan.n_direct   ? w.direct_b + n * w.width
               : m < plan.n_middle ? w.outer_b + m * w.width
                                   : w.rest_b + rest * w.width;
    for (int v = 0; v < kV; ++v) {
      VD u[kParts], minus_im[kParts];
      for (int part = 0; part < kParts; ++part) {
        const int i = kParts * v + part;
        VD x = hn::LoadU(dd, re + i * half), y = hn::LoadU(dd, im + i * half);
        if (HWY_UNLIKELY(is_scaled)) {
          x = hn::Mul(scale[i], x);
          y = hn::Mul(scale[i], y);
        }
        u[part] = hn::MulSub(x, c, hn::Mul(y, s));
        minus_im[part] = hn::NegMulSub(x, s, hn::Mul(y, c));
        if (n >= plan.n_direct) constant[i] = hn::Add(constant[i], u[part]);
      }
      StoreDemoted(u, a + v * w.lanes);
      StoreDemoted(minus_im, b + v * w.lanes);
    }
  }
  for (int v = 0; v < kParts * kV; ++v) hn::Store(constant[v], dd, w.constant + v * half);
  TiledProduct<kV>(plan.project_even.data(), plan.outer_even, plan.n_rest(), w.rest_a,
                   w.outer_a + plan.n_middle * w.width);
  TiledProduct<kV>(plan.project_odd.data(), plan.outer_odd, plan.n_rest(), w.rest_b,
                   w.outer_b + plan.n_middle * w.width);
}

/// Coefficients of the inner blocks at C + inner_shift(j) (side 0) and C - inner_shift(j) (side 1), and what
/// S(c) gains over the outer constant.
template <int kV>
HWY_NOINLINE void InnerBlocks(const Work<kV>& w, std::size_t j) {
  const D d;
  const CompressedPlan& plan = w.plan;
  const std::size_t lanes = w.lanes, width = w.width;
  V gain[2][kV];
  for (int v = 0; v < kV; ++v) gain[0][v] = gain[1][v] = hn::Zero(d);
  for (std::size_t n = 0; n < plan.n_direct; ++n) {
    const V c = hn::Set(d, plan.turn[2 * (j * plan.n_direct + n)]);
    const V s = hn::Set(d, plan.turn[2 * (j * plan.n_direct + n) + 1]);
    for (int v = 0; v < kV; ++v) {
      const std::size_t at = (n * kV + v) * lanes;
      const V a = hn::Load(d, w.direct_a + at), b = hn::Load(d, w.direct_b + at);
      const V ac = hn::Mul(a, c), bc = hn::Mul(b, c), bs = hn::Mul(b, s), as = hn::Mul(a, s);
      const V plus = hn::Add(ac, bs), minus = hn::Sub(ac, bs);
      gain[0][v] = hn::Add(gain[0][v], plus);
      gain[1][v] = hn::Add(gain[1][v], minus);
      hn::Store(plus, d, w.even[0] + at);
      hn::Store(minus, d, w.even[1] + at);
      hn::Store(hn::Sub(bc, as), d, w.odd[0] + at);
      hn::Store(hn::Add(bc, as), d, w.odd[1] + at);
    }
  }
  // Row 0 of the transfer is the gain of S, then come even and odd rows.
  const std::size_t rows = plan.transfer_rows(), tiled = CompressedPlan::tiles(rows) * kPlanTile;
  const std::size_t both = std::min(plan.outer_a(), plan.outer_b());
  const float *table_a = plan.transfer_a.data() + j * tiled * plan.outer_a(),
              *table_b = plan.transfer_b.data() + j * tiled * plan.outer_b();
  float *even[2] = {w.even[0] + plan.n_direct * width, w.even[1] + plan.n_direct * width},
        *odd[2] = {w.odd[0] + plan.n_direct * width, w.odd[1] + plan.n_direct * width};
  const auto put = [&](std::size_t row, const V(&a)[kV], const V(&b)[kV]) HWY_ATTR {
    if (row >= rows) return;
    const bool is_even = row <= plan.inner_even;
    for (int v = 0; v < kV; ++v) {
      const V plus = hn::Add(a[v], b[v]), minus = is_even ? hn::Sub(a[v], b[v]) : hn::Sub(b[v], a[v]);
      if (row == 0) {
        gain[0][v] = hn::Add(gain[0][v], plus);
        gain[1][v] = hn::Add(gain[1][v], minus);
        continue;
      }
      const std::size_t at = ((is_even ? row - 1 : row - 1 - plan.inner_even) * kV + v) * lanes;
      hn::Store(plus, d, (is_even ? even : odd)[0] + at);
      hn::Store(minus, d, (is_even ? even : odd)[1] + at);
    }
  };
  for (std::size_t first = 0; first < rows; first += kPlanTile) {
    Tile<kV> sums;
    Clear<kV>(sums.even);
    Clear<kV>(sums.odd);
    const float *a_rows = table_a + first * plan.outer_a(), *b_rows = table_b + first * plan.outer_b();
    AddBoth<kV>(w.outer_a, w.outer_b, a_rows, b_rows, 0, both, sums);
    TileSums<kV>(a_rows, w.outer_a, both, plan.outer_a(), sums.even);
    TileSums<kV>(b_rows, w.outer_b, both, plan.outer_b(), sums.odd);
    static_assert(kPlanTile == 4);
    put(first, sums.even[0], sums.odd[0]);
    put(first + 1, sums.even[1], sums.odd[1]);
    put(first + 2, sums.even[2], sums.odd[2]);
    put(first + 3, sums.even[3], sums.odd[3]);
  }
  for (int side : {0, 1}) {
    for (int v = 0; v < kV; ++v) hn::Store(gain[side][v], d, w.shift[side] + v * lanes);
  }
}

/// S(c) * scale - offset + shift * scale of an inner block, in units of Exp2: the constant part in float64
/// until the offset is off.
template <int kV>
HWY_INLINE void Centre(const Work<kV>& w, int side, double scale, const double* offset) {
  const D d;
  const DD dd;
  const std::size_t half = hn::Lanes(dd);
  for (int v = 0; v < kV; ++v) {
    VD constant[kParts];
    for (int part = 0; part < kParts; ++part) {
      const std::size_t at = static_cast<std::size_t>(kParts * v + part) * half;
      constant[part] = hn::Mul(hn::Set(dd, scale), hn::Load(dd, w.constant + at));
      constant[part] = hn::Sub(constant[part], hn::Load(dd, offset + at));
    }
    const V shift = hn::Mul(hn::Set(d, static_cast<float>(scale)), hn::Load(d, w.shift[side] + v * w.lanes));
    hn::Store(hn::Add(Demote(constant), shift), d, w.centre + v * w.lanes);
  }
}

/// Raises the offset of the lanes whose sums came out too large. Both sums so far are scaled by powers of
/// two, so raising costs no accuracy. False where no lane needed it.
template <int kV>
bool Raise(const Work<kV>& w, const Softmax& softmax, const BlockSums<kV>& sums) {
  const D d;
  bool any = false;
  for (int v = 0; v < kV; ++v) any = any || !hn::AllFalse(d, hn::Gt(sums.square[v], hn::Set(d, kTooLarge)));
  if (HWY_LIKELY(!any)) return false;
  HWY_ALIGN float square[kV * HWY_MAX_BYTES / sizeof(float)];
  for (int v = 0; v < kV; ++v) hn::Store(sums.square[v], d, square + v * w.lanes);
  for (std::size_t p = 0; p < w.width; ++p) {
    if (!(square[p] > kTooLarge)) continue;
    softmax.offset[p] += kRaise * kExpSteps;
    softmax.weight[p] = std::ldexp(softmax.weight[p], -kRaise);
    softmax.square[p] = std::ldexp(softmax.square[p], -2 * kRaise);
  }
  return true;
}

/// What is left to take from whole rows S(c + t) - S(c): E_2 at other logit scales, and counts of S < 0.
template <int kV>
struct RowSums {
  const Work<kV>& w;
  const CompressedGroup& group;
  int side;
  std::int64_t distance;  // c
  Part part;

  HWY_INLINE void Scaled(std::size_t i) const {
    const D d;
    const Exp2 exp2;
    const double scale = group.scales[i];
    const V factor = hn::Set(d, static_cast<float>(scale));
    const Softmax softmax = w.scaled_softmax(i);
    BlockSums<kV> sums;
    for (int tries = 0; tries < kMostRaises; ++tries) {
      Centre(w, side, scale, softmax.offset);
      for (int v = 0; v < kV; ++v) {
        sums.weight[v] = hn::Zero(d);
        sums.square[v] = hn::Set(d, kSquareFloor);
        const V centre = hn::Load(d, w.centre + v * w.lanes);
        for (std::size_t r = 0; r < used(); ++r) {
          const V row = hn::Load(d, w.rows + (r * kV + v) * w.lanes);
          Weigh<kV, true>(exp2, hn::MulAdd(factor, row, centre), v, sums);
        }
      }
      if (!Raise(w, softmax, sums)) break;
    }
    for (int v = 0; v < kV; ++v) {
      Fold(sums.weight[v], softmax.weight + v * w.lanes);
      Fold(sums.square[v], softmax.square + v * w.lanes, kSquareFloor);
    }
  }

  /// Lanes within their float32 error of 0 are evaluated again in float64.
  HWY_NOINLINE void Negative() const {
    const D d;
    HWY_ALIGN double none[kV * HWY_MAX_BYTES / sizeof(float)];
    for (std::size_t p = 0; p < w.width; ++p) none[p] = -group.constant[p] * w.gain[p];
    Centre(w, side, 1.0, none);
    for (int v = 0; v < kV; ++v) {
      HWY_ALIGN float bound[HWY_MAX_BYTES / sizeof(float)], score[HWY_MAX_BYTES / sizeof(float)];
      const std::size_t first = static_cast<std::size_t>(v) * w.lanes;
      for (std::size_t p = 0; p < w.lanes; ++p)
        bound[p] = static_cast<float>(kDoubt * group.facts[first + p].outer * w.gain[first + p]);
      const V doubt = hn::Load(d, bound), centre = hn::Load(d, w.centre + first), one = hn::Set(d, 1.0f);
      V count = hn::Zero(d);
      for (std::size_t r = 0; r < used(); ++r) {
        V x = hn::Add(centre, hn::Load(d, w.rows + (r * kV + v) * w.lanes));
        if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Le(hn::Abs(x), doubt)))) {
          hn::Store(x, d, score);
          const double m = static_cast<double>(distance + static_cast<std::int64_t>(r)) - kInnerHalf;
          for (std::size_t p = 0; p < w.lanes; ++p) {
            if (!(std::abs(score[p]) <= bound[p])) continue;
            const double exact = direct_score(group.omega, group.re + first + p, group.im + first + p,
                                              group.stride, group.constant[first + p], m);
            score[p] = exact < 0 ? -1.0f : 1.0f;
          }
          x = hn::Load(d, score);
        }
        count = hn::Add(count, hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), one));
      }
      Fold(count, w.negative + first);
    }
  }

  std::size_t used() const { return static_cast<std::size_t>(part.last + static_cast<int>(kInnerHalf) + 1); }

  /// Bound on |error of S| / sum |z_n| min(1, kOuterHalf omega_n), several times what was ever seen.
  static constexpr double kDoubt = 8 * 0x1p-24;
};

template <int kV, bool kDiff, bool kExp, bool kClamp>
class GroupSweep {
 public:
  GroupSweep(const CompressedPlan& plan, std::int64_t window, const CompressedGroup& group)
      : plan_(plan),
        group_(group),
        steps_(group.values ? window : window - 1),
        w_(plan, group.scales.size(), group.scratch) {}

  void Run() {
    Start();
    constexpr auto kInner = static_cast<std::int64_t>(2 * kInnerHalf);
    const std::int64_t blocks = outer_blocks(steps_);
    for (std::int64_t k = 0; k < blocks; ++k) {
      const bool known = k < group_.known_phases;
      const double* phase = known ? group_.phases + 2 * plan_.n_freq * static_cast<std::size_t>(k) : w_.phase;
      if (!known) outer_phases(plan_, steps_, k, w_.phase);
      OuterBlock<kV>(w_, group_, phase);
      const OuterSpan outer = outer_span(steps_, k);
      for (std::int64_t j = 0; j < static_cast<std::int64_t>(kInnerPairs); ++j) {
        const std::int64_t behind = outer.centre - (j + 1) * kInner, ahead = outer.centre + j * kInner;
        if (behind < outer.start && ahead >= outer.end) break;
        InnerBlocks<kV>(w_, static_cast<std::size_t>(j));
        if (behind >= outer.start) TakeBlock(1, behind);
        if (ahead < outer.end) TakeBlock(0, ahead);
      }
    }
    Finish();
  }

 private:
  void Start() {
    for (std::size_t p = 0; p < w_.width; ++p) {
      w_.scale[p] = group_.scale[p];
      w_.gain[p] = group_.scale[p] * kUnit;
      w_.step[p] = w_.negative[p] = 0;
      w_.top[p] = 0;
      const double score = kExp || group_.scaled ? group_.facts[p].at_zero : 0.0;
      StartSoftmax(w_.plain, p, score, kExp ? logit_range(group_.facts[p]).raise : 0);
      for (std::size_t i = 0; i < group_.scales.size(); ++i)
        StartSoftmax(w_.scaled_softmax(i), p, score * group_.scales[i], 0);
    }
  }

  void StartSoftmax(const Softmax& softmax, std::size_t p, double score, int raise) {
    softmax.offset[p] = (std::ceil(score * group_.scale[p] * std::numbers::log2e) + raise) * kExpSteps;
    softmax.weight[p] = softmax.square[p] = 0;
  }

  /// The inner block of distances start ... start + 2 kInnerHalf, or as many as the window has. `steps_`
  /// differences lie between `steps_ + 1` distances; for values there are `steps_` of them.
  void TakeBlock(int side, std::int64_t start) {
    const int half = static_cast<int>(kInnerHalf);
    Part part;
    const bool is_last = steps_ - start <= 2 * half;
    if (is_last) part.end = part.last = static_cast<int>(steps_ - start) - half;
    if (group_.values) part.last = part.end - 1;
    const Block block{&plan_, w_.even[side], w_.odd[side], w_.centre};
    if constexpr (kDiff || kExp) {
      BlockSums<kV> sums;
      for (int tries = 0; tries < kMostRaises; ++tries) {
        Centre(w_, side, 1.0, w_.plain.offset);
        Clear(sums);
        if (group_.values) {
          ValueBlock<kV>(block, part, sums);
        } else if (is_last || tries > 0) {
          PartBlock<kV, kDiff, kExp, kClamp>(block, part, sums);
        } else {
          WholeBlock<kV, kDiff, kExp, kClamp>(block, sums);
        }
        if (!kExp || !kClamp || !Raise(w_, w_.plain, sums)) break;
      }
      for (int v = 0; v < kV; ++v) {
        const std::size_t at = static_cast<std::size_t>(v) * w_.lanes;
        hn::Store(sums.top[v], D(), w_.top + at);
        Fold(sums.step[v], w_.step + at);
        Fold(sums.weight[v], w_.plain.weight + at);
        Fold(sums.square[v], w_.plain.square + at, kSquareFloor);
      }
    }
    if (group_.scales.empty() && group_.negative == nullptr) return;
    FillRows<kV>(block, w_.rows);
    const RowSums<kV> rows{w_, group_, side, start + half, part};
    for (std::size_t i = 0; i < group_.scales.size(); ++i) rows.Scaled(i);
    if (group_.negative) rows.Negative();
  }

  void Clear(BlockSums<kV>& sums) {
    for (int v = 0; v < kV; ++v) {
      sums.step[v] = sums.weight[v] = hn::Zero(D());
      sums.square[v] = hn::Set(D(), kSquareFloor);
      sums.top[v] = hn::Load(D(), w_.top + static_cast<std::size_t>(v) * w_.lanes);
    }
  }

  void Finish() {
    const auto length = [&](const Softmax& s, std::size_t p) {
      return s.weight[p] * s.weight[p] / s.square[p];
    };
    for (std::size_t p = 0; p < w_.width; ++p) {
      if (group_.mean) group_.mean[p] = 2 * w_.step[p] / (w_.gain[p] * static_cast<double>(steps_));
      if (group_.max) group_.max[p] = static_cast<double>(w_.top[p]) / w_.gain[p];
      if (group_.effective) group_.effective[p] = length(w_.plain, p);
      if (group_.negative) group_.negative[p] = w_.negative[p];
      for (std::size_t i = 0; i < group_.scales.size(); ++i)
        group_.scaled[i * group_.scaled_stride + p] = length(w_.scaled_softmax(i), p);
    }
  }

  const CompressedPlan& plan_;
  const CompressedGroup& group_;
  std::int64_t steps_;
  Work<kV> w_;
};

template <bool kDiff, bool kExp, bool kClamp>
void Sweep(const CompressedPlan& plan, std::int64_t window, const CompressedGroup& group) {
  GroupSweep<kGroup, kDiff, kExp, kClamp>(plan, window, group).Run();
}

void CompressedSweep(const CompressedPlan& plan, std::int64_t window, const CompressedGroup& group) {
  const bool diff = group.mean || group.max, exp = group.effective;
  if (diff && exp)
    return group.wide ? Sweep<true, true, true>(plan, window, group)
                      : Sweep<true, true, false>(plan, window, group);
  if (exp)
    return group.wide ? Sweep<false, true, true>(plan, window, group)
                      : Sweep<false, true, false>(plan, window, group);
  if (diff) return Sweep<true, false, false>(plan, window, group);
  Sweep<false, false, false>(plan, window, group);
}

void CompressedLaneFacts(const CompressedPlan& plan, const double* re, const double* im, std::size_t stride,
                         std::size_t lanes, LaneFacts* facts) {
  const DD dd;
  const std::size_t half = hn::Lanes(dd), width = kParts * half;
  HWY_ALIGN double values[6][kParts * HWY_MAX_BYTES / sizeof(double)];
  for (std::size_t first = 0; first < lanes; first += width) {
    VD largest[kParts], total[kParts], inner[kParts], outer[kParts], squares[kParts], at_zero[kParts];
    for (int i = 0; i < kParts; ++i)
      largest[i] = total[i] = inner[i] = outer[i] = squares[i] = at_zero[i] = hn::Zero(dd);
    for (std::size_t n = 0; n < plan.n_freq; ++n) {
      const std::size_t at = plan.order[n] * stride + first;
      const VD inner_reach = hn::Set(dd, plan.reach[3 * n]), outer_reach = hn::Set(dd, plan.reach[3 * n + 1]),
               square_reach = hn::Set(dd, plan.reach[3 * n + 2]);
      for (int i = 0; i < kParts; ++i) {
        const VD score = hn::LoadU(dd, re + at + i * half), other = hn::LoadU(dd, im + at + i * half);
        const VD x = hn::Abs(score), y = hn::Abs(other), size = hn::Add(x, y);
        at_zero[i] = hn::Add(at_zero[i], score);
        largest[i] = hn::Max(largest[i], hn::Max(x, y));
        total[i] = hn::Add(total[i], size);
        inner[i] = hn::MulAdd(size, inner_reach, inner[i]);
        outer[i] = hn::MulAdd(size, outer_reach, outer[i]);
        squares[i] = hn::MulAdd(hn::MulAdd(x, x, hn::Mul(y, y)), square_reach, squares[i]);
      }
    }
    for (int i = 0; i < kParts; ++i) {
      const VD all[6] = {largest[i], total[i], inner[i], outer[i], hn::Sqrt(squares[i]), at_zero[i]};
      for (int fact = 0; fact < 6; ++fact) hn::Store(all[fact], dd, values[fact] + i * half);
    }
    for (std::size_t p = 0; p < width && first + p < lanes; ++p)
      facts[first + p] = {values[0][p], values[1][p], values[2][p], values[3][p], values[4][p], values[5][p]};
  }
}

std::size_t GroupLanes() { return kGroup * hn::Lanes(D()); }

std::size_t ScratchSize(const CompressedPlan& plan, std::size_t scales) {
  return Work<kGroup>(plan, scales, nullptr).size;
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(CompressedSweep);
HWY_EXPORT(CompressedLaneFacts);
HWY_EXPORT(GroupLanes);
HWY_EXPORT(ScratchSize);

std::int64_t outer_blocks(std::int64_t steps) {
  constexpr auto kSpan = static_cast<std::int64_t>(2 * kOuterHalf);
  return (steps + kSpan - 1) / kSpan;
}

OuterSpan outer_span(std::int64_t steps, std::int64_t index) {
  constexpr auto kSpan = static_cast<std::int64_t>(2 * kOuterHalf),
                 kInner = static_cast<std::int64_t>(2 * kInnerHalf);
  OuterSpan span;
  span.start = index * kSpan;
  span.end = std::min(span.start + kSpan, steps);
  // As many inner blocks behind the centre as ahead of it, so that both sides of every shift are used.
  const std::int64_t inner = (span.end - span.start + kInner - 1) / kInner;
  span.centre = span.start + (inner + 1) / 2 * kInner;
  return span;
}

void outer_phases(const CompressedPlan& plan, std::int64_t steps, std::int64_t index, double* phase) {
  const OuterSpan span = outer_span(steps, index);
  if (index % kOuterReseed == 0 || span.centre != span.start + static_cast<std::int64_t>(kOuterHalf)) {
    for (std::size_t n = 0; n < plan.n_freq; ++n) {
      const Phase e = phase_at(static_cast<double>(span.centre), plan.omega[n]);
      phase[2 * n] = e.cos;
      phase[2 * n + 1] = e.sin;
    }
    return;
  }
  for (std::size_t n = 0; n < plan.n_freq; ++n) {
    const double c = phase[2 * n], s = phase[2 * n + 1];
    const double dc = plan.advance[2 * n], ds = plan.advance[2 * n + 1];
    phase[2 * n] = c * dc - s * ds;
    phase[2 * n + 1] = c * ds + s * dc;
  }
}

std::size_t compressed_group_lanes() { return HWY_DYNAMIC_DISPATCH(GroupLanes)(); }

std::size_t compressed_scratch_size(const CompressedPlan& plan, std::size_t scales) {
  return HWY_DYNAMIC_DISPATCH(ScratchSize)(plan, scales);
}

void compressed_lane_facts(const CompressedPlan& plan, const double* re, const double* im, std::size_t stride,
                           std::size_t lanes, LaneFacts* facts) {
  HWY_DYNAMIC_DISPATCH(CompressedLaneFacts)(plan, re, im, stride, lanes, facts);
}

void compressed_group(const CompressedPlan& plan, std::int64_t window, const CompressedGroup& group) {
  HWY_DYNAMIC_DISPATCH(CompressedSweep)(plan, window, group);
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

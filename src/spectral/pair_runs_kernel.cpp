#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "spectral/pair_runs.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/pair_runs_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

constexpr std::size_t kMaxVectors = 4;  // side by side in a chunk of lanes
constexpr std::size_t kMaxLanes = HWY_MAX_BYTES / sizeof(double);

// Sums of squares outside are computed again with a scale: below, squares may have lost digits.
constexpr double kSmallestSquare = 0x1p-800, kLargestSquare = 0x1p900;

/// Part of a run: `count` lanes from `first` on, in kV vectors of which the last may be partial.
struct Chunk {
  std::size_t first, count;
};

/// Stores the first `count` lanes; others are neither read nor written, as other threads may own them.
HWY_INLINE void StoreFirst(V v, double* to, std::size_t count) {
  const D d;
  if (count >= hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else if (count > 0) {
    // A target of two lanes has one left, and may emulate masks by reading and writing whole vectors.
    if constexpr (kMaxLanes <= 2) {
      *to = hn::GetLane(v);
    } else {
      hn::BlendedStore(v, hn::FirstN(d, count), d, to);
    }
  }
}

template <int kV>
HWY_INLINE void StoreChunk(const V (&v)[kV], double* to, std::size_t count) {
  const std::size_t lanes = hn::Lanes(D());
  for (int i = 0; i + 1 < kV; ++i) hn::StoreU(v[i], D(), to + i * lanes);
  StoreFirst(v[kV - 1], to + (kV - 1) * lanes, count - (kV - 1) * lanes);
}

/// Rows n and n + n_freq of one token, and of the columns from `first` on.
template <int kV>
struct Factors {
  const double *query, *key;
  std::size_t query_stride, key_stride, h;
  Factors(const VectorColumns& queries, std::size_t q, const VectorColumns& keys, std::size_t first)
      : query(queries.row(0) + q),
        key(keys.row(0) + first),
        query_stride(queries.stride),
        key_stride(keys.stride),
        h(keys.n_freq) {}

  HWY_INLINE V Query(std::size_t row) const { return hn::Set(D(), query[row * query_stride]); }
  HWY_INLINE void Product(std::size_t n, V (&re)[kV], V (&im)[kV]) const {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const V qa = Query(n), qb = Query(n + h);
    for (int v = 0; v < kV; ++v) {
      const V ka = hn::LoadU(d, key + n * key_stride + v * lanes);
      const V kb = hn::LoadU(d, key + (n + h) * key_stride + v * lanes);
      re[v] = hn::MulAdd(qb, kb, hn::Mul(qa, ka));
      im[v] = hn::MulSub(qb, ka, hn::Mul(qa, kb));
    }
  }
  /// The real part alone.
  HWY_INLINE V RealPart(std::size_t n, int v) const {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const V ka = hn::LoadU(d, key + n * key_stride + v * lanes);
    const V kb = hn::LoadU(d, key + (n + h) * key_stride + v * lanes);
    return hn::MulAdd(Query(n + h), kb, hn::Mul(Query(n), ka));
  }
};

HWY_INLINE V Square(V re, V im) { return hn::MulAdd(im, im, hn::Mul(re, re)); }

template <int kV>
HWY_INLINE void Constants(const PairRun& run, Chunk chunk, V (&sum)[kV]) {
  const Factors<kV> factors(*run.query, run.q, *run.key, run.first_key + chunk.first);
  for (V& s : sum) s = hn::Zero(D());
  for (std::size_t r = 2 * factors.h; r < run.key->rows(); ++r) {
    const V q = factors.Query(r);
    for (int v = 0; v < kV; ++v)
      sum[v] =
          hn::MulAdd(q, hn::LoadU(D(), factors.key + r * factors.key_stride + v * hn::Lanes(D())), sum[v]);
  }
}

template <int kV>
struct ConstantsOf {
  static void Do(const PairRun& run, Chunk chunk, double* constant) {
    V sum[kV];
    Constants<kV>(run, chunk, sum);
    StoreChunk<kV>(sum, constant + chunk.first, chunk.count);
  }
};

template <int kV>
struct Multiply {
  static void Do(const PairRun& run, Chunk chunk, CoefficientBatch& batch) {
    const std::size_t lane = run.first_lane + chunk.first;
    const Factors<kV> factors(*run.query, run.q, *run.key, run.first_key + chunk.first);
    V re[kV], im[kV];
    for (std::size_t n = 0; n < factors.h; ++n) {
      factors.Product(n, re, im);
      StoreChunk<kV>(re, batch.re.data() + n * batch.stride + lane, chunk.count);
      StoreChunk<kV>(im, batch.im.data() + n * batch.stride + lane, chunk.count);
    }
    Constants<kV>(run, chunk, re);
    StoreChunk<kV>(re, batch.constant.data() + lane, chunk.count);
  }
};

/// Scale of a lane, and its norms made with it.
double ScaleLane(const CoefficientBatch& batch, std::size_t lane, const double* subset, double& norm,
                 double& subset_norm) {
  double largest = 0;
  bool finite = true;
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double re = batch.re[n * batch.stride + lane], im = batch.im[n * batch.stride + lane];
    finite = finite && std::isfinite(re) && std::isfinite(im);
    largest = std::max(largest, std::max(std::abs(re), std::abs(im)));
  }
  norm = subset_norm = finite ? 0.0 : HUGE_VAL;
  if (!finite || largest == 0) return 1.0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double scale = std::ldexp(1.0, std::clamp(-exponent, -1000, 1000));
  double all = 0, part = 0;
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double re = scale * batch.re[n * batch.stride + lane],
                 im = scale * batch.im[n * batch.stride + lane];
    all += re * re + im * im;
    part += subset[n] * (re * re + im * im);
  }
  norm = std::sqrt(all) / scale;
  subset_norm = std::sqrt(part) / scale;
  return scale;
}

void ClearLane(CoefficientBatch& batch, std::size_t lane) {
  for (std::size_t n = 0; n < batch.n_freq; ++n)
    batch.re[n * batch.stride + lane] = batch.im[n * batch.stride + lane] = 0;
  batch.constant[lane] = 0;
}

/// Usage and frequency mass; kScaled: some lanes need the powers of two in `scale`.
template <int kV, bool kScaled>
void MeasureUse(const PairRun& run, Chunk chunk, const double* norm, const double* scale,
                PairMeasures& measures) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), key = run.first_key + chunk.first;
  const Factors<kV> factors(*run.query, run.q, *run.key, key);
  const Factors<kV> turned(*measures.turned_query, run.q, *measures.turned_key, key);
  hn::Mask<D> valid[kV];
  V sum[kV], weighted[kV], s[kV], unscale[kV], re[kV], im[kV];
  for (int v = 0; v < kV; ++v) {
    valid[v] = hn::Gt(hn::LoadU(d, norm + v * lanes), hn::Zero(d));
    sum[v] = weighted[v] = hn::Zero(d);
    s[v] = hn::LoadU(d, scale + v * lanes);
    if (kScaled) unscale[v] = hn::Div(hn::Set(d, 1.0), s[v]);
  }
  for (std::size_t n = 0; n < factors.h; ++n) {
    factors.Product(n, re, im);
    const V omega = hn::Set(d, measures.omega[n]);
    V seen = hn::LoadU(d, measures.usage->seen(n)), moduli = hn::LoadU(d, measures.usage->modulus(n));
    for (int v = 0; v < kV; ++v) {
      if (kScaled) {
        re[v] = hn::Mul(re[v], s[v]);
        im[v] = hn::Mul(im[v], s[v]);
      }
      const V modulus = hn::Sqrt(Square(re[v], im[v]));
      sum[v] = hn::Add(sum[v], modulus);
      weighted[v] = hn::MulAdd(modulus, omega, weighted[v]);
      moduli =
          hn::Add(moduli, hn::IfThenElseZero(valid[v], kScaled ? hn::Mul(modulus, unscale[v]) : modulus));
      seen = hn::Add(seen, hn::IfThenElseZero(valid[v], hn::Abs(turned.RealPart(n, v))));
    }
    hn::StoreU(seen, d, measures.usage->seen(n));
    hn::StoreU(moduli, d, measures.usage->modulus(n));
  }
  for (int v = 0; v < kV; ++v) sum[v] = hn::Div(weighted[v], sum[v]);
  StoreChunk<kV>(sum, measures.mass + run.first_place + chunk.first, chunk.count);
}

template <int kV>
struct Measure {
  static void Do(const PairRun& run, Chunk chunk, PairMeasures& measures, CoefficientBatch& batch) {
    const D d;
    const std::size_t lanes = hn::Lanes(d), lane = run.first_lane + chunk.first;
    const Factors<kV> factors(*run.query, run.q, *run.key, run.first_key + chunk.first);
    V all[kV], part[kV], re[kV], im[kV];
    Constants<kV>(run, chunk, re);
    StoreChunk<kV>(re, batch.constant.data() + lane, chunk.count);
    for (int v = 0; v < kV; ++v) all[v] = part[v] = hn::Zero(d);
    for (std::size_t n = 0; n < factors.h; ++n) {
      factors.Product(n, re, im);
      const V weight = hn::Set(d, measures.subset[n]);
      for (int v = 0; v < kV; ++v) {
        const V square = Square(re[v], im[v]);
        all[v] = hn::Add(all[v], square);
        part[v] = hn::MulAdd(weight, square, part[v]);
      }
      StoreChunk<kV>(re, batch.re.data() + n * batch.stride + lane, chunk.count);
      StoreChunk<kV>(im, batch.im.data() + n * batch.stride + lane, chunk.count);
    }
    HWY_ALIGN double square[kV * kMaxLanes], norm[kV * kMaxLanes], subset_norm[kV * kMaxLanes],
        scale[kV * kMaxLanes];
    for (int v = 0; v < kV; ++v) {
      hn::StoreU(all[v], d, square + v * lanes);
      hn::StoreU(hn::Sqrt(all[v]), d, norm + v * lanes);
      hn::StoreU(hn::Sqrt(part[v]), d, subset_norm + v * lanes);
      hn::StoreU(hn::Set(d, 1.0), d, scale + v * lanes);
    }
    bool scaled = false;
    for (std::size_t j = 0; j < chunk.count; ++j) {
      if (square[j] >= kSmallestSquare && square[j] <= kLargestSquare) continue;
      scale[j] = ScaleLane(batch, lane + j, measures.subset, norm[j], subset_norm[j]);
      scaled = scaled || scale[j] != 1.0;
    }
    for (std::size_t j = 0; j < chunk.count; ++j) {
      const bool finite =
          norm[j] <= measures.largest && std::abs(batch.constant[lane + j]) <= measures.largest;
      if (finite && norm[j] > 0) continue;
      ++(finite ? measures.undefined : measures.non_finite);
      ClearLane(batch, lane + j);
      norm[j] = 0;
    }
    std::fill(norm + chunk.count, norm + kV * lanes, 0.0);
    std::copy_n(norm, chunk.count, measures.norm + run.first_place + chunk.first);
    std::copy_n(subset_norm, chunk.count, measures.subset_norm + run.first_place + chunk.first);
    if (measures.usage == nullptr) return;
    if (scaled) {
      MeasureUse<kV, true>(run, chunk, norm, scale, measures);
    } else {
      MeasureUse<kV, false>(run, chunk, norm, scale, measures);
    }
  }
};

template <int kV>
struct Margins {
  static void Do(const PairRun& run, Chunk chunk, const MarginMeasures& measures, CoefficientBatch& batch) {
    const D d;
    const std::size_t lanes = hn::Lanes(d), lane = run.first_lane + chunk.first,
                      place = run.first_place + chunk.first, key = run.first_key + chunk.first;
    const Factors<kV> factors(*run.query, run.q, *run.key, key);
    V value[kV], bound[kV], re[kV], im[kV];
    for (int v = 0; v < kV; ++v) value[v] = bound[v] = hn::Zero(d);
    for (std::size_t n = 0; n < factors.h; ++n) {
      factors.Product(n, re, im);
      for (int v = 0; v < kV; ++v) {
        value[v] = hn::Add(value[v], re[v]);
        bound[v] = hn::Add(bound[v], hn::Add(hn::Abs(re[v]), hn::Abs(im[v])));
      }
      StoreChunk<kV>(re, batch.re.data() + n * batch.stride + lane, chunk.count);
      StoreChunk<kV>(im, batch.im.data() + n * batch.stride + lane, chunk.count);
    }
    StoreChunk<kV>(value, measures.value + place, chunk.count);
    StoreChunk<kV>(bound, measures.bound + place, chunk.count);
    const VectorColumns& rounding = *measures.rounding;
    V squares[2][kV];  // rows by turns: two chains of sums
    for (auto& sums : squares)
      for (V& sum : sums) sum = hn::Zero(d);
    const auto add_row = [&](std::size_t r, V(&sums)[kV]) HWY_ATTR {
      const V q = factors.Query(r), qq = hn::Mul(q, q);
      for (int v = 0; v < kV; ++v)
        sums[v] = hn::MulAdd(qq, hn::LoadU(d, rounding.row(r) + key + v * lanes), sums[v]);
    };
    std::size_t r = 0;
    for (; r + 2 <= rounding.rows(); r += 2) {
      add_row(r, squares[0]);
      add_row(r + 1, squares[1]);
    }
    if (r < rounding.rows()) add_row(r, squares[0]);
    for (int v = 0; v < kV; ++v) squares[0][v] = hn::Add(squares[0][v], squares[1][v]);
    StoreChunk<kV>(squares[0], measures.deviation + place, chunk.count);
  }
};

/// Calls Work<vectors>::Do for the chunks of a run.
template <template <int> class Work, class... Args>
HWY_INLINE void ForChunks(const PairRun& run, Args&... args) {
  const std::size_t lanes = hn::Lanes(D());
  for (std::size_t first = 0; first < run.count; first += kMaxVectors * lanes) {
    const Chunk chunk{first, std::min(kMaxVectors * lanes, run.count - first)};
    switch ((chunk.count + lanes - 1) / lanes) {
      case 1:
        Work<1>::Do(run, chunk, args...);
        break;
      case 2:
        Work<2>::Do(run, chunk, args...);
        break;
      case 3:
        Work<3>::Do(run, chunk, args...);
        break;
      default:
        Work<4>::Do(run, chunk, args...);
    }
  }
}

void MeasurePairs(const PairRun& run, PairMeasures& measures, CoefficientBatch& batch) {
  ForChunks<Measure>(run, measures, batch);
}
void MultiplyPairs(const PairRun& run, CoefficientBatch& batch) { ForChunks<Multiply>(run, batch); }
void MeasureMargins(const PairRun& run, const MarginMeasures& measures, CoefficientBatch& batch) {
  ForChunks<Margins>(run, measures, batch);
}
void PairConstants(const PairRun& run, double* constant) { ForChunks<ConstantsOf>(run, constant); }

void OrientLanes(CoefficientBatch& batch, const double* sign) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto orient_row = [&](double* row) HWY_ATTR {
    for (std::size_t lane = 0; lane < batch.n_pairs; lane += lanes) {  // into the padding at most
      const V s = hn::LoadU(d, sign + lane);
      const V turned = hn::Mul(hn::LoadU(d, row + lane), s);
      hn::StoreU(hn::IfThenElseZero(hn::Ne(s, hn::Zero(d)), turned), d, row + lane);
    }
  };
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    orient_row(batch.re.data() + n * batch.stride);
    orient_row(batch.im.data() + n * batch.stride);
  }
  orient_row(batch.constant.data());
}

void TurnColumns(VectorColumns& columns, const PhaseColumns& phases, std::size_t first, double direction) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V sign = hn::Set(d, direction);
  for (std::size_t n = 0; n < columns.n_freq; ++n) {
    double* HWY_RESTRICT a = columns.row(n);
    double* HWY_RESTRICT b = columns.row(n + columns.n_freq);
    const double* c = phases.cos.data() + n * phases.stride + first;
    const double* s = phases.sin.data() + n * phases.stride + first;
    for (std::size_t t = 0; t < columns.tokens; t += lanes) {  // beyond `tokens`: into the padding
      const V x = hn::LoadU(d, a + t), y = hn::LoadU(d, b + t);
      const V cos = hn::LoadU(d, c + t), sin = hn::Mul(sign, hn::LoadU(d, s + t));
      hn::StoreU(hn::MulSub(x, cos, hn::Mul(y, sin)), d, a + t);
      hn::StoreU(hn::MulAdd(x, sin, hn::Mul(y, cos)), d, b + t);
    }
  }
}

/// Lanes lane ... lane + count - 1 of vectors [tokens, width], each into a row of its own from `to` on.
void PutLanes(const double* from, std::size_t tokens, std::size_t width, std::size_t count, double* to,
              std::size_t stride) {
  std::size_t t = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<double, 4> d;
  const std::size_t n = hn::Lanes(d);
  for (; t + n <= tokens; t += n) {
    const double* at = from + t * width;
    std::size_t i = 0;
    for (; i + n <= count; i += n) {
      double* rows = to + i * stride + t;
      const auto a = hn::LoadU(d, at + i), b = hn::LoadU(d, at + width + i);
      const auto even = hn::InterleaveLower(d, a, b), odd = hn::InterleaveUpper(d, a, b);
      if constexpr (kMaxLanes >= 4) {
        const auto c = hn::LoadU(d, at + 2 * width + i), e = hn::LoadU(d, at + 3 * width + i);
        const auto more_even = hn::InterleaveLower(d, c, e), more_odd = hn::InterleaveUpper(d, c, e);
        hn::StoreU(hn::ConcatLowerLower(d, more_even, even), d, rows);
        hn::StoreU(hn::ConcatLowerLower(d, more_odd, odd), d, rows + stride);
        hn::StoreU(hn::ConcatUpperUpper(d, more_even, even), d, rows + 2 * stride);
        hn::StoreU(hn::ConcatUpperUpper(d, more_odd, odd), d, rows + 3 * stride);
      } else {
        hn::StoreU(even, d, rows);
        hn::StoreU(odd, d, rows + stride);
      }
    }
    for (; i < count; ++i)
      for (std::size_t k = 0; k < n; ++k) to[i * stride + t + k] = at[k * width + i];
  }
#endif
  for (; t < tokens; ++t)
    for (std::size_t i = 0; i < count; ++i) to[i * stride + t] = from[t * width + i];
}

void DifferenceColumns(const VectorColumns& first, const VectorColumns& second, double query_unit,
                       double key_unit, VectorColumns& difference, VectorColumns& rounding) {
  const D d;
  const V uq = hn::Set(d, query_unit * query_unit), uk = hn::Set(d, key_unit * key_unit);
  // Padding is computed too: stride is a multiple of the lanes.
  for (std::size_t i = 0; i < first.rows() * first.stride; i += hn::Lanes(d)) {
    const V x = hn::LoadU(d, first.values.data() + i), y = hn::LoadU(d, second.values.data() + i);
    const V apart = hn::Sub(x, y);
    hn::StoreU(apart, d, difference.values.data() + i);
    const V squares = hn::MulAdd(y, y, hn::Mul(x, x));
    hn::StoreU(hn::MulAdd(uq, hn::Mul(apart, apart), hn::Mul(uk, squares)), d, rounding.values.data() + i);
  }
}

void FoldUsage(const double* sums, std::size_t n_freq, double* to) {
  const D d;
  for (std::size_t n = 0; n < n_freq; ++n)
    to[n] += hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums + n * kLaneAlign)));
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(MeasurePairs);
HWY_EXPORT(MultiplyPairs);
HWY_EXPORT(MeasureMargins);
HWY_EXPORT(PairConstants);
HWY_EXPORT(OrientLanes);
HWY_EXPORT(TurnColumns);
HWY_EXPORT(PutLanes);
HWY_EXPORT(DifferenceColumns);
HWY_EXPORT(FoldUsage);

namespace {

void check(const PairRun& run, const CoefficientBatch& batch) {
  obey_simd_environment();
  if (run.q >= run.query->tokens || run.first_key + run.count > run.key->tokens ||
      run.first_lane + run.count > batch.n_pairs || run.query->n_freq != batch.n_freq ||
      run.key->n_freq != batch.n_freq || run.query->rows() != run.key->rows())
    throw std::logic_error("pair run: lanes, columns or another grid");
}

}  // namespace

void measure_pairs(const PairRun& run, PairMeasures& measures, CoefficientBatch& batch) {
  check(run, batch);
  HWY_DYNAMIC_DISPATCH(MeasurePairs)(run, measures, batch);
}

void multiply_pairs(const PairRun& run, CoefficientBatch& batch) {
  check(run, batch);
  HWY_DYNAMIC_DISPATCH(MultiplyPairs)(run, batch);
}

void measure_margins(const PairRun& run, const MarginMeasures& measures, CoefficientBatch& batch) {
  check(run, batch);
  HWY_DYNAMIC_DISPATCH(MeasureMargins)(run, measures, batch);
}

void pair_constants(const PairRun& run, double* constant) {
  HWY_DYNAMIC_DISPATCH(PairConstants)(run, constant);
}

double lane_magnitude(const CoefficientBatch& batch, std::size_t lane) {
  double sum = 0;
  for (std::size_t n = 0; n < batch.n_freq; ++n)
    sum += std::hypot(batch.re[n * batch.stride + lane], batch.im[n * batch.stride + lane]);
  return sum;
}

void orient_lanes(CoefficientBatch& batch, std::span<const double> sign) {
  if (sign.size() != batch.stride) throw std::logic_error("orient_lanes: one sign per lane and padding");
  HWY_DYNAMIC_DISPATCH(OrientLanes)(batch, sign.data());
}

void turn_columns(VectorColumns& columns, const PhaseColumns& phases, std::size_t first, int direction) {
  if (columns.n_freq != phases.n_freq || first + columns.tokens > phases.tokens)
    throw std::logic_error("turn_columns: phases of another grid, or too few");
  HWY_DYNAMIC_DISPATCH(TurnColumns)(columns, phases, first, direction);
}

void VectorColumns::put(const double* vectors, std::size_t count, int head_dim, const LaneMap& map,
                        std::size_t first) {
  const auto width = static_cast<std::size_t>(head_dim);
  const auto put_lanes = &HWY_DYNAMIC_DISPATCH(PutLanes);
  std::size_t r = 0;
  for (const auto* lanes : {&map.a, &map.b, &map.still, &map.tail}) {
    for (std::size_t i = 0; i < lanes->size();) {
      std::size_t end = i + 1;  // neighbouring lanes together
      while (end < lanes->size() && (*lanes)[end] == (*lanes)[end - 1] + 1) ++end;
      put_lanes(vectors + (*lanes)[i], count, width, end - i, row(r) + first, stride);
      r += end - i;
      i = end;
    }
  }
}

void difference_columns(const VectorColumns& first, const VectorColumns& second, double query_unit,
                        double key_unit, VectorColumns& difference, VectorColumns& rounding) {
  if (first.rows() != second.rows() || first.tokens != second.tokens)
    throw std::logic_error("difference_columns: shapes");
  difference.shape_like(first);
  rounding.shape_like(first);
  HWY_DYNAMIC_DISPATCH(DifferenceColumns)(first, second, query_unit, key_unit, difference, rounding);
}

void UsageSums::clear(std::size_t n_freq) {
  n_freq_ = n_freq;
  seen_.assign(n_freq * kLaneAlign, 0.0);
  modulus_.assign(n_freq * kLaneAlign, 0.0);
}

void UsageSums::fold(double* usage, double* usage_norm) const {
  HWY_DYNAMIC_DISPATCH(FoldUsage)(seen_.data(), n_freq_, usage);
  HWY_DYNAMIC_DISPATCH(FoldUsage)(modulus_.data(), n_freq_, usage_norm);
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

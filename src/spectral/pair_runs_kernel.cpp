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
static_assert(kMaxLanes <= UsageSums::kLanes);

// Columns of a unit or with components outside of these leave the fast path: products of two stay in range.
constexpr double kSmallestUnit = 0x1p-700, kLargestUnit = 0x1p700, kSmallestPart = 0x1p-100;

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
HWY_INLINE void Constants(const PairRun& run, std::size_t q, Chunk chunk, V (&sum)[kV]) {
  const Factors<kV> factors(*run.query, q, *run.key, run.first_key + chunk.first);
  for (V& s : sum) s = hn::Zero(D());
  for (std::size_t r = 2 * factors.h; r < run.key->rows(); ++r) {
    const V factor = factors.Query(r);
    for (int v = 0; v < kV; ++v)
      sum[v] = hn::MulAdd(factor, hn::LoadU(D(), factors.key + r * factors.key_stride + v * hn::Lanes(D())),
                          sum[v]);
  }
}

template <int kV>
struct ConstantsOf {
  static void Do(const PairRun& run, Chunk chunk, double* constant) {
    V sum[kV];
    Constants<kV>(run, run.q, chunk, sum);
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
    Constants<kV>(run, run.q, chunk, re);
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

/// Usage and mass of one lane, whatever its range; `slot`: its place in the vectors of sums.
void MeasureLane(std::size_t q, std::size_t k, std::size_t slot, double scale, const CoefficientBatch& batch,
                 std::size_t lane, PairMeasures& measures, double& mass) {
  const VectorColumns &query = *measures.turned_query, &key = *measures.turned_key;
  const std::size_t h = batch.n_freq;
  double sum = 0, weighted = 0;
  for (std::size_t n = 0; n < h; ++n) {
    const double re = scale * batch.re[n * batch.stride + lane],
                 im = scale * batch.im[n * batch.stride + lane];
    const double modulus = std::sqrt(re * re + im * im);
    sum += modulus;
    weighted += modulus * measures.omega[n];
    measures.usage->modulus(n)[slot] += modulus / scale;
    measures.usage->seen(n)[slot] +=
        std::abs(query.row(n)[q] * key.row(n)[k] + query.row(n + h)[q] * key.row(n + h)[k]);
  }
  mass = weighted / sum;
}

/// z of kQ queries, and their sums of squares, all and those of the subset, to [kQ][kV vectors].
template <int kV, int kQ>
HWY_INLINE void MeasureSquares(const PairRun& run, std::size_t i, Chunk chunk, const PairMeasures& measures,
                               CoefficientBatch& batch, double* to_all, double* to_part) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), q = run.q + i, key = run.first_key + chunk.first;
  const std::size_t first_lane = run.first_lane + i * run.count + chunk.first;
  // Copies: the compiler must take it that stores change what structures hold.
  const std::size_t h = run.key->n_freq, stride = batch.stride, count = run.count, here = chunk.count;
  const std::size_t key_stride = run.key->stride, query_stride = run.query->stride;
  const double *key_a = run.key->row(0) + key, *key_b = run.key->row(h) + key;
  const double *query_a = run.query->row(0) + q, *query_b = run.query->row(h) + q;
  const double *key_square = measures.key->square_row(0) + key,
               *query_square = measures.query->square_row(0) + q, *subset = measures.subset;
  double *to_re = batch.re.data() + first_lane, *to_im = batch.im.data() + first_lane;
  V all[kQ][kV], part[kQ][kV];
  for (int j = 0; j < kQ; ++j)
    for (int v = 0; v < kV; ++v) all[j][v] = part[j][v] = hn::Zero(d);
  for (std::size_t n = 0; n < h; ++n) {
    const V weight = hn::Set(d, subset[n]);
    V a[kV], b[kV], square[kV];
    for (int v = 0; v < kV; ++v) {
      a[v] = hn::LoadU(d, key_a + v * lanes);
      b[v] = hn::LoadU(d, key_b + v * lanes);
      square[v] = hn::LoadU(d, key_square + v * lanes);
    }
    for (int j = 0; j < kQ; ++j) {
      const V qa = hn::Set(d, query_a[j]), qb = hn::Set(d, query_b[j]), qq = hn::Set(d, query_square[j]);
      V re[kV], im[kV];
      for (int v = 0; v < kV; ++v) {
        re[v] = hn::MulAdd(qb, b[v], hn::Mul(qa, a[v]));
        im[v] = hn::MulSub(qb, a[v], hn::Mul(qa, b[v]));
        const V z = hn::Mul(qq, square[v]);
        all[j][v] = hn::Add(all[j][v], z);
        part[j][v] = hn::MulAdd(weight, z, part[j][v]);
      }
      StoreChunk<kV>(re, to_re + j * count, here);
      StoreChunk<kV>(im, to_im + j * count, here);
    }
    key_a += key_stride;
    key_b += key_stride;
    key_square += key_stride;
    query_a += query_stride;
    query_b += query_stride;
    query_square += query_stride;
    to_re += stride;
    to_im += stride;
  }
  for (int j = 0; j < kQ; ++j) {
    for (int v = 0; v < kV; ++v) {
      hn::Store(all[j][v], d, to_all + (j * kV + v) * lanes);
      hn::Store(part[j][v], d, to_part + (j * kV + v) * lanes);
    }
  }
}

/// c_0, U and U_J of query i of a run. counted: [kV vectors], where the sums of squares are: becomes U where
/// products of moduli hold and the lane is valid, else 0.
template <int kV>
HWY_NOINLINE void MeasureNorms(const PairRun& run, std::size_t i, Chunk chunk, PairMeasures& measures,
                               CoefficientBatch& batch, double* counted, const double* part) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), q = run.q + i, key = run.first_key + chunk.first;
  const std::size_t at = i * run.count + chunk.first, lane = run.first_lane + at,
                    place = run.first_place + at;
  const V largest = hn::Set(d, measures.largest), query_unit = hn::Set(d, measures.query->unit[q]);
  V norm[kV], subset_norm[kV], constant[kV];
  Constants<kV>(run, q, chunk, constant);
  StoreChunk<kV>(constant, batch.constant.data() + lane, chunk.count);
  bool settled = true;
  for (int v = 0; v < kV; ++v) {
    const V unit = hn::LoadU(d, measures.key->unit.data() + key + v * lanes);
    norm[v] = hn::Mul(hn::Mul(hn::Sqrt(hn::Load(d, counted + v * lanes)), query_unit), unit);
    subset_norm[v] = hn::Mul(hn::Mul(hn::Sqrt(hn::Load(d, part + v * lanes)), query_unit), unit);
    const std::size_t here = std::min(lanes, chunk.count - v * lanes);
    const auto in_range = hn::And(hn::Gt(norm[v], hn::Zero(d)), hn::Le(norm[v], largest));
    const auto valid = hn::And(hn::And(in_range, hn::Le(hn::Abs(constant[v]), largest)), hn::FirstN(d, here));
    hn::Store(hn::IfThenElseZero(valid, norm[v]), d, counted + v * lanes);
    settled = settled && hn::CountTrue(d, valid) == here;
  }
  StoreChunk<kV>(norm, measures.norm + place, chunk.count);
  StoreChunk<kV>(subset_norm, measures.subset_norm + place, chunk.count);
  if (settled) return;
  for (std::size_t k = 0; k < chunk.count; ++k) {
    if (counted[k] != 0) continue;
    double& value = measures.norm[place + k];
    if (measures.query->unit[q] == 0 || measures.key->unit[key + k] == 0)
      ScaleLane(batch, lane + k, measures.subset, value, measures.subset_norm[place + k]);
    const bool finite = value <= measures.largest && std::abs(batch.constant[lane + k]) <= measures.largest;
    if (finite && value > 0) continue;
    ++(finite ? measures.undefined : measures.non_finite);
    ClearLane(batch, lane + k);
    value = 0;
  }
}

/// sum omega_n |z_n| / sum |z_n| of kQ queries.
template <int kV, int kQ>
HWY_INLINE void MeasureMass(const PairRun& run, std::size_t i, Chunk chunk, PairMeasures& measures) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t h = run.key->n_freq, key_stride = measures.key->stride,
                    query_stride = measures.query->stride;
  const double* keys = measures.key->modulus_row(0) + run.first_key + chunk.first;
  const double* queries = measures.query->modulus_row(0) + run.q + i;
  V sum[kQ][kV], weighted[kQ][kV];
  for (int j = 0; j < kQ; ++j)
    for (int v = 0; v < kV; ++v) sum[j][v] = weighted[j][v] = hn::Zero(d);
  for (std::size_t n = 0; n < h; ++n) {
    const V omega = hn::Set(d, measures.omega[n]);
    for (int j = 0; j < kQ; ++j) {
      const V q = hn::Set(d, queries[n * query_stride + j]);
      for (int v = 0; v < kV; ++v) {
        const V z = hn::Mul(q, hn::LoadU(d, keys + n * key_stride + v * lanes));
        sum[j][v] = hn::Add(sum[j][v], z);
        weighted[j][v] = hn::MulAdd(z, omega, weighted[j][v]);
      }
    }
  }
  for (int j = 0; j < kQ; ++j) {
    for (int v = 0; v < kV; ++v) sum[j][v] = hn::Div(weighted[j][v], sum[j][v]);
    StoreChunk<kV>(sum[j], measures.mass + run.first_place + (i + j) * run.count + chunk.first, chunk.count);
  }
}

/// Usage over all queries of a run; kMasked: some lanes do not count.
template <int kV, bool kMasked>
HWY_INLINE void MeasureUsage(const PairRun& run, Chunk chunk, const double* counted, PairMeasures& measures) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), key = run.first_key + chunk.first;
  const std::size_t h = run.key->n_freq, queries = run.queries, key_stride = run.key->stride,
                    query_stride = run.query->stride;
  const double *key_a = measures.turned_key->row(0) + key, *key_b = measures.turned_key->row(h) + key,
               *key_moduli = measures.key->modulus_row(0) + key;
  const double *query_a = measures.turned_query->row(0) + run.q,
               *query_b = measures.turned_query->row(h) + run.q,
               *query_moduli = measures.query->modulus_row(0) + run.q;
  const double* query_unit = measures.query->unit.data() + run.q;
  double *to_seen = measures.usage->seen(0), *to_moduli = measures.usage->modulus(0);
  V unit[kV];
  for (int v = 0; v < kV; ++v) unit[v] = hn::LoadU(d, measures.key->unit.data() + key + v * lanes);
  for (std::size_t n = 0; n < h; ++n) {
    V a[kV], b[kV], modulus[kV];
    for (int v = 0; v < kV; ++v) {
      a[v] = hn::LoadU(d, key_a + v * lanes);
      b[v] = hn::LoadU(d, key_b + v * lanes);
      modulus[v] = hn::Mul(hn::LoadU(d, key_moduli + v * lanes), unit[v]);
    }
    V together = modulus[0];
    for (int v = 1; v < kV; ++v) together = hn::Add(together, modulus[v]);
    V seen = hn::LoadU(d, to_seen), moduli = hn::LoadU(d, to_moduli);
    for (std::size_t i = 0; i < queries; ++i) {
      if (kMasked && query_unit[i] == 0) continue;  // its moduli may not be finite
      const V qa = hn::Set(d, query_a[i]), qb = hn::Set(d, query_b[i]),
              q = hn::Set(d, query_moduli[i] * query_unit[i]);
      if (!kMasked) moduli = hn::MulAdd(q, together, moduli);
      for (int v = 0; v < kV; ++v) {
        V size = hn::Abs(hn::MulAdd(qb, b[v], hn::Mul(qa, a[v])));
        if (kMasked) {
          const auto valid = hn::Gt(hn::LoadU(d, counted + (i * kV + v) * lanes), hn::Zero(d));
          size = hn::IfThenElseZero(valid, size);
          moduli = hn::MulAdd(q, hn::IfThenElseZero(valid, modulus[v]), moduli);
        }
        seen = hn::Add(seen, size);
      }
    }
    hn::StoreU(seen, d, to_seen);
    hn::StoreU(moduli, d, to_moduli);
    key_a += key_stride;
    key_b += key_stride;
    key_moduli += key_stride;
    query_a += query_stride;
    query_b += query_stride;
    query_moduli += query_stride;
    to_seen += UsageSums::kLanes;
    to_moduli += UsageSums::kLanes;
  }
}

template <int kV>
struct Measure {
  static void Do(const PairRun& run, Chunk chunk, PairMeasures& measures, CoefficientBatch& batch) {
    constexpr int kQ = kV == 1 ? 4 : kV == 2 ? 2 : 1;  // side by side: 16 sums in registers
    const std::size_t lanes = hn::Lanes(D());
    HWY_ALIGN double counted[kMostRunQueries * kV * kMaxLanes], part[kMostRunQueries * kV * kMaxLanes];
    std::size_t i = 0;
    for (; i + kQ <= run.queries; i += kQ) {
      const std::size_t at = i * kV * lanes;
      MeasureSquares<kV, kQ>(run, i, chunk, measures, batch, counted + at, part + at);
      if (measures.usage != nullptr) MeasureMass<kV, kQ>(run, i, chunk, measures);
    }
    for (; i < run.queries; ++i) {
      const std::size_t at = i * kV * lanes;
      MeasureSquares<kV, 1>(run, i, chunk, measures, batch, counted + at, part + at);
      if (measures.usage != nullptr) MeasureMass<kV, 1>(run, i, chunk, measures);
    }
    for (i = 0; i < run.queries; ++i) {
      const std::size_t at = i * kV * lanes;
      MeasureNorms<kV>(run, i, chunk, measures, batch, counted + at, part + at);
    }
    if (measures.usage == nullptr) return;
    const std::size_t all = run.queries * kV * lanes;
    if (std::find(counted, counted + all, 0.0) == counted + all)
      return MeasureUsage<kV, false>(run, chunk, counted, measures);
    MeasureUsage<kV, true>(run, chunk, counted, measures);
    for (i = 0; i < run.queries; ++i) {
      for (std::size_t k = 0; k < chunk.count; ++k) {
        const std::size_t at = i * run.count + chunk.first + k, place = run.first_place + at;
        if (counted[i * kV * lanes + k] != 0 || measures.norm[place] == 0) continue;
        double norm = 0, subset_norm = 0;
        const double scale = ScaleLane(batch, run.first_lane + at, measures.subset, norm, subset_norm);
        MeasureLane(run.q + i, run.first_key + chunk.first + k, k % lanes, scale, batch, run.first_lane + at,
                    measures, measures.mass[place]);
      }
    }
  }
};

/// d and D(0) of kQ queries.
template <int kV, int kQ>
HWY_INLINE void MeasureMargins(const PairRun& run, std::size_t i, Chunk chunk, double* value,
                               CoefficientBatch& batch) {
  const D d;
  const std::size_t lanes = hn::Lanes(d), at = i * run.count + chunk.first;
  const std::size_t h = run.key->n_freq, stride = batch.stride, count = run.count, here = chunk.count;
  const std::size_t key_stride = run.key->stride, query_stride = run.query->stride,
                    key = run.first_key + chunk.first, q = run.q + i;
  const double *key_a = run.key->row(0) + key, *key_b = run.key->row(h) + key;
  const double *query_a = run.query->row(0) + q, *query_b = run.query->row(h) + q;
  double *to_re = batch.re.data() + run.first_lane + at, *to_im = batch.im.data() + run.first_lane + at;
  V sum[kQ][kV];
  for (int j = 0; j < kQ; ++j)
    for (int v = 0; v < kV; ++v) sum[j][v] = hn::Zero(d);
  for (std::size_t n = 0; n < h; ++n) {
    V a[kV], b[kV];
    for (int v = 0; v < kV; ++v) {
      a[v] = hn::LoadU(d, key_a + v * lanes);
      b[v] = hn::LoadU(d, key_b + v * lanes);
    }
    for (int j = 0; j < kQ; ++j) {
      const V qa = hn::Set(d, query_a[j]), qb = hn::Set(d, query_b[j]);
      V re[kV], im[kV];
      for (int v = 0; v < kV; ++v) {
        re[v] = hn::MulAdd(qb, b[v], hn::Mul(qa, a[v]));
        im[v] = hn::MulSub(qb, a[v], hn::Mul(qa, b[v]));
        sum[j][v] = hn::Add(sum[j][v], re[v]);
      }
      StoreChunk<kV>(re, to_re + j * count, here);
      StoreChunk<kV>(im, to_im + j * count, here);
    }
    key_a += key_stride;
    key_b += key_stride;
    query_a += query_stride;
    query_b += query_stride;
    to_re += stride;
    to_im += stride;
  }
  for (int j = 0; j < kQ; ++j) StoreChunk<kV>(sum[j], value + run.first_place + at + j * count, here);
}

template <int kV>
struct Margins {
  static void Do(const PairRun& run, Chunk chunk, double* value, CoefficientBatch& batch) {
    constexpr int kQ = kV == 1 ? 4 : kV == 2 ? 2 : 1;
    std::size_t i = 0;
    for (; i + kQ <= run.queries; i += kQ) MeasureMargins<kV, kQ>(run, i, chunk, value, batch);
    for (; i < run.queries; ++i) MeasureMargins<kV, 1>(run, i, chunk, value, batch);
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
void AllMargins(const PairRun& run, double* value, CoefficientBatch& batch) {
  ForChunks<Margins>(run, value, batch);
}
void PairConstants(const PairRun& run, double* constant) { ForChunks<ConstantsOf>(run, constant); }

void MeasureColumns(const VectorColumns& columns, ColumnModuli& moduli) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const std::size_t lanes = hn::Lanes(d), h = columns.n_freq;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const V exponent = hn::BitCast(d, hn::Set(du, std::uint64_t{0x7ff} << 52));
  for (std::size_t t = 0; t < columns.tokens; t += lanes) {  // into the padding at most
    V largest = zero;
    for (std::size_t r = 0; r < 2 * h; ++r)
      largest = hn::Max(largest, hn::Abs(hn::LoadU(d, columns.row(r) + t)));
    V unit = hn::And(largest, exponent);
    const auto usual =
        hn::And(hn::Ge(unit, hn::Set(d, kSmallestUnit)), hn::Le(unit, hn::Set(d, kLargestUnit)));
    unit = hn::IfThenElse(usual, unit, one);
    const V inverse = hn::Div(one, unit);
    V smallest = one, sum = zero;
    for (std::size_t n = 0; n < h; ++n) {
      const V a = hn::Mul(hn::LoadU(d, columns.row(n) + t), inverse),
              b = hn::Mul(hn::LoadU(d, columns.row(n + h) + t), inverse), square = Square(a, b);
      const V size = hn::Max(hn::Abs(a), hn::Abs(b));
      smallest = hn::Min(smallest, hn::IfThenElse(hn::Eq(size, zero), one, size));
      sum = hn::Add(sum, square);
      hn::StoreU(square, d, moduli.square.data() + n * moduli.stride + t);
      hn::StoreU(hn::Sqrt(square), d, moduli.modulus.data() + n * moduli.stride + t);
    }
    // A vector of zeros is as good as any; NaN fails the second.
    const auto in_range = hn::And(hn::Ge(smallest, hn::Set(d, kSmallestPart)),
                                  hn::Le(sum, hn::Set(d, 8.0 * static_cast<double>(h))));
    const auto good = hn::And(in_range, hn::Or(usual, hn::Eq(largest, zero)));
    hn::StoreU(hn::IfThenElseZero(good, unit), d, moduli.unit.data() + t);
  }
}

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

/// At least the root of a sum of squares, also where squares underflow.
HWY_INLINE V SizeOf(V squares) {
  const D d;
  return hn::MulAdd(hn::Sqrt(squares), hn::Set(d, 1 + 0x1p-40), hn::Set(d, 0x1p-500));
}

void BoundColumns(const VectorColumns& columns, double* size, double* largest) {
  const D d;
  for (std::size_t t = 0; t < columns.tokens; t += hn::Lanes(d)) {  // into the padding at most
    V squares = hn::Zero(d), most = squares;
    for (std::size_t r = 0; r < columns.rows(); ++r) {
      const V x = hn::LoadU(d, columns.row(r) + t), square = hn::Mul(x, x);
      if (r < 2 * columns.n_freq) squares = hn::Add(squares, square);
      most = hn::Max(square, most);
    }
    hn::StoreU(SizeOf(squares), d, size + t);
    hn::StoreU(most, d, largest + t);
  }
}

void DifferenceColumns(const VectorColumns& first, const VectorColumns& second, double query_unit,
                       double key_unit, VectorColumns& difference, double* size, double* rounding) {
  const D d;
  const V uq = hn::Set(d, query_unit * query_unit), uk = hn::Set(d, key_unit * key_unit);
  for (std::size_t t = 0; t < first.tokens; t += hn::Lanes(d)) {  // into the padding at most
    V squares = hn::Zero(d), sum = squares;
    for (std::size_t r = 0; r < first.rows(); ++r) {
      const V x = hn::LoadU(d, first.row(r) + t), y = hn::LoadU(d, second.row(r) + t), apart = hn::Sub(x, y);
      hn::StoreU(apart, d, difference.row(r) + t);
      const V square = hn::Mul(apart, apart);
      if (r < 2 * first.n_freq) squares = hn::Add(squares, square);
      sum = hn::Add(sum, hn::MulAdd(uq, square, hn::Mul(uk, Square(x, y))));
    }
    hn::StoreU(SizeOf(squares), d, size + t);
    hn::StoreU(sum, d, rounding + t);
  }
}

void FoldUsage(const double* sums, std::size_t n_freq, double* to) {
  const D d;
  for (std::size_t n = 0; n < n_freq; ++n)
    to[n] += hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums + n * UsageSums::kLanes)));
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(MeasurePairs);
HWY_EXPORT(MultiplyPairs);
HWY_EXPORT(AllMargins);
HWY_EXPORT(PairConstants);
HWY_EXPORT(MeasureColumns);
HWY_EXPORT(OrientLanes);
HWY_EXPORT(TurnColumns);
HWY_EXPORT(PutLanes);
HWY_EXPORT(BoundColumns);
HWY_EXPORT(DifferenceColumns);
HWY_EXPORT(FoldUsage);

namespace {

void check(const PairRun& run, const CoefficientBatch& batch) {
  obey_simd_environment();
  if (run.q + run.queries > run.query->tokens || run.first_key + run.count > run.key->tokens ||
      run.first_lane + run.lanes() > batch.n_pairs || run.query->n_freq != batch.n_freq ||
      run.key->n_freq != batch.n_freq || run.query->rows() != run.key->rows())
    throw std::logic_error("pair run: lanes, columns or another grid");
}

}  // namespace

void measure_pairs(const PairRun& run, PairMeasures& measures, CoefficientBatch& batch) {
  check(run, batch);
  if (run.queries > kMostRunQueries || measures.query->stride != run.query->stride ||
      measures.key->stride != run.key->stride)
    throw std::logic_error("measure_pairs: too many queries, or moduli of other columns");
  HWY_DYNAMIC_DISPATCH(MeasurePairs)(run, measures, batch);
}

void multiply_pairs(const PairRun& run, CoefficientBatch& batch) {
  check(run, batch);
  HWY_DYNAMIC_DISPATCH(MultiplyPairs)(run, batch);
}

void measure_margins(const PairRun& run, double* value, CoefficientBatch& batch) {
  check(run, batch);
  HWY_DYNAMIC_DISPATCH(AllMargins)(run, value, batch);
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

void measure_columns(const VectorColumns& columns, ColumnModuli& moduli) {
  moduli.n_freq = columns.n_freq;
  moduli.stride = columns.stride;
  const std::size_t size = moduli.n_freq * moduli.stride + kLaneAlign;  // vectors may begin anywhere in a row
  for (AlignedVector* values : {&moduli.square, &moduli.modulus})
    if (values->size() < size) values->resize(size);
  if (moduli.unit.size() < moduli.stride + kLaneAlign) moduli.unit.resize(moduli.stride + kLaneAlign);
  HWY_DYNAMIC_DISPATCH(MeasureColumns)(columns, moduli);
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

void bound_columns(const VectorColumns& columns, ColumnBounds& bounds) {
  bounds.size.resize(columns.stride);
  bounds.largest.resize(columns.stride);
  HWY_DYNAMIC_DISPATCH(BoundColumns)(columns, bounds.size.data(), bounds.largest.data());
}

void difference_columns(const VectorColumns& first, const VectorColumns& second, const RoundingUnits& units,
                        VectorColumns& difference, ColumnBounds& bounds) {
  if (first.rows() != second.rows() || first.tokens != second.tokens)
    throw std::logic_error("difference_columns: shapes");
  difference.shape_like(first);
  bounds.size.resize(first.stride);
  bounds.rounding.resize(first.stride);
  HWY_DYNAMIC_DISPATCH(DifferenceColumns)
  (first, second, units.query, units.key, difference, bounds.size.data(), bounds.rounding.data());
}

void UsageSums::clear(std::size_t n_freq) {
  n_freq_ = n_freq;
  seen_.assign(n_freq * kLanes, 0.0);
  modulus_.assign(n_freq * kLanes, 0.0);
}

void UsageSums::fold(double* usage, double* usage_norm) const {
  HWY_DYNAMIC_DISPATCH(FoldUsage)(seen_.data(), n_freq_, usage);
  HWY_DYNAMIC_DISPATCH(FoldUsage)(modulus_.data(), n_freq_, usage_norm);
}

}  // namespace rope::spectral
#endif  // HWY_ONCE

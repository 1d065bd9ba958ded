#pragma once

#include "spectral/simt/angle.hpp"
#include "spectral/simt/sweep_args.hpp"

#if defined(__CUDACC__)
#define ROPE_UNROLL _Pragma("unroll")
#else
#define ROPE_UNROLL
#endif

namespace rope::spectral::simt {

inline constexpr int kTile = 8;         ///< offsets in registers at a time: two tiles of the plan
inline constexpr int kInnerReach = 64;  ///< offsets of an inner block to either side (kInnerHalf of the plan)

/// What one thread has gathered; see SweepPartials.
struct Totals {
  double sum, weight, square;
  float max;
  int offset, negative;
};

/// Two inner blocks of one pair, mirrored about the outer centre: side 0 about C + s, side 1 about C - s.
struct InnerPair {
  double base[2];          ///< S(c) in units of 1 / (scale log2 e); with c_0 where signs are counted
  double unscale;          ///< 1 / scale
  std::int64_t centre[2];  ///< c
  int last[2];             ///< largest offset that is in the window, up to kInnerReach (less than -64: none)
  int last_counted[2];  ///< the same for scores: a block does not count the end that the next one starts with
  float doubt;          ///< see BatchPointers
};

/// S(distance) + c_0 of one pair by plain summation in the batch's order, float64.
ROPE_HD double direct_score(const PlanTables& plan, const BatchPointers& batch, int pair, double distance) {
  double sum = 0;
  for (int n = 0; n < plan.n_freq; ++n) {
    const Turn e = turn_by(distance, plan.omega[n]);
    const std::int64_t at = n * batch.stride + pair;
    sum += fma(batch.re[at], e.cos, -(batch.im[at] * e.sin));
  }
  return sum + batch.constant[pair];
}

/// sums[side][r] = sum_k table[r][k] coefficients[k][side] for the kTile offsets from tile * kTile + 1 on.
/// coefficients: element (k * 2 + side) * threads + t.
template <class Table, class Coefficients>
ROPE_HD void tile_sums(Table& table, Coefficients& coefficients, int first, int count, int tile, int threads,
                       int t, float (&sums)[2][kTile]) {
  ROPE_UNROLL
  for (int r = 0; r < kTile; ++r) sums[0][r] = sums[1][r] = 0.0F;
  const int upper = 2 * tile * count * 4, lower = upper + count * 4;
  for (int k = 0; k < count; ++k) {
    const Float4 u = table.load4(upper + k * 4), v = table.load4(lower + k * 4);
    const float row[kTile] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
    const float plus = coefficients[((first + k) * 2) * threads + t];
    const float minus = coefficients[((first + k) * 2 + 1) * threads + t];
    ROPE_UNROLL
    for (int r = 0; r < kTile; ++r) {
      sums[0][r] = fma(row[r], plus, sums[0][r]);
      sums[1][r] = fma(row[r], minus, sums[1][r]);
    }
  }
}

/// Sums over the two blocks in float32; folded into Totals once per pair of blocks.
struct InnerSums {
  float half_sum = 0, max = 0;  // half the sum of |differences|
  float weight = 0, square = 0;
  float before_even[2] = {0, 0}, before_odd[2] = {0, 0};  // E and O at the offset before the tile
};

/// |S(c+t) - S(c+t-1)| and |S(c-t) - S(c-t+1)| are |dE + dO| and |dE - dO|: their sum is twice the larger of
/// |dE| and |dO|, the larger of them is |dE| + |dO|.
template <bool kMasked>
ROPE_HD void add_differences(const float (&even)[2][kTile], const float (&odd)[2][kTile],
                             const InnerPair& pair, int tile, InnerSums& sums) {
  float half_sum = 0;  // of the tile: short sums round less
  ROPE_UNROLL
  for (int side = 0; side < 2; ++side) {
    ROPE_UNROLL
    for (int r = 0; r < kTile; ++r) {
      const float de = even[side][r] - (r > 0 ? even[side][r - 1] : sums.before_even[side]);
      const float d_o = odd[side][r] - (r > 0 ? odd[side][r - 1] : sums.before_odd[side]);
      if (kMasked) {
        const int offset = tile * kTile + r + 1;
        const float up = offset <= pair.last[side] ? fabsf(de + d_o) : 0.0F;
        const float down = 1 - offset <= pair.last[side] ? fabsf(de - d_o) : 0.0F;
        half_sum = fma(0.5F, up, fma(0.5F, down, half_sum));
        sums.max = fmaxf(sums.max, fmaxf(up, down));
      } else {
        half_sum += fmaxf(fabsf(de), fabsf(d_o));
        sums.max = fmaxf(sums.max, fabsf(de) + fabsf(d_o));
      }
    }
  }
  sums.half_sum += half_sum;
}

// Logits, in powers of two, may pass the offset by this much before the offset follows.
constexpr float kHeadroom = 24.0F;
// Below every logit: its weight is 0.
constexpr float kNoLogit = -1e30F;

/// Logits, in powers of two less the offset, at c + t and c - t for one tile and side.
template <bool kMasked>
ROPE_HD float tile_logits(const float (&even)[kTile], const float (&odd)[kTile], float gain, float base,
                          int last, int tile, float (&up)[kTile], float (&down)[kTile]) {
  float top = kNoLogit;
  ROPE_UNROLL
  for (int r = 0; r < kTile; ++r) {
    const float middle = fma(even[r], gain, base);
    up[r] = fma(odd[r], gain, middle);
    down[r] = fma(-odd[r], gain, middle);
    const int offset = tile * kTile + r + 1;
    if (kMasked ? offset > last : (r == kTile - 1 && offset == kInnerReach)) up[r] = kNoLogit;
    if (kMasked && -offset > last) down[r] = kNoLogit;
    top = fmaxf(top, fmaxf(up[r], down[r]));
  }
  return top;
}

/// Raises the offset by a whole number, so that rescaling is exact.
ROPE_HD void raise_offset(float top, InnerSums& sums, Totals& totals) {
  // Beyond 2^28 the lane's logits are of no use in float32; then only the sum must not overflow.
  constexpr int kMostOffset = 1 << 28;
  const int by = totals.offset < kMostOffset ? static_cast<int>(fminf(ceilf(top), kMostOffset)) : 0;
  totals.offset += by;
  const float down = exp2_fast(static_cast<float>(-by));
  sums.weight *= down;
  sums.square *= down * down;
  const double factor = by < 1000 ? power_of_two(-by) : 0.0;
  totals.weight *= factor;
  totals.square *= factor * factor;
}

ROPE_HD float lowered(const InnerPair& pair, int side, int offset) {
  return static_cast<float>(fma(pair.base[side], pair.unscale, -static_cast<double>(offset)));
}

/// Adds 2^logit and its square over one tile of both sides.
template <bool kMasked>
ROPE_HD void add_weights(const float (&even)[2][kTile], const float (&odd)[2][kTile], const InnerPair& pair,
                         int tile, InnerSums& sums, Totals& totals) {
  const auto gain = static_cast<float>(pair.unscale);
  ROPE_UNROLL
  for (int side = 0; side < 2; ++side) {
    float up[kTile], down[kTile];
    const int last = pair.last_counted[side];
    const float top = tile_logits<kMasked>(even[side], odd[side], gain, lowered(pair, side, totals.offset),
                                           last, tile, up, down);
    if (top > kHeadroom) {
      raise_offset(top, sums, totals);
      tile_logits<kMasked>(even[side], odd[side], gain, lowered(pair, side, totals.offset), last, tile, up,
                           down);
    }
    float weight = 0, square = 0;  // of the tile: short sums round less
    ROPE_UNROLL
    for (int r = 0; r < kTile; ++r) {
      const float a = exp2_fast(up[r]), b = exp2_fast(down[r]);
      weight += a + b;
      square = fma(a, a, fma(b, b, square));
    }
    sums.weight += weight;
    sums.square += square;
  }
}

/// The centres themselves, offset 0.
ROPE_HD void add_centre_weights(const InnerPair& pair, InnerSums& sums, Totals& totals) {
  ROPE_UNROLL
  for (int side = 0; side < 2; ++side) {
    if (pair.last_counted[side] < 0) continue;
    float logit = lowered(pair, side, totals.offset);
    if (logit > kHeadroom) {
      raise_offset(logit, sums, totals);
      logit = lowered(pair, side, totals.offset);
    }
    const float a = exp2_fast(logit);
    sums.weight += a;
    sums.square = fma(a, a, sums.square);
  }
}

/// Scores below 0 among those that a tile holds, and which of them float32 cannot tell: bit side * 2 kTile +
/// 2 r for c + t, the next one for c - t.
ROPE_HD int count_sure(const float (&even)[2][kTile], const float (&odd)[2][kTile], const InnerPair& pair,
                       int tile, unsigned& unsure) {
  int negative = 0;
  unsure = 0;
  ROPE_UNROLL
  for (int side = 0; side < 2; ++side) {
    const auto base = static_cast<float>(pair.base[side]);
    ROPE_UNROLL
    for (int r = 0; r < kTile; ++r) {
      const int offset = tile * kTile + r + 1, bit = side * 2 * kTile + 2 * r;
      const float middle = even[side][r] + base;
      const float up = middle + odd[side][r], down = middle - odd[side][r];
      if (offset <= pair.last_counted[side]) {
        if (fabsf(up) < pair.doubt)
          unsure |= 1U << bit;
        else
          negative += up < 0 ? 1 : 0;
      }
      if (-offset <= pair.last_counted[side]) {
        if (fabsf(down) < pair.doubt)
          unsure |= 2U << bit;
        else
          negative += down < 0 ? 1 : 0;
      }
    }
  }
  return negative;
}

/// The scores that count_sure left, by plain summation in float64.
ROPE_HD int count_unsure(const PlanTables& plan, const BatchPointers& batch, int lane_pair,
                         const InnerPair& pair, int tile, unsigned unsure) {
  int negative = 0;
  for (int bit = 0; unsure != 0; ++bit, unsure >>= 1) {
    if ((unsure & 1U) == 0) continue;
    const int offset = tile * kTile + bit % (2 * kTile) / 2 + 1;
    const std::int64_t centre = bit < 2 * kTile ? pair.centre[0] : pair.centre[1];
    const std::int64_t distance = bit % 2 == 0 ? centre + offset : centre - offset;
    negative += direct_score(plan, batch, lane_pair, static_cast<double>(distance)) < 0 ? 1 : 0;
  }
  return negative;
}

}  // namespace rope::spectral::simt

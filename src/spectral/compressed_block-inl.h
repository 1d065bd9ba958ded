// Sums over one inner block of the compressed sweep; included once per SIMD target, after highway.h.
#if defined(ROPE_SPECTRAL_COMPRESSED_BLOCK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPE_SPECTRAL_COMPRESSED_BLOCK_INL
#undef ROPE_SPECTRAL_COMPRESSED_BLOCK_INL
#else
#define ROPE_SPECTRAL_COMPRESSED_BLOCK_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;

constexpr std::size_t kTiles = kInnerHalf / kPlanTile;

constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL;  // 32

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define ROPE_EXP_TABLE 1
#else
#define ROPE_EXP_TABLE 0
#endif

// Logits are held in units of ln 2 / kExpSteps. With 512-bit registers one of them holds a table of
// 2^(i / 16), which leaves a parabola in place of degree 5: the multipliers are the bottleneck.
constexpr int kExpShift = ROPE_EXP_TABLE ? 4 : 0;
constexpr int kExpSteps = 1 << kExpShift;

constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
#if ROPE_EXP_TABLE
// 2^(f / 16) = kScale ((f + kVertex)^2 + kLevel) for |f| <= 1/2 within 6.9e-7: the square takes one
// multiplication less than a polynomial in f, and a whole kVertex no addition. (The vertex of the best
// parabola lies at 23.08, its error is 4.3e-7.)
constexpr float kVertex = 23.0f;
constexpr double kScale = 0.0009418457876490215, kLevel = 0.5017632988596151 / kScale;
constexpr float Scaled(double power) { return static_cast<float>(kScale * power); }
#endif

/// 2^(x / kExpSteps) for |x| <= 126 kExpSteps, relative error below 9e-7. The polynomial of degree 5
/// interpolates at Chebyshev nodes.
class Exp2 {
 public:
  Exp2() {
#if ROPE_EXP_TABLE
    // The index << 19 is taken off, so that adding it back brings the exponent alone.
    HWY_ALIGN static constexpr float kPowers[16] = {Scaled(0x1.0p+0),
                                                    Scaled(0x1.0b5586cf9890fp+0),
                                                    Scaled(0x1.172b83c7d517bp+0),
                                                    Scaled(0x1.2387a6e756238p+0),
                                                    Scaled(0x1.306fe0a31b715p+0),
                                                    Scaled(0x1.3dea64c123422p+0),
                                                    Scaled(0x1.4bfdad5362a27p+0),
                                                    Scaled(0x1.5ab07dd485429p+0),
                                                    Scaled(0x1.6a09e667f3bcdp+0),
                                                    Scaled(0x1.7a11473eb0187p+0),
                                                    Scaled(0x1.8ace5422aa0dbp+0),
                                                    Scaled(0x1.9c49182a3f090p+0),
                                                    Scaled(0x1.ae89f995ad3adp+0),
                                                    Scaled(0x1.c199bdd85529cp+0),
                                                    Scaled(0x1.d5818dcfba487p+0),
                                                    Scaled(0x1.ea4afa2a490dap+0)};
    const DI di;
    const auto index = hn::ShiftLeft<23 - kExpShift>(hn::Iota(di, 0));
    table_ = hn::BitCast(D(), hn::Sub(hn::BitCast(di, hn::Load(D(), kPowers)), index));
#endif
  }

  HWY_INLINE V operator()(V x) const {
    const D d;
    const DI di;
    const V magic = hn::Set(d, kMagic);  // the sum's low bits are the whole number
    const V shifted = hn::Add(x, magic);
    const auto k = hn::BitCast(di, shifted);
    const auto exponent = hn::ShiftLeft<23 - kExpShift>(k);
#if ROPE_EXP_TABLE
    const V g = hn::Sub(x, hn::Sub(shifted, hn::Set(d, kMagic + kVertex)));
    const V entry = hn::TableLookupLanes(table_, hn::Indices512<float>{k.raw});  // takes the low 4 bits
    const V power = hn::BitCast(d, hn::Add(hn::BitCast(di, entry), exponent));
    return hn::Mul(power, hn::MulAdd(g, g, hn::Set(d, static_cast<float>(kLevel))));
#else
    const V f = hn::Sub(x, hn::Sub(shifted, magic));
    V p = hn::MulAdd(hn::Set(d, 0x1.5f0890162f5ebp-10f), f, hn::Set(d, 0x1.3d1070527b175p-7f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6af6cdbbdca4p-5f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebf906e26e848p-3f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e4302fc6268p-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.0000014413897p+0f));
    return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
#endif
  }

 private:
#if ROPE_EXP_TABLE
  V table_;
#endif
};

#undef ROPE_EXP_TABLE

/// acc[r][v] += sum_k table[4 k + r] x[k][v] for k in [first, last), in index order.
template <int kV>
HWY_INLINE void TileSums(const float* HWY_RESTRICT table, const float* HWY_RESTRICT x, std::size_t first,
                         std::size_t last, V (&acc)[kPlanTile][kV]) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t k = first; k < last; ++k) {
    V value[kV];
    for (int v = 0; v < kV; ++v) value[v] = hn::Load(d, x + (k * kV + v) * lanes);
    for (std::size_t r = 0; r < kPlanTile; ++r) {
      const V t = hn::Set(d, table[k * kPlanTile + r]);
      for (int v = 0; v < kV; ++v) acc[r][v] = hn::MulAdd(t, value[v], acc[r][v]);
    }
  }
}

template <int kV>
HWY_INLINE void Clear(V (&acc)[kPlanTile][kV]) {
  for (auto& row : acc) {
    for (V& a : row) a = hn::Zero(D());
  }
}

/// Coefficients of one inner block, [even_size() or odd_size()][kV vectors], and S(c) less the offset,
/// [kV vectors].
struct Block {
  const CompressedPlan* plan;
  const float *even, *odd, *centre;
};

/// Sums of squares start here in a block, so that they are never subnormal: some processors take a hundred
/// times as long for those. Taken off again in float64.
constexpr float kSquareFloor = 0x1p-120f;

/// float32 sums over one inner block, which are folded into float64 after it.
template <int kV>
struct BlockSums {
  V step[kV];                // max(|dE|, |dO|): half of what two mirrored differences add
  V top[kV];                 // largest |difference|, over all blocks
  V weight[kV], square[kV];  // 2^logit and its square
};

/// 2^logit and its square are added. The clamp changes nothing on lanes that do not need it.
template <int kV, bool kClamp>
HWY_INLINE void Weigh(const Exp2& exp2, V x, int v, BlockSums<kV>& sums) {
  const D d;
  if constexpr (kClamp) {
    x = hn::Max(x, hn::Set(d, static_cast<float>(-kLowestLogit * kExpSteps)));
    x = hn::Min(x, hn::Set(d, static_cast<float>(kHighestLogit * kExpSteps)));
  }
  const V e = exp2(x);
  sums.weight[v] = hn::Add(sums.weight[v], e);
  sums.square[v] = hn::MulAdd(e, e, sums.square[v]);
}

/// Non-negative floats order as their bits do, and integer units have room where the multipliers, which
/// compare floats too, do not.
HWY_INLINE V MaxOfNonNegative(V x, V y) {
  const D d;
  const DI di;
  return hn::BitCast(d, hn::Max(hn::BitCast(di, x), hn::BitCast(di, y)));
}

/// |x + y| + |x - y| = 2 max(|x|, |y|) and max(|x + y|, |x - y|) = |x| + |y|.
template <int kV>
HWY_INLINE void AddMirrored(V x, V y, int v, BlockSums<kV>& sums) {
  x = hn::Abs(x);
  y = hn::Abs(y);
  sums.step[v] = hn::Add(sums.step[v], MaxOfNonNegative(x, y));
  sums.top[v] = MaxOfNonNegative(sums.top[v], hn::Add(x, y));
}

/// E and O of kPlanTile offsets, in registers,
template <int kV>
struct Tile {
  V even[kPlanTile][kV], odd[kPlanTile][kV];

  HWY_INLINE V Even(std::size_t r, int v) const { return even[r][v]; }
  HWY_INLINE V Odd(std::size_t r, int v) const { return odd[r][v]; }
};

/// and in memory, where there are not registers enough for two.
template <int kV>
struct HeldTile {
  HWY_ALIGN float rows[2][kPlanTile * kV * HWY_MAX_BYTES / sizeof(float)];

  HWY_INLINE void Hold(const Tile<kV>& tile) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t r = 0; r < kPlanTile; ++r) {
      for (int v = 0; v < kV; ++v) {
        hn::Store(tile.even[r][v], d, rows[0] + (r * kV + v) * lanes);
        hn::Store(tile.odd[r][v], d, rows[1] + (r * kV + v) * lanes);
      }
    }
  }
  HWY_INLINE V Even(std::size_t r, int v) const {
    return hn::Load(D(), rows[0] + (r * kV + v) * hn::Lanes(D()));
  }
  HWY_INLINE V Odd(std::size_t r, int v) const {
    return hn::Load(D(), rows[1] + (r * kV + v) * hn::Lanes(D()));
  }
};

/// Sums over the rows of one whole inner block, offset after offset.
template <int kV, bool kDiff, bool kExp, bool kClamp>
struct WholeRows {
  Exp2 exp2;
  BlockSums<kV> sums;
  V centre[kV], last_even[kV], last_odd[kV];

  template <class AnyTile>
  HWY_INLINE void Take(const AnyTile& tile, std::size_t r, bool block_end) {
    for (int v = 0; v < kV; ++v) {
      const V e = tile.Even(r, v), o = tile.Odd(r, v);
      if constexpr (kDiff) {
        AddMirrored<kV>(hn::Sub(e, last_even[v]), hn::Sub(o, last_odd[v]), v, sums);
        last_even[v] = e;
        last_odd[v] = o;
      }
      if constexpr (kExp) {
        const V x = hn::Add(centre[v], e);
        // The distance c + kInnerHalf belongs to the next block; the centre takes its place.
        Weigh<kV, kClamp>(exp2, block_end ? centre[v] : hn::Add(x, o), v, sums);
        Weigh<kV, kClamp>(exp2, hn::Sub(x, o), v, sums);
      }
    }
  }
};

/// Which offsets of a block count: differences up to offset `end`, distances up to `last`; all from
/// -kInnerHalf on. A whole block has end = kInnerHalf, last = end - 1; the window's last one last = end.
struct Part {
  int end = static_cast<int>(kInnerHalf), last = static_cast<int>(kInnerHalf) - 1;
};

/// Sums over the rows of any part of a block, added in the order of WholeRows, so that on a whole block both
/// give the same bytes.
template <int kV, bool kDiff, bool kExp, bool kClamp>
struct PartRows {
  Exp2 exp2;
  BlockSums<kV> sums;
  V centre[kV], last_even[kV], last_odd[kV];
  Part part;
  int t = 0;  // offset of the row that comes next

  template <class AnyTile>
  HWY_INLINE void Take(const AnyTile& tile, std::size_t r, bool) {
    const D d;
    const bool up = t <= part.end, down = 1 - t <= part.end;
    for (int v = 0; v < kV; ++v) {
      const V e = tile.Even(r, v), o = tile.Odd(r, v);
      if constexpr (kDiff) {
        const V x = hn::Sub(e, last_even[v]), y = hn::Sub(o, last_odd[v]);
        if (up && down) {
          AddMirrored<kV>(x, y, v, sums);
        } else if (down) {
          const V step = hn::Abs(hn::Sub(x, y));
          sums.step[v] = hn::MulAdd(step, hn::Set(d, 0.5f), sums.step[v]);
          sums.top[v] = hn::Max(sums.top[v], step);
        }
        last_even[v] = e;
        last_odd[v] = o;
      }
      if constexpr (kExp) {
        const V x = hn::Add(centre[v], e);
        if (t <= part.last) Weigh<kV, kClamp>(exp2, hn::Add(x, o), v, sums);
        if (t == static_cast<int>(kInnerHalf) && 0 <= part.last) Weigh<kV, kClamp>(exp2, centre[v], v, sums);
        if (-t <= part.last) Weigh<kV, kClamp>(exp2, hn::Sub(x, o), v, sums);
      }
    }
    ++t;
  }
};

/// Products of coefficients [first, last) of both parities.
template <int kV>
HWY_INLINE void AddBoth(const float* HWY_RESTRICT even, const float* HWY_RESTRICT odd,
                        const float* HWY_RESTRICT even_table, const float* HWY_RESTRICT odd_table,
                        std::size_t first, std::size_t last, Tile<kV>& tile) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t k = first; k < last; ++k) {
    for (int v = 0; v < kV; ++v) {
      const V x = hn::Load(d, even + (k * kV + v) * lanes), y = hn::Load(d, odd + (k * kV + v) * lanes);
      for (std::size_t r = 0; r < kPlanTile; ++r) {
        tile.even[r][v] = hn::MulAdd(hn::Set(d, even_table[k * kPlanTile + r]), x, tile.even[r][v]);
        tile.odd[r][v] = hn::MulAdd(hn::Set(d, odd_table[k * kPlanTile + r]), y, tile.odd[r][v]);
      }
    }
  }
}

/// Tile `index` of the tables into `tile`; between its multiply-adds the rows of the tile before are taken,
/// so that the multiply, add and shuffle units all have work.
template <int kV, class AnyTile, class Rows>
HWY_INLINE void NextTile(const Block& block, std::size_t index, const AnyTile& before, Rows& rows,
                         Tile<kV>& tile) {
  const std::size_t ke = block.plan->even_size(), ko = block.plan->odd_size(), both = ke < ko ? ke : ko;
  const float *even_table = block.plan->even_table.data() + index * ke * kPlanTile,
              *odd_table = block.plan->odd_table.data() + index * ko * kPlanTile;
  Clear<kV>(tile.even);
  Clear<kV>(tile.odd);
  // Written out: registers have no index.
  static_assert(kPlanTile == 4);
  AddBoth<kV>(block.even, block.odd, even_table, odd_table, 0, both / 4, tile);
  rows.Take(before, 0, false);
  AddBoth<kV>(block.even, block.odd, even_table, odd_table, both / 4, both / 2, tile);
  rows.Take(before, 1, false);
  AddBoth<kV>(block.even, block.odd, even_table, odd_table, both / 2, 3 * both / 4, tile);
  rows.Take(before, 2, false);
  AddBoth<kV>(block.even, block.odd, even_table, odd_table, 3 * both / 4, both, tile);
  rows.Take(before, 3, false);
  TileSums<kV>(even_table, block.even, both, ke, tile.even);
  TileSums<kV>(odd_table, block.odd, both, ko, tile.odd);
}

template <int kV, class AnyTile, class Rows>
HWY_INLINE void TakeLast(const AnyTile& tile, Rows& rows) {
  rows.Take(tile, 0, false);
  rows.Take(tile, 1, false);
  rows.Take(tile, 2, false);
  rows.Take(tile, 3, true);
}

/// Makes tile `first` and takes no row yet.
template <int kV, class Rows>
HWY_INLINE Tile<kV> FirstTile(const Block& block, std::size_t first, Rows& rows) {
  const D d;
  const std::size_t ke = block.plan->even_size(), ko = block.plan->odd_size();
  for (int v = 0; v < kV; ++v) {
    rows.last_even[v] = rows.last_odd[v] = hn::Zero(d);
    rows.centre[v] = hn::Load(d, block.centre + v * hn::Lanes(d));
  }
  Tile<kV> tile;
  Clear<kV>(tile.even);
  Clear<kV>(tile.odd);
  TileSums<kV>(block.plan->even_table.data() + first * ke * kPlanTile, block.even, 0, ke, tile.even);
  TileSums<kV>(block.plan->odd_table.data() + first * ko * kPlanTile, block.odd, 0, ko, tile.odd);
  return tile;
}

/// Takes all rows from tile `first` on.
template <int kV, class Rows>
HWY_INLINE void TakeTiles(const Block& block, std::size_t first, Rows& rows) {
  HeldTile<kV> held;
  Tile<kV> tile = FirstTile<kV>(block, first, rows);
  held.Hold(tile);
  for (std::size_t next = first + 1; next < kTiles; ++next) {
    NextTile<kV>(block, next, held, rows, tile);
    held.Hold(tile);
  }
  TakeLast<kV>(held, rows);
}

/// Takes all rows. Two tiles take turns in registers: 512-bit stores hold up the multipliers.
template <int kV, class Rows>
HWY_INLINE void TakeTilesInTurn(const Block& block, Rows& rows) {
  static_assert(kTiles % 2 == 0);
  Tile<kV> one = FirstTile<kV>(block, 0, rows), other;
  std::size_t tile = 1;
  for (; tile + 1 < kTiles; tile += 2) {
    NextTile<kV>(block, tile, one, rows, other);
    NextTile<kV>(block, tile + 1, other, rows, one);
  }
  NextTile<kV>(block, tile, one, rows, other);
  TakeLast<kV>(other, rows);
}

/// One whole inner block: 2 kInnerHalf differences, distances c - kInnerHalf ... c + kInnerHalf - 1.
template <int kV, bool kDiff, bool kExp, bool kClamp>
HWY_NOINLINE void WholeBlock(const Block& block, BlockSums<kV>& sums) {
  WholeRows<kV, kDiff, kExp, kClamp> rows;
  rows.sums = sums;
  if constexpr (kManyRegisters) {
    TakeTilesInTurn<kV>(block, rows);
  } else {
    TakeTiles<kV>(block, 0, rows);
  }
  sums = rows.sums;
}

/// Any part of a block. Where it ends before the centre, the rows near the centre are left out.
template <int kV, bool kDiff, bool kExp, bool kClamp>
HWY_NOINLINE void PartBlock(const Block& block, const Part& part, BlockSums<kV>& sums) {
  PartRows<kV, kDiff, kExp, kClamp> rows;
  rows.sums = sums;
  rows.part = part;
  // The first row that is needed: offset -end, where the last difference ends.
  const std::size_t first = part.end < -1 ? static_cast<std::size_t>(-part.end - 1) / kPlanTile : 0;
  rows.t = static_cast<int>(first * kPlanTile) + 1;
  TakeTiles<kV>(block, first, rows);
  sums = rows.sums;
}

/// Calls row(t, e, o, v) for t = 1 ... kInnerHalf, rising.
template <int kV, class Row>
HWY_INLINE void ForRows(const Block& block, const Row& row) {
  const std::size_t ke = block.plan->even_size(), ko = block.plan->odd_size();
  V e[kPlanTile][kV], o[kPlanTile][kV];
  for (std::size_t tile = 0; tile < kTiles; ++tile) {
    Clear<kV>(e);
    Clear<kV>(o);
    TileSums<kV>(block.plan->even_table.data() + tile * ke * kPlanTile, block.even, 0, ke, e);
    TileSums<kV>(block.plan->odd_table.data() + tile * ko * kPlanTile, block.odd, 0, ko, o);
    for (std::size_t r = 0; r < kPlanTile; ++r) {
      for (int v = 0; v < kV; ++v) row(static_cast<int>(tile * kPlanTile + r + 1), e[r][v], o[r][v], v);
    }
  }
}

/// sum |S| / 2 into step and the largest |S| into top.
template <int kV>
HWY_NOINLINE void ValueBlock(const Block& block, const Part& part, BlockSums<kV>& sums) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto add = [&](V x, int v) HWY_ATTR {
    x = hn::Abs(x);
    sums.step[v] = hn::MulAdd(x, hn::Set(d, 0.5f), sums.step[v]);
    sums.top[v] = hn::Max(sums.top[v], x);
  };
  ForRows<kV>(block, [&](int t, V e, V o, int v) HWY_ATTR {
    const V centre = hn::Load(d, block.centre + v * lanes), x = hn::Add(centre, e);
    if (t <= part.last) add(hn::Add(x, o), v);
    if (t == static_cast<int>(kInnerHalf) && 0 <= part.last) add(centre, v);
    if (-t <= part.last) add(hn::Sub(x, o), v);
  });
}

/// S(c + t) - S(c) into rows[t + kInnerHalf][kV vectors].
template <int kV>
HWY_NOINLINE void FillRows(const Block& block, float* rows) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const int half = static_cast<int>(kInnerHalf);
  const auto at = [&](int t, int v)
                      HWY_ATTR { return rows + static_cast<std::size_t>((t + half) * kV + v) * lanes; };
  for (int v = 0; v < kV; ++v) hn::Store(hn::Zero(d), d, at(0, v));
  ForRows<kV>(block, [&](int t, V e, V o, int v) HWY_ATTR {
    hn::Store(hn::Add(e, o), d, at(t, v));
    hn::Store(hn::Sub(e, o), d, at(-t, v));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#endif

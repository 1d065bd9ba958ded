#pragma once

#include "spectral/simt/inner_sweep.hpp"

namespace rope::spectral::simt {

inline constexpr int kLanes = 32;           ///< pairs of a block: one warp wide
inline constexpr int kInnerBlockPairs = 8;  ///< inner centres C +- s_j of an outer block
inline constexpr std::int64_t kOuterReach = std::int64_t{2} * kInnerReach * kInnerBlockPairs;
inline constexpr int kSeedRows = 32;  ///< frequencies that are turned to an outer centre at a time

/// The two-level compressed sweep in float32 (sweep.md section 9, design (i); the tables are those of
/// CompressedPlan). A block takes 32 pairs, one per lane, over one chunk of outer blocks; its warps share an
/// outer block's coefficients and take its mirrored inner blocks in turn. A thread's sums go to the partial
/// of its chunk and warp, so every number is owned by one thread and added in one order.
///
/// kSigns: counts S + c_0 < 0 instead of differences and weights.
/// Grid: x = groups of 32 pairs, y = chunks.
template <bool kSigns>
struct SweepKernel {
  static constexpr int kWarps = WindowParts::kWarps, kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerSm = 4;

  struct Args {
    PlanTables plan;
    BatchPointers batch;
    SweepPartials out;
    WindowParts parts{2, 2 * kOuterReach};
    bool differences = false, weights = false;
  };

  template <class Block>
  struct Shared {
    typename Block::template Array<float> even_table, odd_table;  // the plan's
    typename Block::template Array<double> turn;                  // [kSeedRows][cos, sin]
    typename Block::template Array<float> direct;                 // [n_direct][Re U, -Im U][lanes]
    typename Block::template Array<float> outer;                  // [outer_a + outer_b][lanes]
    typename Block::template Array<double> centre;                // [warps][lanes] parts of S(C)
    typename Block::template Array<float> inner;  // [even_size + odd_size][side][threads]; between
                                                  // sweeps: [kSeedRows][Re U, -Im U][lanes]

    template <class Arena>
    ROPE_HD void lay_out(Arena& arena, const Args& args) {
      const PlanTables& p = args.plan;
      const int even = p.n_direct + p.inner_even, odd = p.n_direct + p.inner_odd;
      arena.take(even_table, kInnerReach * even);
      arena.take(odd_table, kInnerReach * odd);
      arena.take(turn, kSeedRows * 2);
      arena.take(direct, p.n_direct * 2 * kLanes);
      arena.take(outer, (2 * p.n_middle + p.outer_even + p.outer_odd) * kLanes);
      arena.take(centre, kThreads);
      constexpr int kSeeds = kSeedRows * 2 * kLanes;
      const int coefficients = (even + odd) * 2 * kThreads;
      arena.take(inner, coefficients > kSeeds ? coefficients : kSeeds);
    }
  };

  template <class Block>
  ROPE_HD static void run(Block& block, Shared<Block>& shared, const Args& args) {
    typename Block::template PerThread<Totals> totals;
    block.phase([&](int t) {
      totals[t] = {0, 0, 0, 0, kNoOffset, 0};
      load_tables(shared, args, t);
    });
    const int first = block.y() * args.parts.blocks_per_chunk;
    const int end = first + args.parts.blocks_per_chunk;
    for (int outer = first; outer < end && outer < args.parts.outer_blocks; ++outer) {
      const std::int64_t centre = std::int64_t{outer} * (2 * kOuterReach) + kOuterReach;
      seed(block, shared, args, centre);
      block.phase([&](int t) {
        const int pair = block.x() * kLanes + t % kLanes;
        if (pair >= args.batch.pairs) return;
        for (int j = t / kLanes; j < kInnerBlockPairs; j += kWarps)
          sweep_inner<Block>(shared, args, t, pair, j, centre, totals[t]);
      });
    }
    block.phase([&](int t) { store(block, args, t, totals[t]); });
  }

 private:
  // Below every logit's offset: the first logit of a part raises it.
  static constexpr int kNoOffset = -(1 << 26);

  template <class Block>
  ROPE_HD static void load_tables(Shared<Block>& shared, const Args& args, int t) {
    const PlanTables& p = args.plan;
    const int even = kInnerReach * (p.n_direct + p.inner_even),
              odd = kInnerReach * (p.n_direct + p.inner_odd);
    for (int i = t; i < even; i += kThreads) shared.even_table[i] = p.even_table[i];
    for (int i = t; i < odd; i += kThreads) shared.odd_table[i] = p.odd_table[i];
  }

  /// Coefficients about an outer centre: U_n = z_n scale log2(e) e^{i C omega_n}, the float64 product rounded
  /// once; S(C) stays in float64.
  template <class Block>
  ROPE_HD static void seed(Block& block, Shared<Block>& shared, const Args& args, std::int64_t centre) {
    const PlanTables& p = args.plan;
    typename Block::template PerThread<double> score;
    for (int n0 = 0; n0 < p.n_freq; n0 += kSeedRows) {
      block.phase([&](int t) {
        if (t < kSeedRows && n0 + t < p.n_freq) {
          const Turn e = turn_by(static_cast<double>(centre), p.omega[p.order[n0 + t]]);
          shared.turn[2 * t] = e.cos;
          shared.turn[2 * t + 1] = e.sin;
        }
      });
      block.phase([&](int t) {
        if (n0 == 0) score[t] = 0;
        turn_rows<Block>(shared, args, n0, t, block.x() * kLanes + t % kLanes, score[t]);
      });
      if (n0 + kSeedRows > p.n_direct + p.n_middle) {
        block.phase([&](int t) {
          if (block.x() * kLanes + t % kLanes < args.batch.pairs) project<Block>(shared, args, n0, t);
        });
      }
    }
    block.phase([&](int t) { shared.centre[t] = score[t]; });
  }

  /// This thread's share of the rows n0 ... n0 + kSeedRows - 1.
  template <class Block>
  ROPE_HD static void turn_rows(Shared<Block>& shared, const Args& args, int n0, int t, int pair,
                                double& score) {
    const PlanTables& p = args.plan;
    const int lane = t % kLanes;
    if (pair >= args.batch.pairs) return;
    const double factor = args.batch.scale[pair] * 1.4426950408889634;
    for (int i = t / kLanes; i < kSeedRows && n0 + i < p.n_freq; i += kWarps) {
      const int n = n0 + i;
      const std::int64_t at = p.order[n] * args.batch.stride + pair;
      const double re = args.batch.re[at] * factor, im = args.batch.im[at] * factor;
      const double c = shared.turn[2 * i], s = shared.turn[2 * i + 1];
      const double even = fma(re, c, -(im * s)), odd = -fma(re, s, im * c);
      if (n < p.n_direct) {
        shared.direct[(2 * n) * kLanes + lane] = static_cast<float>(even);
        shared.direct[(2 * n + 1) * kLanes + lane] = static_cast<float>(odd);
        continue;
      }
      score += even;
      const int m = n - p.n_direct;
      if (m < p.n_middle) {
        shared.outer[m * kLanes + lane] = static_cast<float>(even);
        shared.outer[(p.n_middle + p.outer_even + m) * kLanes + lane] = static_cast<float>(odd);
      } else {
        shared.inner[(2 * i) * kLanes + lane] = static_cast<float>(even);
        shared.inner[(2 * i + 1) * kLanes + lane] = static_cast<float>(odd);
      }
    }
  }

  /// Adds what the rows n0 ... give to the outer coefficients of the slow frequencies; every warp has rows of
  /// its own.
  template <class Block>
  ROPE_HD static void project(Shared<Block>& shared, const Args& args, int n0, int t) {
    const PlanTables& p = args.plan;
    const int even_tiles = (p.outer_even + 3) / 4, tiles = even_tiles + (p.outer_odd + 3) / 4;
    const int lane = t % kLanes, slow = p.n_direct + p.n_middle, rest = p.n_freq - slow;
    const int from = slow > n0 ? slow - n0 : 0;
    const int to = p.n_freq - n0 < kSeedRows ? p.n_freq - n0 : kSeedRows;
    for (int tile = t / kLanes; tile < tiles; tile += kWarps) {
      const bool odd = tile >= even_tiles;
      const int row = (odd ? tile - even_tiles : tile) * 4;
      const float* weights = (odd ? p.project_odd : p.project_even) + std::int64_t{row} * rest;
      const int rows = (odd ? p.outer_odd : p.outer_even) - row;
      const int at = (odd ? 2 * p.n_middle + p.outer_even : p.n_middle) + row;
      float sum[4] = {0, 0, 0, 0};
      if (n0 + from > slow) {
        for (int r = 0; r < 4 && r < rows; ++r) sum[r] = shared.outer[(at + r) * kLanes + lane];
      }
      for (int i = from; i < to; ++i) {
        const Float4 w = Block::load4(weights + std::int64_t{4} * (n0 + i - slow));
        const float u = shared.inner[(2 * i + (odd ? 1 : 0)) * kLanes + lane];
        sum[0] = fma(w.x, u, sum[0]);
        sum[1] = fma(w.y, u, sum[1]);
        sum[2] = fma(w.z, u, sum[2]);
        sum[3] = fma(w.w, u, sum[3]);
      }
      ROPE_UNROLL
      for (int r = 0; r < 4; ++r) {
        if (r < rows) shared.outer[(at + r) * kLanes + lane] = sum[r];
      }
    }
  }

  /// The inner blocks C + s_j and C - s_j.
  template <class Block>
  ROPE_HD static void sweep_inner(Shared<Block>& shared, const Args& args, int t, int lane_pair, int j,
                                  std::int64_t outer_centre, Totals& totals) {
    const std::int64_t shift = std::int64_t{kInnerReach} * (2 * j + 1);
    InnerPair pair;
    bool any = false, masked = false;
    ROPE_UNROLL
    for (int side = 0; side < 2; ++side) {
      pair.centre[side] = side == 0 ? outer_centre + shift : outer_centre - shift;
      const std::int64_t left = args.parts.window - 1 - pair.centre[side];  // may be negative
      const bool full = left > kInnerReach, none = left <= -kInnerReach;
      pair.last[side] = none ? -2 * kInnerReach : (full ? kInnerReach : static_cast<int>(left));
      pair.last_counted[side] = full ? kInnerReach - 1 : pair.last[side];
      any = any || !none;
      masked = masked || !full;
    }
    if (!any) return;
    make_inner<Block>(shared, args, t, j, pair);
    const double scale = args.batch.scale[lane_pair];
    double centre = 0;
    for (int w = 0; w < kWarps; ++w) centre += shared.centre[w * kLanes + t % kLanes];
    if (kSigns) centre = fma(args.batch.constant[lane_pair], scale * 1.4426950408889634, centre);
    pair.base[0] += centre;
    pair.base[1] += centre;
    pair.unscale = 1.0 / scale;
    pair.doubt = kSigns ? args.batch.doubt[lane_pair] : 0.0F;
    if (masked)
      sweep_offsets<true, Block>(shared, args, t, lane_pair, pair, totals);
    else
      sweep_offsets<false, Block>(shared, args, t, lane_pair, pair, totals);
  }

  /// Inner coefficients of both sides, and what S(c) gains over S(C).
  template <class Block>
  ROPE_HD static void make_inner(Shared<Block>& shared, const Args& args, int t, int j, InnerPair& pair) {
    const PlanTables& p = args.plan;
    const int lane = t % kLanes, even = p.n_direct + p.inner_even;
    double gain[2] = {0, 0};
    for (int n = 0; n < p.n_direct; ++n) {
      const float re = shared.direct[(2 * n) * kLanes + lane],
                  im = shared.direct[(2 * n + 1) * kLanes + lane];
      const float* turn = p.turn + std::int64_t{2} * (j * p.n_direct + n);
      const float c = turn[0], s = turn[1];
      const float plus = fma(re, c, im * s), minus = fma(re, c, -(im * s));
      shared.inner[(2 * n) * kThreads + t] = plus;
      shared.inner[(2 * n + 1) * kThreads + t] = minus;
      shared.inner[(2 * (even + n)) * kThreads + t] = fma(im, c, -(re * s));
      shared.inner[(2 * (even + n) + 1) * kThreads + t] = fma(im, c, re * s);
      gain[0] += plus;
      gain[1] += minus;
    }
    const int rows = 1 + p.inner_even + p.inner_odd, tiles = (rows + 3) / 4;
    const int a_size = p.n_middle + p.outer_even, b_size = p.n_middle + p.outer_odd;
    for (int tile = 0; tile < tiles; ++tile) {
      float a[4], b[4];
      transfer_rows<Block>(shared, p.transfer_a, j * tiles + tile, 0, a_size, lane, a);
      transfer_rows<Block>(shared, p.transfer_b, j * tiles + tile, a_size, b_size, lane, b);
      ROPE_UNROLL
      for (int r = 0; r < 4; ++r) {
        const int row = tile * 4 + r;
        if (row == 0) {
          gain[0] += a[r] + b[r];
          gain[1] += a[r] - b[r];
        } else if (row < rows) {
          const bool odd = row > p.inner_even;
          const int k = odd ? even + p.n_direct + row - 1 - p.inner_even : p.n_direct + row - 1;
          shared.inner[(2 * k) * kThreads + t] = a[r] + b[r];
          shared.inner[(2 * k + 1) * kThreads + t] = odd ? b[r] - a[r] : a[r] - b[r];
        }
      }
    }
    pair.base[0] = gain[0];
    pair.base[1] = gain[1];
  }

  /// Four rows of a transfer table times outer coefficients first ... first + count - 1.
  template <class Block>
  ROPE_HD static void transfer_rows(Shared<Block>& shared, const float* table, int tile, int first, int count,
                                    int lane, float (&sum)[4]) {
    ROPE_UNROLL
    for (int r = 0; r < 4; ++r) sum[r] = 0;
    const float* rows = table + std::int64_t{tile} * count * 4;
    for (int l = 0; l < count; ++l) {
      const Float4 w = Block::load4(rows + std::int64_t{4} * l);
      const float u = shared.outer[(first + l) * kLanes + lane];
      sum[0] = fma(w.x, u, sum[0]);
      sum[1] = fma(w.y, u, sum[1]);
      sum[2] = fma(w.z, u, sum[2]);
      sum[3] = fma(w.w, u, sum[3]);
    }
  }

  template <bool kMasked, class Block>
  ROPE_HD static void sweep_offsets(Shared<Block>& shared, const Args& args, int t, int lane_pair,
                                    const InnerPair& pair, Totals& totals) {
    const PlanTables& p = args.plan;
    const int even_size = p.n_direct + p.inner_even, odd_size = p.n_direct + p.inner_odd;
    InnerSums sums;
    int negative = 0;
    if (kSigns) negative += count_centres(args, lane_pair, pair);
    if (!kSigns && args.weights) add_centre_weights(pair, sums, totals);
    for (int tile = 0; tile < kInnerReach / kTile; ++tile) {
      float even[2][kTile], odd[2][kTile];
      tile_sums(shared.even_table, shared.inner, 0, even_size, tile, kThreads, t, even);
      tile_sums(shared.odd_table, shared.inner, even_size, odd_size, tile, kThreads, t, odd);
      if (kSigns) {
        unsigned unsure = 0;
        negative += count_sure(even, odd, pair, tile, unsure);
        negative += count_unsure(args.plan, args.batch, lane_pair, pair, tile, unsure);
      } else {
        if (args.differences) add_differences<kMasked>(even, odd, pair, tile, sums);
        if (args.weights) add_weights<kMasked>(even, odd, pair, tile, sums, totals);
      }
      ROPE_UNROLL
      for (int side = 0; side < 2; ++side) {
        sums.before_even[side] = even[side][kTile - 1];
        sums.before_odd[side] = odd[side][kTile - 1];
      }
    }
    totals.sum = fma(2.0, static_cast<double>(sums.half_sum), totals.sum);
    totals.max = fmaxf(totals.max, sums.max);
    totals.weight += sums.weight;
    totals.square += sums.square;
    totals.negative += negative;
  }

  ROPE_HD static int count_centres(const Args& args, int lane_pair, const InnerPair& pair) {
    int negative = 0;
    ROPE_UNROLL
    for (int side = 0; side < 2; ++side) {
      if (pair.last_counted[side] < 0) continue;
      auto score = static_cast<double>(static_cast<float>(pair.base[side]));
      if (::fabs(score) < static_cast<double>(pair.doubt))
        score = direct_score(args.plan, args.batch, lane_pair, static_cast<double>(pair.centre[side]));
      negative += score < 0 ? 1 : 0;
    }
    return negative;
  }

  template <class Block>
  ROPE_HD static void store(Block& block, const Args& args, int t, const Totals& totals) {
    const int pair = block.x() * kLanes + t % kLanes;
    if (pair >= args.batch.pairs) return;
    const std::int64_t at = (std::int64_t{block.y()} * kWarps + t / kLanes) * args.batch.pairs + pair;
    if (kSigns) {
      block.store(args.out.negative + at, totals.negative);
      return;
    }
    if (args.differences) {
      block.store(args.out.sum + at, totals.sum);
      block.store(args.out.max + at, totals.max);
    }
    if (args.weights) {
      block.store(args.out.offset + at, totals.offset);
      block.store(args.out.weight + at, totals.weight);
      block.store(args.out.square + at, totals.square);
    }
  }
};

}  // namespace rope::spectral::simt

#pragma once

#include "spectral/simt/block.hpp"
#include "spectral/simt/sweep_args.hpp"

namespace rope::spectral::simt {

/// Adds the partials of a pair in the order of the window: one thread per pair. Grid: x = groups of kThreads
/// pairs.
struct FoldKernel {
  static constexpr int kThreads = 128, kBlocksPerSm = 4;

  struct Args {
    int pairs = 0, parts = 0;
    SweepPartials in;   ///< [parts][pairs]
    SweepPartials out;  ///< [pairs]
    bool differences = false, weights = false, signs = false;
  };

  template <class Block>
  struct Shared {
    template <class Arena>
    ROPE_HD void lay_out(Arena&, const Args&) {}
  };

  template <class Block>
  ROPE_HD static void run(Block& block, Shared<Block>&, const Args& args) {
    block.phase([&](int t) {
      const int pair = block.x() * kThreads + t;
      if (pair >= args.pairs) return;
      if (args.differences) fold_differences(block, args, pair);
      if (args.weights) fold_weights(block, args, pair);
      if (args.signs) {
        int negative = 0;
        for (int part = 0; part < args.parts; ++part) negative += args.in.negative[at(args, part, pair)];
        block.store(args.out.negative + pair, negative);
      }
    });
  }

 private:
  ROPE_HD static std::int64_t at(const Args& args, int part, int pair) {
    return std::int64_t{part} * args.pairs + pair;
  }

  template <class Block>
  ROPE_HD static void fold_differences(Block& block, const Args& args, int pair) {
    double sum = 0;
    float max = 0;
    for (int part = 0; part < args.parts; ++part) {
      sum += args.in.sum[at(args, part, pair)];
      max = fmaxf(max, args.in.max[at(args, part, pair)]);
    }
    block.store(args.out.sum + pair, sum);
    block.store(args.out.max + pair, max);
  }

  /// Brings every part to the largest offset; the factors are powers of two.
  template <class Block>
  ROPE_HD static void fold_weights(Block& block, const Args& args, int pair) {
    int top = args.in.offset[at(args, 0, pair)];
    for (int part = 1; part < args.parts; ++part) {
      const int offset = args.in.offset[at(args, part, pair)];
      if (offset > top) top = offset;
    }
    double weight = 0, square = 0;
    for (int part = 0; part < args.parts; ++part) {
      const std::int64_t i = at(args, part, pair);
      const int below = top - args.in.offset[i];
      if (below > 500) continue;  // squares would underflow; beside the top it is nothing
      const double factor = power_of_two(-below);
      weight = fma(args.in.weight[i], factor, weight);
      square = fma(args.in.square[i], factor * factor, square);
    }
    block.store(args.out.offset + pair, top);
    block.store(args.out.weight + pair, weight);
    block.store(args.out.square + pair, square);
  }
};

}  // namespace rope::spectral::simt

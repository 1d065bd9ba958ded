#pragma once

#include <cstdint>

namespace rope::spectral::simt {

/// The tables of a CompressedPlan (spectral/compressed_plan.hpp, which says what they mean and how they are
/// laid out), as pointers.
struct PlanTables {
  int n_freq = 0, n_direct = 0, n_middle = 0;
  int inner_even = 0, inner_odd = 0, outer_even = 0, outer_odd = 0;
  const double* omega = nullptr;  ///< [n_freq] in the batch's order
  const int* order = nullptr;     ///< [n_freq] row of the batch of the n-th fastest frequency
  const float *even_table = nullptr, *odd_table = nullptr;
  const float *project_even = nullptr, *project_odd = nullptr;
  const float* turn = nullptr;
  const float *transfer_a = nullptr, *transfer_b = nullptr;
};

/// One batch of pairs. Rows of re and im are `stride` apart, one for each frequency.
struct BatchPointers {
  int pairs = 0;
  std::int64_t stride = 0;
  const double *re = nullptr, *im = nullptr;  ///< [n_freq][stride]
  const double* constant = nullptr;           ///< [pairs] c_0
  const double* scale = nullptr;              ///< [pairs] power of two: coefficients * scale are of order 1
  const float* doubt = nullptr;  ///< [pairs] |S + c_0| * scale * log2(e) below this has no sure sign
};

/// What a part of the window gives, per pair: [parts][pairs]. Differences and scores are in units of
/// 1 / (scale * log2 e).
struct SweepPartials {
  double* sum = nullptr;  ///< sum of |S(m+1) - S(m)|
  float* max = nullptr;   ///< largest of them
  int* offset = nullptr;  ///< whole number that the logits, in powers of two, were lowered by
  double *weight = nullptr, *square = nullptr;  ///< sums of 2^(S log2 e - offset) and of its square
  int* negative = nullptr;                      ///< count of S + c_0 < 0
};

/// The window in parts that do not depend on device or batch.
struct WindowParts {
  static constexpr int kWarps = 4;  ///< each makes a part of its own
  std::int64_t window = 2;
  int outer_blocks = 1, blocks_per_chunk = 1, chunks = 1;

  explicit WindowParts(std::int64_t distances, std::int64_t outer_span) : window(distances) {
    constexpr int kLeastBlocks = 2, kMostChunks = 64;
    outer_blocks = static_cast<int>((window - 1 + outer_span - 1) / outer_span);
    const int spread = (outer_blocks + kMostChunks - 1) / kMostChunks;
    blocks_per_chunk = spread > kLeastBlocks ? spread : kLeastBlocks;
    chunks = (outer_blocks + blocks_per_chunk - 1) / blocks_per_chunk;
  }
  int parts() const { return chunks * kWarps; }
};

}  // namespace rope::spectral::simt

#pragma once

#include <cstddef>

#include "spectral/simt/sweep_args.hpp"

namespace rope::spectral::simt {

/// How one block of pairs lies in memory: plan, input and output, on host and device alike; the first two are
/// uploaded in one piece, the last is downloaded. On the device the partials follow.
struct SweepMemory {
  std::size_t plan_bytes = 0;
  int pairs = 0, n_freq = 0, parts = 0;

  std::size_t upload_bytes() const {
    return aligned(plan_bytes) + count() * (rows() * sizeof(double) + sizeof(float));
  }
  std::size_t output_bytes() const { return count() * kResultBytes; }
  std::size_t pinned_bytes() const { return aligned(upload_bytes()) + output_bytes(); }
  std::size_t device_bytes() const {
    return aligned(pinned_bytes()) + static_cast<std::size_t>(parts) * count() * kResultBytes;
  }

  // Parts of a piece of memory that starts at `base`.
  void* input_at(void* base) const { return static_cast<unsigned char*>(base) + aligned(plan_bytes); }
  void* output_at(void* base) const { return static_cast<unsigned char*>(base) + aligned(upload_bytes()); }
  void* partials_at(void* base) const { return static_cast<unsigned char*>(base) + aligned(pinned_bytes()); }

  /// float64 rows of the input: re, im, constant, scale. The doubts follow.
  std::size_t rows() const { return 2 * static_cast<std::size_t>(n_freq) + 2; }
  BatchPointers input(void* base) const {
    auto* values = static_cast<double*>(input_at(base));
    BatchPointers batch;
    batch.pairs = pairs;
    batch.stride = pairs;
    batch.re = values;
    batch.im = values + count() * static_cast<std::size_t>(n_freq);
    batch.constant = values + count() * (rows() - 2);
    batch.scale = values + count() * (rows() - 1);
    batch.doubt = reinterpret_cast<const float*>(values + count() * rows());
    return batch;
  }
  /// `n` results for each pair at `memory`.
  SweepPartials results(void* memory, int n) const {
    const std::size_t all = count() * static_cast<std::size_t>(n);
    SweepPartials r;
    r.sum = static_cast<double*>(memory);
    r.weight = r.sum + all;
    r.square = r.weight + all;
    r.max = reinterpret_cast<float*>(r.square + all);
    r.offset = reinterpret_cast<int*>(r.max + all);
    r.negative = r.offset + all;
    return r;
  }

 private:
  static constexpr std::size_t kResultBytes = 3 * sizeof(double) + sizeof(float) + 2 * sizeof(int);
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t count() const { return static_cast<std::size_t>(pairs); }
};

}  // namespace rope::spectral::simt

#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace rope {

/// Pseudo-random numbers that are the same with every standard library: mt19937_64, whose output is fixed by
/// the standard, and our own mappings.
class Random {
 public:
  /// Streams of the same seed and different `a`, `b` are unrelated.
  explicit Random(std::uint64_t seed, std::uint64_t a = 0, std::uint64_t b = 0)
      : engine_(mix(mix(mix(seed) ^ a) ^ b)) {}

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// Uniform in 0 ... count-1, count >= 1, without bias.
  std::uint64_t below(std::uint64_t count) {
    const std::uint64_t excess = (0 - count) % count;  // 2^64 mod count
    std::uint64_t value = engine_();
    while (value < excess) value = engine_();
    return value % count;
  }
  /// Standard normal (Box and Muller; the second value is not kept).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  /// splitmix64: nearby inputs give unrelated outputs.
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  std::mt19937_64 engine_;
};

}  // namespace rope

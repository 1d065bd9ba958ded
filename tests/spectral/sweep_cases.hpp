#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "reference/direct_sums.hpp"
#include "spectral/pair_coefficients.hpp"

namespace rope::test {

/// How the |z_n| of a case are spread over the frequencies.
enum class Spread { kWhite, kSlowOnly, kSlowHeavy, kFastOnly, kOne };

/// One grid, window and batch of vectors that every implementation of the sweep and the moments is held to.
struct SweepCase {
  std::string name;
  std::vector<double> omega;
  std::int64_t window = 2;
  std::vector<reference::Vector> vectors;
};

/// Uniform in [-1, 1), the same on every platform.
inline double uniform(std::mt19937_64& random) {
  return static_cast<double>(static_cast<std::int64_t>(random()) >> 11) * 0x1p-52;
}

inline std::vector<double> geometric_grid(double base, std::size_t h) {
  std::vector<double> omega(h);
  for (std::size_t n = 0; n < h; ++n)
    omega[n] = std::pow(base, -static_cast<double>(n) / static_cast<double>(h));
  return omega;
}

/// `count` vectors with root mean square score `size`, the odd ones with a constant.
inline std::vector<reference::Vector> make_vectors(std::size_t count, std::size_t h, Spread spread,
                                                   double size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<reference::Vector> vectors(count);
  for (std::size_t v = 0; v < count; ++v) {
    auto& vector = vectors[v];
    vector.z.resize(h);
    for (std::size_t n = 0; n < h; ++n) {
      const std::complex<double> z(uniform(random), uniform(random));
      const bool keep = spread == Spread::kWhite || (spread == Spread::kSlowOnly && 8 * n >= 7 * h) ||
                        (spread == Spread::kFastOnly && 8 * n < h) || (spread == Spread::kOne && n == v % h);
      if (keep) vector.z[n] = z;
      // Aligned and slow: the largest scores that a norm allows, as attention sinks have them.
      if (spread == Spread::kSlowHeavy)
        vector.z[n] = n < h / 2 ? 0.05 * z : std::complex<double>(std::abs(z), 0.1 * z.imag());
    }
    const double norm = static_cast<double>(reference::norm(vector));
    for (auto& z : vector.z) z *= norm > 0 ? size * std::numbers::sqrt2 / norm : 0.0;
    vector.constant = v % 2 ? size * uniform(random) : 0.0;
  }
  return vectors;
}

/// The vectors as a batch, in lanes first ... first + n - 1 of `lanes`.
inline spectral::CoefficientBatch make_batch(const std::vector<reference::Vector>& vectors, std::size_t h,
                                             std::size_t lanes = 0, std::size_t first = 0) {
  spectral::CoefficientBatch batch;
  batch.reset(h, std::max(lanes, vectors.size() + first));
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    for (std::size_t n = 0; n < h; ++n) {
      batch.re[n * batch.stride + first + v] = vectors[v].z[n].real();
      batch.im[n * batch.stride + first + v] = vectors[v].z[n].imag();
    }
    batch.constant[first + v] = vectors[v].constant;
  }
  return batch;
}

/// The case table. Windows sit around the blocks of the CPU sweeps: 128 distances (64 in float64 for h > 128)
/// within 2048, and one distance is shared by two blocks.
inline std::vector<SweepCase> sweep_cases() {
  std::vector<SweepCase> cases;
  const auto add = [&](const std::string& name, std::vector<double> omega, std::int64_t window, Spread spread,
                       double size, std::size_t count) {
    const std::size_t h = omega.size();
    cases.push_back({name + ", h=" + std::to_string(h) + ", M=" + std::to_string(window), std::move(omega),
                     window, make_vectors(count, h, spread, size, 1000 * cases.size() + 7)});
  };
  for (std::int64_t window :
       {2,   3,   4,   5,   9,   63,   64,   65,   127,  128,  129,  130,  131,  192, 193,
        194, 257, 258, 386, 387, 1024, 1025, 1026, 2047, 2048, 2049, 2050, 2177, 4097}) {
    add("white", geometric_grid(1e6, 16), window, Spread::kWhite, 2.0, 13);
  }
  for (std::size_t h : {1, 2, 3, 31, 64, 128})
    add("white", geometric_grid(1e4, h), 500, Spread::kWhite, 1.0, 5);
  for (std::size_t h : {256, 512}) {
    add("white", geometric_grid(1e4, h), 131, Spread::kWhite, 1.0, 3);
    add("white", geometric_grid(1e4, h), 65, Spread::kWhite, 1.0, 3);
  }
  for (double size : {1e-300, 1e-39, 1e-30, 1e-3, 45.0, 1e3, 1e38})
    add("size " + std::to_string(std::log10(size)), geometric_grid(1e6, 64), 1000, Spread::kWhite, size, 5);
  add("slow only", geometric_grid(1e6, 64), 3000, Spread::kSlowOnly, 4.0, 5);
  add("very slow only", geometric_grid(1e10, 64), 3000, Spread::kSlowOnly, 4.0, 5);
  for (double size : {1e-6, 12.0, 45.0})
    add("slow, size " + std::to_string(size), geometric_grid(1e6, 64), 5000, Spread::kSlowHeavy, size, 6);
  for (std::size_t h : {64, 128}) {
    add("white, wide", geometric_grid(1e4, h), 3000, Spread::kWhite, 12.0 / std::numbers::sqrt2, 12);
    add("white, too wide", geometric_grid(1e4, h), 3000, Spread::kWhite, 30.0, 3);
  }
  add("slow only, short", geometric_grid(1e6, 64), 200, Spread::kSlowOnly, 4.0, 5);
  add("hardly any frequency", {1e-9, 1e-30, 1e-200}, 3000, Spread::kWhite, 2.0, 3);
  add("fast only", geometric_grid(1e6, 64), 3000, Spread::kFastOnly, 4.0, 5);
  add("one pair", geometric_grid(5e5, 12), 3000, Spread::kOne, 4.0, 12);
  add("long", geometric_grid(1e6, 64), 8999, Spread::kWhite, 3.0, 3);
  add("very long", geometric_grid(1e7, 8), 131072, Spread::kWhite, 3.0, 3);
  add("up to pi", {std::numbers::pi, 3.0, 0.5, 1e-3, 1e-7}, 700, Spread::kWhite, 2.0, 5);
  add("equal frequencies", {0.25, 0.25, 0.25, 1e-4, 1e-4}, 700, Spread::kWhite, 2.0, 5);
  add("no order", {1e-3, 1.0, 0.02, 2.5, 1e-6}, 700, Spread::kWhite, 2.0, 5);
  const auto add_vectors = [&](const std::string& name, std::vector<double> omega, std::int64_t window,
                               std::vector<reference::Vector> vectors) {
    cases.push_back({name, std::move(omega), window, std::move(vectors)});
  };
  // From the lowest score to the highest, so that sums of weights outgrow any start.
  add_vectors("rising scores", {2e-3, 1e-3, 5e-4, 0.3}, 4000,
              {{{-18.0, -15.0, -9.0, {0.5, 0.5}}, 0.0},
               {{-30.0, {0.0, 4.0}, 0.0, 0.1}, 1.0},
               {{0.0, -45.0, 0.0, 1.0}, 0.0},
               {{0.0, 0.0, {-40.0, 3.0}, -1.0}, -2.0},
               {{1.0, 1.0, 1.0, 1.0}, 0.0}});
  // Logits about the limits of what the fast exponentials hold without a clamp (logit_range): below S(0) and
  // above it, on both sides of each limit. Near distance 3142 all but a twentieth has changed its sign.
  for (double size : {15.5, 15.7, 22.0, 25.0, 29.4, 29.5, 38.7, 38.9, 45.0, 53.9, 54.2, 58.8, 59.0, 70.0}) {
    // Each alone: one lane that needs the clamp has its neighbours clamped too.
    for (const std::complex<double> turn : {std::complex<double>(1, 0), std::complex<double>(-1, 0),
                                            std::complex<double>(0, 1), std::complex<double>(0, -1)})
      add_vectors("logits up to " + std::to_string(size), {5e-3, 3e-3, 1e-3, 0.3}, 4000,
                  {{{0.4 * size * turn, 0.35 * size * turn, 0.2 * size * turn, 0.05 * size * turn}, 0.0}});
  }
  // The slopes of two frequencies cancel: differences are far smaller than the terms of each.
  for (std::int64_t window : {150, 1000}) {
    const double slope = 0.5 / static_cast<double>(window);
    add_vectors("differences that cancel, " + std::to_string(window), {slope, 2 * slope, 3 * slope}, window,
                {{{{0.0, 2.0}, {0.0, -1.0}, 0.0}, 0.0},
                 {{{0.0, 3.0}, {0.0, -3.0}, {0.0, 1.0}}, 0.0},
                 {{{4.0, 1.0}, {-1.0, -0.5}, 0.0}, 0.0}});
  }
  return cases;
}

}  // namespace rope::test

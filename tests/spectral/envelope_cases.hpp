#pragma once

#include <complex>
#include <string>
#include <vector>

#include "spectral/sweep_cases.hpp"

namespace rope::test {

/// A grid, window, H and vectors for which the inequalities of theory §8 are tried.
struct EnvelopeCase {
  std::string name;
  std::vector<double> omega;
  std::int64_t window = 2;
  std::vector<char> high;
  std::vector<reference::Vector> vectors;
};

/// Every pair's step is largest at the distance `at`: zeta = T but for rounding. sizes: |z_n|.
inline reference::Vector aligned_steps(const std::vector<double>& omega, const std::vector<double>& sizes,
                                       std::int64_t at) {
  reference::Vector v;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    // -gamma |z| sin(phase + (at + 1/2) omega) with its argument at a quarter turn.
    const long double angle = std::numbers::pi_v<long double> / 2 -
                              (static_cast<long double>(at) + 0.5L) * static_cast<long double>(omega[n]);
    v.z.emplace_back(static_cast<double>(sizes[n] * std::cos(angle)),
                     static_cast<double>(sizes[n] * std::sin(angle)));
  }
  return v;
}

/// Vectors that reach zeta = T, at the ends and in the middle of the window.
inline std::vector<reference::Vector> extremal_vectors(const std::vector<double>& omega,
                                                       std::int64_t window) {
  std::vector<reference::Vector> vectors;
  const std::size_t h = omega.size();
  for (const std::int64_t at : {std::int64_t{0}, (window - 2) / 2, window - 2}) {
    std::vector<double> falling(h), alone(h, 0.0);
    for (std::size_t n = 0; n < h; ++n) falling[n] = 1.0 / static_cast<double>(n + 1);
    vectors.push_back(aligned_steps(omega, std::vector<double>(h, 1.0), at));
    vectors.push_back(aligned_steps(omega, falling, at));
    alone[static_cast<std::size_t>(at) % h] = 3.0;
    vectors.push_back(aligned_steps(omega, alone, at));
    std::vector<double> dominant(h, 1e-9);  // one coefficient rules
    dominant[h / 2] = 1e3;
    vectors.push_back(aligned_steps(omega, dominant, at));
  }
  return vectors;
}

inline std::vector<EnvelopeCase> envelope_cases() {
  std::vector<EnvelopeCase> cases;
  const auto prefix = [](std::size_t h, std::size_t k) {
    std::vector<char> mask(h, 0);
    std::fill_n(mask.begin(), k, char{1});
    return mask;
  };
  const auto add = [&](const std::string& name, std::vector<double> omega, std::int64_t window,
                       std::vector<char> high, std::vector<reference::Vector> vectors) {
    for (auto& v : extremal_vectors(omega, window)) vectors.push_back(std::move(v));
    for (auto& v : vectors) v.constant = 0;
    cases.push_back({name + ", M=" + std::to_string(window), std::move(omega), window, std::move(high),
                     std::move(vectors)});
  };
  const auto qwen = geometric_grid(1e6, 64), small = geometric_grid(1e4, 8);
  for (const std::int64_t window : {2, 3, 64, 65, 128, 129, 130, 131, 257, 1000, 2050})
    add("white", small, window, prefix(8, 3), make_vectors(6, 8, Spread::kWhite, 1.0, 5 + window));
  add("white", qwen, 1500, prefix(64, 20), make_vectors(8, 64, Spread::kWhite, 2.0, 1));
  add("slow only", qwen, 1500, prefix(64, 20), make_vectors(6, 64, Spread::kSlowOnly, 2.0, 2));
  add("fast only", qwen, 1500, prefix(64, 20), make_vectors(6, 64, Spread::kFastOnly, 2.0, 3));
  add("sinks", qwen, 1500, prefix(64, 20), make_vectors(6, 64, Spread::kSlowHeavy, 20.0, 4));
  add("one pair", geometric_grid(1e5, 12), 700, prefix(12, 5), make_vectors(12, 12, Spread::kOne, 1.0, 5));
  add("H empty", small, 300, prefix(8, 0), make_vectors(4, 8, Spread::kWhite, 1.0, 6));
  add("H all", small, 300, prefix(8, 8), make_vectors(4, 8, Spread::kWhite, 1.0, 7));
  add("H of slow pairs", small, 300, {0, 0, 0, 0, 0, 1, 0, 1}, make_vectors(4, 8, Spread::kWhite, 1.0, 8));
  add("a single pair", {0.7}, 400, {1}, make_vectors(4, 1, Spread::kWhite, 1.0, 9));
  add("up to pi", {std::numbers::pi, 3.0, 0.5, 1e-3, 1e-7}, 500, {1, 1, 0, 0, 0},
      make_vectors(4, 5, Spread::kWhite, 1.0, 10));
  add("hardly any frequency", {1e-9, 1e-30, 1e-200}, 300, {1, 0, 0},
      make_vectors(4, 3, Spread::kWhite, 1.0, 11));
  // The slopes of two pairs cancel, and an equal pair takes the other away altogether.
  add("cancelling", {2e-3, 4e-3, 0.25, 0.25}, 500, {0, 0, 1, 1},
      {{{{0.0, 2.0}, {0.0, -1.0}, {0.0, 0.0}, {0.0, 0.0}}, 0},
       {{{1.0, 0.0}, {0.0, 0.0}, {1.0, 1.0}, {-1.0, -1.0}}, 0},
       {{{0.0, 1e-8}, {0.0, 0.0}, {1.0, 1.0}, {-1.0, -1.0}}, 0}});
  return cases;
}

}  // namespace rope::test

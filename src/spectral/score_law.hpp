#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// How standardised high-frequency scores X_H(m) sqrt(2) / U_H are distributed over the distances of a window
/// and over vectors, each with equal weight (theory §9; P D.3.1). Kept in fine bins of width 1/512 from -8 to
/// 8, and one beyond on either side.
class ScoreLaw {
 public:
  static constexpr int kReach = 8, kPerUnit = 512, kInner = 2 * kReach * kPerUnit;
  /// Bin 0 holds what is below -8, bin b in 1 ... kInner values in [-8 + (b-1)/512, -8 + b/512), the last one
  /// what is 8 and above.
  static constexpr int kBins = kInner + 2;
  using Counts = std::array<std::uint64_t, kBins>;

  /// Adds the scores of `vectors` vectors over a window of so many distances, each vector with weight 1.
  void add(const Counts& counts, std::int64_t vectors, std::int64_t window, double coordinate_error);

  std::int64_t vectors() const { return vectors_; }
  /// Share of the scores below -8 + edge/512, 0 <= edge <= kInner; NaN without vectors.
  double share_below(int edge) const;

  /// Kolmogorov's distance to N(0, 1), sup over x of |F(x) - Phi(x)|: `distance` is its value over the edges
  /// of the bins, and what lies between edges can raise it to distance + error, no further. It cannot be
  /// smaller than distance by more than `error` either (the rounding of the scores). NaN without vectors.
  struct Kolmogorov {
    double distance = 0, error = 0;
  };
  Kolmogorov kolmogorov() const;

 private:
  std::vector<double> mass_;  // [kBins], empty until something was added
  std::int64_t vectors_ = 0;
  double coordinate_error_ = 0;
};

/// Phi(x) of N(0, 1).
double normal_below(double x);

/// Counts X_H(m) sqrt(2) / U_H, m = 0 ... window-1, of many vectors in the bins of a ScoreLaw. float32 blocks
/// of 128 distances, mirrored about their centres, which are turned in float64.
class ScoreCounter {
 public:
  /// omega: the frequencies of H, > 0, <= pi, any number from 1 on. window >= 1.
  ScoreCounter(std::span<const double> omega, std::int64_t window);

  std::int64_t window() const { return window_; }
  /// Scores are within this of the exact ones (bound on their rounding, for unit vectors).
  double coordinate_error() const;

  /// Adds the scores of lanes with norm[lane] > 0. batch rows pairs[i] hold the coefficients of omega[i];
  /// norm: [n_pairs] U_H of each lane, 0 for those left out. A lane's scores do not depend on its neighbours.
  /// Returns how many lanes were counted. Single-threaded; for many threads at once.
  std::int64_t count(const CoefficientBatch& batch, std::span<const int> pairs, std::span<const double> norm,
                     ScoreLaw::Counts& counts) const;

 private:
  std::vector<double> omega_;
  std::int64_t window_;
  std::vector<float> table_;  // see score_law_kernel.hpp
};

}  // namespace rope::spectral

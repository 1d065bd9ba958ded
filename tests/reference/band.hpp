#pragma once

#include <cstdint>
#include <vector>

#include "reference/direct_sums.hpp"

namespace rope::reference {

// Theory §9 by plain summation in long double.

/// Pairs by falling frequency, ties by index.
std::vector<int> falling_pairs(const std::vector<double>& omega);

/// Of every prefix H_k, k = 1 ... h, and every pair: sums over the vectors.
struct BandSums {
  std::vector<double> variance;       ///< [h] sum of Var_M(X_{H_k})
  std::vector<double> half_square;    ///< [h] sum of U_{H_k}^2 / 2
  std::vector<double> pair_variance;  ///< [h] of the k-th pair alone
  std::vector<double> energy_share;   ///< [h] of the k-th pair
};
BandSums band_sums(const std::vector<Vector>& vectors, const std::vector<double>& omega, std::int64_t window);

/// X_H(m) sqrt(2) / U_H of one vector for every m; pairs: members of H. Empty where U_H = 0.
std::vector<double> standardised_scores(const Vector& vector, const std::vector<double>& omega,
                                        const std::vector<int>& pairs, std::int64_t window);

/// sup over x of |F(x) - Phi(x)|, F the mean of the vectors' own distribution functions; exact.
double kolmogorov_distance(const std::vector<std::vector<double>>& scores);

}  // namespace rope::reference

#pragma once

#include <cstdint>
#include <vector>

#include "reference/direct_sums.hpp"

namespace rope::reference {

// Theory §8, Prop. 1 of §5, and the statistics of an audit, in long double and by counting: slow, written
// from theory.md alone.

/// Everything about one vector under a division of the pairs into H (high != 0) and the rest.
struct EnvelopeFacts {
  long double zeta = 0;                          ///< max |S(m+1) - S(m)| / U
  long double envelope = 0;                      ///< T
  long double w_low = 0;                         ///< w_N
  long double kappa = 0;                         ///< kappa_H, 0 where U_H = 0
  long double norm_share = 0;                    ///< r_H
  long double norm_floor = 0;                    ///< f_pos; only where U_H > 0
  long double band_mean = 0, band_variance = 0;  ///< of X_H over the window
  long double high_norm = 0;                     ///< U_H
};
EnvelopeFacts envelope_facts(const Vector& vector, const std::vector<double>& omega,
                             const std::vector<char>& high, std::int64_t window);

/// Smallest distance on the circle between the members of {0, +omega, -omega}, distinct by index.
long double circle_separation(const std::vector<double>& omega);

/// The value below which a share q of sorted values lies, linear between neighbours (numpy's default).
double quantile(std::vector<double> values, double q);

/// Spearman's rho by counting: the rank of a value is the number of smaller ones plus half the equal ones.
/// NaN for a constant side.
double spearman_by_counting(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace rope::reference

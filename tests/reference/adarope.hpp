#pragma once

#include <cstdint>
#include <vector>

#include "reference/direct_sums.hpp"

namespace rope::reference {

// AdaScale, frequency use and the window-task bounds (theory §12), slowly and from the page alone.

/// ln E_2 of softmax(scale * logits).
long double log_length(const std::vector<long double>& logits, long double scale);

/// Mean of log_length over the rows.
long double mean_log_length(const std::vector<std::vector<long double>>& rows, long double scale);

/// The scale in (0, 1e4] at which mean_log_length is `target`, by 300 halvings of its logarithm; NaN where
/// there is none.
double holding_scale(const std::vector<std::vector<long double>>& rows, long double target);

/// Logits of one query against all keys at or before it, fewer than `reach` tokens back (0: all): the vectors
/// are rotated by their own positions, lanes (n, n + h) a pair, further lanes constant.
struct RowInput {
  std::vector<double> query;
  std::int64_t position = 0;
  std::vector<std::vector<double>> keys;
  std::vector<std::int64_t> key_position;
  std::vector<double> omega;
  double scale = 1;
  std::int64_t reach = 0;
};
std::vector<long double> attention_logits(const RowInput& input);

/// Population variance.
long double variance(const std::vector<long double>& values);

/// (tau, gamma) by the normal equations, and the root mean square of the residuals.
struct ScaleFit {
  double tau, gamma, residual;
};
ScaleFit fit_scale(const std::vector<double>& lengths, const std::vector<double>& scales, double reference);

/// E_2 and variance of S(0 ... window-1) with pair n frozen; n < 0: none.
struct FrozenSums {
  double effective_length, variance;
};
FrozenSums freeze_pair(const Vector& vector, const std::vector<double>& omega, std::int64_t window, int n,
                       double softcap = 0);

/// sum |z_n| omega_n / sum |z_n|.
double frequency_mass(const Vector& vector, const std::vector<double>& omega);

}  // namespace rope::reference

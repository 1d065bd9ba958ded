#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/effective_length.hpp"
#include "spectral/logit_rows.hpp"
#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// Virtual effective length (theory §12): E_beta of softmax S(m), m = 0 ... window - 1, one fixed pair,
///
///     S(m) = c_0 + Re sum_n z_n e^{i m omega_n},
///
/// and the same with the pairs of H stopped (omega = 0): their share is then a constant, which a softmax
/// without a softcap does not see, so this is E_beta of the slow pairs N alone.
///
/// Distances are taken in blocks around a centre c: with u = z e^{i c omega},
/// S(c +- t) = c_0 + sum Re u cos t omega -+ sum Im u sin t omega, t = 1/2, 3/2, ...: two products with
/// tables of the grid give both halves. Float64 throughout, logits right to 1e-14 (sum |z| + |c_0|).
class VirtualLengthPlan {
 public:
  /// omega: [h] radians per token. high: [h], the pairs of H.
  VirtualLengthPlan(std::span<const double> omega, std::span<const char> high);

  std::size_t n_freq() const { return omega_.size(); }

 private:
  friend class VirtualLengthSums;
  std::vector<double> omega_;
  std::vector<std::size_t> row_[2];  // frequencies of N and of H
  ColumnPanels cos_[2], sin_[2];     // [row_][t]
};

/// What virtual_lengths computes; [orders][lanes], in the order of LengthOrders::beta().
struct VirtualLengths {
  std::vector<std::vector<double>> all;   ///< E_beta of S
  std::vector<std::vector<double>> slow;  ///< E_beta with H stopped
};

/// window >= 1. softcap: > 0: of cap * tanh(S / cap) instead. A lane's result depends on the lane alone;
/// lanes with a non-finite coefficient give NaN.
VirtualLengths virtual_lengths(const VirtualLengthPlan& plan, const CoefficientBatch& batch,
                               std::int64_t window, const LengthOrders& orders, double softcap);

}  // namespace rope::spectral

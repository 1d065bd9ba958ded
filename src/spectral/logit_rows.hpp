#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "spectral/effective_length.hpp"

namespace rope::spectral {

// Rows of logits by blocks of keys, as blocked attention takes them: products of a few rows with a block of
// columns into a buffer that stays in the first cache, then the sums of softmax weights over it. All float64:
// logits of 100 in float32 would move E_2 by more than 1e-5.

/// Rows of products that are computed together.
inline constexpr std::size_t kProductRows = 4;

/// A block of columns [depth][columns], repacked so that neighbouring columns of all rows lie together.
class ColumnPanels {
 public:
  static constexpr std::size_t kWidth = 32;  ///< columns of a panel

  /// from: row r at from + r * stride.
  void pack(const double* from, std::size_t stride, std::size_t depth, std::size_t columns);

  std::size_t depth() const { return depth_; }
  std::size_t columns() const { return columns_; }
  std::size_t panels() const { return (columns_ + kWidth - 1) / kWidth; }
  /// [depth][kWidth] of a panel; zero beyond columns().
  const double* panel(std::size_t p) const { return values_.data() + p * depth_ * kWidth; }

 private:
  std::size_t depth_ = 0, columns_ = 0;
  std::vector<double> values_;
};

/// to[i * to_stride + j] = sum_r left[r * left_stride + i] * columns[r][j], added to what stands there with
/// `add`, for kProductRows rows i and the first `count` columns j. to_stride: at least `count` rounded up to
/// whole panels; so many values of each row are written.
void multiply_rows(const double* left, std::size_t left_stride, const ColumnPanels& columns,
                   std::size_t count, bool add, double* to, std::size_t to_stride);

/// up[j] = constant + even[j] + odd[j], down[j] = constant + even[j] - odd[j].
void combine_mirrored(double constant, const double* even, const double* odd, std::size_t count, double* up,
                      double* down);

/// logits[j] = cap * tanh(logits[j] / cap).
void cap_logits(std::span<double> logits, double cap);

/// Sums of one block of logits: at most a few thousand, so that plain sums are right to 1e-13.
WeightSums sum_weights(std::span<const double> logits, const LengthOrders& orders);

}  // namespace rope::spectral

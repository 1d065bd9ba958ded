#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace rope::spectral {

/// Orders beta of the effective length (theory §12; A §3)
///
///     E_beta = (sum alpha^beta)^{1 / (1 - beta)},   alpha = softmax of the logits of a row,
///
/// with the limits E_1 = exp(-sum alpha ln alpha), E_inf = 1 / max alpha and E_0 = the number of keys.
class LengthOrders {
 public:
  /// Orders that take a sum of their own: all but 0, 1, 2 and infinity.
  static constexpr std::size_t kMostPowers = 8;
  /// Nearer to 1 than this, an order is taken as 1: the formula loses digits as 1e-15 / |1 - beta|, and
  /// E_beta differs from E_1 by (1 - beta) / 2 times the variance of ln alpha at most.
  static constexpr double kNearOne = 1e-8;

  LengthOrders() : LengthOrders({1.0, 2.0, std::numeric_limits<double>::infinity()}) {}
  /// beta: 0 to infinity, in the order in which values are asked for. Throws std::invalid_argument with a
  /// sentence for others, for NaN, repeated ones, or more than kMostPowers that take a sum of their own.
  explicit LengthOrders(std::vector<double> beta);

  std::span<const double> beta() const { return beta_; }
  std::size_t size() const { return beta_.size(); }
  std::span<const double> powers() const { return powers_; }  ///< those with a sum of their own
  /// Index into powers() of order i, or -1.
  int power(std::size_t i) const { return power_[i]; }

 private:
  std::vector<double> beta_, powers_;
  std::vector<int> power_;
};

/// "1", "2", "inf", "1.5": shortest text of an order.
std::string order_name(double beta);

/// Running sums over the logits x of one row, of a block of its keys, or of any set of them: a log-sum-exp at
/// beta = 1, 2 and the further orders, taken relative to the largest logit seen. Sums of disjoint sets are
/// added; the order shows in rounding alone.
struct WeightSums {
  std::int64_t count = 0;                                     ///< keys
  double largest = -std::numeric_limits<double>::infinity();  ///< max x
  double sum = 0;                                             ///< sum e^y, y = x - largest <= 0
  double square = 0;                                          ///< sum e^{2y}
  double slope = 0, square_slope = 0;                         ///< sum y e^y, sum y e^{2y}
  double mean = 0, deviation = 0;  ///< of x: mean, and sum of squared differences from it
  std::array<double, LengthOrders::kMostPowers> power{};  ///< sum e^{beta y} of LengthOrders::powers()
  bool finite = true;                                     ///< no logit was NaN or infinite

  void add(const WeightSums& other, const LengthOrders& orders);
  /// One more key.
  void add(double logit, const LengthOrders& orders);

  /// ln of the denominator of the weights, sum e^x + e^sink: e^{x - log_total} is the weight of logit x, to
  /// 1e-16 (1 + |log_total|).
  double log_total(double sink = -std::numeric_limits<double>::infinity()) const;
  /// e^{x - largest} / (sum + e^{sink - largest}): the weight of a key of the row with logit x. sink: a
  /// learned extra logit that joins the denominator, -infinity for none.
  double weight(double logit, double sink = -std::numeric_limits<double>::infinity()) const;
  /// The weight of all keys of `part`, a subset of these.
  double weight_of(const WeightSums& part, double sink = -std::numeric_limits<double>::infinity()) const;
  /// Population variance of the logits.
  double variance() const { return deviation / static_cast<double>(count); }
};

/// Adds the sums of a run of logits, block by block of fixed size.
void add_logits(WeightSums& sums, std::span<const double> logits, const LengthOrders& orders);

/// ln E_beta of order i of `orders`; NaN without keys or with a non-finite logit. Within [0, ln count], error
/// below 1e-13 (1 + 1 / |1 - beta|) for beta != 1, below 1e-13 (1 + ln count) for beta = 1.
double log_effective_length(const WeightSums& sums, const LengthOrders& orders, std::size_t i);
/// The orders that need no list.
double log_effective_length_1(const WeightSums& sums);    ///< the entropy, in nats
double log_effective_length_2(const WeightSums& sums);    ///< -ln sum alpha^2
double log_effective_length_inf(const WeightSums& sums);  ///< -ln max alpha

/// d ln E_2 / d ln lambda at lambda = 1 of logits lambda x: 2 (E_alpha[x] - E_alpha2[x]), alpha2 the softmax
/// of 2 x. Never positive: E_2 falls in the logit scale.
double log_length_slope(const WeightSums& sums);

}  // namespace rope::spectral

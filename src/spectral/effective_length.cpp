#include "spectral/effective_length.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "spectral/logit_rows.hpp"

namespace rope::spectral {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kBlock = 512;  // logits summed at a time

bool near_one(double beta) { return std::abs(beta - 1.0) < LengthOrders::kNearOne; }

bool defined(const WeightSums& sums) { return sums.finite && sums.count > 0; }

// Rounding must not show as E < 1 or E > L.
double within(const WeightSums& sums, double log_length) {
  return std::clamp(log_length, 0.0, std::log(static_cast<double>(sums.count)));
}

// y e^y tends to 0 where y is so low that e^y is 0.
double times(double factor, double weight) { return weight == 0 ? 0.0 : factor * weight; }

}  // namespace

std::string order_name(double beta) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, beta).ptr};
}

LengthOrders::LengthOrders(std::vector<double> beta) : beta_(std::move(beta)) {
  for (std::size_t i = 0; i < beta_.size(); ++i) {
    if (!(beta_[i] >= 0)) throw std::invalid_argument("expected 0 to inf, found " + order_name(beta_[i]));
    if (std::find(beta_.begin(), beta_.begin() + static_cast<std::ptrdiff_t>(i), beta_[i]) !=
        beta_.begin() + static_cast<std::ptrdiff_t>(i))
      throw std::invalid_argument(order_name(beta_[i]) + " is given twice");
    const bool own = beta_[i] != 0 && beta_[i] != 2 && !std::isinf(beta_[i]) && !near_one(beta_[i]);
    power_.push_back(own ? static_cast<int>(powers_.size()) : -1);
    if (own) powers_.push_back(beta_[i]);
  }
  if (powers_.size() > kMostPowers)
    throw std::invalid_argument("expected at most " + std::to_string(kMostPowers) +
                                " orders beside 0, 1, 2 and inf, found " + std::to_string(powers_.size()));
}

void WeightSums::add(const WeightSums& other, const LengthOrders& orders) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  finite = finite && other.finite;
  const double top = std::max(largest, other.largest);
  const double mine = largest - top, theirs = other.largest - top;  // <= 0, one of them 0
  const double e = std::exp(mine), f = std::exp(theirs), e2 = e * e, f2 = f * f;
  slope = e * slope + times(mine * sum, e) + f * other.slope + times(theirs * other.sum, f);
  square_slope = e2 * square_slope + times(mine * square, e2) + f2 * other.square_slope +
                 times(theirs * other.square, f2);
  sum = e * sum + f * other.sum;
  square = e2 * square + f2 * other.square;
  for (std::size_t k = 0; k < orders.powers().size(); ++k) {
    const double beta = orders.powers()[k];
    power[k] = std::exp(beta * mine) * power[k] + std::exp(beta * theirs) * other.power[k];
  }
  const auto a = static_cast<double>(count), b = static_cast<double>(other.count);
  const double apart = other.mean - mean;
  deviation += other.deviation + apart * apart * (a * b / (a + b));
  mean += apart * (b / (a + b));
  count += other.count;
  largest = top;
}

void WeightSums::add(double logit, const LengthOrders& orders) {
  WeightSums one;
  one.count = 1;
  one.largest = one.mean = logit;
  one.sum = one.square = 1;
  one.power.fill(1);
  one.finite = std::isfinite(logit);
  add(one, orders);
}

double WeightSums::log_total(double sink) const {
  if (!finite || count == 0) return kNaN;
  const double top = std::max(largest, sink);
  return top + std::log(std::exp(largest - top) * sum + std::exp(sink - top));
}

double WeightSums::weight(double logit, double sink) const {
  if (!finite || count == 0) return kNaN;
  const double top = std::max(largest, sink);
  return std::exp(logit - top) / (std::exp(largest - top) * sum + std::exp(sink - top));
}

double WeightSums::weight_of(const WeightSums& part, double sink) const {
  return part.count == 0 && finite && count > 0 ? 0.0 : part.sum * weight(part.largest, sink);
}

void add_logits(WeightSums& sums, std::span<const double> logits, const LengthOrders& orders) {
  for (std::size_t first = 0; first < logits.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, logits.size() - first);
    sums.add(sum_weights(logits.subspan(first, count), orders), orders);
  }
}

double log_effective_length_1(const WeightSums& sums) {
  return defined(sums) ? within(sums, std::log(sums.sum) - sums.slope / sums.sum) : kNaN;
}

double log_effective_length_2(const WeightSums& sums) {
  return defined(sums) ? within(sums, 2 * std::log(sums.sum) - std::log(sums.square)) : kNaN;
}

double log_effective_length_inf(const WeightSums& sums) {
  return defined(sums) ? within(sums, std::log(sums.sum)) : kNaN;
}

double log_effective_length(const WeightSums& sums, const LengthOrders& orders, std::size_t i) {
  const double beta = orders.beta()[i];
  if (near_one(beta)) return log_effective_length_1(sums);
  if (beta == 2) return log_effective_length_2(sums);
  if (std::isinf(beta)) return log_effective_length_inf(sums);
  if (!defined(sums)) return kNaN;
  if (beta == 0) return std::log(static_cast<double>(sums.count));
  const double power = sums.power[static_cast<std::size_t>(orders.power(i))];
  return within(sums, (std::log(power) - beta * std::log(sums.sum)) / (1 - beta));
}

double log_length_slope(const WeightSums& sums) {
  if (!defined(sums)) return kNaN;
  return std::min(0.0, 2 * (sums.slope / sums.sum - sums.square_slope / sums.square));
}

}  // namespace rope::spectral

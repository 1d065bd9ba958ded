#include "spectral/exact_covariance.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rope::spectral {
namespace {

constexpr Wide kPi = std::numbers::pi_v<Wide>;
constexpr std::size_t kOrder = 11;  // 1/22! < 1e-21

}  // namespace

std::vector<Wide> centred_moments(std::int64_t window, std::size_t count) {
  const Wide m = static_cast<Wide>(window);
  std::vector<Wide> moment(count, 0);
  if (window <= 64) {
    for (std::int64_t distance = 0; distance < window; ++distance) {
      const Wide t = (static_cast<Wide>(distance) - 0.5L * (m - 1)) / m;
      Wide power = 1;
      for (Wide& sum : moment) {
        sum += power / m;
        power *= t * t;
      }
    }
    return moment;
  }
  // From sinh(M x / 2) = M sinh(x / 2) sum_p moment_p (M x)^2p / (2p)!, coefficient by coefficient.
  std::vector<Wide> large(count, 1), small(count, 1), quotient(count);
  Wide factorial = 1;
  for (std::size_t p = 0; p < count; ++p) {
    if (p > 0) {
      const Wide step = static_cast<Wide>(8 * p * (2 * p + 1));
      large[p] = large[p - 1] / step;
      small[p] = small[p - 1] / (step * m * m);
      factorial *= static_cast<Wide>((2 * p - 1) * 2 * p);
    }
    quotient[p] = large[p];
    for (std::size_t k = 1; k <= p; ++k) quotient[p] -= small[k] * quotient[p - k];
    moment[p] = quotient[p] * factorial;
  }
  return moment;
}

ExactCovariance::ExactCovariance(std::span<const double> omega, std::int64_t window)
    : m_(static_cast<Wide>(window)), odd_(window % 2 != 0), moment_(centred_moments(window, 2 * kOrder + 1)) {
  for (const double value : omega) {
    const Wide w = value, quarter = std::sin(0.25L * w), big_quarter = std::sin(0.25L * m_ * w);
    terms_.push_back({w, deficit(w, 2 * kPi - w), std::sin(0.5L * w), std::cos(0.5L * w),
                      std::sin(0.5L * m_ * w), std::cos(0.5L * m_ * w), 2 * quarter * quarter,
                      2 * big_quarter * big_quarter});
  }
}

/// F(x) = 1 - D(x), 0 <= x <= 2 pi, x given with its distance to 2 pi, which keeps the digits x has lost
/// there.
Wide ExactCovariance::deficit(Wide x, Wide to_two_pi) const {
  if (to_two_pi < x) {  // reflected: e^{i 2 pi t} = 1 for whole t (odd M), -1 for half-whole ones
    const Wide reflected = deficit(to_two_pi, x);
    return odd_ ? reflected : 2 - reflected;
  }
  if (!is_short(x)) return 1 - std::sin(0.5L * m_ * x) / (m_ * std::sin(0.5L * x));
  // (sinc(y) - sinc(M y)) / sinc(y), y = x / 2, term by term: the leading ones have cancelled.
  Wide difference = 0, sinc = 1, small = 1, large = 1;
  const Wide y = 0.5L * x;
  for (int k = 1; k <= 12; ++k) {
    const Wide factor = -y * y / static_cast<Wide>(2 * k * (2 * k + 1));
    small *= factor;
    large *= factor * m_ * m_;
    difference += small - large;
    sinc += small;
  }
  return difference / sinc;
}

ExactCovariance::Entry ExactCovariance::covariance(std::size_t n, std::size_t l) const {
  const Terms& w = terms_[n].omega >= terms_[l].omega ? terms_[n] : terms_[l];
  const Terms& v = terms_[n].omega >= terms_[l].omega ? terms_[l] : terms_[n];
  Entry entry;
  if (m_ == 1) return entry;
  if (is_short(w.omega + v.omega)) {
    entry = both_short(w.omega, v.omega);
  } else if (2 * v.omega <= w.omega) {
    entry = far_apart(w, v);
  } else {
    const Wide apart = w.omega - v.omega;
    const Wide minus = deficit(apart, 2 * kPi - apart);
    const Wide plus = deficit(w.omega + v.omega, (kPi - w.omega) + (kPi - v.omega));
    entry.cosines = w.deficit + v.deficit - 0.5L * (minus + plus) - w.deficit * v.deficit;
    entry.sines = 0.5L * (plus - minus);
  }
  if (m_ == 2) entry.cosines = 0;  // both distances are 1/2 from the centre
  return entry;
}

/// Power series in w t and v t, both at most 1.
ExactCovariance::Entry ExactCovariance::both_short(Wide w, Wide v) const {
  Entry entry;
  const Wide ww = m_ * m_ * w * w, vv = m_ * m_ * v * v;
  Wide even_w = 1, odd_w = m_ * w;
  for (std::size_t j = 0; j <= kOrder; ++j) {
    Wide even_v = 1, odd_v = m_ * v;
    for (std::size_t k = 0; j + k <= kOrder; ++k) {
      if (j > 0 && k > 0) entry.cosines += even_w * even_v * (moment_[j + k] - moment_[j] * moment_[k]);
      entry.sines += odd_w * odd_v * moment_[j + k + 1];
      even_v *= -vv / static_cast<Wide>((2 * k + 1) * (2 * k + 2));
      odd_v *= -vv / static_cast<Wide>((2 * k + 2) * (2 * k + 3));
    }
    even_w *= -ww / static_cast<Wide>((2 * j + 1) * (2 * j + 2));
    odd_w *= -ww / static_cast<Wide>((2 * j + 2) * (2 * j + 3));
  }
  return entry;
}

/// v <= w / 2. With sin((w+v)/2) sin((w-v)/2) = s_w^2 - s_v^2 the sums of D come over one denominator, and
/// 1 - C_v c_v, small to second order in v, is made of 1 - C_v and 1 - c_v.
ExactCovariance::Entry ExactCovariance::far_apart(const Terms& w, const Terms& v) const {
  Entry entry;
  const Wide below = m_ * (w.s * w.s - v.s * v.s);
  const Wide loss = v.one_minus_big_c + v.one_minus_c - v.one_minus_big_c * v.one_minus_c;
  // (D(w-v) + D(w+v)) / 2 - D(w), then D(w) (1 - D(v)).
  const Wide bend =
      (w.big_s * (v.s * v.s - w.s * w.s * loss) - w.big_c * w.c * w.s * v.big_s * v.s) / (w.s * below);
  entry.cosines = bend + (1 - w.deficit) * v.deficit;
  entry.sines = (w.big_s * v.big_c * w.c * v.s - w.big_c * v.big_s * w.s * v.c) / below;
  return entry;
}

}  // namespace rope::spectral

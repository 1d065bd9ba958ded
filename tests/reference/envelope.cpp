#include "reference/envelope.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace rope::reference {
namespace {

using Wide = long double;
using Complex = std::complex<long double>;

Wide band_score(const Vector& v, const std::vector<double>& omega, const std::vector<char>& mask, Wide m) {
  Wide sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (!mask[n]) continue;
    const Wide angle = m * static_cast<Wide>(omega[n]);
    sum += v.z[n].real() * std::cos(angle) - v.z[n].imag() * std::sin(angle);
  }
  return sum;
}

/// S(m+1) - S(m) from the coefficients z (e^{i omega} - 1): exact where the difference of two S is not.
Wide step_at(const Vector& v, const std::vector<double>& omega, Wide m) {
  Wide sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    const Wide w = omega[n], half = std::sin(w / 2);
    const Complex z(v.z[n].real(), v.z[n].imag()), turn(-2 * half * half, std::sin(w));
    sum += (z * turn * Complex(std::cos(m * w), std::sin(m * w))).real();
  }
  return sum;
}

}  // namespace

EnvelopeFacts envelope_facts(const Vector& vector, const std::vector<double>& omega,
                             const std::vector<char>& high, std::int64_t window) {
  EnvelopeFacts f;
  Wide low = 0, top = 0, square = 0, high_square = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    const Complex z(vector.z[n].real(), vector.z[n].imag());
    const Wide w = omega[n];
    // |e^{iw} - 1| from its two parts.
    const Wide half = std::sin(w / 2);
    const Wide gamma = std::abs(Complex(-2 * half * half, std::sin(w)));
    square += std::norm(z);
    if (high[n]) {
      top += gamma * std::abs(z);
      high_square += std::norm(z);
    } else {
      low += gamma * std::abs(z);
    }
  }
  const Wide u = std::sqrt(square);
  f.high_norm = std::sqrt(high_square);
  f.w_low = low / u;
  f.kappa = f.high_norm > 0 ? top / f.high_norm : 0;
  f.norm_share = f.high_norm / u;
  f.envelope = f.w_low + f.kappa * f.norm_share;
  for (std::int64_t m = 0; m + 1 < window; ++m)
    f.zeta = std::max(f.zeta, std::abs(step_at(vector, omega, static_cast<Wide>(m))) / u);
  if (f.kappa > 0) f.norm_floor = std::max<Wide>(0, f.zeta - f.w_low) / f.kappa;
  std::vector<Wide> scores;
  for (std::int64_t m = 0; m < window; ++m) {
    scores.push_back(band_score(vector, omega, high, static_cast<Wide>(m)));
    f.band_mean += scores.back();
  }
  f.band_mean /= static_cast<Wide>(window);
  for (const Wide x : scores) f.band_variance += (x - f.band_mean) * (x - f.band_mean);
  f.band_variance /= static_cast<Wide>(window);
  return f;
}

long double circle_separation(const std::vector<double>& omega) {
  std::vector<Wide> points{0};
  for (const double w : omega) {
    points.push_back(static_cast<Wide>(w));
    points.push_back(-static_cast<Wide>(w));
  }
  Wide smallest = std::numeric_limits<Wide>::infinity();
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // The chord gives the arc without reducing angles.
      const Wide half = std::abs(std::sin((points[i] - points[j]) / 2));
      smallest = std::min(smallest, 2 * std::asin(std::min<Wide>(1, half)));
    }
  }
  return smallest;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

double spearman_by_counting(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& v) {
    std::vector<Wide> r;
    for (const double x : v) {
      Wide smaller = 0, equal = 0;
      for (const double y : v) {
        smaller += y < x;
        equal += y == x;
      }
      r.push_back(smaller + equal / 2);
    }
    return r;
  };
  const std::vector<Wide> x = ranks(a), y = ranks(b);
  const Wide n = static_cast<Wide>(a.size()), middle = n / 2;
  Wide xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? static_cast<double>(xy / std::sqrt(xx * yy))
                          : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace rope::reference

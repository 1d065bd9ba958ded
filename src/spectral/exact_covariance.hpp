#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rope::spectral {

/// The widest type at hand (80 bits on x86-64, 128 on arm64): entries of slow pairs are small differences of
/// numbers near 1.
using Wide = long double;

/// Means over a window of even powers of the distance from its centre: moment[p] = mean of (t / M)^(2p), t =
/// m - (M-1)/2, for p < moments.size().
std::vector<Wide> centred_moments(std::int64_t window, std::size_t count);

/// Covariances of cos(w t), cos(v t) and of sin(w t), sin(v t), t = m - (M-1)/2 over the window, from
/// D(x) = sin(M x / 2) / (M sin(x / 2)), the mean of cos(x t):
///   cosines: (D(w-v) + D(w+v)) / 2 - D(w) D(v),   sines: (D(w-v) - D(w+v)) / 2.
/// Each entry is right relative to the square roots of its two variances, also where those are tiny: else the
/// block would not be positive at the level of its slow pairs. Slow to compute, for any window and any
/// frequencies in (0, pi]; window_covariance.hpp has a fast way for most.
class ExactCovariance {
 public:
  ExactCovariance(std::span<const double> omega, std::int64_t window);
  struct Entry {
    Wide cosines = 0, sines = 0;
  };
  Entry covariance(std::size_t n, std::size_t l) const;
  Wide mean(std::size_t n) const { return 1 - terms_[n].deficit; }  ///< D(omega_n)
  /// True where M x <= 2: short power series serve.
  bool is_short(Wide x) const { return m_ * x <= 2; }

 private:
  /// Functions of one frequency that the addition formulas need; s = sin(w/2), c = cos(w/2), capitals with M
  /// w.
  struct Terms {
    Wide omega, deficit, s, c, big_s, big_c, one_minus_c, one_minus_big_c;
  };
  Wide deficit(Wide x, Wide to_two_pi) const;
  Entry both_short(Wide w, Wide v) const;
  Entry far_apart(const Terms& w, const Terms& v) const;

  Wide m_;
  bool odd_;
  std::vector<Terms> terms_;
  std::vector<Wide> moment_;
};

}  // namespace rope::spectral

#include "spectral/window_moments.hpp"

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "spectral/phase.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/window_moments_kernel.hpp"

namespace rope::spectral {
namespace {

// The blocks are built in the widest type at hand (80 bits on x86-64, 128 on arm64): entries of slow pairs
// are small differences of numbers near 1.
using Wide = long double;
constexpr Wide kPi = std::numbers::pi_v<Wide>;

/// Covariances of cos(w t), cos(v t) and of sin(w t), sin(v t), t = m - (M-1)/2 over the window, from
/// D(x) = sin(M x / 2) / (M sin(x / 2)), the mean of cos(x t):
///   cosines: (D(w-v) + D(w+v)) / 2 - D(w) D(v),   sines: (D(w-v) - D(w+v)) / 2.
/// Each entry is right relative to the square roots of its two variances, also where those are tiny: else the
/// block would not be positive at the level of its slow pairs.
class CosineAndSine {
 public:
  CosineAndSine(std::span<const double> omega, std::int64_t window);
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

  static constexpr std::size_t kOrder = 11;  // 1/22! < 1e-21
  Wide m_;
  bool odd_;
  std::vector<Terms> terms_;
  Wide moment_[2 * kOrder + 1];  ///< [p] mean of (t / M)^(2p)
};

CosineAndSine::CosineAndSine(std::span<const double> omega, std::int64_t window)
    : m_(static_cast<Wide>(window)), odd_(window % 2 != 0) {
  for (const double value : omega) {
    const Wide w = value, quarter = std::sin(0.25L * w), big_quarter = std::sin(0.25L * m_ * w);
    terms_.push_back({w, deficit(w, 2 * kPi - w), std::sin(0.5L * w), std::cos(0.5L * w),
                      std::sin(0.5L * m_ * w), std::cos(0.5L * m_ * w), 2 * quarter * quarter,
                      2 * big_quarter * big_quarter});
  }
  std::fill(std::begin(moment_), std::end(moment_), 0);
  if (window <= 64) {
    for (std::int64_t m = 0; m < window; ++m) {
      const Wide t = (static_cast<Wide>(m) - 0.5L * (m_ - 1)) / m_;
      Wide power = 1;
      for (Wide& moment : moment_) {
        moment += power / m_;
        power *= t * t;
      }
    }
    return;
  }
  // From sinh(M x / 2) = M sinh(x / 2) sum_p moment_p (M x)^2p / (2p)!, coefficient by coefficient.
  Wide large[2 * kOrder + 1], small[2 * kOrder + 1], quotient[2 * kOrder + 1], factorial = 1;
  large[0] = small[0] = 1;
  for (std::size_t p = 0; p <= 2 * kOrder; ++p) {
    if (p > 0) {
      const Wide step = static_cast<Wide>(8 * p * (2 * p + 1));
      large[p] = large[p - 1] / step;
      small[p] = small[p - 1] / (step * m_ * m_);
      factorial *= static_cast<Wide>((2 * p - 1) * 2 * p);
    }
    quotient[p] = large[p];
    for (std::size_t k = 1; k <= p; ++k) quotient[p] -= small[k] * quotient[p - k];
    moment_[p] = quotient[p] * factorial;
  }
}

/// F(x) = 1 - D(x), 0 <= x <= 2 pi, x given with its distance to 2 pi, which keeps the digits x has lost
/// there.
Wide CosineAndSine::deficit(Wide x, Wide to_two_pi) const {
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

CosineAndSine::Entry CosineAndSine::covariance(std::size_t n, std::size_t l) const {
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
CosineAndSine::Entry CosineAndSine::both_short(Wide w, Wide v) const {
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
CosineAndSine::Entry CosineAndSine::far_apart(const Terms& w, const Terms& v) const {
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

/// A covariance block scaled to a unit diagonal; zero rows where there is no variance.
struct Block {
  std::vector<Wide> matrix;  ///< [h * h]
  std::vector<Wide> scale;   ///< [h] square roots of the diagonal
};

void scale_to_unit(Block& block, std::size_t h, const std::vector<char>& from_series) {
  // Below this an entry that was not made by the series is rounding noise.
  constexpr Wide kNoise = 64 * std::numeric_limits<Wide>::epsilon();
  block.scale.assign(h, 0);
  for (std::size_t n = 0; n < h; ++n) {
    const Wide variance = block.matrix[n * h + n];
    if (variance > (from_series[n] ? 0 : kNoise)) block.scale[n] = std::sqrt(variance);
  }
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t l = 0; l < h; ++l) {
      const Wide product = block.scale[n] * block.scale[l];
      Wide& entry = block.matrix[n * h + l];
      entry = product > 0 ? (n == l ? 1 : entry / product) : 0;
    }
  }
}

/// Pivoted Cholesky columns of the scaled block, times the scales, packed in tiles of kTileColumns.
std::vector<double> factorize(const Block& block, std::size_t h) {
  constexpr Wide kTruncation =
      1e-17L;  // of a unit diagonal; what is left out is below the rounding of float64
  std::vector<Wide> left(h), columns;
  for (std::size_t n = 0; n < h; ++n) left[n] = block.matrix[n * h + n];
  std::vector<double> packed;
  for (std::size_t rank = 0; rank < h; ++rank) {
    const auto pivot = static_cast<std::size_t>(std::max_element(left.begin(), left.end()) - left.begin());
    if (!(left[pivot] > kTruncation)) break;
    if (rank % kTileColumns == 0) packed.resize(packed.size() + h * kTileColumns, 0.0);
    columns.resize((rank + 1) * h);
    const Wide root = std::sqrt(left[pivot]);
    for (std::size_t n = 0; n < h; ++n) {
      Wide entry = block.matrix[pivot * h + n];
      for (std::size_t k = 0; k < rank; ++k) entry -= columns[k * h + pivot] * columns[k * h + n];
      entry /= root;
      if (left[n] <= 0) entry = 0;  // a pivot already used, or no variance
      if (n == pivot) entry = root;
      columns[rank * h + n] = entry;
    }
    for (std::size_t n = 0; n < h; ++n) {
      const Wide entry = columns[rank * h + n];
      left[n] = n == pivot ? 0 : std::max<Wide>(left[n] - entry * entry, 0);
      packed[((rank / kTileColumns) * h + n) * kTileColumns + rank % kTileColumns] =
          static_cast<double>(entry * block.scale[n]);
    }
  }
  return packed;
}

}  // namespace

struct WindowMoments::Impl {
  MomentFactors factors;
  int rank = 0;
};

WindowMoments::WindowMoments(std::span<const double> omega, std::int64_t window)
    : impl_(std::make_unique<Impl>()) {
  if (window < 1) throw std::logic_error("WindowMoments: window < 1");
  for (double w : omega) {
    if (!(w > 0 && w <= std::numbers::pi)) throw std::logic_error("WindowMoments: frequency outside (0, pi]");
  }
  obey_simd_environment();
  const std::size_t h = omega.size();
  const CosineAndSine functions(omega, window);
  MomentFactors& factors = impl_->factors;
  factors.h = h;
  factors.phase.resize(2 * h);
  factors.weight.resize(h);
  std::vector<char> sine_series(h), cosine_series(h);
  Block cosine, sine;
  cosine.matrix.resize(h * h);
  sine.matrix.resize(h * h);
  for (std::size_t n = 0; n < h; ++n) {
    const Phase centre = phase_at(0.5 * static_cast<double>(window - 1), omega[n]);
    factors.phase[2 * n] = centre.cos;
    factors.phase[2 * n + 1] = centre.sin;
    factors.weight[n] = static_cast<double>(functions.mean(n));
    const Wide twice = 2 * static_cast<Wide>(omega[n]);
    cosine_series[n] = functions.is_short(twice) ? 1 : 0;
    sine_series[n] = cosine_series[n] || functions.is_short(2 * kPi - twice) ? 1 : 0;
    for (std::size_t l = 0; l <= n; ++l) {
      const auto entry = functions.covariance(n, l);
      cosine.matrix[n * h + l] = cosine.matrix[l * h + n] = entry.cosines;
      sine.matrix[n * h + l] = sine.matrix[l * h + n] = entry.sines;
    }
  }
  scale_to_unit(cosine, h, cosine_series);
  scale_to_unit(sine, h, sine_series);
  factors.cosine = factorize(cosine, h);
  factors.sine = factorize(sine, h);
  if (h > 0) impl_->rank = static_cast<int>((factors.cosine.size() + factors.sine.size()) / h);
}

WindowMoments::~WindowMoments() = default;
WindowMoments::WindowMoments(WindowMoments&&) noexcept = default;
WindowMoments& WindowMoments::operator=(WindowMoments&&) noexcept = default;
int WindowMoments::rank() const { return impl_->rank; }

void WindowMoments::evaluate(const CoefficientBatch& batch, std::span<double> mean,
                             std::span<double> variance) const {
  const MomentFactors& factors = impl_->factors;
  if (batch.n_freq != factors.h || mean.size() < batch.n_pairs || variance.size() < batch.n_pairs)
    throw std::logic_error("WindowMoments::evaluate: batch of another grid, or outputs too short");
  const std::size_t room = padded(batch.n_pairs);
  std::vector<double> means(room), variances(room);  // the kernel writes whole vectors
  const auto scratch = hwy::AllocateAligned<double>(moments_scratch_size(factors) + 1);
  if (!scratch) throw std::bad_alloc();
  for (std::size_t lane = 0; lane < batch.n_pairs;) {
    lane += evaluate_moments(factors, batch, lane, means.data(), variances.data(), scratch.get());
  }
  std::copy_n(means.data(), batch.n_pairs, mean.data());
  std::copy_n(variances.data(), batch.n_pairs, variance.data());
}

}  // namespace rope::spectral

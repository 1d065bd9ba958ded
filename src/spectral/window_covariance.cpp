#include "spectral/window_covariance.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "spectral/exact_covariance.hpp"
#include "spectral/pair_coefficients.hpp"
#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

constexpr std::size_t kSeries = WindowTerms::kSeries;

bool too_near(double w, double v) { return w - v < w / 64; }

/// 1 - D(x) for M x <= 2 by (sinc(y) - sinc(M y)) / sinc(y), y = x / 2, term by term.
double short_deficit(double x, double m) {
  double difference = 0, sinc = 1, small = 1, large = 1;
  const double y = 0.5 * x;
  for (int k = 1; k <= 10; ++k) {
    const double factor = -y * y / static_cast<double>(2 * k * (2 * k + 1));
    small *= factor;
    large *= factor * m * m;
    difference += small - large;
    sinc += small;
  }
  return difference / sinc;
}

double one_minus(double cosine, double sine) { return cosine > 0 ? sine * sine / (1 + cosine) : 1 - cosine; }

/// Covariances of the powers (t/M)^2j and means of their products, j from 1 (even) or 0 (odd).
struct PowerMoments {
  std::array<std::array<double, kSeries>, kSeries> even, odd;
  explicit PowerMoments(std::int64_t window) {
    const std::vector<Wide> moment = centred_moments(window, 2 * kSeries + 2);
    for (std::size_t j = 0; j < kSeries; ++j)
      for (std::size_t k = 0; k < kSeries; ++k) {
        even[j][k] = static_cast<double>(moment[j + k + 2] - moment[j + 1] * moment[k + 1]);
        odd[j][k] = static_cast<double>(moment[j + k + 1]);
      }
  }
};

/// Series of cos(w t) - 1 and sin(w t) in powers of t / M, and their products with the moments.
void set_series(WindowTerms& terms, const PowerMoments& moments, std::size_t i) {
  const double x = terms.window * terms.omega[i];
  double power = x;
  for (std::size_t j = 0; j < kSeries; ++j) {
    terms.odd[j * terms.stride + i] = power;
    power *= -x / static_cast<double>(2 * j + 2);
    terms.even[j * terms.stride + i] = power;
    power *= x / static_cast<double>(2 * j + 3);
  }
  for (std::size_t j = 0; j < kSeries; ++j) {
    double even = 0, odd = 0;
    for (std::size_t k = 0; k < kSeries; ++k) {
      even += moments.even[j][k] * terms.even[k * terms.stride + i];
      odd += moments.odd[j][k] * terms.odd[k * terms.stride + i];
    }
    terms.even_moved[j * terms.stride + i] = even;
    terms.odd_moved[j * terms.stride + i] = odd;
  }
}

WindowTerms make_terms(std::span<const double> falling, std::int64_t window, std::size_t stride) {
  WindowTerms terms;
  terms.h = falling.size();
  terms.stride = stride;
  terms.window = static_cast<double>(window);
  for (auto* values : {&terms.omega, &terms.deficit, &terms.s, &terms.c, &terms.big_s, &terms.big_c,
                       &terms.one_minus_c, &terms.one_minus_big_c})
    values->resize(stride + kLaneAlign);
  for (auto* values : {&terms.even, &terms.odd, &terms.even_moved, &terms.odd_moved})
    values->resize(kSeries * stride + kLaneAlign);
  std::optional<PowerMoments> moments;
  for (std::size_t i = 0; i < falling.size(); ++i) {
    const double w = falling[i];
    const Phase half = phase_at(0.5, w), big = phase_at(0.5 * terms.window, w);
    terms.omega[i] = w;
    terms.s[i] = half.sin;
    terms.c[i] = half.cos;
    terms.big_s[i] = big.sin;
    terms.big_c[i] = big.cos;
    terms.one_minus_c[i] = one_minus(half.cos, half.sin);
    terms.one_minus_big_c[i] = one_minus(big.cos, big.sin);
    terms.deficit[i] =
        terms.window * w <= 2 ? short_deficit(w, terms.window) : 1 - big.sin / (terms.window * half.sin);
    if (terms.window * w > WindowTerms::kShort) continue;
    if (!moments) moments.emplace(window);
    set_series(terms, *moments, i);
  }
  return terms;
}

/// Square roots of the diagonal from the rows' first entries, then the rows scaled and mirrored.
void scale_to_unit(WindowCovariance::Block& block, std::size_t h, std::size_t stride) {
  std::vector<double> inverse(h);
  block.scale.resize(h);
  for (std::size_t i = 0; i < h; ++i) {
    block.scale[i] = std::sqrt(block.matrix[i * stride + i]);
    inverse[i] = block.scale[i] > 0 ? 1 / block.scale[i] : 0.0;
  }
  for (std::size_t i = 0; i < h; ++i) {
    double* row = block.matrix.data() + i * stride;
    for (std::size_t l = i + 1; l < h; ++l) row[l] *= inverse[i] * inverse[l];
    row[i] = inverse[i] > 0 ? 1.0 : 0.0;
    for (std::size_t l = i + 1; l < h; ++l) block.matrix[l * stride + i] = row[l];
  }
}

void fill_fast(std::span<const double> falling, std::int64_t window, WindowCovariance& covariance) {
  const std::size_t h = covariance.h, stride = covariance.stride;
  const WindowTerms terms = make_terms(falling, window, stride);
  std::optional<ExactCovariance> exact;
  for (std::size_t i = 0; i < h; ++i) {
    double* cosine = covariance.cosine.matrix.data() + i * stride;
    double* sine = covariance.sine.matrix.data() + i * stride;
    covariance_row(terms, i, cosine, sine);
    covariance.mean[i] = 1 - terms.deficit[i];
    for (std::size_t l = i + 1; l < h && too_near(falling[i], falling[l]); ++l) {
      if (!exact) exact.emplace(falling, window);
      const auto entry = exact->covariance(i, l);
      cosine[l] = static_cast<double>(entry.cosines);
      sine[l] = static_cast<double>(entry.sines);
    }
  }
}

void fill_exact(std::span<const double> falling, std::int64_t window, WindowCovariance& covariance) {
  constexpr Wide kPi = std::numbers::pi_v<Wide>;
  // Below this a variance that was not made by the series is rounding noise.
  constexpr Wide kNoise = 64 * std::numeric_limits<Wide>::epsilon();
  const std::size_t h = covariance.h, stride = covariance.stride;
  const ExactCovariance exact(falling, window);
  for (std::size_t i = 0; i < h; ++i) {
    covariance.mean[i] = static_cast<double>(exact.mean(i));
    for (std::size_t l = i; l < h; ++l) {
      auto entry = exact.covariance(i, l);
      if (i == l) {
        const Wide twice = 2 * static_cast<Wide>(falling[i]);
        const bool short_here = exact.is_short(twice);
        if (!(entry.cosines > (short_here ? 0 : kNoise))) entry.cosines = 0;
        if (!(entry.sines > (short_here || exact.is_short(2 * kPi - twice) ? 0 : kNoise))) entry.sines = 0;
      }
      covariance.cosine.matrix[i * stride + l] = static_cast<double>(entry.cosines);
      covariance.sine.matrix[i * stride + l] = static_cast<double>(entry.sines);
    }
  }
}

}  // namespace

WindowCovariance make_window_covariance(std::span<const double> omega, std::int64_t window) {
  WindowCovariance covariance;
  const std::size_t h = omega.size();
  covariance.h = h;
  covariance.stride = padded(h);
  covariance.order.resize(h);
  std::iota(covariance.order.begin(), covariance.order.end(), 0);
  std::stable_sort(covariance.order.begin(), covariance.order.end(),
                   [&](std::size_t a, std::size_t b) { return omega[a] > omega[b]; });
  std::vector<double> falling(h);
  for (std::size_t i = 0; i < h; ++i) falling[i] = omega[covariance.order[i]];
  covariance.mean.resize(h);
  for (auto* block : {&covariance.cosine, &covariance.sine})
    block->matrix.assign(h * covariance.stride + kLaneAlign, 0.0);
  if (window >= 64 && (h == 0 || falling.front() <= 2)) {
    fill_fast(falling, window, covariance);
  } else {
    fill_exact(falling, window, covariance);
  }
  scale_to_unit(covariance.cosine, h, covariance.stride);
  scale_to_unit(covariance.sine, h, covariance.stride);
  return covariance;
}

}  // namespace rope::spectral

#include "spectral/pair_coefficients.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

// Lanes handled together by the plain loops below: long enough for any vector unit, small enough to stay in
// registers and first-level cache.
constexpr std::size_t kChunk = kLaneAlign;

}  // namespace

LaneMap make_lane_map(std::span<const double> omega, PairLayout layout, int head_dim) {
  const int h = static_cast<int>(omega.size());
  if (head_dim < 2 * h) throw std::logic_error("make_lane_map: head_dim < 2h");
  LaneMap map;
  for (int n = 0; n < h; ++n) {
    const int a = layout == PairLayout::kHalf ? n : 2 * n;
    const int b = layout == PairLayout::kHalf ? n + h : 2 * n + 1;
    const double w = omega[n];
    if (!(w >= 0) || !std::isfinite(w)) throw std::logic_error("make_lane_map: frequency < 0 or not finite");
    if (w > 0) {
      map.pair.push_back(n);
      map.a.push_back(a);
      map.b.push_back(b);
      map.omega.push_back(w);
    } else {
      map.still.push_back(a);
      map.still.push_back(b);
    }
  }
  for (int lane = 2 * h; lane < head_dim; ++lane) map.tail.push_back(lane);
  return map;
}

void CoefficientBatch::reset(std::size_t frequencies, std::size_t pairs) {
  n_freq = frequencies;
  n_pairs = pairs;
  stride = padded(pairs);
  re.assign(n_freq * stride, 0.0);
  im.assign(n_freq * stride, 0.0);
  constant.assign(stride, 0.0);
}

void rotate_rows(double* rows, std::size_t count, int head_dim, const LaneMap& map,
                 std::span<const long long> positions, int direction) {
  if (positions.size() != count) throw std::logic_error("rotate_rows: one position per row");
  for (std::size_t r = 0; r < count; ++r) {
    double* row = rows + r * static_cast<std::size_t>(head_dim);
    const double position = static_cast<double>(direction) * static_cast<double>(positions[r]);
    for (std::size_t n = 0; n < map.omega.size(); ++n) {
      const Phase e = phase_at(position, map.omega[n]);
      const double a = row[map.a[n]], b = row[map.b[n]];
      row[map.a[n]] = a * e.cos - b * e.sin;
      row[map.b[n]] = a * e.sin + b * e.cos;
    }
  }
}

void pair_coefficients(const double* queries, std::size_t n_queries, const double* keys, std::size_t n_keys,
                       int head_dim, const LaneMap& map, double scale, double tail_scale,
                       CoefficientBatch& batch, std::size_t first_lane) {
  if (batch.n_freq != map.omega.size() || first_lane + n_queries * n_keys > batch.n_pairs)
    throw std::logic_error("pair_coefficients: batch too small or of another grid");
  const auto width = static_cast<std::size_t>(head_dim);
  std::vector<double> key_a(n_keys), key_b(n_keys);
  for (std::size_t n = 0; n < map.omega.size(); ++n) {
    const int a = map.a[n], b = map.b[n];
    for (std::size_t j = 0; j < n_keys; ++j) {
      key_a[j] = keys[j * width + a];
      key_b[j] = keys[j * width + b];
    }
    for (std::size_t i = 0; i < n_queries; ++i) {
      const double qa = queries[i * width + a], qb = queries[i * width + b];
      double* re = batch.re.data() + n * batch.stride + first_lane + i * n_keys;
      double* im = batch.im.data() + n * batch.stride + first_lane + i * n_keys;
      for (std::size_t j = 0; j < n_keys; ++j) {
        re[j] = scale * (qa * key_a[j] + qb * key_b[j]);
        im[j] = scale * (qb * key_a[j] - qa * key_b[j]);
      }
    }
  }
  for (std::size_t i = 0; i < n_queries; ++i) {
    for (std::size_t j = 0; j < n_keys; ++j) {
      const double *q = queries + i * width, *k = keys + j * width;
      double still = 0, tail = 0;
      for (int lane : map.still) still += q[lane] * k[lane];
      for (int lane : map.tail) tail += q[lane] * k[lane];
      double c0 = 0;  // a head without such lanes has c_0 = 0 whatever the scales
      if (!map.still.empty()) c0 += scale * still;
      if (!map.tail.empty()) c0 += tail_scale * tail;
      batch.constant[first_lane + i * n_keys + j] = c0;
    }
  }
}

void lane_scales(const CoefficientBatch& batch, std::span<double> scale) {
  for (std::size_t first = 0; first < batch.n_pairs; first += kChunk) {
    double largest[kChunk] = {};
    for (std::size_t n = 0; n < batch.n_freq; ++n) {
      const double* re = batch.re.data() + n * batch.stride + first;
      const double* im = batch.im.data() + n * batch.stride + first;
      for (std::size_t p = 0; p < kChunk; ++p) {
        largest[p] = std::max(largest[p], std::max(std::abs(re[p]), std::abs(im[p])));
      }
    }
    for (std::size_t p = 0; p < std::min(kChunk, batch.n_pairs - first); ++p) {
      int exponent = 0;
      if (largest[p] > 0 && std::isfinite(largest[p])) std::frexp(largest[p], &exponent);
      scale[first + p] = std::ldexp(1.0, std::clamp(-exponent, -1000, 1000));
    }
  }
}

void pair_norms(const CoefficientBatch& batch, std::span<const char> mask, std::span<double> norm,
                std::span<double> subset_norm) {
  if (norm.size() < batch.n_pairs || subset_norm.size() < batch.n_pairs || mask.size() != batch.n_freq)
    throw std::logic_error("pair_norms: shapes");
  std::vector<double> scales(batch.n_pairs);
  lane_scales(batch, scales);
  for (std::size_t first = 0; first < batch.n_pairs; first += kChunk) {
    const std::size_t lanes = std::min(kChunk, batch.n_pairs - first);
    double s[kChunk] = {}, all[kChunk] = {}, subset[kChunk] = {};
    std::copy_n(scales.data() + first, lanes, s);
    for (std::size_t n = 0; n < batch.n_freq; ++n) {
      const double* re = batch.re.data() + n * batch.stride + first;
      const double* im = batch.im.data() + n * batch.stride + first;
      double square[kChunk];
      for (std::size_t p = 0; p < kChunk; ++p) {
        const double x = re[p] * s[p], y = im[p] * s[p];
        square[p] = x * x + y * y;
        all[p] += square[p];
      }
      if (mask[n]) {
        for (std::size_t p = 0; p < kChunk; ++p) subset[p] += square[p];
      }
    }
    for (std::size_t p = 0; p < lanes; ++p) {
      norm[first + p] = std::sqrt(all[p]) / s[p];
      subset_norm[first + p] = std::sqrt(subset[p]) / s[p];
    }
  }
}

void pair_norms(const CoefficientBatch& batch, std::span<double> norm) {
  const std::vector<char> none(batch.n_freq, 0);
  std::vector<double> unused(batch.n_pairs);
  pair_norms(batch, none, norm, unused);
}

}  // namespace rope::spectral

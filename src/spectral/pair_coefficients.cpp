#include "spectral/pair_coefficients.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "spectral/pair_runs.hpp"
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

void CoefficientBatch::shape(std::size_t frequencies, std::size_t pairs) {
  n_freq = frequencies;
  n_pairs = pairs;
  stride = padded(pairs);
  re.resize(n_freq * stride);
  im.resize(n_freq * stride);
  constant.resize(stride);
  for (std::size_t n = 0; n < n_freq; ++n) {
    std::fill(re.begin() + n * stride + pairs, re.begin() + (n + 1) * stride, 0.0);
    std::fill(im.begin() + n * stride + pairs, im.begin() + (n + 1) * stride, 0.0);
  }
  std::fill(constant.begin() + pairs, constant.end(), 0.0);
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
  VectorColumns query, key;
  query.shape(map, n_queries);
  query.put(queries, n_queries, head_dim, map, 0);
  for (std::size_t r = 0; r < query.rows(); ++r) {
    const double factor = r < query.rows() - query.n_tail ? scale : tail_scale;
    for (std::size_t i = 0; i < n_queries; ++i) query.row(r)[i] *= factor;
  }
  key.shape(map, n_keys);
  key.put(keys, n_keys, head_dim, map, 0);
  for (std::size_t i = 0; i < n_queries; ++i)
    multiply_pairs({&query, &key, i, 0, n_keys, first_lane + i * n_keys, 0}, batch);
}

double unit_scale(double largest) {
  int exponent = 0;
  if (largest > 0 && std::isfinite(largest)) std::frexp(largest, &exponent);
  return std::ldexp(1.0, std::clamp(-exponent, -1000, 1000));
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
      scale[first + p] = unit_scale(largest[p]);
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

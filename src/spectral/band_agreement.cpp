#include "spectral/band_agreement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

constexpr std::size_t kChunk = 16;  // lanes that are worked on together
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Lanes = std::array<double, kChunk>;

double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (const double value : lanes) sum += value;
  return sum;
}

/// y_k (y_k + 2 sum_{l<k} K_kl y_l), summed over the lanes, for every k; and y_k^2.
void add_block(const WindowCovariance::Block& block, std::size_t h, std::size_t stride,
               const std::vector<Lanes>& y, PrefixSums& sums) {
  for (std::size_t k = 0; k < h; ++k) {
    const double* row = block.matrix.data() + k * stride;
    Lanes before{};
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t i = 0; i < kChunk; ++i) before[i] += row[l] * y[l][i];
    Lanes own{}, all{};
    for (std::size_t i = 0; i < kChunk; ++i) {
      own[i] = y[k][i] * y[k][i];
      all[i] = y[k][i] * (y[k][i] + 2 * before[i]);
    }
    sums.own_variance[k] += sum_of(own);
    sums.increment[k] += sum_of(all);
  }
}

double ratio_of(double variance, double square) {
  return square > 0 ? std::max(0.0, variance) / (0.5 * square) : kNaN;
}

}  // namespace

void PrefixSums::add(const PrefixSums& other) {
  if (increment.empty()) {
    *this = other;
    return;
  }
  if (increment.size() != other.increment.size()) throw std::logic_error("PrefixSums::add: another grid");
  for (std::size_t k = 0; k < increment.size(); ++k) {
    increment[k] += other.increment[k];
    own_variance[k] += other.own_variance[k];
    square[k] += other.square[k];
  }
  vectors += other.vectors;
}

BandAgreement band_agreement(double r_var) {
  const double ratio = std::sqrt(r_var);
  // Not std::max alone: NaN stays NaN.
  const double agreement = 1 - std::abs(ratio - 1);
  return {r_var, ratio, agreement < 0 ? 0.0 : agreement};
}

std::vector<BandAgreement> prefix_agreement(const PrefixSums& sums) {
  std::vector<BandAgreement> prefixes;
  double variance = 0, square = 0;
  for (std::size_t k = 0; k < sums.increment.size(); ++k) {
    variance += sums.increment[k];
    square += sums.square[k];
    prefixes.push_back(band_agreement(ratio_of(variance, square)));
  }
  return prefixes;
}

std::vector<double> pair_agreement(const PrefixSums& sums) {
  std::vector<double> ratios;
  for (std::size_t k = 0; k < sums.square.size(); ++k)
    ratios.push_back(ratio_of(sums.own_variance[k], sums.square[k]));
  return ratios;
}

std::vector<double> energy_shares(const PrefixSums& sums) {
  double all = 0;
  for (const double square : sums.square) all += square;
  std::vector<double> shares;
  for (const double square : sums.square) shares.push_back(all > 0 ? square / all : kNaN);
  return shares;
}

std::size_t first_break(std::span<const BandAgreement> prefixes, double threshold) {
  for (std::size_t k = 0; k < prefixes.size(); ++k)
    if (prefixes[k].agreement < threshold) return k + 1;
  return 0;
}

PrefixVariance::PrefixVariance(std::span<const double> omega, std::int64_t window)
    : covariance_(make_window_covariance(omega, window)) {
  for (const std::size_t n : covariance_.order) {
    const Phase centre = phase_at(0.5 * static_cast<double>(window - 1), omega[n]);
    cosine_.push_back(centre.cos);
    sine_.push_back(centre.sin);
  }
}

void PrefixVariance::add(const CoefficientBatch& batch, std::span<const char> use, PrefixSums& sums) const {
  const std::size_t h = size();
  if (batch.n_freq != h || use.size() < batch.n_pairs) throw std::logic_error("PrefixVariance::add: sizes");
  for (auto* values : {&sums.increment, &sums.own_variance, &sums.square}) values->resize(h, 0.0);
  std::vector<Lanes> cosine(h), sine(h);
  for (std::size_t first = 0; first < batch.n_pairs; first += kChunk) {
    const std::size_t count = std::min(kChunk, batch.n_pairs - first);
    Lanes keep{};
    for (std::size_t i = 0; i < count; ++i) keep[i] = use[first + i] != 0 ? 1.0 : 0.0;
    for (std::size_t k = 0; k < h; ++k) {
      const double* re = batch.re.data() + covariance_.order[k] * batch.stride + first;
      const double* im = batch.im.data() + covariance_.order[k] * batch.stride + first;
      Lanes square{};
      for (std::size_t i = 0; i < count; ++i) {
        const double x = keep[i] != 0 ? re[i] : 0.0, y = keep[i] != 0 ? im[i] : 0.0;
        cosine[k][i] = covariance_.cosine.scale[k] * (x * cosine_[k] - y * sine_[k]);
        sine[k][i] = covariance_.sine.scale[k] * (x * sine_[k] + y * cosine_[k]);
        square[i] = x * x + y * y;
      }
      for (std::size_t i = count; i < kChunk; ++i) cosine[k][i] = sine[k][i] = 0;
      sums.square[k] += sum_of(square);
    }
    add_block(covariance_.cosine, h, covariance_.stride, cosine, sums);
    add_block(covariance_.sine, h, covariance_.stride, sine, sums);
    for (std::size_t i = 0; i < count; ++i) sums.vectors += keep[i] != 0;
  }
}

}  // namespace rope::spectral

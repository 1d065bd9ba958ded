#include "reference/band.hpp"

#include <algorithm>
#include <cmath>

namespace rope::reference {
namespace {

using Wide = long double;

Wide variance_of(const std::vector<Wide>& x) {
  Wide mean = 0, sum = 0;
  for (const Wide value : x) mean += value;
  mean /= static_cast<Wide>(x.size());
  for (const Wide value : x) sum += (value - mean) * (value - mean);
  return sum / static_cast<Wide>(x.size());
}

/// Re z e^{i m omega} for every m.
std::vector<Wide> rotation(std::complex<double> z, double omega, std::int64_t window) {
  std::vector<Wide> x;
  for (std::int64_t m = 0; m < window; ++m) {
    const Wide angle = static_cast<Wide>(m) * static_cast<Wide>(omega);
    x.push_back(z.real() * std::cos(angle) - z.imag() * std::sin(angle));
  }
  return x;
}

}  // namespace

std::vector<int> falling_pairs(const std::vector<double>& omega) {
  std::vector<int> pairs;
  for (std::size_t n = 0; n < omega.size(); ++n) pairs.push_back(static_cast<int>(n));
  std::stable_sort(pairs.begin(), pairs.end(), [&](int a, int b) {
    return omega[static_cast<std::size_t>(a)] > omega[static_cast<std::size_t>(b)];
  });
  return pairs;
}

BandSums band_sums(const std::vector<Vector>& vectors, const std::vector<double>& omega,
                   std::int64_t window) {
  const std::size_t h = omega.size();
  const std::vector<int> order = falling_pairs(omega);
  std::vector<Wide> variance(h), square(h), own(h), energy(h);
  for (const Vector& v : vectors) {
    std::vector<Wide> x(static_cast<std::size_t>(window));
    Wide norm = 0;
    for (std::size_t k = 0; k < h; ++k) {
      const auto n = static_cast<std::size_t>(order[k]);
      const std::vector<Wide> one = rotation(v.z[n], omega[n], window);
      for (std::size_t m = 0; m < x.size(); ++m) x[m] += one[m];
      norm += std::norm(std::complex<Wide>(v.z[n]));
      energy[k] += std::norm(std::complex<Wide>(v.z[n]));
      variance[k] += variance_of(x);
      own[k] += variance_of(one);
      square[k] += norm / 2;
    }
  }
  BandSums sums;
  Wide all = 0;
  for (const Wide e : energy) all += e;
  for (std::size_t k = 0; k < h; ++k) {
    sums.variance.push_back(static_cast<double>(variance[k]));
    sums.half_square.push_back(static_cast<double>(square[k]));
    sums.pair_variance.push_back(static_cast<double>(own[k]));
    sums.energy_share.push_back(static_cast<double>(energy[k] / all));
  }
  return sums;
}

std::vector<double> standardised_scores(const Vector& vector, const std::vector<double>& omega,
                                        const std::vector<int>& pairs, std::int64_t window) {
  Wide square = 0;
  std::vector<Wide> x(static_cast<std::size_t>(window));
  for (const int pair : pairs) {
    const auto n = static_cast<std::size_t>(pair);
    square += std::norm(std::complex<Wide>(vector.z[n]));
    const std::vector<Wide> one = rotation(vector.z[n], omega[n], window);
    for (std::size_t m = 0; m < x.size(); ++m) x[m] += one[m];
  }
  std::vector<double> scores;
  if (square > 0)
    for (const Wide value : x) scores.push_back(static_cast<double>(value * std::sqrt(2 / square)));
  return scores;
}

double kolmogorov_distance(const std::vector<std::vector<double>>& scores) {
  std::vector<std::pair<double, Wide>> steps;
  for (const auto& one : scores)
    for (const double x : one)
      steps.emplace_back(x, 1 / (static_cast<Wide>(one.size()) * static_cast<Wide>(scores.size())));
  std::sort(steps.begin(), steps.end());
  Wide below = 0, distance = 0;
  for (const auto& [x, weight] : steps) {
    const Wide normal = normal_cdf(x);
    distance = std::max({distance, std::abs(normal - below), std::abs(normal - below - weight)});
    below += weight;
  }
  return static_cast<double>(distance);
}

}  // namespace rope::reference

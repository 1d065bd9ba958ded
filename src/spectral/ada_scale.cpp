#include "spectral/ada_scale.hpp"

#include <algorithm>
#include <cmath>

namespace rope::spectral {

double ada_scale_abscissa(double length, double reference) {
  return std::log(std::log1p(std::max(length, reference) / reference));
}

double ada_scale(double tau, double gamma, double length, double reference) {
  return std::exp(gamma * ada_scale_abscissa(length, reference)) / tau;
}

std::optional<AdaScaleFit> fit_ada_scale(std::span<const double> lengths, std::span<const double> lambdas,
                                         double reference) {
  const std::size_t n = lengths.size();
  if (n < kLeastScalePoints) return std::nullopt;
  std::vector<double> x(n), y(n);
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = ada_scale_abscissa(lengths[i], reference);
    y[i] = std::log(lambdas[i]);
    mean_x += x[i] / static_cast<double>(n);
    mean_y += y[i] / static_cast<double>(n);
  }
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  if (!(*high - *low > 1e-9)) return std::nullopt;  // equal but for rounding

  AdaScaleFit fit;
  fit.gamma = xy / xx;
  const double intercept = mean_y - fit.gamma * mean_x;
  fit.tau = std::exp(-intercept);
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    fit.residuals.push_back(y[i] - (intercept + fit.gamma * x[i]));
    squares += fit.residuals.back() * fit.residuals.back();
  }
  fit.residual = std::sqrt(squares / static_cast<double>(n));
  return fit;
}

}  // namespace rope::spectral

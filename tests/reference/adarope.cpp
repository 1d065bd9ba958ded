#include "reference/adarope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rope::reference {

using Wide = long double;

Wide log_length(const std::vector<Wide>& logits, Wide scale) {
  Wide top = -std::numeric_limits<Wide>::infinity(), sum = 0, squares = 0;
  for (Wide s : logits) top = std::max(top, scale * s);
  for (Wide s : logits) {
    const Wide weight = std::exp(scale * s - top);
    sum += weight;
    squares += weight * weight;
  }
  return 2 * std::log(sum) - std::log(squares);
}

Wide mean_log_length(const std::vector<std::vector<Wide>>& rows, Wide scale) {
  Wide sum = 0;
  for (const auto& row : rows) sum += log_length(row, scale);
  return sum / static_cast<Wide>(rows.size());
}

double holding_scale(const std::vector<std::vector<Wide>>& rows, Wide target) {
  Wide low = -40, high = std::log(Wide(10000));
  if (mean_log_length(rows, std::exp(low)) <= target || mean_log_length(rows, std::exp(high)) > target)
    return std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 300; ++i) {
    const Wide middle = (low + high) / 2;
    (mean_log_length(rows, std::exp(middle)) > target ? low : high) = middle;
  }
  return static_cast<double>(std::exp(high));
}

std::vector<Wide> attention_logits(const RowInput& input) {
  const std::size_t h = input.omega.size();
  const auto rotated = [&](const std::vector<double>& vector, std::int64_t position) {
    std::vector<Wide> turned(vector.begin(), vector.end());
    for (std::size_t n = 0; n < h; ++n) {
      const Wide angle = static_cast<Wide>(position) * static_cast<Wide>(input.omega[n]);
      const Wide c = std::cos(angle), s = std::sin(angle);
      turned[n] = vector[n] * c - vector[n + h] * s;
      turned[n + h] = vector[n] * s + vector[n + h] * c;
    }
    return turned;
  };
  const std::vector<Wide> query = rotated(input.query, input.position);
  std::vector<Wide> logits;
  for (std::size_t j = 0; j < input.keys.size(); ++j) {
    const std::int64_t back = input.position - input.key_position[j];
    if (back < 0 || (input.reach > 0 && back >= input.reach)) continue;
    const std::vector<Wide> key = rotated(input.keys[j], input.key_position[j]);
    Wide sum = 0;
    for (std::size_t lane = 0; lane < query.size(); ++lane) sum += query[lane] * key[lane];
    logits.push_back(input.scale * sum);
  }
  return logits;
}

Wide variance(const std::vector<Wide>& values) {
  Wide mean = 0, squares = 0;
  for (Wide v : values) mean += v / static_cast<Wide>(values.size());
  for (Wide v : values) squares += (v - mean) * (v - mean);
  return squares / static_cast<Wide>(values.size());
}

ScaleFit fit_scale(const std::vector<double>& lengths, const std::vector<double>& scales, double reference) {
  Wide n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  std::vector<Wide> x, y;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Wide length = std::max(lengths[i], reference);
    x.push_back(std::log(std::log(1 + length / static_cast<Wide>(reference))));
    y.push_back(std::log(static_cast<Wide>(scales[i])));
    n += 1;
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  const Wide gamma = (n * sxy - sx * sy) / (n * sxx - sx * sx), intercept = (sy - gamma * sx) / n;
  Wide squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    squares += (y[i] - intercept - gamma * x[i]) * (y[i] - intercept - gamma * x[i]);
  return {static_cast<double>(std::exp(-intercept)), static_cast<double>(gamma),
          static_cast<double>(std::sqrt(squares / n))};
}

FrozenSums freeze_pair(const Vector& vector, const std::vector<double>& omega, std::int64_t window, int n,
                       double softcap) {
  std::vector<double> frozen = omega;
  if (n >= 0) frozen[static_cast<std::size_t>(n)] = 0;
  const WindowSums sums = sum_over_window({vector}, frozen, window, softcap).front();
  return {sums.effective_length, static_cast<double>(sums.variance)};
}

double frequency_mass(const Vector& vector, const std::vector<double>& omega) {
  Wide sum = 0, weighted = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    sum += std::abs(std::complex<Wide>(vector.z[n]));
    weighted += std::abs(std::complex<Wide>(vector.z[n])) * omega[n];
  }
  return static_cast<double>(weighted / sum);
}

}  // namespace rope::reference

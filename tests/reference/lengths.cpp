#include "reference/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>

namespace rope::reference {
namespace {

using Wide = long double;
using Complex = std::complex<Wide>;

Complex pair_of(const HeadInput& in, const std::vector<double>& row, std::size_t n) {
  return in.interleaved ? Complex(row[2 * n], row[2 * n + 1]) : Complex(row[n], row[n + in.omega.size()]);
}

// Angle of pair n at a position, with the sign that the model turns by.
Wide angle(const HeadInput& in, std::size_t n, std::int64_t position) {
  return (in.reversed ? -1 : 1) * static_cast<Wide>(position) * static_cast<Wide>(in.omega[n]);
}

Complex content(const HeadInput& in, const StoredSide& side, std::size_t slot, std::size_t n) {
  const Complex x = pair_of(in, side.rows[slot], n);
  return side.post ? x * std::polar<Wide>(1, -angle(in, n, side.position[slot])) : x;
}

// S at a distance, theory §1 word by word.
Wide score(const HeadInput& in, std::size_t query, std::size_t key, std::int64_t distance,
           const std::vector<char>& frozen) {
  const Wide a = (in.query.post ? 1.0 : in.attention_factor) * (in.key.post ? 1.0 : in.attention_factor);
  Wide rotary = 0, tail = 0;
  for (std::size_t n = 0; n < in.omega.size(); ++n) {
    const Complex z = content(in, in.query, query, n) * std::conj(content(in, in.key, key, n));
    const bool stopped = !frozen.empty() && frozen[n] != 0;
    rotary += (z * std::polar<Wide>(1, stopped ? 0 : angle(in, n, distance))).real();
  }
  for (std::size_t lane = 2 * in.omega.size(); lane < in.query.rows[query].size(); ++lane)
    tail += static_cast<Wide>(in.query.rows[query][lane]) * in.key.rows[key][lane];
  const Wide c = in.softmax_scale * (in.query_factor.empty() ? 1.0 : in.query_factor[query]);
  const Wide s = c * (a * rotary + tail);
  return in.softcap > 0 ? in.softcap * std::tanh(s / in.softcap) : s;
}

Wide t_density(Wide t, Wide nu) {
  return std::exp(std::lgamma((nu + 1) / 2) - std::lgamma(nu / 2)) / std::sqrt(nu * std::acos(Wide(-1))) *
         std::pow(1 + t * t / nu, -(nu + 1) / 2);
}

// t with half of 95 % of the mass on (0, t): Simpson's rule and bisection.
Wide t_quantile(Wide nu) {
  static std::map<Wide, Wide> known;
  if (const auto found = known.find(nu); found != known.end()) return found->second;
  const auto mass = [&](Wide t) {
    constexpr int kSteps = 4000;
    Wide sum = t_density(0, nu) + t_density(t, nu);
    for (int i = 1; i < kSteps; ++i) sum += (i % 2 ? 4 : 2) * t_density(t * i / kSteps, nu);
    return sum * t / kSteps / 3;
  };
  Wide low = 0, high = 100;
  for (int i = 0; i < 60; ++i) {
    const Wide middle = (low + high) / 2;
    (mass(middle) < 0.475L ? low : high) = middle;
  }
  known[nu] = low;
  return low;
}

}  // namespace

std::vector<long double> softmax(const std::vector<long double>& logits, long double sink) {
  Wide top = sink;
  for (const Wide x : logits) top = std::max(top, x);
  Wide sum = std::exp(sink - top);
  for (const Wide x : logits) sum += std::exp(x - top);
  std::vector<Wide> weights;
  for (const Wide x : logits) weights.push_back(std::exp(x - top) / sum);
  return weights;
}

long double log_effective_length(const std::vector<long double>& logits, double beta) {
  const std::vector<Wide> alpha = softmax(logits, -HUGE_VALL);
  if (std::isinf(beta)) return -std::log(*std::max_element(alpha.begin(), alpha.end()));
  Wide sum = 0;
  for (const Wide a : alpha) {
    if (beta == 1) {
      sum -= a > 0 ? a * std::log(a) : 0;
    } else {
      sum += beta == 0 ? 1 : std::pow(a, static_cast<Wide>(beta));
    }
  }
  return beta == 1 ? sum : std::log(sum) / (1 - static_cast<Wide>(beta));
}

LogitRow logit_row(const HeadInput& input, std::size_t query, std::int64_t window, bool chunked) {
  const std::int64_t at = input.query.position[query];
  std::vector<std::pair<std::int64_t, std::size_t>> seen;
  for (std::size_t key = 0; key < input.key.rows.size(); ++key) {
    const std::int64_t position = input.key.position[key];
    if (position < 0 || position > at) continue;
    if (chunked ? position / window == at / window : at - position < window) seen.emplace_back(position, key);
  }
  std::sort(seen.begin(), seen.end());
  LogitRow row;
  for (const auto& [position, key] : seen) {
    row.position.push_back(position);
    row.logit.push_back(score(input, query, key, at - position, {}));
  }
  return row;
}

std::vector<long double> window_logits(const HeadInput& input, std::size_t query, std::size_t key,
                                       const std::vector<char>& frozen) {
  std::vector<Wide> logits;
  for (std::int64_t m = 0; m < input.window; ++m) logits.push_back(score(input, query, key, m, frozen));
  return logits;
}

LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<Wide>(x.size());
  Wide mx = 0, my = 0, xx = 0, xy = 0, rest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mx += x[i] / n;
    my += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    xy += (x[i] - mx) * (y[i] - my);
  }
  const Wide b = xy / xx, a = my - b * mx;
  for (std::size_t i = 0; i < x.size(); ++i) rest += (y[i] - a - b * x[i]) * (y[i] - a - b * x[i]);
  const Wide half = t_quantile(n - 2) * std::sqrt(rest / (n - 2) / xx);
  return {a, b, b - half, b + half};
}

}  // namespace rope::reference

#include "reference/direct_sums.hpp"

#include <algorithm>
#include <cmath>

namespace rope::reference {
namespace {

using Wide = long double;

/// S and S(m+1) - S(m) of every vector at every distance: [vector][m].
struct Scores {
  std::vector<std::vector<Wide>> score, step;
};

Scores all_scores(const std::vector<Vector>& vectors, const std::vector<double>& omega, std::int64_t window) {
  const std::vector<Wide> empty(static_cast<std::size_t>(window));
  Scores scores;
  scores.score.assign(vectors.size(), empty);
  scores.step.assign(vectors.size(), empty);
  std::vector<Wide> c(omega.size()), s(omega.size()), turn_re(omega.size()), turn_im(omega.size());
  for (std::size_t n = 0; n < omega.size(); ++n) {
    const Wide half = std::sin(0.5L * static_cast<Wide>(omega[n]));
    turn_re[n] = -2 * half * half;
    turn_im[n] = std::sin(static_cast<Wide>(omega[n]));
  }
  for (std::int64_t m = 0; m < window; ++m) {
    for (std::size_t n = 0; n < omega.size(); ++n) {
      const Wide angle = static_cast<Wide>(m) * static_cast<Wide>(omega[n]);
      c[n] = std::cos(angle);
      s[n] = std::sin(angle);
    }
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      Wide sum = vectors[v].constant, step = 0;
      for (std::size_t n = 0; n < omega.size(); ++n) {
        const Wide x = vectors[v].z[n].real(), y = vectors[v].z[n].imag();
        const Wide re = x * c[n] - y * s[n], im = x * s[n] + y * c[n];
        sum += re;
        // Coefficients z (e^{i omega} - 1) (theory §4): exact where the difference of two S is not.
        step += re * turn_re[n] - im * turn_im[n];
      }
      scores.score[v][static_cast<std::size_t>(m)] = sum;
      scores.step[v][static_cast<std::size_t>(m)] = step;
    }
  }
  return scores;
}

double effective_length(std::vector<Wide> logits, double softcap) {
  if (softcap > 0) {
    for (Wide& s : logits) s = softcap * std::tanh(s / softcap);
  }
  const Wide top = *std::max_element(logits.begin(), logits.end());
  Wide sum = 0, squares = 0;
  for (Wide s : logits) sum += std::exp(s - top);
  for (Wide s : logits) {
    const Wide weight = std::exp(s - top) / sum;
    squares += weight * weight;
  }
  return static_cast<double>(1 / squares);
}

}  // namespace

std::vector<WindowSums> sum_over_window(const std::vector<Vector>& vectors, const std::vector<double>& omega,
                                        std::int64_t window, double softcap) {
  const Scores scores = all_scores(vectors, omega, window);
  std::vector<WindowSums> results;
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const std::vector<Wide>& s = scores.score[v];
    const Wide count = static_cast<Wide>(window);
    WindowSums r;
    r.start = static_cast<double>(s[0]);
    for (Wide x : s) r.mean += x;
    r.mean /= count;
    for (Wide x : s) r.variance += (x - r.mean) * (x - r.mean);
    r.variance /= count;
    Wide steps = 0;
    std::int64_t equal = 0, equal_f16 = 0;
    for (std::size_t m = 0; m + 1 < s.size(); ++m) {
      const Wide step = std::abs(scores.step[v][m]);
      steps += step;
      r.response_max = std::max(r.response_max, static_cast<double>(step));
      if (to_bfloat16(static_cast<double>(s[m])) == to_bfloat16(static_cast<double>(s[m + 1]))) ++equal;
      if (to_float16(static_cast<double>(s[m])) == to_float16(static_cast<double>(s[m + 1]))) ++equal_f16;
    }
    if (window > 1) {
      r.mean_response = static_cast<double>(steps / (count - 1));
      r.aliasing = static_cast<double>(equal) / static_cast<double>(window - 1);
      r.aliasing_f16 = static_cast<double>(equal_f16) / static_cast<double>(window - 1);
    }
    r.effective_length = effective_length(s, softcap);
    Wide size = std::abs(vectors[v].constant);
    for (const auto& z : vectors[v].z) size += std::abs(z);
    for (Wide x : s) {
      if (x < 0) ++r.reversals;
      if (std::abs(x) < 1e-13L * size) ++r.doubtful;
    }
    results.push_back(r);
  }
  return results;
}

namespace {

double to_narrow(double x, int bits, int least_step, double infinite) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int step = std::max(exponent - bits, least_step);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
  return std::abs(rounded) >= infinite ? std::copysign(HUGE_VAL, x) : rounded;
}

}  // namespace

double to_bfloat16(double x) { return to_narrow(x, 8, -133, 0x1p128); }

double to_float16(double x) { return to_narrow(x, 11, -24, 0x1p16); }

long double norm(const Vector& vector, const std::vector<char>& mask) {
  Wide sum = 0;
  for (std::size_t n = 0; n < vector.z.size(); ++n) {
    const Wide re = vector.z[n].real(), im = vector.z[n].imag();
    if (mask[n]) sum += re * re + im * im;
  }
  return std::sqrt(sum);
}

long double norm(const Vector& vector) { return norm(vector, std::vector<char>(vector.z.size(), 1)); }

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace rope::reference

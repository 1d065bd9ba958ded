// Compiled with -O2 (CMakeLists.txt): the loop that anyone writes first.
#include <algorithm>
#include <cmath>

#include "baselines.hpp"

namespace rope::bench {

PairResult plain_loop(std::span<const float> omega, std::span<const float> re, std::span<const float> im,
                      std::int64_t window, const spectral::SweepRequest& request) {
  std::vector<float> score(static_cast<std::size_t>(window));
  for (std::size_t m = 0; m < score.size(); ++m) {
    float sum = 0;
    for (std::size_t n = 0; n < omega.size(); ++n) {
      float s = 0, c = 0;
      sincosf(static_cast<float>(m) * omega[n], &s, &c);
      sum += re[n] * c - im[n] * s;
    }
    score[m] = sum;
  }
  PairResult result;
  if (request.mean_response || request.response_max) {
    float total = 0, most = 0;
    for (std::size_t m = 0; m + 1 < score.size(); ++m) {
      const float step = std::fabs(score[m + 1] - score[m]);
      total += step;
      most = std::max(most, step);
    }
    result.mean = total / static_cast<float>(window - 1);
    result.max = most;
  }
  if (request.effective_length) {
    const float top = *std::max_element(score.begin(), score.end());
    float weight = 0, square = 0;
    for (const float s : score) {
      const float e = std::exp(s - top);
      weight += e;
      square += e * e;
    }
    result.effective_length = weight * weight / square;
  }
  return result;
}

}  // namespace rope::bench

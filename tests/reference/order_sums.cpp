#include "reference/order_sums.hpp"

#include <algorithm>
#include <cmath>

namespace rope::reference {
namespace {

using Wide = long double;

Wide score(const Vector& vector, const std::vector<double>& omega, Wide m, const std::vector<char>* mask,
           char wanted) {
  Wide sum = 0;
  for (std::size_t n = 0; n < omega.size(); ++n) {
    if (mask && (*mask)[n] != wanted) continue;
    const Wide angle = m * static_cast<Wide>(omega[n]);
    sum += vector.z[n].real() * std::cos(angle) - vector.z[n].imag() * std::sin(angle);
  }
  return sum;
}

Wide mean_of(const std::vector<Wide>& x) {
  Wide sum = 0;
  for (const Wide v : x) sum += v;
  return sum / static_cast<Wide>(x.size());
}

Wide covariance(const std::vector<Wide>& x, const std::vector<Wide>& y) {
  const Wide mx = mean_of(x), my = mean_of(y);
  Wide sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx) * (y[i] - my);
  return sum / static_cast<Wide>(x.size());
}

double step_or_phi(Wide difference, Wide variance) {
  if (!(variance > 0)) return difference > 0 ? 1.0 : 0.0;
  return static_cast<double>(0.5L * std::erfc(-difference / std::sqrt(2.0L * variance)));
}

Wide size_of(const Vector& vector) {
  Wide size = 0;
  for (const auto& z : vector.z) size += std::abs(z);
  return size;
}

}  // namespace

NearFar near_far(const Vector& vector, const std::vector<double>& omega, std::int64_t m) {
  std::vector<Wide> near, far;
  for (std::int64_t i = 1; i <= m; ++i) {
    near.push_back(score(vector, omega, static_cast<Wide>(m + i), nullptr, 0));
    far.push_back(score(vector, omega, static_cast<Wide>(2 * m + i), nullptr, 0));
  }
  NearFar r;
  const Wide size = size_of(vector);
  std::int64_t above = 0, doubtful = 0;
  for (const Wide f : far)
    for (const Wide n : near) {
      above += f > n;
      doubtful += std::abs(f - n) < 1e-13L * size;
    }
  const double all = static_cast<double>(m) * static_cast<double>(m);
  r.exact = static_cast<double>(above) / all;
  r.doubtful = static_cast<double>(doubtful) / all;
  const Wide difference = mean_of(far) - mean_of(near),
             variance = covariance(near, near) + covariance(far, far);
  r.gaussian = step_or_phi(difference, variance);
  r.gaussian_room = std::max(std::abs(r.gaussian - step_or_phi(difference + 1e-14L * size, variance)),
                             std::abs(r.gaussian - step_or_phi(difference - 1e-14L * size, variance)));
  return r;
}

Barrier barrier(const Vector& vector, const std::vector<double>& omega, std::int64_t window,
                const std::vector<char>& high, double level) {
  std::vector<Wide> fast, slow;
  Barrier r;
  const Wide size = size_of(vector) + std::abs(vector.constant) + std::abs(level);
  std::int64_t above = 0, doubtful = 0;
  for (std::int64_t m = 0; m < window; ++m) {
    fast.push_back(score(vector, omega, static_cast<Wide>(m), &high, 1));
    slow.push_back(score(vector, omega, static_cast<Wide>(m), &high, 0));
    const Wide over = fast.back() + slow.back() + vector.constant - level;
    above += over > 0;
    doubtful += std::abs(over) < 1e-13L * size;
  }
  r.exact = static_cast<double>(above) / static_cast<double>(window);
  r.doubtful = static_cast<double>(doubtful) / static_cast<double>(window);
  const Wide difference = mean_of(fast) + mean_of(slow) + vector.constant - level;
  const Wide cross = 2 * covariance(fast, slow), rest = covariance(slow, slow);
  const Wide high_norm = norm(vector, high);
  r.gaussian = step_or_phi(difference, covariance(fast, fast) + rest + cross);
  r.limit_variance = rest + high_norm * high_norm / 2 + cross;
  r.limit = step_or_phi(difference, r.limit_variance);
  return r;
}

}  // namespace rope::reference

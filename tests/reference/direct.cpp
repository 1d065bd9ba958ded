#include "reference/direct.hpp"

#include <cmath>
#include <complex>
#include <limits>

#include "reference/direct_sums.hpp"
#include "reference/order_sums.hpp"

namespace rope::reference {
namespace {

using Wide = long double;
using Complex = std::complex<Wide>;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double mean_of(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : kNone;
}

struct Lanes {
  std::size_t a, b;
};
Lanes lanes_of(const HeadInput& in, std::size_t n) {
  if (in.interleaved) return {2 * n, 2 * n + 1};
  return {n, n + in.omega.size()};
}

/// Content vectors: post rows turned back by their own positions (theory §1).
std::vector<std::vector<double>> content(const HeadInput& in, const StoredSide& side) {
  auto rows = side.rows;
  if (!side.post) return rows;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (side.position[t] < 0) continue;
    for (std::size_t n = 0; n < in.omega.size(); ++n) {
      const auto [a, b] = lanes_of(in, n);
      const Wide angle = (in.reversed ? -1 : 1) * static_cast<Wide>(side.position[t]) * Wide(in.omega[n]);
      const Complex turned = Complex(rows[t][a], rows[t][b]) * Complex(std::cos(angle), -std::sin(angle));
      rows[t][a] = static_cast<double>(turned.real());
      rows[t][b] = static_cast<double>(turned.imag());
    }
  }
  return rows;
}

/// One head's vectors and what turns them into scores.
struct Head {
  const HeadInput& in;
  std::vector<std::vector<double>> q, k;
  double factor(std::size_t i) const {
    return in.softmax_scale * (in.query_factor.empty() ? 1.0 : in.query_factor[i]);
  }
  double attention() const {
    return (in.query.post ? 1.0 : in.attention_factor) * (in.key.post ? 1.0 : in.attention_factor);
  }
  Vector pair(std::size_t i, std::size_t j, bool changed = true) const;
  double spread_of_start(std::size_t i, std::size_t j1, std::size_t j2) const;
};

bool is_frozen(const HeadInput& in, std::size_t n) { return !in.frozen.empty() && in.frozen[n]; }
bool turns(const HeadInput& in, std::size_t n) { return in.omega[n] > 0 && !is_frozen(in, n); }

/// z and c_0 of query i and key j, changed or as stored; pairs of zero frequency go into c_0, and their z is
/// 0.
Vector Head::pair(std::size_t i, std::size_t j, bool changed) const {
  Vector vector;
  Wide constant = 0;
  const std::size_t h = in.omega.size();
  for (std::size_t n = 0; n < h; ++n) {
    const auto [a, b] = lanes_of(in, n);
    Complex z = Wide(factor(i)) * Wide(attention()) * Complex(q[i][a], q[i][b]) * Complex(k[j][a], -k[j][b]);
    if (changed && !in.factor.empty()) z *= Wide(in.factor[n]);
    if (in.omega[n] == 0 || (changed && is_frozen(in, n))) {
      constant += z.real();
      z = 0;
    }
    if (in.reversed) z = std::conj(z);  // Re(z e^{-i x}) = Re(conj(z) e^{i x})
    vector.z.emplace_back(static_cast<double>(z.real()), static_cast<double>(z.imag()));
  }
  for (std::size_t lane = 2 * h; lane < q[i].size(); ++lane)
    constant += Wide(factor(i)) * Wide(q[i][lane]) * Wide(k[j][lane]);
  vector.constant = static_cast<double>(constant);
  return vector;
}

/// s of theory §3: standard deviation of D(0) under the rounding of the stored lanes.
double Head::spread_of_start(std::size_t i, std::size_t j1, std::size_t j2) const {
  Wide sum = 0;
  for (std::size_t lane = 0; lane < q[i].size(); ++lane) {
    const Wide a = lane < 2 * in.omega.size() ? attention() : 1.0;
    const Wide x = q[i][lane], y1 = k[j1][lane], y2 = k[j2][lane];
    Wide f = 1;  // of the query's lanes
    for (std::size_t n = 0; n < in.factor.size(); ++n)
      if (lanes_of(in, n).a == lane || lanes_of(in, n).b == lane) f = Wide(in.factor[n]);
    const Wide uq = in.query.rounding_unit, uk = in.key.rounding_unit;
    sum += f * f * a * a * x * x * (uq * uq * (y1 - y2) * (y1 - y2) + uk * uk * (y1 * y1 + y2 * y2));
  }
  return static_cast<double>(std::sqrt(Wide(factor(i)) * Wide(factor(i)) / 3 * sum));
}

bool finite(const Vector& vector) {
  for (const auto& z : vector.z) {
    if (!std::isfinite(z.real()) || !std::isfinite(z.imag())) return false;
  }
  return std::isfinite(vector.constant);
}

bool all_zero(const std::vector<double>& row) {
  for (double x : row) {
    if (x != 0) return false;
  }
  return true;
}

void score_triplets(const Head& head, HeadResult& out) {
  const HeadInput& in = head.in;
  std::vector<std::pair<int, int>> key_pairs = in.key_pairs;
  if (in.default_triplets) {
    key_pairs.clear();
    for (int j = 0; j + 1 < static_cast<int>(head.k.size()); j += 2) key_pairs.emplace_back(j, j + 1);
  }
  std::vector<Vector> margins;
  for (std::size_t i = 0; i < head.q.size(); ++i) {
    if (in.query.position[i] < 0) continue;
    for (const auto& [first, second] : key_pairs) {
      if (first < 0 || second < 0) continue;
      const auto j1 = static_cast<std::size_t>(first), j2 = static_cast<std::size_t>(second);
      const std::int64_t p1 = in.key.position[j1], p2 = in.key.position[j2], p = in.query.position[i];
      if (p1 < 0 || p2 < 0 || (in.causal && (p1 > p || p2 > p))) continue;
      ++out.triplets;
      const Vector one = head.pair(i, j1), two = head.pair(i, j2);
      Vector d;
      Wide start = 0, size = 0;
      d.constant = one.constant - two.constant;
      start = d.constant;
      size = std::abs(one.constant) + std::abs(two.constant);
      for (std::size_t n = 0; n < one.z.size(); ++n) {
        d.z.push_back(one.z[n] - two.z[n]);
        start += d.z[n].real();
        size += std::abs(d.z[n]);
      }
      if (!finite(one) || !finite(two) || !finite(d)) {
        ++out.non_finite_triplets;
      } else if (all_zero(head.q[i]) || all_zero(head.k[j1]) || all_zero(head.k[j2])) {
        ++out.undefined_triplets;
      } else if (std::abs(start) <= 64 * 0x1p-52L * size) {
        ++out.ties;
      } else {
        if (std::abs(start) < 2 * head.spread_of_start(i, j1, j2)) ++out.fragile;
        if (start < 0) {
          d.constant = -d.constant;
          for (auto& z : d.z) z = -z;
        }
        margins.push_back(d);
      }
    }
  }
  double gaussian = 0, exact = 0, gap = 0;
  for (const WindowSums& sums : sum_over_window(margins, in.omega, in.window)) {
    const double mu = static_cast<double>(sums.mean), sigma = static_cast<double>(std::sqrt(sums.variance));
    const double p = sigma > 0 ? normal_cdf(-mu / sigma) : (mu < 0 ? 1.0 : 0.0);
    const double counted = static_cast<double>(sums.reversals) / static_cast<double>(in.window);
    gaussian += p;
    exact += counted;
    gap += std::abs(p - counted);
  }
  const auto valid = static_cast<std::int64_t>(margins.size());
  out.semantic = 1 - mean_of(gaussian, valid);
  out.exact_semantic = 1 - mean_of(exact, valid);
  out.reversal_gap = mean_of(gap, valid);
}

/// CoV and centroid of a spectrum over the rotating pairs (theory §12).
void describe_usage(const HeadInput& in, const std::vector<double>& usage, double& cov, double& centroid) {
  double sum = 0, weighted = 0, squares = 0, count = 0;
  for (std::size_t n = 0; n < usage.size(); ++n) {
    if (!turns(in, n)) continue;
    sum += usage[n];
    weighted += usage[n] * std::log(in.omega[n]);
    count += 1;
  }
  cov = centroid = kNone;
  if (!(sum > 0)) return;
  for (std::size_t n = 0; n < usage.size(); ++n) {
    if (turns(in, n)) squares += (usage[n] - sum / count) * (usage[n] - sum / count);
  }
  cov = std::sqrt(squares / count) / (sum / count);
  centroid = weighted / sum;
}

/// Near-far order and barrier exceedance (theory §11), means over the valid pairs.
void score_order(const HeadInput& in, const std::vector<Vector>& valid, HeadResult& out) {
  const auto count = static_cast<std::int64_t>(valid.size());
  double near = 0, near_gaussian = 0, near_doubt = 0, above = 0, gaussian = 0, limit = 0, doubt = 0;
  std::vector<char> high = in.high;
  for (std::size_t n = 0; n < high.size(); ++n) high[n] = high[n] && turns(in, n);
  std::vector<double> omega = in.omega;
  for (std::size_t n = 0; n < omega.size(); ++n)
    if (!turns(in, n)) omega[n] = 0;
  for (const Vector& pair : valid) {
    if (in.near_far_m > 0) {
      const NearFar r = reference::near_far(pair, omega, in.near_far_m);
      near += r.exact;
      near_gaussian += r.gaussian;
      near_doubt += r.doubtful;
    }
    if (!std::isnan(in.barrier)) {
      const Barrier r = reference::barrier(pair, omega, in.window, high, in.barrier);
      above += r.exact;
      gaussian += r.gaussian;
      limit += r.limit;
      doubt += r.doubtful;
    }
  }
  const bool ordered = in.near_far_m > 0, walled = !std::isnan(in.barrier);
  out.near_far = ordered ? mean_of(near, count) : kNone;
  out.near_far_gaussian = ordered ? mean_of(near_gaussian, count) : kNone;
  out.near_far_doubtful = near_doubt;
  out.barrier = walled ? mean_of(above, count) : kNone;
  out.barrier_gaussian = walled ? mean_of(gaussian, count) : kNone;
  out.barrier_limit = walled ? mean_of(limit, count) : kNone;
  out.barrier_doubtful = doubt;
}

void score_pairs(const Head& head, HeadResult& out) {
  const HeadInput& in = head.in;
  const std::size_t h = in.omega.size();
  std::vector<Vector> valid;
  std::vector<double> stored_norm;
  out.usage.assign(h, 0.0);
  out.usage_norm.assign(h, 0.0);
  Wide mass = 0, share = 0;
  for (std::size_t i = 0; i < head.q.size(); ++i) {
    for (std::size_t j = 0; j < head.k.size(); ++j) {
      const std::int64_t p = in.query.position[i], pk = in.key.position[j];
      if (p < 0 || pk < 0 || (in.causal && pk > p)) continue;
      ++out.pairs;
      const Vector pair = head.pair(i, j);
      const Wide u = norm(pair);
      if (!finite(pair) || !(static_cast<double>(u) <= std::numeric_limits<double>::max())) {
        ++out.non_finite_pairs;
        continue;
      }
      if (!(static_cast<double>(u) > 0)) {
        ++out.undefined_pairs;
        continue;
      }
      valid.push_back(pair);
      stored_norm.push_back(static_cast<double>(norm(head.pair(i, j, false))));
      share += norm(pair, in.high) / u;
      Wide sizes = 0, weighted = 0;
      for (std::size_t n = 0; n < h; ++n) {
        const Wide angle = static_cast<Wide>(p - pk) * Wide(in.omega[n]);
        const Complex z(pair.z[n].real(), pair.z[n].imag());
        out.usage[n] += static_cast<double>(std::abs((z * Complex(std::cos(angle), std::sin(angle))).real()));
        out.usage_norm[n] += static_cast<double>(std::abs(z));
        sizes += std::abs(z);
        weighted += std::abs(z) * Wide(in.omega[n]);
      }
      mass += weighted / sizes;
    }
  }
  const auto count = static_cast<std::int64_t>(valid.size());
  double positional = 0, fixed_norm = 0, spread = 0, largest = 0, length = 0, aliasing = 0, aliasing_f16 = 0;
  const auto sums = sum_over_window(valid, in.omega, in.window, in.softcap);
  for (std::size_t v = 0; v < valid.size(); ++v) {
    const double u = static_cast<double>(norm(valid[v]));
    positional += sums[v].mean_response / u;
    fixed_norm += sums[v].mean_response / stored_norm[v];
    spread += static_cast<double>(std::sqrt(sums[v].variance));
    largest += sums[v].response_max / u;
    length += sums[v].effective_length;
    aliasing += sums[v].aliasing;
    aliasing_f16 += sums[v].aliasing_f16;
  }
  out.positional = mean_of(positional, count);
  out.positional_fixed_norm = mean_of(fixed_norm, count);
  out.logit_spread = mean_of(spread, count);
  out.response_max = mean_of(largest, count);
  out.effective_length = mean_of(length, count);
  out.aliasing = mean_of(aliasing, count);
  out.aliasing_f16 = mean_of(aliasing_f16, count);
  score_order(in, valid, out);
  out.norm_share = mean_of(static_cast<double>(share), count);
  out.frequency_mass = mean_of(static_cast<double>(mass), count);
  for (std::size_t n = 0; n < h; ++n) {
    out.usage[n] = turns(in, n) ? mean_of(out.usage[n], count) : kNone;
    out.usage_norm[n] = turns(in, n) ? mean_of(out.usage_norm[n], count) : kNone;
    if (turns(in, n) && in.high[n]) ++out.high_pairs;
  }
  describe_usage(in, out.usage, out.usage_cov, out.usage_centroid);
  describe_usage(in, out.usage_norm, out.usage_norm_cov, out.usage_norm_centroid);
}

}  // namespace

Vector pair_vector(const HeadInput& input, std::size_t i, std::size_t j) {
  return Head{input, content(input, input.query), content(input, input.key)}.pair(i, j);
}

HeadResult score_head(const HeadInput& input) {
  const Head head{input, content(input, input.query), content(input, input.key)};
  HeadResult result{};
  score_triplets(head, result);
  score_pairs(head, result);
  return result;
}

}  // namespace rope::reference

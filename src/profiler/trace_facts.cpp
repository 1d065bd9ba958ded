#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/trace.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/normal_law.hpp"
#include "spectral/window_moments.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

spectral::CoefficientBatch one_lane(const spectral::TraceVector& vector, double sign) {
  spectral::CoefficientBatch batch;
  batch.reset(vector.omega.size(), 1);
  for (std::size_t n = 0; n < vector.omega.size(); ++n) {
    batch.re[n * batch.stride] = sign * vector.re[n];
    batch.im[n * batch.stride] = sign * vector.im[n];
  }
  batch.constant[0] = sign * vector.constant;
  return batch;
}

// Without a rotating pair nothing depends on distance.
void still_facts(bool is_margin, double sign, TraceFacts& facts) {
  facts.mean = facts.constant;
  facts.deviation = 0;
  if (!is_margin) {
    facts.effective_length = static_cast<double>(facts.window);
    if (facts.window >= 2) facts.aliasing = facts.aliasing_f16 = 1;
  } else if (sign != 0) {
    facts.reversal = facts.exact_reversal = facts.reversal_gap = 0;
  }
}

void swept_facts(const spectral::TraceVector& vector, bool is_margin, double sign, double softcap,
                 TraceFacts& facts) {
  spectral::CoefficientBatch batch = one_lane(vector, is_margin && sign != 0 ? sign : 1.0);
  spectral::SweepRequest request;
  request.mean_response = request.response_max = true;
  request.effective_length = request.aliasing = !is_margin;
  request.reversals = is_margin;
  request.softcap = softcap;
  spectral::SweepResult swept;
  spectral::sweep_cpu(spectral::SweepPlan(vector.omega, facts.window), batch, request, swept);
  if (facts.norm > 0) {
    facts.positional = swept.mean_response[0] / facts.norm;
    facts.response_max = swept.response_max[0] / facts.norm;
  }
  if (is_margin) {
    if (sign != 0)
      facts.exact_reversal = static_cast<double>(swept.reversals[0]) / static_cast<double>(facts.window);
    return;
  }
  facts.effective_length = swept.effective_length[0];
  facts.aliasing = swept.aliasing[0];
  facts.aliasing_f16 = swept.aliasing_f16[0];
}

}  // namespace

double margin_sign(const TracedVector& traced) {
  const double at_zero = spectral::ScoreTrace(traced.vector).at(0).score;
  // A change's frozen pairs are in the constant.
  double size = std::max(traced.tails, std::abs(traced.vector.constant));
  for (std::size_t n = 0; n < traced.vector.omega.size(); ++n)
    size += std::hypot(traced.vector.re[n], traced.vector.im[n]);
  if (std::abs(at_zero) <= 64.0 * 0x1p-52 * size) return 0;
  return at_zero < 0 ? -1 : 1;
}

TraceFacts trace_facts(const TracedVector& traced, std::int64_t window, bool is_margin, std::int64_t distance,
                       double softcap) {
  const spectral::TraceVector& vector = traced.vector;
  TraceFacts facts;
  facts.window = window;
  facts.pairs = std::ssize(vector.omega);
  facts.high_pairs = std::count_if(vector.high.begin(), vector.high.end(), [](char h) { return h != 0; });
  facts.constant = vector.constant;
  const spectral::CoefficientBatch batch = one_lane(vector, 1.0);
  spectral::pair_norms(batch, vector.high, {&facts.norm, 1}, {&facts.high_norm, 1});
  facts.norm_share = facts.norm > 0 ? facts.high_norm / facts.norm : kNaN;
  const spectral::ScoreTrace trace(vector);
  facts.at_zero = trace.at(0).score;
  facts.at_distance = is_margin ? kNaN : trace.at(distance).score;
  for (double* value : {&facts.positional, &facts.response_max, &facts.effective_length, &facts.aliasing,
                        &facts.aliasing_f16, &facts.reversal, &facts.exact_reversal, &facts.reversal_gap})
    *value = kNaN;
  double sign = is_margin ? margin_sign(traced) : 0;
  facts.tie = is_margin && sign == 0;
  if (traced.zero_vector) sign = 0;  // undefined, not a tie (theory §1)
  if (vector.omega.empty()) {
    still_facts(is_margin, sign, facts);
    return facts;
  }
  double variance = 0;
  spectral::WindowMoments(vector.omega, window).evaluate(batch, {&facts.mean, 1}, {&variance, 1});
  facts.deviation = std::sqrt(variance);
  if (window >= 2) {
    swept_facts(vector, is_margin, sign, softcap, facts);
  } else if (!is_margin) {
    facts.effective_length = 1;
  } else if (sign != 0) {
    facts.exact_reversal = 0;
  }
  if (is_margin && sign != 0) {
    const double against = -sign * facts.mean;
    facts.reversal = spectral::chance_above_zero(against, variance);
    facts.reversal_gap = std::abs(facts.reversal - facts.exact_reversal);
  }
  return facts;
}

}  // namespace rope

#include "spectral/sweep_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "spectral/mirrored_sweep.hpp"
#include "spectral/phase.hpp"
#include "spectral/sweep_basis.hpp"

namespace rope::spectral {
namespace {

constexpr double kRounding = 0x1p-24, kTolerance = 1e-5;
// Errors of the float32 sweep as multiples of kRounding times a bound of the lane's (LaneFacts), several
// times what random and real vectors show (tests/spectral/adjacent_sweep_test.cpp prints the share).
// Rounding of single differences averages out in the mean of many.
constexpr double kMaxError = 4.0;
double mean_error(std::int64_t window) { return 0.5 + 4.0 / std::sqrt(static_cast<double>(window - 1)); }
constexpr double kLengthError = 2.0, kExpError = 1e-6;
constexpr double kLengthNormError = 7.0, kNormBase = 4e-6;
constexpr double kWidestLogits = 1300;  // sum |z_n| in nats beyond which E_2 is left to float64

// Windows so short that the outer level does not pay.
constexpr std::int64_t kShortWindow = 64;

// Coefficients beyond these are brought into range first; E_2 is then left to float64.
constexpr double kSmall = 0x1p-40, kLarge = 0x1p40;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

CoefficientBatch gather(const CoefficientBatch& batch, const std::vector<std::size_t>& lanes) {
  CoefficientBatch few;
  few.reset(batch.n_freq, lanes.size());
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      few.re[n * few.stride + i] = batch.re[n * batch.stride + lanes[i]];
      few.im[n * few.stride + i] = batch.im[n * batch.stride + lanes[i]];
    }
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) few.constant[i] = batch.constant[lanes[i]];
  return few;
}

/// Coefficients z (e^{i omega} - 1) of the differences D(m) = S(m+1) - S(m).
void to_differences(std::span<const double> omega, CoefficientBatch& batch) {
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double c = cos_minus_one(omega[n]), s = std::sin(omega[n]);
    double *re = batch.re.data() + n * batch.stride, *im = batch.im.data() + n * batch.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      const double x = re[p], y = im[p];
      re[p] = x * c - y * s;
      im[p] = x * s + y * c;
    }
  }
  std::fill(batch.constant.begin(), batch.constant.end(), 0.0);
}

bool is_finite_lane(const CoefficientBatch& batch, std::size_t lane) {
  double sum = 0.0 * batch.constant[lane];
  for (std::size_t n = 0; n < batch.n_freq; ++n)
    sum += 0.0 * batch.re[n * batch.stride + lane] + 0.0 * batch.im[n * batch.stride + lane];
  return sum == 0;
}

/// Copies one lane of every output that `from` has.
void copy_lane(const SweepResult& from, std::size_t source, SweepResult& to, std::size_t lane) {
  const auto copy = [&](const auto& values, auto& into) {
    if (!values.empty() && !into.empty()) into[lane] = values[source];
  };
  copy(from.mean_response, to.mean_response);
  copy(from.response_max, to.response_max);
  copy(from.effective_length, to.effective_length);
  copy(from.aliasing, to.aliasing);
  copy(from.aliasing_f16, to.aliasing_f16);
  copy(from.reversals, to.reversals);
  for (std::size_t i = 0; i < from.scaled_length.size(); ++i)
    copy(from.scaled_length[i], to.scaled_length[i]);
}

/// Whether rounding, given the bound that it scales with, may spoil a lane's mean or largest difference.
bool weak_mean(const SweepResult& result, std::size_t lane, double bound, std::int64_t window) {
  return !result.mean_response.empty() &&
         !(kTolerance * result.mean_response[lane] >= mean_error(window) * kRounding * bound);
}

bool weak_max(const SweepResult& result, std::size_t lane, double bound) {
  return !result.response_max.empty() &&
         !(kTolerance * result.response_max[lane] >= kMaxError * kRounding * bound);
}

void resize(const SweepRequest& request, std::size_t pairs, SweepResult& result) {
  if (request.mean_response) result.mean_response.resize(pairs);
  if (request.response_max) result.response_max.resize(pairs);
  if (request.effective_length) result.effective_length.resize(pairs);
  if (request.aliasing) result.aliasing.resize(pairs);
  if (request.aliasing) result.aliasing_f16.resize(pairs);
  if (request.reversals) result.reversals.resize(pairs);
  result.scaled_length.resize(request.logit_scales.size());
  for (auto& values : result.scaled_length) values.resize(pairs);
}

}  // namespace

SweepLanes::SweepLanes(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request)
    : plan_(&plan), batch_(&batch), request_(request), float32_(request) {
  float32_.aliasing = false;  // float64 scores, rounded once
  if (request.softcap > 0) float32_.effective_length = false;
  float32_.softcap = 0;
  use_float32_ = plan.window() > kShortWindow &&
                 (float32_.mean_response || float32_.response_max || float32_.effective_length ||
                  float32_.reversals || !float32_.logit_scales.empty());
  if (!use_float32_) return;
  const CompressedPlan& tables = plan.basis().impl().compressed();
  const std::size_t room = padded(batch.n_pairs);
  facts.resize(room);
  scale.assign(room, 0.0);
  compressed_lane_facts(tables, batch.re.data(), batch.im.data(), batch.stride, room, facts.data());
  for (std::size_t p = 0; p < batch.n_pairs; ++p) {
    const LaneFacts& f = facts[p];
    if (!(f.total > 0) || !std::isfinite(f.total) || !std::isfinite(batch.constant[p])) continue;
    scale[p] = f.largest < kSmall || f.largest > kLarge ? unit_scale(f.largest) : 1.0;
  }
}

bool SweepLanes::wide(std::size_t lane) const { return scale[lane] == 1 && !logit_range(facts[lane]).fits; }

bool SweepLanes::float32_length(std::size_t lane, double logit_scale) const {
  const LaneFacts& f = facts[lane];
  if (scale[lane] != 1 || f.total * logit_scale > kWidestLogits) return false;
  // Many frequencies alike: errors add up as squares do; a few, or mostly slow ones: the sum is tighter.
  const double by_sum = kExpError + kLengthError * kRounding * f.outer * logit_scale;
  const double by_norm = kNormBase + kLengthNormError * kRounding * f.outer_norm * logit_scale;
  return std::min(by_sum, by_norm) <= kTolerance;
}

void SweepLanes::finish(SweepResult& result) const {
  const std::size_t pairs = batch_->n_pairs;
  resize(request_, pairs, result);
  if (!use_float32_) {
    mirrored_sweep(*plan_, *batch_, request_, result);
    finish_special(result);
    return;
  }
  std::vector<WeakLane> weak;
  std::vector<std::size_t> whole;  // lanes that float32 never saw
  for (std::size_t p = 0; p < pairs; ++p) {
    if (scale[p] == 0) {
      whole.push_back(p);
      continue;
    }
    const WeakLane lane{p, weak_mean(result, p, facts[p].inner, plan_->window()),
                        weak_max(result, p, facts[p].inner)};
    if (lane.mean || lane.max) weak.push_back(lane);
  }
  finish_differences(weak, result);
  finish_lengths(result);
  std::erase_if(whole, [&](std::size_t p) { return facts[p].total == 0 || !is_finite_lane(*batch_, p); });
  if (!whole.empty()) {
    SweepResult exact;
    mirrored_sweep(*plan_, gather(*batch_, whole), float32_, exact);
    for (std::size_t i = 0; i < whole.size(); ++i) copy_lane(exact, i, result, whole[i]);
  }
  finish_special(result);
}

// The differences themselves are summed as a Fourier series, from coefficients formed in float64: right
// where they are tiny against the scores.
void SweepLanes::finish_differences(const std::vector<WeakLane>& weak, SweepResult& result) const {
  if (weak.empty()) return;
  const auto places = [](const std::vector<WeakLane>& lanes) {
    std::vector<std::size_t> all;
    for (const WeakLane& lane : lanes) all.push_back(lane.lane);
    return all;
  };
  // The mean and the largest are judged and replaced apart, so that neither depends on the other being asked.
  const auto put = [&](const WeakLane& lane, const SweepResult& from, std::size_t i) {
    if (lane.mean) result.mean_response[lane.lane] = from.mean_response[i];
    if (lane.max) result.response_max[lane.lane] = from.response_max[i];
  };
  CoefficientBatch differences = gather(*batch_, places(weak));
  to_differences(plan_->omega(), differences);
  SweepRequest request;
  request.mean_response = request.response_max = true;
  const SweepLanes lanes(*plan_, differences, request);
  SweepResult found;
  compressed_sweep(plan_->basis(), plan_->window() - 1, differences, request, lanes, true, found);
  std::vector<WeakLane> still_weak;
  for (std::size_t i = 0; i < weak.size(); ++i) {
    put(weak[i], found, i);
    const bool none = lanes.scale[i] == 0;
    const double bound = lanes.facts[i].total;
    const WeakLane lane{weak[i].lane, weak[i].mean && (none || weak_mean(found, i, bound, plan_->window())),
                        weak[i].max && (none || weak_max(found, i, bound))};
    if (lane.mean || lane.max) still_weak.push_back(lane);
  }
  if (still_weak.empty()) return;
  mirrored_sweep(*plan_, gather(*batch_, places(still_weak)), request, found);
  for (std::size_t i = 0; i < still_weak.size(); ++i) put(still_weak[i], found, i);
}

void SweepLanes::finish_lengths(SweepResult& result) const {
  const auto mend = [&](double logit_scale, std::vector<double>& lengths) {
    std::vector<std::size_t> wide_lanes;
    for (std::size_t p = 0; p < batch_->n_pairs; ++p) {
      if (scale[p] != 0 && !float32_length(p, logit_scale)) wide_lanes.push_back(p);
    }
    if (!wide_lanes.empty()) {
      CoefficientBatch few = gather(*batch_, wide_lanes);
      for (auto* values : {&few.re, &few.im}) {
        for (double& z : *values) z *= logit_scale;
      }
      SweepRequest request;
      request.effective_length = true;
      SweepResult exact;
      mirrored_sweep(*plan_, few, request, exact);
      for (std::size_t i = 0; i < wide_lanes.size(); ++i) lengths[wide_lanes[i]] = exact.effective_length[i];
    }
    // E_2 lies in [1, M]; rounding may not carry it out.
    for (double& length : lengths) length = std::clamp(length, 1.0, static_cast<double>(plan_->window()));
  };
  if (float32_.effective_length) mend(1.0, result.effective_length);
  for (std::size_t i = 0; i < request_.logit_scales.size(); ++i)
    mend(request_.logit_scales[i], result.scaled_length[i]);
}

/// Outputs that only float64 gives, lanes without rotation and lanes that are not finite.
void SweepLanes::finish_special(SweepResult& result) const {
  const std::size_t pairs = batch_->n_pairs;
  if (use_float32_) {
    SweepRequest request;
    request.aliasing = request_.aliasing;
    request.effective_length = request_.effective_length && request_.softcap > 0;
    request.softcap = request_.softcap;
    if (request.aliasing || request.effective_length) {
      SweepResult exact;
      mirrored_sweep(*plan_, *batch_, request, exact);
      if (request.aliasing) result.aliasing = std::move(exact.aliasing);
      if (request.aliasing) result.aliasing_f16 = std::move(exact.aliasing_f16);
      if (request.effective_length) result.effective_length = std::move(exact.effective_length);
    }
  }
  for (std::size_t p = 0; p < pairs; ++p) {
    if (use_float32_ && scale[p] != 0) continue;
    SweepResult one;
    resize(request_, 1, one);
    if (!is_finite_lane(*batch_, p)) {
      for (auto* values :
           {&one.mean_response, &one.response_max, &one.effective_length, &one.aliasing, &one.aliasing_f16})
        std::fill(values->begin(), values->end(), kNaN);
      for (auto& values : one.scaled_length) values[0] = kNaN;
      if (!one.reversals.empty()) one.reversals[0] = -1;
    } else if (use_float32_ && facts[p].total == 0) {
      const double window = static_cast<double>(plan_->window());
      for (auto* values : {&one.mean_response, &one.response_max})
        std::fill(values->begin(), values->end(), 0.0);
      for (auto& value : one.effective_length) value = window;
      for (auto& value : one.aliasing) value = 1.0;
      for (auto& value : one.aliasing_f16) value = 1.0;
      for (auto& values : one.scaled_length) values[0] = window;
      for (auto& value : one.reversals) value = batch_->constant[p] < 0 ? plan_->window() : 0;
    } else {
      continue;
    }
    copy_lane(one, 0, result, p);
  }
}

}  // namespace rope::spectral

#include <hwy/aligned_allocator.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "spectral/adjacent_sweep_kernel.hpp"
#include "spectral/phase.hpp"
#include "spectral/simd_targets.hpp"

namespace rope::spectral {
namespace {

/// A lane with a coefficient that is not finite has no result.
void mark_non_finite(const CoefficientBatch& batch, SweepResult& result) {
  std::vector<double> sum(batch.n_pairs);
  for (std::size_t p = 0; p < batch.n_pairs; ++p) sum[p] = 0.0 * batch.constant[p];
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const double *re = batch.re.data() + n * batch.stride, *im = batch.im.data() + n * batch.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) sum[p] += 0.0 * re[p] + 0.0 * im[p];
  }
  for (std::size_t p = 0; p < batch.n_pairs; ++p) {
    if (sum[p] == 0) continue;
    for (auto* values :
         {&result.mean_response, &result.response_max, &result.effective_length, &result.aliasing}) {
      if (!values->empty()) (*values)[p] = std::numeric_limits<double>::quiet_NaN();
    }
    if (!result.reversals.empty()) result.reversals[p] = -1;
  }
}

}  // namespace

SweepPlan::SweepPlan(std::span<const double> omega, std::int64_t window) : impl_(std::make_unique<Impl>()) {
  if (omega.empty() || omega.size() > 512) throw std::logic_error("SweepPlan: h outside 1 ... 512");
  if (window < 2 || window > std::int64_t{1} << 24)
    throw std::logic_error("SweepPlan: window outside 2 ... 2^24");
  for (double w : omega) {
    if (!(w > 0 && w <= std::numbers::pi)) throw std::logic_error("SweepPlan: frequency outside (0, pi]");
  }
  obey_simd_environment();
  Impl& plan = *impl_;
  plan.omega.assign(omega.begin(), omega.end());
  plan.window = window;
  const std::size_t h = omega.size();
  // Table, rows and coefficients of a group share the second-level cache; fewer offsets for short windows.
  const std::size_t most = h <= 128 ? 64 : 32;
  const auto needed = static_cast<std::size_t>(std::min<std::int64_t>((window - 1 + 1) / 2, 64));
  plan.half = std::min(most, (needed + kTileOffsets - 1) / kTileOffsets * kTileOffsets);
  const auto span = static_cast<std::int64_t>(2 * plan.half);
  plan.blocks = (window - 1 + span - 1) / span;
  plan.table.resize(plan.half * h * 2);
  plan.advance.resize(2 * h);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t t = 1; t <= plan.half; ++t) {
      const std::size_t tile = (t - 1) / kTileOffsets, row = (t - 1) % kTileOffsets;
      double* entry = plan.table.data() + (tile * h + n) * 2 * kTileOffsets + row;
      const double offset = static_cast<double>(t);
      // t / 2 * omega is exact but for one rounding, small against the value: no correction needed.
      entry[0] = cos_minus_one(offset * omega[n]);
      entry[kTileOffsets] = phase_at(offset, omega[n]).sin;
    }
    const Phase turn = phase_at(static_cast<double>(span), omega[n]);
    plan.advance[2 * n] = turn.cos;
    plan.advance[2 * n + 1] = turn.sin;
  }
}

SweepPlan::~SweepPlan() = default;
SweepPlan::SweepPlan(SweepPlan&&) noexcept = default;
SweepPlan& SweepPlan::operator=(SweepPlan&&) noexcept = default;
std::span<const double> SweepPlan::omega() const { return impl_->omega; }
std::int64_t SweepPlan::window() const { return impl_->window; }

void sweep_cpu(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
               SweepResult& result) {
  const SweepPlan::Impl& impl = plan.impl();
  if (batch.n_freq != impl.omega.size()) throw std::logic_error("sweep_cpu: batch of another grid");
  if (!(request.softcap >= 0)) throw std::logic_error("sweep_cpu: softcap < 0");
  const std::size_t pairs = batch.n_pairs;
  result = {};
  if (pairs == 0) return;
  // Kernels write whole vectors: padded while they run.
  const std::size_t room = padded(pairs);
  std::vector<double> negative;
  if (request.mean_response) result.mean_response.resize(room);
  if (request.response_max) result.response_max.resize(room);
  if (request.effective_length) result.effective_length.resize(room);
  if (request.aliasing) result.aliasing.resize(room);
  if (request.reversals) negative.resize(room);

  const std::size_t lanes = simd_lanes(), vectors = (pairs + lanes - 1) / lanes;
  const auto groups = static_cast<std::int64_t>((vectors + kGroupVectors - 1) / kGroupVectors);
  const int threads = static_cast<int>(std::min<std::int64_t>(groups, omp_get_max_threads()));
  const std::size_t scratch_size = (sweep_scratch_size(impl) + 15) / 16 * 16;
  const auto scratch = hwy::AllocateAligned<double>(scratch_size * static_cast<std::size_t>(threads));
  if (!scratch) throw std::bad_alloc();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::size_t first_vector = static_cast<std::size_t>(g) * kGroupVectors, lane = first_vector * lanes;
    const auto at = [lane](std::vector<double>& values) {
      return values.empty() ? nullptr : values.data() + lane;
    };
    SweepGroup group;
    group.re = batch.re.data() + lane;
    group.im = batch.im.data() + lane;
    group.constant = batch.constant.data() + lane;
    group.stride = batch.stride;
    group.mean = at(result.mean_response);
    group.max = at(result.response_max);
    group.effective = at(result.effective_length);
    group.aliased = at(result.aliasing);
    group.negative = at(negative);
    group.softcap = request.softcap;
    group.scratch = scratch.get() + scratch_size * static_cast<std::size_t>(omp_get_thread_num());
    sweep_group(impl, group, std::min(kGroupVectors, vectors - first_vector));
  }
  for (auto* values :
       {&result.mean_response, &result.response_max, &result.effective_length, &result.aliasing}) {
    if (!values->empty()) values->resize(pairs);
  }
  // E_2 lies in [1, M]; rounding may not carry it out.
  for (double& length : result.effective_length)
    length = std::clamp(length, 1.0, static_cast<double>(impl.window));
  if (request.reversals) {
    result.reversals.resize(pairs);
    for (std::size_t p = 0; p < pairs; ++p) result.reversals[p] = static_cast<std::int64_t>(negative[p]);
  }
  mark_non_finite(batch, result);
}

}  // namespace rope::spectral

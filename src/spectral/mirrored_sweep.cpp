#include "spectral/mirrored_sweep.hpp"

#include <hwy/aligned_allocator.h>
#include <omp.h>

#include <algorithm>
#include <new>

#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/sweep_basis.hpp"

namespace rope::spectral {

void mirrored_sweep(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
                    SweepResult& result) {
  const MirroredPlan& tables = plan.basis().impl().mirrored();
  const MirroredWindow window(tables, plan.window());
  const std::size_t pairs = batch.n_pairs;
  result = {};
  if (pairs == 0) return;
  // Kernels write whole vectors: padded while they run.
  const std::size_t room = padded(pairs);
  std::vector<double> negative;
  if (request.mean_response) result.mean_response.resize(room);
  if (request.response_max) result.response_max.resize(room);
  if (request.effective_length) result.effective_length.resize(room);
  if (request.aliasing) {
    result.aliasing.resize(room);
    result.aliasing_f16.resize(room);
  }
  if (request.reversals) negative.resize(room);

  const std::size_t lanes = simd_lanes(), vectors = (pairs + lanes - 1) / lanes;
  const auto groups = static_cast<std::int64_t>((vectors + kGroupVectors - 1) / kGroupVectors);
  const int threads = static_cast<int>(std::min<std::int64_t>(groups, omp_get_max_threads()));
  const std::size_t scratch_size = (mirrored_scratch_size(tables) + 15) / 16 * 16;
  const auto scratch = hwy::AllocateAligned<double>(scratch_size * static_cast<std::size_t>(threads));
  if (!scratch) throw std::bad_alloc();
#pragma omp parallel for schedule(dynamic) if (groups > 1) num_threads(threads)
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::size_t first_vector = static_cast<std::size_t>(g) * kGroupVectors, lane = first_vector * lanes;
    const auto at = [lane](std::vector<double>& values) {
      return values.empty() ? nullptr : values.data() + lane;
    };
    MirroredGroup group;
    group.re = batch.re.data() + lane;
    group.im = batch.im.data() + lane;
    group.constant = batch.constant.data() + lane;
    group.stride = batch.stride;
    group.mean = at(result.mean_response);
    group.max = at(result.response_max);
    group.effective = at(result.effective_length);
    group.aliased = at(result.aliasing);
    group.aliased_f16 = at(result.aliasing_f16);
    group.negative = at(negative);
    group.softcap = request.softcap;
    group.scratch = scratch.get() + scratch_size * static_cast<std::size_t>(omp_get_thread_num());
    mirrored_group(window, group, std::min(kGroupVectors, vectors - first_vector));
  }
  for (auto* values : {&result.mean_response, &result.response_max, &result.effective_length,
                       &result.aliasing, &result.aliasing_f16}) {
    if (!values->empty()) values->resize(pairs);
  }
  // E_2 lies in [1, M]; rounding may not carry it out.
  for (double& length : result.effective_length)
    length = std::clamp(length, 1.0, static_cast<double>(plan.window()));
  if (request.reversals) {
    result.reversals.resize(pairs);
    for (std::size_t p = 0; p < pairs; ++p) result.reversals[p] = static_cast<std::int64_t>(negative[p]);
  }
  for (double scale : request.logit_scales) {
    CoefficientBatch scaled = batch;
    for (auto* values : {&scaled.re, &scaled.im}) {
      for (double& z : *values) z *= scale;
    }
    SweepRequest one;
    one.effective_length = true;
    SweepResult length;
    mirrored_sweep(plan, scaled, one, length);
    result.scaled_length.push_back(std::move(length.effective_length));
  }
}

}  // namespace rope::spectral

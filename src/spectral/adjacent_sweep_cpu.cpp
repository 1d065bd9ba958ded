#include <hwy/aligned_allocator.h>
#include <omp.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "spectral/compressed_sweep_kernel.hpp"
#include "spectral/sweep_basis.hpp"
#include "spectral/sweep_lanes.hpp"

namespace rope::spectral {
namespace {

/// Phases of the first outer blocks, which all groups share; later ones each group turns for itself, so
/// that memory does not grow with the window.
std::vector<double> shared_phases(const CompressedPlan& plan, std::int64_t steps) {
  constexpr std::int64_t kMost = 4 * kOuterReseed;
  const std::int64_t blocks = std::min(outer_blocks(steps), kMost);
  const std::size_t size = 2 * plan.n_freq;
  std::vector<double> phases(size * static_cast<std::size_t>(blocks));
  for (std::int64_t k = 0; k < blocks; ++k) {
    double* at = phases.data() + size * static_cast<std::size_t>(k);
    if (k > 0) std::copy_n(at - size, size, at);
    outer_phases(plan, steps, k, at);
  }
  return phases;
}

}  // namespace

void compressed_sweep(const SweepBasis& basis, std::int64_t window, const CoefficientBatch& batch,
                      const SweepRequest& request, const SweepLanes& lanes, bool values,
                      SweepResult& result) {
  const CompressedPlan& plan = basis.impl().compressed();
  const std::size_t pairs = batch.n_pairs, room = padded(pairs), step = compressed_group_lanes();
  const std::size_t n_scales = request.logit_scales.size();
  // Kernels write whole groups: padded while they run.
  std::vector<double> negative(request.reversals ? room : 0), scaled(n_scales * room);
  if (request.mean_response) result.mean_response.resize(room);
  if (request.response_max) result.response_max.resize(room);
  if (request.effective_length) result.effective_length.resize(room);

  const std::vector<double> phases = shared_phases(plan, values ? window : window - 1);
  const auto groups = static_cast<std::int64_t>((pairs + step - 1) / step);
  const int threads = static_cast<int>(std::min<std::int64_t>(groups, omp_get_max_threads()));
  const std::size_t scratch_size = (compressed_scratch_size(plan, n_scales) + 15) / 16 * 16;
  const auto scratch = hwy::AllocateAligned<double>(scratch_size * static_cast<std::size_t>(threads));
  if (!scratch) throw std::bad_alloc();
#pragma omp parallel for schedule(dynamic) if (groups > 1) num_threads(threads)
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::size_t lane = static_cast<std::size_t>(g) * step;
    const auto at = [lane](std::vector<double>& v) { return v.empty() ? nullptr : v.data() + lane; };
    CompressedGroup group;
    group.re = batch.re.data() + lane;
    group.im = batch.im.data() + lane;
    group.constant = batch.constant.data() + lane;
    group.stride = batch.stride;
    group.omega = basis.omega();
    group.scale = lanes.scale.data() + lane;
    group.facts = lanes.facts.data() + lane;
    group.phases = phases.data();
    group.known_phases = static_cast<std::int64_t>(phases.size() / (2 * plan.n_freq));
    group.mean = at(result.mean_response);
    group.max = at(result.response_max);
    group.effective = at(result.effective_length);
    group.negative = at(negative);
    group.scales = request.logit_scales;
    group.scaled = at(scaled);
    group.scaled_stride = room;
    group.values = values;
    for (std::size_t p = lane; p < std::min(lane + step, pairs); ++p)
      group.wide = group.wide || lanes.wide(p);
    group.scratch = scratch.get() + scratch_size * static_cast<std::size_t>(omp_get_thread_num());
    compressed_group(plan, window, group);
  }
  for (auto* v : {&result.mean_response, &result.response_max, &result.effective_length}) {
    if (!v->empty()) v->resize(pairs);
  }
  if (request.reversals)
    result.reversals.assign(negative.begin(), negative.begin() + static_cast<std::ptrdiff_t>(pairs));
  result.scaled_length.clear();
  for (std::size_t i = 0; i < n_scales; ++i) {
    const auto first = scaled.begin() + static_cast<std::ptrdiff_t>(i * room);
    result.scaled_length.emplace_back(first, first + static_cast<std::ptrdiff_t>(pairs));
  }
}

void sweep_cpu(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
               SweepResult& result) {
  if (batch.n_freq != plan.omega().size()) throw std::logic_error("sweep_cpu: batch of another grid");
  if (!(request.softcap >= 0)) throw std::logic_error("sweep_cpu: softcap < 0");
  if (request.softcap > 0 && !request.logit_scales.empty())
    throw std::logic_error("sweep_cpu: logit scales with a softcap");
  for (double scale : request.logit_scales) {
    if (!(scale > 0 && scale <= 1e4)) throw std::logic_error("sweep_cpu: logit scale outside (0, 1e4]");
  }
  result = {};
  if (batch.n_pairs == 0) return;
  const SweepLanes lanes(plan, batch, request);
  if (lanes.use_float32())
    compressed_sweep(plan.basis(), plan.window(), batch, lanes.float32_request(), lanes, false, result);
  lanes.finish(result);
}

}  // namespace rope::spectral

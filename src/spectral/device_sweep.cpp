#include "spectral/device_sweep.hpp"

#include <stdexcept>

#include "spectral/simt/cuda_devices.hpp"
#include "spectral/simt/sweep_runner.hpp"
#include "spectral/sweep_basis.hpp"
#include "spectral/sweep_lanes.hpp"

namespace rope::spectral {
namespace {

// Bounds on the error of a float32 score as the kernels compute it, against sum |z_n| and |c_0|; scores
// closer to 0 are summed again in float64 (tests/spectral/simt_sweep_test.cpp prints the share used).
constexpr double kScoreDoubt = 16 * 0x1p-24, kConstantDoubt = 4 * 0x1p-24, kLog2E = 1.4426950408889634;

/// The float32 part of a sweep on devices; lanes that are not for float32 (scale 0) are left at no value.
void sweep_float32(simt::SweepRunner& runner, const SweepPlan& plan, const CoefficientBatch& batch,
                   const SweepLanes& lanes, SweepResult& result) {
  const std::size_t pairs = batch.n_pairs;
  std::vector<double> scale(pairs);
  std::vector<float> doubt(pairs);
  std::vector<char> skip(pairs);
  for (std::size_t p = 0; p < pairs; ++p) {
    skip[p] = lanes.scale[p] == 0;
    scale[p] = skip[p] ? 1.0 : lanes.scale[p];
    const double size = kScoreDoubt * lanes.facts[p].total + kConstantDoubt * std::abs(batch.constant[p]);
    doubt[p] = static_cast<float>(size * scale[p] * kLog2E);
  }
  const SweepRequest& request = lanes.float32_request();
  simt::RunnerInput input;
  input.plan = &plan.basis().impl().compressed();
  input.omega = plan.omega();
  input.window = plan.window();
  input.batch = &batch;
  input.scale = scale;
  input.doubt = doubt;
  input.skip = skip;
  input.differences = request.mean_response || request.response_max;
  input.weights = request.effective_length;
  input.signs = request.reversals;
  runner.run(input, result);
  if (!request.mean_response) result.mean_response.clear();
  if (!request.response_max) result.response_max.clear();
}

}  // namespace

struct DeviceSweep::Impl {
  explicit Impl(std::vector<std::unique_ptr<simt::SweepDevice>> devices) : runner(std::move(devices)) {}
  simt::SweepRunner runner;
};

DeviceSweep::DeviceSweep(std::vector<std::unique_ptr<simt::SweepDevice>> devices)
    : impl_(std::make_unique<Impl>(std::move(devices))) {}

DeviceSweep::~DeviceSweep() = default;

int DeviceSweep::concurrent_calls() const { return impl_->runner.slots(); }

void DeviceSweep::sweep(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
                        SweepResult& result) {
  if (batch.n_freq != plan.omega().size()) throw std::logic_error("DeviceSweep: batch of another grid");
  result = {};
  if (batch.n_pairs == 0) return;
  if (!request.logit_scales.empty() || !impl_->runner.refusal(plan.basis().impl().compressed()).empty())
    return sweep_cpu(plan, batch, request, result);
  const SweepLanes lanes(plan, batch, request);
  if (lanes.use_float32()) sweep_float32(impl_->runner, plan, batch, lanes, result);
  try {
    lanes.finish(result);
  } catch (...) {
    result = {};
    throw;
  }
}

std::unique_ptr<DeviceSweep> make_cuda_sweep(const std::vector<int>& devices) {
  return std::make_unique<DeviceSweep>(simt::open_cuda_devices(devices));
}

}  // namespace rope::spectral

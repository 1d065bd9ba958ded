#include "spectral/device_sweep.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>

#include "spectral/compressed_plan.hpp"
#include "spectral/float32_error.hpp"
#include "spectral/simt/cuda_devices.hpp"
#include "spectral/simt/sweep_runner.hpp"

namespace rope::spectral {

struct DeviceSweep::Impl {
  explicit Impl(std::vector<std::unique_ptr<simt::SweepDevice>> devices) : runner(std::move(devices)) {}

  simt::SweepRunner runner;
  std::atomic<std::int64_t> lanes{0}, on_cpu{0};
  std::mutex mutex;
  std::map<std::vector<double>, std::shared_ptr<const CompressedPlan>> plans;

  std::shared_ptr<const CompressedPlan> plan_of(std::span<const double> omega) {
    constexpr std::size_t kMostPlans = 64;
    const std::lock_guard lock(mutex);
    if (plans.size() >= kMostPlans) plans.clear();
    auto& plan = plans[std::vector<double>(omega.begin(), omega.end())];
    if (!plan) plan = std::make_shared<const CompressedPlan>(omega);
    return plan;
  }

  /// The lanes of a batch with marks[p] != 0, on the CPU, into their places in `result`.
  void finish_on_cpu(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
                     const std::vector<char>& marks, SweepResult& result) {
    std::vector<std::size_t> places;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      if (marks[p]) places.push_back(p);
    }
    if (places.empty()) return;
    CoefficientBatch some;
    some.reset(batch.n_freq, places.size());
    for (std::size_t n = 0; n < batch.n_freq; ++n) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        some.re[n * some.stride + i] = batch.re[n * batch.stride + places[i]];
        some.im[n * some.stride + i] = batch.im[n * batch.stride + places[i]];
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i) some.constant[i] = batch.constant[places[i]];
    SweepResult swept;
    sweep_cpu(plan, some, request, swept);
    const auto put = [&](const auto& from, auto& to) {
      if (from.empty()) return;
      to.resize(batch.n_pairs);
      for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = from[i];
    };
    put(swept.mean_response, result.mean_response);
    put(swept.response_max, result.response_max);
    put(swept.effective_length, result.effective_length);
    put(swept.aliasing, result.aliasing);
    put(swept.reversals, result.reversals);
  }
};

namespace {

/// What devices do of a request, and what is left.
struct Shares {
  SweepRequest device, cpu;
};

Shares share_out(const SweepRequest& request, bool device_can) {
  Shares shares{request, request};
  if (!device_can) {
    shares.device = {};
    return shares;
  }
  shares.device.aliasing = false;
  shares.device.effective_length = request.effective_length && request.softcap == 0;
  shares.cpu = {};
  shares.cpu.softcap = request.softcap;
  shares.cpu.aliasing = request.aliasing;
  shares.cpu.effective_length = request.effective_length && request.softcap != 0;
  return shares;
}

bool anything(const SweepRequest& r) {
  return r.mean_response || r.response_max || r.effective_length || r.aliasing || r.reversals;
}

}  // namespace

DeviceSweep::DeviceSweep(std::vector<std::unique_ptr<simt::SweepDevice>> devices)
    : impl_(std::make_unique<Impl>(std::move(devices))) {}

DeviceSweep::~DeviceSweep() = default;

int DeviceSweep::concurrent_calls() const { return impl_->runner.slots(); }

DeviceSweep::Tally DeviceSweep::tally() const { return {impl_->lanes, impl_->on_cpu}; }

void DeviceSweep::sweep(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
                        SweepResult& result) {
  if (batch.n_freq != plan.omega().size()) throw std::logic_error("DeviceSweep: batch of another grid");
  result = {};
  if (batch.n_pairs == 0) return;
  const auto compressed = impl_->plan_of(plan.omega());
  const Shares shares = share_out(request, impl_->runner.refusal(*compressed).empty());
  const SweepRequest& on_device = shares.device;
  std::vector<char> redo(batch.n_pairs);
  if (anything(on_device)) {
    const LaneSizes sizes(batch, plan.omega());
    for (std::size_t p = 0; p < batch.n_pairs; ++p) redo[p] = !sizes.finite[p];
    simt::RunnerInput input;
    input.plan = compressed.get();
    input.omega = plan.omega();
    input.window = plan.window();
    input.batch = &batch;
    input.scale = sizes.scale;
    input.doubt = sizes.doubt;
    input.skip = redo;
    input.differences = on_device.mean_response || on_device.response_max;
    input.weights = on_device.effective_length;
    input.signs = on_device.reversals;
    impl_->runner.run(input, result);
    if (!on_device.mean_response) result.mean_response.clear();
    if (!on_device.response_max) result.response_max.clear();
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      if (redo[p]) continue;
      const bool right = (!on_device.mean_response ||
                          mean_is_right(result.mean_response[p], sizes.reach[p], plan.window())) &&
                         (!on_device.response_max || max_is_right(result.response_max[p], sizes.reach[p])) &&
                         (!on_device.effective_length ||
                          effective_length_is_right(result.effective_length[p], sizes.norm[p]));
      redo[p] = !right;
    }
    impl_->finish_on_cpu(plan, batch, on_device, redo, result);
  }
  const bool all_on_cpu = anything(shares.cpu);
  if (all_on_cpu) impl_->finish_on_cpu(plan, batch, shares.cpu, std::vector<char>(batch.n_pairs, 1), result);
  impl_->lanes += static_cast<std::int64_t>(batch.n_pairs);
  for (const char again : redo) impl_->on_cpu += all_on_cpu || again ? 1 : 0;
}

std::unique_ptr<DeviceSweep> make_cuda_sweep(const std::vector<int>& devices) {
  return std::make_unique<DeviceSweep>(simt::open_cuda_devices(devices));
}

}  // namespace rope::spectral

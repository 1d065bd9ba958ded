#include <doctest/doctest.h>

#include <thread>

#include "spectral/backend.hpp"
#include "spectral/compressed_sweep_kernel.hpp"
#include "spectral/device_sweep.hpp"
#include "spectral/host_sweep_device.hpp"
#include "spectral/simt/cuda_devices.hpp"
#include "spectral/simt/sweep_runner.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::SweepPlan;
using spectral::SweepRequest;
using spectral::SweepResult;

const SweepRequest kEverything{true, true, true, true, true, 0.0};

SweepResult run_kernels(simt::SweepRunner& runner, const SweepCase& c) {
  const auto batch = make_batch(c.vectors, c.omega.size());
  const spectral::CompressedPlan plan(c.omega);
  std::vector<double> scale(batch.n_pairs);
  spectral::lane_scales(batch, scale);
  const std::vector<float> doubt(batch.n_pairs, 1e-4F);
  const std::vector<char> skip(batch.n_pairs);
  const simt::RunnerInput input{&plan, c.omega, c.window, &batch, scale, doubt, skip, true, true, true};
  SweepResult result;
  runner.run(input, result);
  return result;
}

TEST_CASE("gpu: within 1e-5 of direct summation on the case table") {
  const auto sweep = spectral::make_cuda_sweep(spectral::choose_backend("cuda").devices);
  double worst = 0;
  for (const SweepCase& c : sweep_cases()) {
    CAPTURE(c.name);
    SweepResult r;
    sweep->sweep(SweepPlan(c.omega, c.window), make_batch(c.vectors, c.omega.size()), kEverything, r);
    std::vector<double> mean, max, length;
    const auto expected = reference::sum_over_window(c.vectors, c.omega, c.window);
    for (std::size_t v = 0; v < c.vectors.size(); ++v) {
      mean.push_back(expected[v].mean_response);
      max.push_back(expected[v].response_max);
      length.push_back(expected[v].effective_length);
      CHECK(std::abs(r.reversals[v] - expected[v].reversals) <= expected[v].doubtful);
    }
    for (const Comparison& comparison :
         {compare_relative("mean_response", r.mean_response, mean, 1e-5),
          compare_relative("response_max", r.response_max, max, 1e-5),
          compare_relative("effective_length", r.effective_length, length, 1e-5)}) {
      CHECK_MESSAGE(comparison.ok(), comparison.text());
      worst = std::max(worst, comparison.share());
    }
  }
  MESSAGE((100 * worst) << " % of the bound 1e-5 used");
}

TEST_CASE("gpu: differences and signs have the bits of the host executor, E_2 but for the device's 2^x") {
  const auto choice = spectral::choose_backend("cuda");
  simt::SweepRunner device(spectral::simt::open_cuda_devices({choice.device}));
  HostDeviceLog log;
  HostDeviceOptions options;
  options.recording = false;
  std::vector<std::unique_ptr<simt::SweepDevice>> hosts;
  hosts.push_back(std::make_unique<HostSweepDevice>(options, log));
  simt::SweepRunner host(std::move(hosts));
  for (const SweepCase& c : sweep_cases()) {
    if (c.name.find("size 38") == 0) continue;  // logits beyond float32
    CAPTURE(c.name);
    const SweepResult a = run_kernels(device, c), b = run_kernels(host, c);
    CHECK(a.mean_response == b.mean_response);
    CHECK(a.response_max == b.response_max);
    CHECK(a.reversals == b.reversals);
    const Comparison lengths = compare_relative("E_2", a.effective_length, b.effective_length, 2e-6);
    CHECK_MESSAGE(lengths.ok(), lengths.text());
  }
}

TEST_CASE("gpu: the same bytes run to run, for any blocks and with calls side by side") {
  SweepCase c;
  c.omega = geometric_grid(1e6, 64);
  c.window = 20000;
  c.vectors = make_vectors(1000, 64, Spread::kWhite, 3.0, 5);
  const auto devices = spectral::choose_backend("cuda").devices;
  simt::SweepRunner runner(spectral::simt::open_cuda_devices(devices));
  const SweepResult first = run_kernels(runner, c);
  const auto same = [&](const SweepResult& r) {
    return r.mean_response == first.mean_response && r.response_max == first.response_max &&
           r.effective_length == first.effective_length && r.reversals == first.reversals;
  };
  CHECK(same(run_kernels(runner, c)));
  runner.limit_block(96);
  CHECK(same(run_kernels(runner, c)));
  std::vector<SweepResult> results(6);
  std::vector<std::thread> threads;
  for (SweepResult& result : results) threads.emplace_back([&] { result = run_kernels(runner, c); });
  for (std::thread& thread : threads) thread.join();
  for (const SweepResult& result : results) CHECK(same(result));
}

TEST_CASE("gpu: a request for more memory than there is fails as such, and the device goes on") {
  auto devices = spectral::simt::open_cuda_devices({spectral::choose_backend("cuda").device});
  CHECK_THROWS_AS(devices[0]->allocate(std::size_t{1} << 50), simt::OutOfDeviceMemory);
  void* memory = devices[0]->allocate(1 << 20);
  CHECK(memory != nullptr);
  devices[0]->release(memory);
  CHECK_THROWS_AS(spectral::simt::open_cuda_devices({1023}), spectral::DeviceError);
}

}  // namespace
}  // namespace rope::test

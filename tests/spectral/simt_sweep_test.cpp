#include <doctest/doctest.h>

#include <thread>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/device_sweep.hpp"
#include "spectral/float32_error.hpp"
#include "spectral/host_sweep_device.hpp"
#include "spectral/phase.hpp"
#include "spectral/simt/plan_buffer.hpp"
#include "spectral/simt/sweep_runner.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::CoefficientBatch;
using spectral::DeviceError;
using spectral::DeviceSweep;
using spectral::SweepPlan;
using spectral::SweepRequest;
using spectral::SweepResult;

constexpr SweepRequest kOnDevice{true, true, true, false, true, 0.0};

/// Devices that differ in nothing but their logs.
std::vector<std::unique_ptr<simt::SweepDevice>> host_devices(const HostDeviceOptions& options,
                                                             std::vector<HostDeviceLog>& logs) {
  std::vector<std::unique_ptr<simt::SweepDevice>> devices;
  for (HostDeviceLog& log : logs) devices.push_back(std::make_unique<HostSweepDevice>(options, log));
  return devices;
}

/// The bare kernels: every lane, right or not.
SweepResult run_kernels(simt::SweepRunner& runner, const std::vector<double>& omega, std::int64_t window,
                        const CoefficientBatch& batch, const SweepRequest& request = kOnDevice) {
  const spectral::CompressedPlan plan(omega);
  const spectral::LaneSizes sizes(batch, omega);
  const std::vector<char> skip(batch.n_pairs);
  simt::RunnerInput input;
  input.plan = &plan;
  input.omega = omega;
  input.window = window;
  input.batch = &batch;
  input.scale = sizes.scale;
  input.doubt = sizes.doubt;
  input.skip = skip;
  input.differences = request.mean_response || request.response_max;
  input.weights = request.effective_length;
  input.signs = request.reversals;
  SweepResult result;
  runner.run(input, result);
  return result;
}

bool same(const SweepResult& a, const SweepResult& b) {
  return a.mean_response == b.mean_response && a.response_max == b.response_max &&
         a.effective_length == b.effective_length && a.aliasing == b.aliasing && a.reversals == b.reversals;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("sweep kernel: phases without a mathematics library") {
  std::mt19937_64 random(3);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double omega =
        i % 3 == 0 ? std::numbers::pi : std::exp2(-20 * std::abs(uniform(random))) * std::numbers::pi;
    const auto m = static_cast<double>(random() % (std::uint64_t{1} << (1 + i % 24)));
    const auto turn = simt::turn_by(m, omega);
    const auto phase = spectral::phase_at(m, omega);
    worst = std::max({worst, std::abs(turn.cos - phase.cos), std::abs(turn.sin - phase.sin)});
  }
  CHECK(worst < 3e-16);
  // Near multiples of pi the sine keeps its relative precision.
  for (double m : {1.0, 2.0, 3.0, 299.0, 1e6, 16777216.0}) {
    const auto exact = spectral::phase_at(m, std::numbers::pi).sin;
    CHECK(std::abs(simt::turn_by(m, std::numbers::pi).sin - exact) <= 1e-15 * std::abs(exact));
  }
}

TEST_CASE("sweep kernel: every thread order, on the case table, without a finding and against direct sums") {
  struct Figure {
    double worst = 0;
    int lanes = 0, left = 0;  // left to the CPU
    void add(double value, double expected, bool right, const std::string& name) {
      ++lanes;
      left += right ? 0 : 1;
      const double error = std::abs(value - expected) / std::abs(expected);
      if (!right || value == expected) return;
      CHECK_MESSAGE(error <= 1e-5, name << ": " << value << " for " << expected);
      worst = std::max(worst, error);
    }
  };
  Figure mean, max, length;
  for (const SweepCase& c : sweep_cases()) {
    CAPTURE(c.name);
    const auto expected = reference::sum_over_window(c.vectors, c.omega, c.window);
    const auto batch = make_batch(c.vectors, c.omega.size());
    const spectral::LaneSizes sizes(batch, c.omega);
    SweepResult first;
    for (const auto order :
         {simt::ThreadOrder::kForward, simt::ThreadOrder::kReversed, simt::ThreadOrder::kShuffled}) {
      std::vector<HostDeviceLog> logs(1);
      HostDeviceOptions options;
      options.order = order;
      options.recording = c.window < 3000;
      if (!options.recording && order != simt::ThreadOrder::kShuffled) continue;
      simt::SweepRunner runner(host_devices(options, logs));
      const SweepResult r = run_kernels(runner, c.omega, c.window, batch);
      CHECK_MESSAGE(logs[0].findings.empty(), logs[0].findings);
      if (first.reversals.empty()) first = r;
      CHECK(r.mean_response == first.mean_response);
      CHECK(r.response_max == first.response_max);
      CHECK(r.reversals == first.reversals);
    }
    for (std::size_t v = 0; v < c.vectors.size(); ++v) {
      CHECK(std::abs(first.reversals[v] - expected[v].reversals) <= expected[v].doubtful);
      const double a = first.mean_response[v], b = first.response_max[v], e = first.effective_length[v];
      mean.add(a, expected[v].mean_response, spectral::mean_is_right(a, sizes.reach[v], c.window), c.name);
      max.add(b, expected[v].response_max, spectral::max_is_right(b, sizes.reach[v]), c.name);
      length.add(e, expected[v].effective_length, spectral::effective_length_is_right(e, sizes.norm[v]),
                 c.name);
    }
  }
  for (const auto& [name, f] : {std::pair("mean", mean), std::pair("max", max), std::pair("E_2", length)}) {
    MESSAGE(std::string(name) << ": at most " << f.worst << " off (bound 1e-5); " << f.left << " of "
                              << f.lanes << " lanes left to the CPU");
    CHECK(f.left < f.lanes / 5);
    CHECK(f.lanes > 300);
  }
}

TEST_CASE("sweep kernel: ordinary lanes stay on the device") {
  for (const double size : {0.1, 1.0, 3.0, 7.0}) {
    for (const std::int64_t window : {129, 2050, 8192}) {
      const auto omega = geometric_grid(1e6, 64);
      std::vector<HostDeviceLog> logs(1);
      HostDeviceOptions options;
      options.recording = false;
      DeviceSweep sweep(host_devices(options, logs));
      SweepResult r;
      sweep.sweep(SweepPlan(omega, window), make_batch(make_vectors(64, 64, Spread::kWhite, size, 77), 64),
                  kOnDevice, r);
      CHECK(sweep.tally().lanes == 64);
      CHECK(sweep.tally().on_cpu == 0);
    }
  }
}

TEST_CASE("sweep kernel: shared memory of a block") {
  // A multiprocessor has 228 KiB (sm_90, sm_100), 164 KiB (sm_80) or 100 KiB (sm_120), a block at most 1 KiB
  // less, and 1 KiB of each block goes to the system: h = 64 gets 4, 3 or 2 blocks.
  for (const auto& [h, most] : {std::pair<std::size_t, std::size_t>{32, 49}, {64, 49}, {128, 99}}) {
    const spectral::CompressedPlan plan(geometric_grid(1e6, h));
    const simt::PlanBuffer buffer(plan, plan.omega);
    simt::SweepKernel<false>::Args args;
    args.plan = buffer.tables(buffer.data());
    const std::size_t bytes = simt::shared_bytes<simt::SweepKernel<false>>(args);
    MESSAGE("h = " << h << ": " << bytes << " bytes");
    CHECK(bytes <= most << 10);
    CHECK(bytes > 10000);
  }
}

TEST_CASE("device sweep: everything that can be asked, within 1e-5 on the case table") {
  constexpr SweepRequest kEverything{true, true, true, true, true, 0.0};
  double worst = 0;
  for (const SweepCase& c : sweep_cases()) {
    CAPTURE(c.name);
    std::vector<HostDeviceLog> logs(2);
    HostDeviceOptions options;
    options.recording = false;
    DeviceSweep sweep(host_devices(options, logs));
    SweepResult r;
    sweep.sweep(SweepPlan(c.omega, c.window), make_batch(c.vectors, c.omega.size()), kEverything, r);
    std::vector<double> mean, max, length, aliasing;
    const auto expected = reference::sum_over_window(c.vectors, c.omega, c.window);
    for (std::size_t v = 0; v < c.vectors.size(); ++v) {
      mean.push_back(expected[v].mean_response);
      max.push_back(expected[v].response_max);
      length.push_back(expected[v].effective_length);
      aliasing.push_back(expected[v].aliasing);
      CHECK(std::abs(r.reversals[v] - expected[v].reversals) <= expected[v].doubtful);
    }
    for (const Comparison& comparison :
         {compare_relative("mean_response", r.mean_response, mean, 1e-5),
          compare_relative("response_max", r.response_max, max, 1e-5),
          compare_relative("effective_length", r.effective_length, length, 1e-5),
          compare_relative("aliasing", r.aliasing, aliasing, 1e-12)}) {
      CHECK_MESSAGE(comparison.ok(), comparison.text());
      worst = std::max(worst, comparison.share());
    }
  }
  MESSAGE((100 * worst) << " % of the bound 1e-5 used");
}

TEST_CASE("device sweep: only what is asked, softcaps and lanes that are not finite") {
  const auto omega = geometric_grid(1e6, 16);
  auto vectors = make_vectors(70, 16, Spread::kWhite, 2.0, 9);
  std::vector<HostDeviceLog> logs(1);
  DeviceSweep sweep(host_devices({}, logs));
  const SweepPlan plan(omega, 300);
  SweepResult all, cpu;
  sweep.sweep(plan, make_batch(vectors, 16), {true, true, true, true, true, 0.0}, all);
  for (int what = 0; what < 5; ++what) {
    const SweepRequest one{what == 0, what == 1, what == 2, what == 3, what == 4, 0.0};
    SweepResult r;
    sweep.sweep(plan, make_batch(vectors, 16), one, r);
    CHECK(r.mean_response == (what == 0 ? all.mean_response : std::vector<double>{}));
    CHECK(r.response_max == (what == 1 ? all.response_max : std::vector<double>{}));
    CHECK(r.effective_length == (what == 2 ? all.effective_length : std::vector<double>{}));
    CHECK(r.aliasing == (what == 3 ? all.aliasing : std::vector<double>{}));
    CHECK(r.reversals == (what == 4 ? all.reversals : std::vector<std::int64_t>{}));
  }
  const SweepRequest capped{true, false, true, false, false, 5.0};
  SweepResult r;
  sweep.sweep(plan, make_batch(vectors, 16), capped, r);
  sweep_cpu(plan, make_batch(vectors, 16), capped, cpu);
  CHECK(r.mean_response == all.mean_response);
  CHECK(r.effective_length == cpu.effective_length);

  vectors[3].z[2] = {std::nan(""), 0.0};
  vectors[40].constant = HUGE_VAL;
  sweep.sweep(plan, make_batch(vectors, 16), kOnDevice, r);
  for (std::size_t v : {3, 40}) {
    CHECK(std::isnan(r.mean_response[v]));
    CHECK(std::isnan(r.effective_length[v]));
    CHECK(r.reversals[v] == -1);
  }
  CHECK(r.mean_response[4] == all.mean_response[4]);
  CHECK(r.effective_length[41] == all.effective_length[41]);
  CHECK(logs[0].findings.empty());
}

TEST_CASE("device sweep: a device with too little shared memory leaves the grid to the CPU") {
  const auto omega = geometric_grid(1e6, 64);
  const auto batch = make_batch(make_vectors(5, 64, Spread::kWhite, 2.0, 9), 64);
  std::vector<HostDeviceLog> logs(1);
  HostDeviceOptions options;
  options.shared_memory = 30 << 10;
  DeviceSweep sweep(host_devices(options, logs));
  SweepResult r, cpu;
  sweep.sweep(SweepPlan(omega, 1000), batch, kOnDevice, r);
  sweep_cpu(SweepPlan(omega, 1000), batch, kOnDevice, cpu);
  CHECK(same(r, cpu));
  CHECK(sweep.tally().on_cpu == 5);
  CHECK(logs[0].launches == 0);
}

/// A batch of several blocks for the tests of the runner.
struct RunnerFixture {
  std::vector<double> omega = geometric_grid(1e6, 16);
  CoefficientBatch batch = make_batch(make_vectors(333, 16, Spread::kWhite, 2.0, 21), 16);
  std::int64_t window = 700;

  SweepResult run(const HostDeviceOptions& options, std::vector<HostDeviceLog>& logs,
                  int block = 1 << 14) const {
    simt::SweepRunner runner(host_devices(options, logs));
    runner.limit_block(block);
    return run_kernels(runner, omega, window, batch);
  }
};

TEST_CASE_FIXTURE(RunnerFixture, "sweep runner: the same bytes for any blocks, devices and order of work") {
  HostDeviceOptions options;
  options.recording = false;
  std::vector<HostDeviceLog> one(1);
  const SweepResult expected = run(options, one);
  CHECK(one[0].largest_block == 192);  // two streams share it, in whole groups of 32
  for (const bool deferred : {false, true}) {
    for (const std::size_t devices : {1, 2, 5}) {
      for (const int block : {32, 96, 1 << 14}) {
        options.deferred = deferred;
        std::vector<HostDeviceLog> logs(devices);
        CHECK(same(run(options, logs, block), expected));
        for (const HostDeviceLog& log : logs) {
          CHECK(log.launches > 0);  // every device had its share
          CHECK(log.in_use == 0);   // and gave its memory back
        }
      }
    }
  }
}

TEST_CASE_FIXTURE(RunnerFixture, "sweep runner: calls from several threads share the slots") {
  HostDeviceOptions options;
  options.recording = false;
  std::vector<HostDeviceLog> one(1), logs(2);
  const SweepResult expected = run(options, one);
  simt::SweepRunner runner(host_devices(options, logs));
  runner.limit_block(64);
  std::vector<SweepResult> results(6);
  std::vector<std::thread> threads;
  for (SweepResult& result : results)
    threads.emplace_back([&] { result = run_kernels(runner, omega, window, batch); });
  for (std::thread& thread : threads) thread.join();
  for (const SweepResult& result : results) CHECK(same(result, expected));
}

TEST_CASE_FIXTURE(RunnerFixture, "sweep runner: out of memory halves the block and goes on") {
  HostDeviceOptions options;
  options.recording = false;
  std::vector<HostDeviceLog> logs(1);
  const SweepResult expected = run(options, logs);
  const HostDeviceLog plenty = logs[0];
  for (const double share : {0.9, 0.6, 0.4, 0.25}) {
    options.memory = static_cast<std::size_t>(share * static_cast<double>(plenty.peak));
    CAPTURE(share);
    logs.assign(1, {});
    CHECK(same(run(options, logs), expected));
    CHECK(logs[0].refused > 0);
    CHECK(logs[0].launches > plenty.launches);
    CHECK(logs[0].smallest_block < plenty.smallest_block);
    CHECK(logs[0].peak <= options.memory);
    CHECK(logs[0].in_use == 0);
  }
  // Any operation may run out: allocations, copies, launches.
  options.memory = std::size_t{1} << 40;
  logs.assign(1, {});
  run(options, logs, 64);
  const int operations = logs[0].operations;
  CHECK(operations > 20);
  int refused = 0;
  for (int at = 0; at < operations; ++at) {
    options.out_of_memory_at = at;
    logs.assign(1, {});
    CAPTURE(at);
    CHECK(same(run(options, logs, 64), expected));
    refused += logs[0].refused;
    CHECK(logs[0].in_use == 0);
  }
  CHECK(refused > operations / 2);
  // Nothing fits.
  options.out_of_memory_at = -1;
  options.memory = 100;
  logs.assign(1, {});
  CHECK_THROWS_AS(run(options, logs), DeviceError);
}

TEST_CASE_FIXTURE(RunnerFixture, "sweep runner: a lost device is an error, and nothing half-written stays") {
  HostDeviceOptions options;
  options.recording = false;
  std::vector<HostDeviceLog> logs(2);
  run(options, logs, 64);
  const int operations = std::min(logs[0].operations, logs[1].operations);
  for (int at = 0; at < operations; at += 3) {
    CAPTURE(at);
    options.lost_at = at;
    logs.assign(2, {});
    simt::SweepRunner runner(host_devices(options, logs));
    runner.limit_block(64);
    const spectral::CompressedPlan plan(omega);
    const spectral::LaneSizes sizes(batch, omega);
    const std::vector<char> skip(batch.n_pairs);
    simt::RunnerInput input{&plan, omega, window, &batch, sizes.scale, sizes.doubt, skip, true, true, true};
    SweepResult result;
    CHECK_THROWS_WITH_AS(runner.run(input, result), "host device: lost", DeviceError);
    CHECK(result.mean_response.empty());
    CHECK(result.reversals.empty());
    CHECK_THROWS_AS(runner.run(input, result), DeviceError);  // and again, without hanging
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test

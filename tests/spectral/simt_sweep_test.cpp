#include <doctest/doctest.h>

#include <thread>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/compressed_sweep_kernel.hpp"
#include "spectral/device_sweep.hpp"
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

const SweepRequest kOnDevice{true, true, true, false, true, 0.0};

/// Devices that differ in nothing but their logs.
std::vector<std::unique_ptr<simt::SweepDevice>> host_devices(const HostDeviceOptions& options,
                                                             std::vector<HostDeviceLog>& logs) {
  std::vector<std::unique_ptr<simt::SweepDevice>> devices;
  devices.reserve(logs.size());
  for (HostDeviceLog& log : logs) devices.push_back(std::make_unique<HostSweepDevice>(options, log));
  return devices;
}

/// What the kernels need to know of each lane, as DeviceSweep makes it.
struct LaneInput {
  std::vector<double> scale;
  std::vector<float> doubt;
  std::vector<char> skip;
  std::vector<spectral::LaneFacts> facts;

  LaneInput(const spectral::CompressedPlan& plan, const CoefficientBatch& batch)
      : scale(batch.n_pairs), doubt(batch.n_pairs), skip(batch.n_pairs), facts(batch.stride) {
    spectral::lane_scales(batch, scale);
    spectral::compressed_lane_facts(plan, batch.re.data(), batch.im.data(), batch.stride, batch.stride,
                                    facts.data());
    for (std::size_t p = 0; p < batch.n_pairs; ++p)
      doubt[p] = static_cast<float>((1e-6 * facts[p].total + 2.4e-7 * std::abs(batch.constant[p])) *
                                    scale[p] * std::numbers::log2e);
  }
};

/// The bare kernels on every lane, for everything that they can.
SweepResult run_kernels(simt::SweepRunner& runner, const std::vector<double>& omega, std::int64_t window,
                        const CoefficientBatch& batch) {
  const spectral::CompressedPlan plan(omega);
  const LaneInput lanes(plan, batch);
  const simt::RunnerInput input{&plan,       omega,      window, &batch, lanes.scale,
                                lanes.doubt, lanes.skip, true,   true,   true};
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

/// Largest share used of the bounds that sweep_lanes.hpp judges lanes by.
struct Shares {
  double mean = 0, max = 0, length = 0;
};

void check_kernels(const SweepCase& c, const SweepResult& r, Shares& shares) {
  const auto batch = make_batch(c.vectors, c.omega.size());
  const LaneInput lanes(spectral::CompressedPlan(c.omega), batch);
  const auto expected = reference::sum_over_window(c.vectors, c.omega, c.window);
  for (std::size_t v = 0; v < c.vectors.size(); ++v) {
    CAPTURE(v);
    CHECK(std::abs(r.reversals[v] - expected[v].reversals) <= expected[v].doubtful);
    const spectral::LaneFacts& facts = lanes.facts[v];
    const double rounding = 0x1p-24 * facts.inner;
    // Few differences do not average their errors out; sums of floats round in any case.
    const double mean_error = 0.5 + 4 / std::sqrt(static_cast<double>(c.window - 1));
    const double mean_bound = mean_error * rounding + 2e-7 * expected[v].mean_response;
    const double mean = std::abs(r.mean_response[v] - expected[v].mean_response);
    const double max = std::abs(r.response_max[v] - expected[v].response_max);
    CHECK(mean <= mean_bound);
    CHECK(max <= 4 * rounding);
    if (rounding > 0) {
      shares.mean = std::max(shares.mean, mean / mean_bound);
      shares.max = std::max(shares.max, max / (4 * rounding));
    }
    if (facts.total > 1300) continue;
    const double length = std::abs(r.effective_length[v] / expected[v].effective_length - 1);
    const double length_bound = 1e-6 + 2 * 0x1p-24 * facts.outer;
    CHECK(length <= length_bound);
    shares.length = std::max(shares.length, length / length_bound);
  }
}

TEST_CASE(
    "sweep kernel: on the case table, in every thread order, without a finding and against direct sums") {
  Shares shares;
  for (const SweepCase& c : sweep_cases()) {
    CAPTURE(c.name);
    SweepResult first;
    for (const auto order :
         {simt::ThreadOrder::kForward, simt::ThreadOrder::kReversed, simt::ThreadOrder::kShuffled}) {
      HostDeviceOptions options;
      options.order = order;
      options.recording = c.window < 3000;
      if (!options.recording && order != simt::ThreadOrder::kShuffled) continue;
      std::vector<HostDeviceLog> logs(1);
      simt::SweepRunner runner(host_devices(options, logs));
      const SweepResult r = run_kernels(runner, c.omega, c.window, make_batch(c.vectors, c.omega.size()));
      CHECK_MESSAGE(logs[0].findings.empty(), logs[0].findings);
      if (first.reversals.empty()) first = r;
      CHECK(r.mean_response == first.mean_response);
      CHECK(r.response_max == first.response_max);
      CHECK(r.reversals == first.reversals);
    }
    check_kernels(c, first, shares);
  }
  MESSAGE("share of the error bounds used: mean " << shares.mean << ", max " << shares.max << ", E_2 "
                                                  << shares.length);
}

TEST_CASE("sweep kernel: signs that float32 cannot tell are those of float64") {
  // Lane v has S(m) + c_0 = +-1e-9 at m = 17 v + v / 2, which passes over centres and both sides of blocks.
  const auto omega = geometric_grid(1e6, 16);
  const std::int64_t window = 4500;
  auto vectors = make_vectors(256, 16, Spread::kWhite, 2.0, 61);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const auto m = static_cast<long double>(v == 0 ? 64 : 17 * v + v / 2);
    long double score = 0;
    for (std::size_t n = 0; n < omega.size(); ++n) {
      const long double angle = m * static_cast<long double>(omega[n]);
      score += vectors[v].z[n].real() * std::cos(angle) - vectors[v].z[n].imag() * std::sin(angle);
    }
    vectors[v].constant = static_cast<double>(-score) + (v % 3 == 0 ? 1e-9 : -1e-9);
  }
  std::vector<HostDeviceLog> logs(1);
  HostDeviceOptions options;
  options.recording = false;
  DeviceSweep sweep(host_devices(options, logs));
  SweepResult r;
  sweep.sweep(SweepPlan(omega, window), make_batch(vectors, 16), {false, false, false, false, true, 0.0}, r);
  const auto expected = reference::sum_over_window(vectors, omega, window);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    CAPTURE(v);
    REQUIRE(expected[v].doubtful == 0);
    CHECK(r.reversals[v] == expected[v].reversals);
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
  const SweepRequest everything{true, true, true, true, true, 0.0};
  double worst = 0;
  for (const SweepCase& c : sweep_cases()) {
    CAPTURE(c.name);
    std::vector<HostDeviceLog> logs(2);
    HostDeviceOptions options;
    options.recording = false;
    DeviceSweep sweep(host_devices(options, logs));
    SweepResult r;
    sweep.sweep(SweepPlan(c.omega, c.window), make_batch(c.vectors, c.omega.size()), everything, r);
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
  threads.reserve(results.size());
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
  for (int at = 0; at < operations; at += 2) {
    options.out_of_memory_at = at;
    logs.assign(1, {});
    CAPTURE(at);
    CHECK(same(run(options, logs, 64), expected));
    refused += logs[0].refused;
    CHECK(logs[0].in_use == 0);
  }
  CHECK(refused > operations / 4);
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
    const LaneInput lanes(plan, batch);
    const simt::RunnerInput input{&plan,       omega,      window, &batch, lanes.scale,
                                  lanes.doubt, lanes.skip, true,   true,   true};
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

// Runs whose sweeps go to devices (here the host device of the kernel tests) against runs on the CPU.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "profiler/profile.hpp"
#include "spectral/host_sweep_device.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::shared_ptr<spectral::DeviceSweep> host_sweep(HostDeviceOptions options,
                                                  std::vector<HostDeviceLog>& logs) {
  options.recording = false;
  std::vector<std::unique_ptr<simt::SweepDevice>> devices;
  devices.reserve(logs.size());
  for (HostDeviceLog& log : logs) devices.push_back(std::make_unique<HostSweepDevice>(options, log));
  return std::make_shared<spectral::DeviceSweep>(std::move(devices));
}

struct Run {
  std::vector<double> scores;
  std::vector<std::int64_t> counts;
};

Run score(const ActivationSet& set, const ScoringResources& resources) {
  ScoringOptions options;
  options.exact_reversal = options.aliasing = options.near_far = true;
  options.barrier = 0.25;
  std::vector<const SetExample*> examples;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples) examples.push_back(&example);
  Run run;
  ExampleScorer scorer(set, options, resources);
  scorer.score(examples, std::vector<HeadWork>(set.heads().size(), HeadWork::kAll),
               [&](std::size_t, const std::vector<HeadScores>& heads) {
                 for (const HeadScores& head : heads) {
                   run.scores.insert(run.scores.end(), head.score.begin(), head.score.end());
                   run.counts.insert(run.counts.end(), head.count.begin(), head.count.end());
                 }
               });
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("device run: agrees with the CPU, with the same bytes for any devices, threads and packing") {
  const TempDir folder;
  write_cache(folder / "cache.h5",
              random_cache({.examples = 5, .query_slots = 3, .key_slots = 9, .window = 300}));
  const ActivationSet set({folder / "cache.h5"}, {});
  const Run cpu = score(set, {2, 512 * kMiB});
  Run first;
  for (const std::size_t devices : {1, 3})
    for (const int threads : {1, 3})
      for (const std::size_t lanes : {48, 16384}) {
        std::vector<HostDeviceLog> logs(devices);
        {
          ScoringResources resources{threads, 512 * kMiB, device_engine(host_sweep({}, logs))};
          CHECK(resources.engine.waiting_threads == static_cast<int>(2 * devices));
          resources.engine.lanes = lanes;
          const Run run = score(set, resources);
          CHECK(run.counts == cpu.counts);
          if (first.scores.empty()) first = run;
          CHECK(std::equal(run.scores.begin(), run.scores.end(), first.scores.begin(), first.scores.end(),
                           [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
        }
        CHECK(logs[0].launches > 0);
        CHECK(logs[0].in_use == 0);
      }
  // The gap of exact and Gaussian reversals is a difference: absolute.
  CHECK_COMPARISON(compare_relative("scores on devices", first.scores, cpu.scores, 1e-5, 1.0, true));
  std::size_t values = 0;
  for (const double value : first.scores) values += std::isnan(value) ? 0 : 1;
  CHECK(values > 100);
}

TEST_CASE("device run: a device that is lost on the way is an error, and no profile is left behind") {
  const TempDir folder;
  write_cache(folder / "cache.h5",
              random_cache({.examples = 5, .query_slots = 3, .key_slots = 9, .window = 300}));
  std::vector<HostDeviceLog> logs(2);
  HostDeviceOptions device;
  ProfileOptions options;
  options.files = {folder / "cache.h5"};
  options.output = folder / "profile.h5";
  options.backend = "cuda";
  options.heads.kind = HeadRequest::Kind::kAll;
  options.engine = device_engine(host_sweep(device, logs));
  run_profile(options, [](const char*, std::int64_t, std::int64_t) {});
  CHECK(std::filesystem::exists(folder / "profile.h5"));
  const int operations = logs[0].operations;
  CHECK(operations > 4);
  // Of a device's first batch: how many more there are, and where, depends on which thread waits for which.
  for (const int at : {0, 1, 2, 3}) {
    std::filesystem::remove(folder / "profile.h5");
    options.engine = cpu_engine();  // the devices before are gone before their logs are
    logs.assign(2, {});
    device.lost_at = at;
    options.engine = device_engine(host_sweep(device, logs));
    CHECK_THROWS_WITH_AS(run_profile(options, [](const char*, std::int64_t, std::int64_t) {}),
                         "host device: lost", spectral::DeviceError);
    std::size_t files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(folder / "cache.h5").parent_path()))
      files += entry.is_regular_file() ? 1 : 0;
    CHECK(files == 1);  // the cache
  }
}

TEST_SUITE_END();

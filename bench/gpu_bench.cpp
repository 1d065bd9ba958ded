// The sweep on CPU and GPU side by side: nanoseconds per pair-distance, transfers included. Every figure is
// the best of several; both sides get the same batch. Usage: rope_gpu_bench [--quick]. Exit 77 without a
// device.

#include <omp.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/backend.hpp"
#include "spectral/device_sweep.hpp"
#include "timing.hpp"

namespace {

using namespace rope::spectral;
using rope::bench::Clock;

CoefficientBatch random_batch(std::size_t h, std::size_t pairs, double size) {
  std::mt19937_64 random(1);
  CoefficientBatch batch;
  batch.reset(h, pairs);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t p = 0; p < pairs; ++p) {
      for (auto* values : {&batch.re, &batch.im})
        (*values)[n * batch.stride + p] =
            size * static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    }
  }
  return batch;
}

std::vector<double> grid(std::size_t h) {
  std::vector<double> omega(h);
  for (std::size_t n = 0; n < h; ++n)
    omega[n] = std::pow(1e6, -static_cast<double>(n) / static_cast<double>(h));
  return omega;
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

void bench(DeviceSweep& device, std::size_t h, std::int64_t window, std::size_t pairs, int repeats) {
  const SweepPlan plan(grid(h), window);
  const CoefficientBatch batch = random_batch(h, pairs, 0.3);
  CoefficientBatch few =
      random_batch(h, 960, 0.3);  // the CPU's cost per pair does not depend on their number
  const struct {
    const char* name;
    SweepRequest request;
  } outputs[] = {{"mean + max + E_2", {true, true, true, false, false, 0.0}},
                 {"mean + max", {true, true, false, false, false, 0.0}},
                 {"E_2", {false, false, true, false, false, 0.0}},
                 {"reversals", {false, false, false, false, true, 0.0}}};
  for (const auto& output : outputs) {
    SweepResult on_device, on_cpu;
    const double device_ns = rope::bench::best_ns(
        repeats, Clock::kWall, [&] { device.sweep(plan, batch, output.request, on_device); });
    const double cpu_ns =
        rope::bench::best_ns(repeats, Clock::kWall, [&] { sweep_cpu(plan, few, output.request, on_cpu); });
    SweepResult again;
    device.sweep(plan, few, output.request, again);
    const double worst = std::max({worst_difference(again.mean_response, on_cpu.mean_response),
                                   worst_difference(again.response_max, on_cpu.response_max),
                                   worst_difference(again.effective_length, on_cpu.effective_length)});
    const double positions = static_cast<double>(pairs) * static_cast<double>(window);
    const double gpu = device_ns / positions, cpu = cpu_ns / (960.0 * static_cast<double>(window));
    std::printf("| %s | %zu | %lld | %.5f | %.4f | %.0f | %.1e |\n", output.name, h,
                static_cast<long long>(window), gpu, cpu, cpu / gpu, worst);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > 1 && !quick) {
    std::fprintf(stderr, "usage: rope_gpu_bench [--quick]\n");
    return 2;
  }
  try {
    const BackendChoice choice = choose_backend("cuda");
    const auto device = make_cuda_sweep(choice.devices);
    std::printf("%zu device(s); CPU: %s, %d threads\n\n", choice.devices.size(), simd_in_use().c_str(),
                omp_get_max_threads());
    std::printf("| output | h | M | GPU ns | CPU ns | CPU / GPU | largest difference |\n");
    std::printf("|---|---|---|---|---|---|---|\n");
    for (const std::size_t h : {32, 64, 128}) {
      for (const std::int64_t window : {8192, 32768, 131072})
        bench(*device, h, window, quick ? 4096 : 32768, quick ? 2 : 5);
    }
  } catch (const DeviceError& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  return 0;
}

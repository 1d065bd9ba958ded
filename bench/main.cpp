// Times the sweep and the window moments on this machine: nanoseconds per pair-distance (best of several),
// the share of the float64 multiply-add peak measured in the same run, and the ratio to a plain double loop
// over sincosf. Usage: rope_bench [--quick] [--threads N]. The NumPy figure comes from numpy_baseline.py.

#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "fma_peak.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/window_moments.hpp"

namespace {

using namespace rope;
using namespace rope::spectral;

template <class Run>
double best_ns(int repeats, Run run) {
  double best = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

std::vector<double> grid(std::size_t h) {
  std::vector<double> omega(h);
  for (std::size_t n = 0; n < h; ++n)
    omega[n] = std::pow(1e6, -static_cast<double>(n) / static_cast<double>(h));
  return omega;
}

CoefficientBatch random_batch(std::size_t h, std::size_t pairs) {
  std::mt19937_64 random(1);
  const auto uniform = [&] {
    return static_cast<double>(static_cast<std::int64_t>(random()) >> 11) * 0x1p-52;
  };
  CoefficientBatch batch;
  batch.reset(h, pairs);
  for (std::size_t n = 0; n < h; ++n) {
    for (std::size_t p = 0; p < pairs; ++p) {
      batch.re[n * batch.stride + p] = uniform();
      batch.im[n * batch.stride + p] = uniform();
    }
  }
  return batch;
}

struct Output {
  const char* name;
  SweepRequest request;
};
constexpr Output kOutputs[] = {
    {"mean + max + E_2", {true, true, true, false, false, 0.0}},
    {"mean", {true, false, false, false, false, 0.0}},
    {"mean + max", {true, true, false, false, false, 0.0}},
    {"E_2", {false, false, true, false, false, 0.0}},
    {"E_2 with softcap", {false, false, true, false, false, 50.0}},
    {"reversals", {false, false, false, false, true, 0.0}},
    {"aliasing", {false, false, false, true, false, 0.0}},
};

/// Mean response by a double loop over distances and frequencies with sincosf: what a first script does.
double plain_loop_ns(const std::vector<double>& omega, const CoefficientBatch& batch, std::int64_t window) {
  volatile float sink = 0;
  return best_ns(2,
                 [&] {
                   float before = 0, sum = 0;
                   for (std::int64_t m = 0; m < window; ++m) {
                     float score = 0;
                     for (std::size_t n = 0; n < omega.size(); ++n) {
                       float s = 0, c = 0;
                       sincosf(static_cast<float>(m) * static_cast<float>(omega[n]), &s, &c);
                       score += static_cast<float>(batch.re[n * batch.stride]) * c -
                                static_cast<float>(batch.im[n * batch.stride]) * s;
                     }
                     if (m > 0) sum += std::fabs(score - before);
                     before = score;
                   }
                   sink = sum;
                 }) /
         static_cast<double>(window);
}

void bench_sweep(int repeats, double peak, int threads) {
  constexpr std::size_t kPairs = 480;
  std::printf("%-18s %4s %7s %9s %9s %9s\n", "sweep", "h", "M", "ns/pos", "of peak", "x sincosf");
  for (const std::size_t h : {32, 64, 128}) {
    const auto omega = grid(h);
    const auto batch = random_batch(h, kPairs);
    for (const std::int64_t window : {8192, 32768}) {
      const SweepPlan plan(omega, window);
      const double plain = plain_loop_ns(omega, batch, window);
      for (const Output& output : kOutputs) {
        if (&output != kOutputs && (h != 64 || window != 8192)) continue;
        SweepResult result;
        const double ns = best_ns(repeats, [&] { sweep_cpu(plan, batch, output.request, result); }) /
                          static_cast<double>(kPairs * static_cast<std::size_t>(window));
        // h multiply-adds per distance: the mirrored form's own count.
        const double share = static_cast<double>(h) / (ns * peak * threads);
        std::printf("%-18s %4zu %7lld %9.3f %8.1f%% %9.0f\n", output.name, h, static_cast<long long>(window),
                    ns, 100 * share, plain / ns);
      }
    }
  }
}

void bench_moments(int repeats) {
  constexpr std::size_t kMargins = 4096;
  std::printf("%-18s %4s %7s %9s %9s %9s\n", "moments", "h", "M", "ns/margin", "build us", "rank");
  for (const std::size_t h : {32, 64, 128}) {
    const auto omega = grid(h);
    const auto batch = random_batch(h, kMargins);
    std::vector<double> mean(kMargins), variance(kMargins);
    for (const std::int64_t window : {8192, 32768}) {
      const double build = best_ns(repeats, [&] { const WindowMoments moments(omega, window); });
      const WindowMoments moments(omega, window);
      const double ns = best_ns(repeats, [&] { moments.evaluate(batch, mean, variance); });
      std::printf("%-18s %4zu %7lld %9.1f %9.0f %9d\n", "mean + variance", h, static_cast<long long>(window),
                  ns / static_cast<double>(kMargins), build / 1000, moments.rank());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 7, threads = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      repeats = 2;
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      threads = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: rope_bench [--quick] [--threads N]\n");
      return 2;
    }
  }
  omp_set_num_threads(threads);
  const double peak = bench::fma_peak_float64();
  std::printf("SIMD %s, threads %d, multiply-add peak per thread: float64 %.1f G/s, float32 %.1f G/s\n",
              simd_in_use().c_str(), threads, peak, bench::fma_peak_float32());
  bench_sweep(repeats, peak, threads);
  bench_moments(repeats);
  return 0;
}

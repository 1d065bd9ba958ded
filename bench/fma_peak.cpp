#include "fma_peak.hpp"

#include <algorithm>
#include <cstddef>

#include "spectral/simd_targets.hpp"
#include "timing.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kChains = 12;

/// Runs `rounds` of kChains independent multiply-adds; returns lanes per vector.
template <class T>
HWY_NOINLINE std::size_t Chains(std::size_t rounds, T* result) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = hn::Set(d, static_cast<T>(c));
  const auto factor = hn::Set(d, static_cast<T>(0.999)), add = hn::Set(d, static_cast<T>(0.001));
  for (std::size_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) x[c] = hn::MulAdd(x[c], factor, add);
  }
  for (int c = 1; c < kChains; ++c) x[0] = hn::Add(x[0], x[c]);
  *result = hn::GetLane(x[0]);
  return hn::Lanes(d);
}

std::size_t Doubles(std::size_t rounds, double* result) { return Chains<double>(rounds, result); }
std::size_t Floats(std::size_t rounds, float* result) { return Chains<float>(rounds, result); }

}  // namespace HWY_NAMESPACE
}  // namespace rope::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::bench {
namespace {

HWY_EXPORT(Doubles);
HWY_EXPORT(Floats);

template <class Run>
double best_rate(Run run) {
  constexpr std::size_t kRounds = 2'000'000;
  double best = 0;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const double start = now_ns(Clock::kProcessor);
    const std::size_t lanes = run(kRounds);
    const double time = now_ns(Clock::kProcessor) - start;
    best = std::max(best, static_cast<double>(kRounds * 12 * lanes) / time);
  }
  return best;
}

}  // namespace

double fma_peak_float64() {
  volatile double sink = 0;
  return best_rate([&](std::size_t rounds) {
    double result = 0;
    const std::size_t lanes = HWY_DYNAMIC_DISPATCH(Doubles)(rounds, &result);
    sink = result;
    return lanes;
  });
}

double fma_peak_float32() {
  volatile float sink = 0;
  return best_rate([&](std::size_t rounds) {
    float result = 0;
    const std::size_t lanes = HWY_DYNAMIC_DISPATCH(Floats)(rounds, &result);
    sink = result;
    return lanes;
  });
}

}  // namespace rope::bench
#endif  // HWY_ONCE

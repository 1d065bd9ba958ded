#include "spectral/frozen_pairs.hpp"

#include <algorithm>
#include <span>

#include "spectral/mirrored_sweep.hpp"

namespace rope::spectral {
namespace {

constexpr std::size_t kBlockLanes = 1024;

// Copies of lanes [first, first + count) of a batch: as they are, then with pair 0 frozen, with pair 1, ...
// A frozen pair leaves the turning part and adds its score at distance 0 to the constant.
void make_copies(const CoefficientBatch& batch, std::size_t first, std::size_t count,
                 CoefficientBatch& copies) {
  const std::size_t h = batch.n_freq;
  copies.reset(h, (h + 1) * count);
  for (std::size_t copy = 0; copy <= h; ++copy) {
    const auto to = [&](AlignedVector& values, std::size_t row) {
      return values.data() + row * copies.stride + copy * count;
    };
    for (std::size_t n = 0; n < h; ++n) {
      if (copy == n + 1) continue;
      std::copy_n(batch.re.data() + n * batch.stride + first, count, to(copies.re, n));
      std::copy_n(batch.im.data() + n * batch.stride + first, count, to(copies.im, n));
    }
    std::copy_n(batch.constant.data() + first, count, to(copies.constant, 0));
    if (copy == 0) continue;
    const double* frozen = batch.re.data() + (copy - 1) * batch.stride + first;
    for (std::size_t lane = 0; lane < count; ++lane) to(copies.constant, 0)[lane] += frozen[lane];
  }
}

// Copy by copy to their places.
void put(std::span<const double> copies, std::size_t first, std::size_t count, std::vector<double>& whole,
         std::vector<double>& frozen) {
  const std::size_t lanes = whole.size(), h = frozen.size() / lanes;
  std::copy_n(copies.data(), count, whole.data() + first);
  for (std::size_t n = 0; n < h; ++n)
    std::copy_n(copies.data() + (n + 1) * count, count, frozen.data() + n * lanes + first);
}

}  // namespace

FrozenPairs freeze_each_pair(const SweepPlan& plan, const WindowMoments& moments,
                             const CoefficientBatch& batch, double softcap) {
  const std::size_t h = batch.n_freq, lanes = batch.n_pairs;
  FrozenPairs result;
  for (auto* values : {&result.effective_length, &result.variance}) values->resize(lanes);
  for (auto* values : {&result.frozen_effective_length, &result.frozen_variance}) values->resize(h * lanes);
  SweepRequest request;
  request.effective_length = true;
  request.softcap = softcap;
  const std::size_t block = std::max<std::size_t>(1, kBlockLanes / (h + 1));
  CoefficientBatch copies;
  SweepResult swept;
  std::vector<double> mean, variance;
  for (std::size_t first = 0; first < lanes; first += block) {
    const std::size_t count = std::min(block, lanes - first);
    make_copies(batch, first, count, copies);
    mirrored_sweep(plan, copies, request, swept);
    mean.resize(copies.n_pairs);
    variance.resize(copies.n_pairs);
    moments.evaluate(copies, mean, variance);
    put(swept.effective_length, first, count, result.effective_length, result.frozen_effective_length);
    put(variance, first, count, result.variance, result.frozen_variance);
  }
  return result;
}

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spectral/adjacent_sweep.hpp"

namespace rope::bench {

/// What a first script does for one pair: a double loop over distances and frequencies with sincosf, then
/// mean and largest step and E_2. Compiled with -O2; results: mean, max, E_2 (0 where not asked for).
struct PairResult {
  double mean = 0, max = 0, effective_length = 0;
};
PairResult plain_loop(std::span<const float> omega, std::span<const float> re, std::span<const float> im,
                      std::int64_t window, const spectral::SweepRequest& request);

/// All scores of many pairs by one matrix product of OpenBLAS in float32, kept whole in memory, then
/// vectorised passes over them. One thread.
class GemmPasses {
 public:
  /// Builds the table [2h, window]: not timed, as the plan of the sweep is not.
  GemmPasses(std::span<const double> omega, std::int64_t window, const spectral::CoefficientBatch& batch,
             std::size_t pairs);
  /// One run over the pairs.
  void run(const spectral::SweepRequest& request);
  const std::vector<PairResult>& results() const { return results_; }
  std::size_t pairs() const { return pairs_; }

  static bool available();
  /// Library, version and kernel in use.
  static std::string description();

 private:
  std::size_t h_, window_, pairs_;
  std::vector<float> table_, z_, scores_;
  std::vector<PairResult> results_;
};

}  // namespace rope::bench

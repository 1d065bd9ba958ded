#pragma once

#include <cstddef>
#include <cstdint>

#include "spectral/adjacent_sweep_plan.hpp"

namespace rope::spectral {

/// Registers side by side in one group of lanes: with 4 offsets they give 12 accumulators, which fit the 16
/// registers of AVX2 and are enough independent chains for AVX-512.
inline constexpr std::size_t kGroupVectors = 3;

/// Input, output and scratch of one group of lanes. All pointers start at the group's first lane; outputs may
/// be null where they are not asked for.
struct SweepGroup {
  const double *re = nullptr, *im = nullptr, *constant = nullptr;
  std::size_t stride = 0;                           ///< of re and im, between frequencies
  double *mean = nullptr, *max = nullptr;           ///< sums of |difference| / (M-1); largest difference
  double *effective = nullptr, *aliased = nullptr;  ///< E_2; share of equal bf16 neighbours
  double* negative = nullptr;                       ///< count of S < 0, a whole number
  double softcap = 0.0;
  double* scratch = nullptr;  ///< sweep_scratch_size() doubles
};

/// S(distance) + c_0 of one lane by plain summation in index order, float64, libm.
double direct_score(const SweepPlan::Impl& plan, const SweepGroup& group, std::size_t lane, double distance);

/// Doubles of scratch that one thread needs.
std::size_t sweep_scratch_size(const SweepPlan::Impl& plan);

/// Lanes of one vector on the SIMD target in use.
std::size_t simd_lanes();

/// Sweeps `vectors` (1 ... kGroupVectors) vectors of lanes.
void sweep_group(const SweepPlan::Impl& plan, const SweepGroup& group, std::size_t vectors);

}  // namespace rope::spectral

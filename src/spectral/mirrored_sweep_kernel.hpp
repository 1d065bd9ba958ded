#pragma once

#include <cstddef>
#include <cstdint>

#include "spectral/mirrored_plan.hpp"

namespace rope::spectral {

/// Registers side by side in one group of lanes: with 4 offsets they give 12 accumulators, which fit the 16
/// registers of AVX2 and are enough independent chains for AVX-512.
inline constexpr std::size_t kGroupVectors = 3;

/// Input, output and scratch of one group of lanes. All pointers start at the group's first lane; outputs may
/// be null where they are not asked for.
struct MirroredGroup {
  const double *re = nullptr, *im = nullptr, *constant = nullptr;
  std::size_t stride = 0;                             ///< of re and im, between frequencies
  double *mean = nullptr, *max = nullptr;             ///< sums of |difference| / (M-1); largest difference
  double* effective = nullptr;                        ///< E_2
  double *aliased = nullptr, *aliased_f16 = nullptr;  ///< shares of neighbours equal in bfloat16, float16
  double* negative = nullptr;                         ///< count of S < 0, a whole number
  double softcap = 0.0;
  double origin = 0.0;        ///< the window is origin, origin + 1, ...; whole
  double* scores = nullptr;   ///< [window][vectors * simd_lanes()] every S, without c_0
  double* scratch = nullptr;  ///< mirrored_scratch_size() doubles
};

/// Doubles of scratch that one thread needs.
std::size_t mirrored_scratch_size(const MirroredPlan& plan);

/// S(distance) + c_0 of one lane by plain summation in index order, float64, libm. re and im point at the
/// lane.
double direct_score(std::span<const double> omega, const double* re, const double* im, std::size_t stride,
                    double constant, double distance);

/// Lanes of one float64 vector on the SIMD target in use.
std::size_t simd_lanes();

/// Bound on how far S of a lane may be from real arithmetic, in `scores` (and in direct_score without a
/// constant), with a margin of two.
double score_error_bound(std::span<const double> omega, const double* re, const double* im,
                         std::size_t stride);

/// Sweeps `vectors` (1 ... kGroupVectors) vectors of lanes.
void mirrored_group(const MirroredWindow& window, const MirroredGroup& group, std::size_t vectors);

}  // namespace rope::spectral

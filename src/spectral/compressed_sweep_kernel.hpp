#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

#include "spectral/compressed_plan.hpp"

namespace rope::spectral {

/// Most vectors of float32 lanes that one group holds.
inline constexpr std::size_t kMostCompressedVectors = 2;

/// What decides how a lane can be computed. Sums run over n; |z| stands for |Re z| + |Im z|.
struct LaneFacts {
  double largest = 0;  ///< max of |Re z_n|, |Im z_n|
  double total = 0;    ///< sum |z_n|; not finite where the lane is not
  double inner =
      0;  ///< sum |z_n| min(1, kInnerHalf omega_n): bound on E and O, so on the rounding of differences
  double outer = 0;       ///< sum |z_n| min(1, kOuterHalf omega_n): the same for S itself
  double outer_norm = 0;  ///< sqrt(sum |z_n|^2 min(1, kOuterHalf omega_n)^2), |.| the modulus
  double at_zero = 0;     ///< S(0), without c_0
};

/// Powers of two between which 2^logit is right in the kernels; the squares of the highest have room for a
/// block's sum. Squares of the lowest vanish: they count for nothing beside that of the largest logit.
inline constexpr int kLowestLogit = 114, kHighestLogit = 62;

/// Where a lane's softmax starts: logits are taken relative to a power of two 2^(log2 e^{S(0)} + raise).
/// `fits`: no logit can then leave the kernels' range, or make sums so large that the offset must be raised.
struct LogitRange {
  int raise = 0;
  bool fits = false;
};
inline LogitRange logit_range(const LaneFacts& facts) {
  constexpr int kRoom = 45;        // 2^(2 * 46) times a block's terms: no raise
  constexpr int kMostRaised = 40;  // the square of 2^-40 holds
  const double above = (facts.total - facts.at_zero) * std::numbers::log2e,
               below = (facts.total + facts.at_zero) * std::numbers::log2e;
  LogitRange range;
  if (!(above < kRoom + kMostRaised)) return range;
  range.raise = above > kRoom ? static_cast<int>(above - kRoom) + 1 : 0;
  range.fits = below + range.raise < kLowestLogit - 2;
  if (!range.fits) range.raise = 0;
  return range;
}

/// Input, output and scratch of one group of lanes of the compressed sweep. Pointers start at the group's
/// first lane; outputs may be null where they are not asked for.
struct CompressedGroup {
  const double *re = nullptr, *im = nullptr, *constant = nullptr;
  std::size_t stride = 0;            ///< of re and im, between frequencies
  std::span<const double> omega;     ///< in the caller's order, for scores in doubt
  const double* scale = nullptr;     ///< power of two per lane that brings its coefficients into range
  const LaneFacts* facts = nullptr;  ///< per lane
  const double* phases = nullptr;    ///< outer_phases of the first known_phases outer blocks
  std::int64_t known_phases = 0;     ///< a multiple of kOuterReseed, or all
  double* mean = nullptr;            ///< sum |S(m+1) - S(m)| / (M-1); with `values` sum |S(m)| / M
  double* max = nullptr;             ///< largest |S(m+1) - S(m)|; with `values` largest |S(m)|
  double* effective = nullptr;       ///< E_2
  double* negative = nullptr;        ///< count of S + c_0 < 0, a whole number
  std::span<const double> scales;    ///< logit scales for `scaled`
  double* scaled = nullptr;          ///< E_2 of scales[i] S at i * scaled_stride
  std::size_t scaled_stride = 0;
  bool values = false;        ///< mean and max of |S| in place of its differences; no other output then
  bool wide = false;          ///< some lane's logit_range() does not fit
  double* scratch = nullptr;  ///< compressed_scratch_size() doubles, aligned to 64 bytes
};

/// Outer blocks between two fresh computations of their phases from float64 angles.
inline constexpr std::int64_t kOuterReseed = 16;

/// One outer block of a window with `steps` differences: distances start ... end, the centre a whole number
/// of inner blocks from the start.
struct OuterSpan {
  std::int64_t start = 0, centre = 0, end = 0;
};
std::int64_t outer_blocks(std::int64_t steps);
OuterSpan outer_span(std::int64_t steps, std::int64_t index);

/// Phases e^{i C omega}, [n_freq][cos, sin], of outer block `index`: made anew every kOuterReseed blocks and
/// where the window's end moves the centre, else turned from those of the block before, which `phase` holds.
void outer_phases(const CompressedPlan& plan, std::int64_t steps, std::int64_t index, double* phase);

/// Doubles of scratch that one thread needs.
std::size_t compressed_scratch_size(const CompressedPlan& plan, std::size_t scales);

/// Lanes of a whole group on the SIMD target in use; a multiple of it may be no multiple of kLaneAlign.
std::size_t compressed_group_lanes();

/// Facts of `lanes` lanes (a multiple of what one vector holds is read).
void compressed_lane_facts(const CompressedPlan& plan, const double* re, const double* im, std::size_t stride,
                           std::size_t lanes, LaneFacts* facts);

/// Sweeps compressed_group_lanes() lanes over distances 0 ... window - 1, window >= 2.
void compressed_group(const CompressedPlan& plan, std::int64_t window, const CompressedGroup& group);

}  // namespace rope::spectral

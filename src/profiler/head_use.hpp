#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "profiler/cache_run.hpp"

namespace rope {

/// What is measured of the heads' frequency use.
struct HeadUseOptions {
  bool norms = false;  ///< the mean of c ||q|| ||k||, too
  /// Pairs of a head and example whose frequencies are frozen one by one, spread evenly over its pairs: 0
  /// none, kAllPairs all. A frozen frequency costs a float64 sweep over the window.
  std::int64_t frozen_pairs = 16;
  static constexpr std::int64_t kAllPairs = std::int64_t{1} << 62;
  std::function<void(std::int64_t examples)> progress;  ///< called as examples are done
};

/// How one head uses its frequencies (theory §12; A 3, 4.3, 10). Every value is taken per example, then
/// averaged over the examples of a task that have it, then over tasks; NaN where none has.
struct HeadUse {
  int layer = 0, head = 0;
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double usage_cov = kNone,
         usage_centroid = kNone;  ///< of |Re(z_n e^{i m omega_n})| at the pair's own distance
  double usage_norm_cov = kNone, usage_norm_centroid = kNone;  ///< of |z_n|
  double frequency_mass = kNone;                               ///< radians per token
  double amplitude = kNone;                                    ///< A* = sum |z_n|, mean over pairs
  double norm_product = kNone;    ///< c A_q A_k ||q|| ||k||, mean over pairs; where asked for
  double window = kNone;          ///< M of the layer
  double effective_base = kNone;  ///< Theta of `omega`
  double effective_length = kNone,
         logit_variance = kNone;  ///< E_2 and variance over the window, of the frozen pairs

  /// [h] by pair of the layout; omega of the longest example, 0 = does not turn. The others are NaN there.
  std::vector<double> omega, usage, usage_norm;
  /// E_2 and variance with that frequency frozen, less those without.
  std::vector<double> length_change, variance_change;

  double max_omega() const;
};

/// One pass over all vectors; heads in layer-major order, those of run.heads().
std::vector<HeadUse> measure_use(const CacheRun& run, const HeadUseOptions& options);

/// The k-th of the `count` pairs that are frozen of `pairs`, count <= pairs: the middle of the k-th of equal
/// stretches.
std::int64_t spread_pair(std::int64_t k, std::int64_t pairs, std::int64_t count);

}  // namespace rope

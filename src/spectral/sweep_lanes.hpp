#pragma once

#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/compressed_sweep_kernel.hpp"

namespace rope::spectral {

/// Which lanes of a batch the float32 sweep can be trusted with, before and after it ran. A backend runs the
/// compressed sweep on all lanes with `scale`, stores what it found in a SweepResult, and lets `finish` mend
/// the rest in float64. Every decision looks at one lane alone.
class SweepLanes {
 public:
  SweepLanes(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request);

  /// Whether float32 blocks pay at all; if not, `finish` alone does everything.
  bool use_float32() const { return use_float32_; }
  /// What of the request the float32 sweep has to give.
  const SweepRequest& float32_request() const { return float32_; }

  /// Per lane, padded: power of two that brings its coefficients into float32's range; 0 for lanes that
  /// `finish` computes altogether.
  std::vector<double> scale;
  std::vector<LaneFacts> facts;  ///< per lane, padded
  /// Whether a lane's logits may spread over more than 60 powers of two.
  bool wide(std::size_t lane) const;

  /// Fills in or replaces what the float32 sweep may not have right to 1e-5.
  void finish(SweepResult& result) const;

 private:
  bool float32_length(std::size_t lane, double logit_scale) const;
  /// A lane whose mean or largest difference rounding may have spoiled.
  struct WeakLane {
    std::size_t lane;
    bool mean, max;
  };
  void finish_differences(const std::vector<WeakLane>& weak, SweepResult& result) const;
  void finish_lengths(SweepResult& result) const;
  void finish_special(SweepResult& result) const;

  const SweepPlan* plan_;
  const CoefficientBatch* batch_;
  SweepRequest request_, float32_;
  bool use_float32_ = false;
};

/// Runs the compressed CPU kernel on every lane of a batch; OpenMP over groups. With `values`: mean and max
/// of |S| over `window` distances instead of its differences.
void compressed_sweep(const SweepBasis& basis, std::int64_t window, const CoefficientBatch& batch,
                      const SweepRequest& request, const SweepLanes& lanes, bool values, SweepResult& result);

}  // namespace rope::spectral

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// What one pass over S(m), m = 0 ... window-1, is asked for. Only what is asked is computed.
struct SweepRequest {
  bool mean_response = false;          ///< 1/(M-1) sum |S(m+1) - S(m)|, not divided by U      (theory §4)
  bool response_max = false;           ///< max_m |S(m+1) - S(m)|, not divided by U              (theory §4)
  bool effective_length = false;       ///< E_2 of softmax S(0..M-1)                             (theory §12)
  bool aliasing = false;               ///< shares of adjacent scores equal in bfloat16, float16 (theory §11)
  bool reversals = false;              ///< #{m : S(m) < 0}, exact as float64 direct summation   (theory §3)
  double softcap = 0.0;                ///< > 0: E_2 of cap * tanh(S / cap) instead of S
  std::vector<double> logit_scales{};  ///< lambda > 0: E_2 of softmax lambda S as well; not with a softcap
};

/// One value per pair for each thing asked for, empty otherwise.
struct SweepResult {
  std::vector<double> mean_response, response_max, effective_length, aliasing, aliasing_f16;
  std::vector<std::int64_t> reversals;
  std::vector<std::vector<double>> scaled_length;  ///< [logit_scales] E_2 of each
};

/// What a sweep needs to know of a grid, for all windows: tables of the backends, each made on first use
/// (about 10 ms at h = 64) and then read by any number of threads.
class SweepBasis {
 public:
  /// omega: > 0, <= pi, radians per token, any order and spacing, h from 1 to 512.
  explicit SweepBasis(std::span<const double> omega);
  ~SweepBasis();

  std::span<const double> omega() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// A grid at one window; costs nothing beside its basis. Shared by threads and backends.
class SweepPlan {
 public:
  /// window: 2 ... 2^24.
  SweepPlan(std::shared_ptr<const SweepBasis> basis, std::int64_t window);
  /// With a basis of its own.
  SweepPlan(std::span<const double> omega, std::int64_t window);

  std::span<const double> omega() const { return basis_->omega(); }
  std::int64_t window() const { return window_; }
  const SweepBasis& basis() const { return *basis_; }

 private:
  std::shared_ptr<const SweepBasis> basis_;
  std::int64_t window_;
};

/// CPU backend. OpenMP over groups of pairs; a pair's result depends neither on the number of threads nor on
/// its neighbours in the batch. Every output is within 1e-5 of float64 summation, relatively, and counts are
/// equal to it: float32 blocks where their rounding is known to be small enough for the pair at hand, float64
/// ones elsewhere (src/spectral/README.md). window = 1 is not a sweep: the caller treats it as undefined.
void sweep_cpu(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
               SweepResult& result);

/// Name of the instruction set in use ("AVX3", "AVX2", "SSE4", "NEON", ...), and all that this machine could
/// use.
std::string simd_in_use();
std::vector<std::string> simd_available();

}  // namespace rope::spectral

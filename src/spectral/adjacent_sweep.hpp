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
  bool mean_response = false;     ///< 1/(M-1) sum |S(m+1) - S(m)|, not divided by U      (theory §4)
  bool response_max = false;      ///< max_m |S(m+1) - S(m)|, not divided by U              (theory §4)
  bool effective_length = false;  ///< E_2 of softmax S(0..M-1)                             (theory §12)
  bool aliasing = false;          ///< share of adjacent scores equal in bfloat16           (theory §11)
  bool reversals = false;         ///< #{m : S(m) < 0}, exact as float64 direct summation   (theory §3)
  double softcap = 0.0;           ///< > 0: E_2 of cap * tanh(S / cap) instead of S
};

/// One value per pair for each thing asked for, empty otherwise.
struct SweepResult {
  std::vector<double> mean_response, response_max, effective_length, aliasing;
  std::vector<std::int64_t> reversals;
};

/// Everything about a (grid, window) that does not depend on the pairs; made once, shared by threads and
/// backends.
class SweepPlan {
 public:
  /// omega: > 0, <= pi, radians per token, any order and spacing, h from 1 to 512. window: 2 ... 2^24.
  SweepPlan(std::span<const double> omega, std::int64_t window);
  ~SweepPlan();
  SweepPlan(SweepPlan&&) noexcept;
  SweepPlan& operator=(SweepPlan&&) noexcept;

  std::span<const double> omega() const;
  std::int64_t window() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// CPU backend. OpenMP over groups of pairs; float64; a pair's result depends neither on the number of
/// threads nor on its neighbours in the batch. window = 1 is not a sweep: the caller treats it as undefined.
void sweep_cpu(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
               SweepResult& result);

/// Name of the instruction set in use ("AVX3", "AVX2", "SSE4", "NEON", ...), and all that this machine could
/// use.
std::string simd_in_use();
std::vector<std::string> simd_available();

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// max_m |S(m+1) - S(m)| over m = 0 ... window-2 by plain summation in float64 of the Fourier series of the
/// differences (theory §§4, 8),
///
///   S(m+1) - S(m) = -sum_n gamma_n Im(z_n e^{i (m + 1/2) omega_n}),   gamma_n = 2 sin(omega_n / 2)
///
/// for the few lanes that the fast sweep cannot decide: it is right to (h + 12) 2^-53 sum_n gamma_n |z_n|,
/// which response_envelope.hpp derives. Costs about window * h * 1 ns a lane.
class ExactResponse {
 public:
  /// omega in (0, pi]; window 2 ... 2^24.
  ExactResponse(std::span<const double> omega, std::int64_t window);

  /// Of `lanes` of the batch, in their order. A lane's result depends on that lane alone. Not divided by U.
  std::vector<double> largest(const CoefficientBatch& batch, std::span<const std::size_t> lanes) const;

 private:
  static constexpr std::size_t kBlock = 128;  // distances that share the phases of their first one
  static constexpr std::size_t kLanes = 8;    // summed side by side

  void largest_of(const CoefficientBatch& batch, std::span<const std::size_t> lanes, double* result) const;

  std::vector<double> omega_, factors_;
  std::int64_t window_;
  std::vector<double> table_;  // [kBlock][h] of (sin, cos) of (t + 1/2) omega_n
};

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/pair_coefficients.hpp"

namespace rope::spectral {

/// sigma / mu over the pairs, population form; 0 = all pairs used alike. NaN where the sum is 0 (theory §12;
/// A §3).
double usage_variation(std::span<const double> usage);

/// sum u_n ln omega_n / sum u_n. NaN where the sum is 0 (theory §12).
double usage_centroid(std::span<const double> usage, std::span<const double> omega);

/// e^{i m omega_n} of many distances on one grid. The heads of a layer share their distances, so one table
/// serves them all.
struct PhaseTable {
  std::size_t n_freq = 0, n_pairs = 0, stride = 0;
  std::vector<double> cos, sin;  ///< [n_freq * stride]
};

/// distances: m of each pair, p_q - p_k. omega: radians per token.
PhaseTable make_phase_table(std::span<const double> omega, std::span<const std::int64_t> distances);

/// Adds |Re(z_n e^{i m omega_n})| to usage[n] and |z_n| to usage_norm[n] for lanes first_lane ... first_lane
/// + phases.n_pairs - 1 of the batch, in lane order, those with valid[i] != 0 only (theory §12). usage,
/// usage_norm: [n_freq]; divide by the number of valid lanes for the means.
void accumulate_usage(const CoefficientBatch& batch, std::size_t first_lane, const PhaseTable& phases,
                      std::span<const char> valid, std::span<double> usage, std::span<double> usage_norm);

/// Frequency mass of each lane: sum_n a_n omega_n, a_n = |z_n| / sum |z| (theory §12; A 10). mass: [n_pairs];
/// NaN where z = 0.
void frequency_mass(const CoefficientBatch& batch, std::span<const double> omega, std::span<double> mass);

}  // namespace rope::spectral

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectral/vector_columns.hpp"

namespace rope::spectral {

/// A run of lanes that share their query: query q of `query` against columns first_key ... first_key + count
/// - 1 of `key`, into lanes first_lane ... of a batch and places first_place ... of the arrays of measures.
/// The queries hold c A_q A_k on their rotary and still
/// rows and c on their tail already, so every product below is a score's.
struct PairRun {
  const VectorColumns* query = nullptr;
  const VectorColumns* key = nullptr;
  std::size_t q = 0, first_key = 0, count = 0, first_lane = 0, first_place = 0;
};

/// Sums over lanes that are kept as vectors between runs: lane j of a run goes to place j mod the SIMD width,
/// so a sum depends on the runs and their order alone.
class UsageSums {
 public:
  void clear(std::size_t n_freq);
  /// Adds the totals: usage[n] and usage_norm[n].
  void fold(double* usage, double* usage_norm) const;
  double* seen(std::size_t n) { return seen_.data() + n * kLaneAlign; }
  double* modulus(std::size_t n) { return modulus_.data() + n * kLaneAlign; }

 private:
  std::size_t n_freq_ = 0;
  std::vector<double> seen_, modulus_;  // [n_freq][kLaneAlign]
};

/// What measure_pairs computes of its lanes besides their coefficients.
struct PairMeasures {
  const double* subset = nullptr;  ///< [n_freq] 1 for the pairs of J, 0 for the others
  double largest = 0;              ///< lanes with U or |c_0| above it are not valid
  double* norm = nullptr;          ///< U(z); 0 for lanes that are not valid
  double* subset_norm = nullptr;   ///< U_J(z)

  /// Usage (theory §12), where turned vectors are given: columns as in the run, turned by e^{i p omega}.
  const VectorColumns *turned_query = nullptr, *turned_key = nullptr;
  const double* omega = nullptr;  ///< [n_freq]
  UsageSums* usage = nullptr;     ///< |Re(z_n e^{i m omega_n})| and |z_n| over the valid lanes
  double* mass = nullptr;         ///< frequency mass; of no meaning for lanes that are not valid

  std::size_t undefined = 0, non_finite = 0;  ///< counts of lanes that are not valid, added to
};

/// z and c_0 of a run into `batch`, and the measures. Lanes that are not valid (not finite, too large or U =
/// 0) become zero lanes. No lane outside the run is read or written. A lane's bytes depend on its two vectors
/// and the SIMD target alone. U, U_J, |z_n| and the mass are scaled by a power of two where squares could
/// leave the range of float64, as in pair_norms.
void measure_pairs(const PairRun& run, PairMeasures& measures, CoefficientBatch& batch);

/// z and c_0 alone.
void multiply_pairs(const PairRun& run, CoefficientBatch& batch);

/// Margins of a run of triplets: here the run's `key` columns are differences k_1 - k_2 of the key pairs.
struct MarginMeasures {
  const VectorColumns* rounding = nullptr;  ///< columns as `key`: u_q^2 (k_1 - k_2)^2 + u_k^2 (k_1^2 + k_2^2)
  double* value = nullptr;                  ///< Re sum d_n
  double* bound = nullptr;                  ///< sum (|Re d_n| + |Im d_n|) >= sum |d_n|
  double* deviation = nullptr;              ///< sum over the rows of q^2 * rounding
};

/// d of a run into `batch`, and the measures; constants are left alone.
void measure_margins(const PairRun& run, const MarginMeasures& measures, CoefficientBatch& batch);

/// sum |d_n| of one lane, whatever its range.
double lane_magnitude(const CoefficientBatch& batch, std::size_t lane);

/// Multiplies every lane by its sign: 1, -1, or 0 for a lane that becomes zero whatever it holds. sign:
/// [stride], 0 beyond n_pairs.
void orient_lanes(CoefficientBatch& batch, std::span<const double> sign);

/// c_0 of the run's lanes to constant[0 ... count).
void pair_constants(const PairRun& run, double* constant);

}  // namespace rope::spectral

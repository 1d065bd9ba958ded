#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectral/vector_columns.hpp"

namespace rope::spectral {

/// A run of lanes: queries q ... q + queries - 1 of `query`, each against columns first_key ... first_key +
/// count - 1 of `key`, query by query into lanes first_lane ... of a batch and places first_place ... of the
/// arrays of measures. The queries hold c A_q A_k on their rotary and still rows and c on their tail already,
/// so every product below is a score's.
struct PairRun {
  const VectorColumns* query = nullptr;
  const VectorColumns* key = nullptr;
  std::size_t q = 0, first_key = 0, count = 0, first_lane = 0, first_place = 0, queries = 1;

  std::size_t lanes() const { return queries * count; }
};
/// Queries that a run of measure_pairs or measure_margins has at most.
inline constexpr std::size_t kMostRunQueries = 4;

/// Sums over lanes that are kept as vectors between runs: lane j of a run goes to place j mod the SIMD width,
/// so a sum depends on the runs and their order alone.
class UsageSums {
 public:
  void clear(std::size_t n_freq);
  /// Adds the totals: usage[n] and usage_norm[n].
  void fold(double* usage, double* usage_norm) const;
  static constexpr std::size_t kLanes = 8;  ///< of the widest vectors
  double* seen(std::size_t n) { return seen_.data() + n * kLanes; }
  double* modulus(std::size_t n) { return modulus_.data() + n * kLanes; }

 private:
  std::size_t n_freq_ = 0;
  AlignedVector seen_, modulus_;  // [n_freq][kLanes]
};

/// What measure_pairs computes of its lanes besides their coefficients.
struct PairMeasures {
  const ColumnModuli *query = nullptr, *key = nullptr;  ///< of the run's columns
  const double* subset = nullptr;                       ///< [n_freq] 1 for the pairs of J, 0 for the others
  double largest = 0;                                   ///< lanes with U or |c_0| above it are not valid
  double* norm = nullptr;                               ///< U(z); 0 for lanes that are not valid
  double* subset_norm = nullptr;                        ///< U_J(z)

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

/// Margins d of a run of triplets into `batch`: here the run's `key` columns are differences k_1 - k_2 of the
/// key pairs. value: [places] Re sum d_n. Constants are left alone.
void measure_margins(const PairRun& run, double* value, CoefficientBatch& batch);

/// sum |d_n| of one lane, whatever its range.
double lane_magnitude(const CoefficientBatch& batch, std::size_t lane);

/// Multiplies every lane by its sign: 1, -1, or 0 for a lane that becomes zero whatever it holds. sign:
/// [stride], 0 beyond n_pairs.
void orient_lanes(CoefficientBatch& batch, std::span<const double> sign);

/// c_0 of the run's lanes to constant[0 ... count).
void pair_constants(const PairRun& run, double* constant);

}  // namespace rope::spectral

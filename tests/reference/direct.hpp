#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "reference/direct_sums.hpp"

namespace rope::reference {

/// Query or key vectors of one head in one example, as a cache stores them (already as float64).
struct StoredSide {
  std::vector<std::vector<double>> rows;  ///< [slots][head_dim]
  std::vector<std::int64_t> position;     ///< [slots], -1 = unused
  bool post = false;                      ///< stored after the rotation
  double rounding_unit = 0x1p-53;         ///< u of the stored element type (theory §3)
};

/// One (example, head): all that theory.md needs, spelled out; nothing is taken from the product's code.
struct HeadInput {
  StoredSide query, key;
  bool interleaved = false;          ///< pair n = lanes (2n, 2n+1), else (n, n+h)
  std::vector<double> omega;         ///< [h], zeros allowed: pairs that do not rotate
  bool reversed = false;             ///< angles negated
  double attention_factor = 1.0;     ///< A, acts on pre sides
  double softmax_scale = 1.0;        ///< c
  std::vector<double> query_factor;  ///< [query slots] further factor of c (query temperature); empty = 1
  double softcap = 0.0;
  std::int64_t window = 2;                                    ///< M of the layer
  std::vector<char> high;                                     ///< [h] membership in H(M)
  std::int64_t near_far_m = 0;                                ///< M of the near-far order; 0: not asked
  double barrier = std::numeric_limits<double>::quiet_NaN();  ///< S_0; NaN: not asked
  /// A change (theory §7), [h] each; empty = none: pairs whose frequency becomes 0 once the rows are content,
  /// and factors of z_n.
  std::vector<char> frozen;
  std::vector<double> factor;
  bool causal = false;           ///< full coverage: combinations with p_k > p_q are skipped
  bool default_triplets = true;  ///< keys two by two; else key_pairs
  std::vector<std::pair<int, int>> key_pairs;
};

/// Every score of one (example, head); NaN where nothing is valid. Names as in src/profiler/profile_file.hpp.
struct HeadResult {
  double semantic, exact_semantic, reversal_gap;
  double positional, response_max, norm_share, effective_length, aliasing, frequency_mass;
  double aliasing_f16, near_far, near_far_gaussian, barrier, barrier_gaussian, barrier_limit;  ///< theory §11
  double near_far_doubtful, barrier_doubtful;  ///< how far rounding may move the exact ones
  double logit_spread;                         ///< sd of S(m), mean over pairs
  double positional_fixed_norm;                ///< Positional Score over U of the unchanged head (theory §7)
  double usage_cov, usage_centroid, usage_norm_cov, usage_norm_centroid;
  std::vector<double> usage, usage_norm;  ///< [h], NaN for pairs that do not rotate
  std::int64_t triplets = 0, ties = 0, undefined_triplets = 0, non_finite_triplets = 0, fragile = 0;
  std::int64_t pairs = 0, undefined_pairs = 0, non_finite_pairs = 0, high_pairs = 0;
};

/// Slow: (pairs + triplets) * window * h terms in long double.
HeadResult score_head(const HeadInput& input);

/// z and c_0 of query slot i and key slot j, changed where the input says so; z = 0 for pairs that do not
/// turn.
Vector pair_vector(const HeadInput& input, std::size_t i, std::size_t j);

}  // namespace rope::reference

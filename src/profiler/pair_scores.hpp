#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "profiler/head_vectors.hpp"
#include "profiler/part_slots.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/frequency_use.hpp"
#include "spectral/pair_coefficients.hpp"

namespace rope {

/// Pairs of a head in fixed blocks, as triplets are.
inline constexpr std::int64_t kPairBlock = 1024;

/// What a block of pairs adds to a head's scores (theory §§4, 5, 12). Sums run over its valid pairs.
struct PairSums {
  std::int64_t pairs = 0, undefined = 0, non_finite = 0, valid = 0;
  double norm_share = 0, frequency_mass = 0;
  double positional = 0, response_max = 0, effective_length = 0, aliasing = 0;
  std::vector<double> usage, usage_norm;  ///< [n_freq] of |Re(z_n e^{i m omega_n})| and |z_n|

  void add(const PairSums& other);
};

struct PairBlock {
  std::vector<double> norm;  ///< [n] U; 0 for left-out pairs
  PairSums sums;             ///< all but what the sweep gives
};

/// Phases e^{i m omega_n} of the pairs of one example part on one grid, by block; the heads of its layers
/// share them.
class PairPhases {
 public:
  PairPhases(const PartSlots& slots, const spectral::LaneMap& lanes);
  /// Made on first use; the first blocks are kept, so that full-coverage examples do not fill the memory.
  std::shared_ptr<const spectral::PhaseTable> block(std::int64_t index) const;

 private:
  static constexpr std::size_t kKept = 4;
  std::shared_ptr<const spectral::PhaseTable> make(std::int64_t index) const;

  const PartSlots* slots_;
  const spectral::LaneMap* lanes_;
  mutable std::array<std::once_flag, kKept> once_;
  mutable std::array<std::shared_ptr<const spectral::PhaseTable>, kKept> kept_;
};

/// What to take from the pairs besides their coefficients.
struct PairRequest {
  bool norm_share = true;
  const PairPhases* usage = nullptr;  ///< null: no usage, no frequency mass
};

/// Coefficients of pairs [first, first + count) of a head into lanes [0, count) of `batch` (reset here;
/// left-out pairs become zero lanes), and what needs no sweep. high: [n_freq] mask of H(M) over the rotating
/// pairs.
PairBlock score_pairs(const HeadSetting& head, const PartSlots& slots, std::int64_t index,
                      const std::vector<char>& high, const PairRequest& request,
                      spectral::CoefficientBatch& batch);

/// Adds the sweep's results, lanes [first_lane, first_lane + n) of `swept`, to the block's sums.
void add_sweep(const spectral::SweepResult& swept, std::size_t first_lane, PairBlock& block);

}  // namespace rope

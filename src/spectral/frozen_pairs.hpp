#pragma once

#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/window_moments.hpp"

namespace rope::spectral {

/// What freezing one pair (omega_n -> 0) would do to each lane of a batch (theory §§7, 12): E_2 of the
/// softmax of S(0 ... M-1) and the variance of S over the window, with every pair turning and with each one
/// frozen.
struct FrozenPairs {
  std::vector<double> effective_length, variance;                ///< [n_pairs]
  std::vector<double> frozen_effective_length, frozen_variance;  ///< [n_freq][n_pairs]
};

/// In float64: relative errors near 1e-13 (variance: those of WindowMoments). A pair with z_n = 0 changes
/// nothing, exactly. softcap > 0: E_2 of cap tanh(S / cap); the variance is always that of S. Costs n_freq +
/// 1 sweeps of the batch in float64, some 2 ns per (lane, frozen pair, distance) at h = 32 and 4 at 64;
/// memory of one block of lanes. moments: of the plan's grid and window.
FrozenPairs freeze_each_pair(const SweepPlan& plan, const WindowMoments& moments,
                             const CoefficientBatch& batch, double softcap = 0);

}  // namespace rope::spectral

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/window_moments.hpp"

namespace rope::spectral {

/// Largest M of the near-far order: 3 M may not pass the longest window, 2^24.
inline constexpr std::int64_t kMostNearFar = (std::int64_t{1} << 24) / 3;

/// Per pair, see near_far_order().
struct NearFarOrder {
  std::vector<double> exact, gaussian;
};

/// How often a far key outscores a near one (theory §11; P App. B):
///
///   p_ord = P[S(m_far) > S(m_near)],   m_near uniform on M+1 ... 2M,  m_far on 2M+1 ... 3M,  independent.
///
/// exact: the double sum over the M x M pairs of distances, by sorting; equal scores do not count.
/// It is that of float64 direct summation without c_0 (a constant changes no order): distances whose scores
/// are closer than their rounding errors are evaluated again. O(h M + M log M) per pair of a batch, memory
/// some 60 M bytes per thread, 32 MB or more where M is long.
/// gaussian: Phi((mu_far - mu_near) / sqrt(sigma_near^2 + sigma_far^2)) with exact moments; a window that
/// starts at a has the coefficients z_n e^{i a omega_n}. Without any variance 1 or 0, 0 for a tie.
///
/// M: 1 ... kMostNearFar, and the window that `moments` were made for, on the frequencies of `basis`. A lane
/// of zeros gives 0 and 0, one that is not finite NaN. OpenMP over lanes; a lane's result depends on the lane
/// alone. Throws std::logic_error for M outside its range.
NearFarOrder near_far_order(const SweepBasis& basis, const WindowMoments& moments, std::int64_t window,
                            const CoefficientBatch& batch);

/// Number of pairs (i, j) with far[j] > near[i], for finite scores that are right within `reach` / 2; nothing
/// where two of them are closer than that. Near scores are sorted into four buckets for each of them; scores
/// spread evenly, as sums of waves are, then cost a few nanoseconds each.
class OrderCounter {
 public:
  std::optional<std::int64_t> count(std::span<const double> near, std::span<const double> far, double reach);

 private:
  std::size_t bucket(double value) const;

  double low_ = 0, scale_ = 0, last_ = 0;  // last_: number of the last bucket
  std::vector<double> sorted_;             // near, bucket after bucket; large buckets in rising order
  std::vector<std::uint32_t> first_, place_;
};

/// The same for exact scores, both in rising order.
std::int64_t count_above(std::span<const double> near, std::span<const double> far);

}  // namespace rope::spectral

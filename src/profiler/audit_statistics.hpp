#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/pair_sample.hpp"

namespace rope {

/// One of the equal-count bins of r_H (P Figure 7). "low" and "high" are the 10 % and 90 % quantiles.
struct ShareBin {
  std::int64_t pairs = 0;
  double share_low = 0, share_median = 0, share_high = 0;           ///< r_H: smallest, median, largest
  double response_low = 0, response_median = 0, response_high = 0;  ///< zeta
  double envelope_low = 0, envelope_median = 0, envelope_high = 0;  ///< T
};
inline constexpr std::size_t kShareBins = 32;

/// Statistics of theory §8 over some pairs. NaN where there is none.
struct AuditStatistics {
  std::int64_t rows = 0;               ///< that they are taken from
  double median_response_ratio = 0;    ///< of zeta / T
  double median_norm_floor_ratio = 0;  ///< of f_pos / r_H, over pairs with U_H > 0
  double spearman_share_response = 0;  ///< Spearman's rho of r_H and zeta, average ranks
  double spearman_share_envelope = 0;  ///< of r_H and T
  bool share_varies = false;           ///< else r_H is the same for all: no rho, no bins
  std::vector<ShareBin> bins;          ///< kShareBins, or as many as there are rows
};

/// with_bins: fills `bins` too. The order of rows matters for ties of r_H at the edge of a bin, and for
/// nothing else. At most 2^31 rows. Takes about 30 bytes a row for a while.
AuditStatistics audit_statistics(const std::vector<const AuditRow*>& rows, bool with_bins);

/// The value below which a share q of the values lies: linear between the neighbours at place q (n - 1). The
/// values are reordered. NaN for none.
double quantile(std::span<double> values, double q);

/// Spearman's rho: Pearson correlation of the average ranks; NaN where a side is constant or n < 2. As
/// ranking.hpp's, but in memory of 16 bytes a value.
class RankedColumn {
 public:
  explicit RankedColumn(std::span<const double> values);
  const std::vector<std::uint32_t>& order() const { return order_; }  ///< rising, ties by index
  double correlation(const RankedColumn& other) const;

 private:
  std::vector<std::uint32_t> order_, doubled_rank_;
};

}  // namespace rope

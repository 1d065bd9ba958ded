#pragma once

#include <cstdint>
#include <span>

namespace rope {

struct CorrelationOptions {
  std::int64_t resamples = 10'000;  ///< 0: no interval
  std::uint64_t seed = 20260910;
  int threads = 0;
};

/// Spearman's rho with its uncertainty. NaN throughout for fewer than 3 values or where a side is constant.
struct RankCorrelation {
  double rho = 0;
  double low = 0, high = 0;       ///< middle 95 % of bootstrap resamples of the value pairs
  double p_value = 0;             ///< two-sided, by permutation
  std::int64_t permutations = 0;  ///< all of them where `exact`, else drawn ones
  bool exact = false;
};

/// rho = Pearson correlation of the average ranks. A resample with a constant side is drawn anew. p: share of
/// the permutations of one side with |rho| at least as large: all n! of them for n <= 9, else 100,000 draws
/// as (b + 1) / (draws + 1). Deterministic in (values and their order, resamples, seed), for any number of
/// threads. Both sides of equal length, at most 10,000, no NaN.
RankCorrelation rank_correlation(std::span<const double> a, std::span<const double> b,
                                 const CorrelationOptions& options);
inline constexpr std::size_t kMostRankedTasks = 10'000;

}  // namespace rope

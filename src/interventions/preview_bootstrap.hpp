#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rope::detail {

/// 95 % percentile interval; NaN where there is none.
struct Interval {
  double low, high;
};

/// Bootstrap over examples of the mean of each column [column][E], NaN left out: every resample draws the
/// examples once, with replacement, for all columns, so that columns can be compared. A resample that draws
/// no value of a column does not count for it; a column with fewer than two values has no interval. The draws
/// follow from the seed and the stream's name alone. resamples = 0: no intervals.
std::vector<Interval> paired_intervals(const std::vector<std::vector<double>>& columns,
                                       const std::string& stream, std::int64_t resamples, std::uint64_t seed);

}  // namespace rope::detail

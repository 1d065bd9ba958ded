#include "interventions/preview_bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "profiler/bootstrap.hpp"
#include "profiler/index_source.hpp"

namespace rope::detail {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::size_t kMostMeans = std::size_t{1} << 22;  // kept at a time

/// A column with a weight beside each value, so that a missing one adds nothing.
struct Weighed {
  std::size_t column;
  std::vector<double> value, weight;
  std::vector<double> means;  // of the resamples
};

/// Columns with two values or more.
std::vector<Weighed> weigh(const std::vector<std::vector<double>>& columns) {
  std::vector<Weighed> all;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    Weighed weighed{c, {}, {}, {}};
    std::size_t present = 0;
    for (const double x : columns[c]) {
      const bool there = !std::isnan(x);
      present += there;
      weighed.value.push_back(there ? x : 0.0);
      weighed.weight.push_back(there ? 1.0 : 0.0);
    }
    if (present >= 2) all.push_back(std::move(weighed));
  }
  return all;
}

/// Means of every resample of some columns. The draws are the same at every call.
void resample(std::span<Weighed> columns, std::uint64_t stream, std::int64_t resamples) {
  const std::size_t examples = columns.front().value.size();
  IndexSource indexes(stream, examples);
  std::vector<double> times(examples);
  for (std::int64_t b = 0; b < resamples; ++b) {
    std::fill(times.begin(), times.end(), 0.0);
    for (std::size_t i = 0; i < examples; ++i) times[indexes.next()] += 1.0;
    for (Weighed& column : columns) {
      double sum = 0, weight = 0;
      for (std::size_t e = 0; e < examples; ++e) {
        sum += times[e] * column.value[e];
        weight += times[e] * column.weight[e];
      }
      if (weight > 0) column.means.push_back(sum / weight);
    }
  }
}

Interval interval_of(std::vector<double>& means) {
  if (means.empty()) return {kNaN, kNaN};
  std::sort(means.begin(), means.end());
  return {quantile(means, 0.025), quantile(means, 0.975)};
}

}  // namespace

std::vector<Interval> paired_intervals(const std::vector<std::vector<double>>& columns,
                                       const std::string& stream, std::int64_t resamples,
                                       std::uint64_t seed) {
  std::vector<Interval> intervals(columns.size(), {kNaN, kNaN});
  std::vector<Weighed> weighed = weigh(columns);
  const std::size_t block =
      std::max<std::size_t>(1, kMostMeans / static_cast<std::size_t>(std::max<std::int64_t>(resamples, 1)));
  for (std::size_t first = 0; first < weighed.size(); first += block) {
    const std::span<Weighed> some =
        std::span(weighed).subspan(first, std::min(block, weighed.size() - first));
    resample(some, stream_seed(seed, stream), resamples);
    for (Weighed& column : some) {
      intervals[column.column] = interval_of(column.means);
      column.means = {};
    }
  }
  return intervals;
}

}  // namespace rope::detail

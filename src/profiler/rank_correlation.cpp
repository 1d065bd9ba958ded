#include "profiler/rank_correlation.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "profiler/bootstrap.hpp"
#include "profiler/index_source.hpp"
#include "profiler/ranking.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLargestExact = 9;
constexpr std::int64_t kDraws = 100'000;
constexpr std::int64_t kResampleBlock = 100, kDrawBlock = 1000;  // of one stream; part of what a seed means

/// Twice the distance of each average rank from the mean rank: whole numbers, so that equal correlations are
/// equal.
std::vector<std::int64_t> centred_ranks(std::span<const double> values) {
  std::vector<std::int64_t> centred;
  for (const double rank : average_ranks(values))
    centred.push_back(std::llround(2 * rank) - static_cast<std::int64_t>(values.size() + 1));
  return centred;
}

std::int64_t product(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0});
}

detail::IndexSource stream(const CorrelationOptions& options, const char* what, std::int64_t block,
                           std::size_t n) {
  return {detail::stream_seed(options.seed, what + std::to_string(block)), n};
}

int threads_of(const CorrelationOptions& options) {
  return options.threads > 0 ? options.threads : omp_get_max_threads();
}

void exact_p(const std::vector<std::int64_t>& a, std::vector<std::int64_t> b, RankCorrelation& result) {
  const std::int64_t observed = std::abs(product(a, b));
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<std::int64_t> values = b;
  std::int64_t extreme = 0;
  do {
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = values[order[i]];
    extreme += std::abs(product(a, b)) >= observed;
    ++result.permutations;
  } while (std::next_permutation(order.begin(), order.end()));
  result.exact = true;
  result.p_value = static_cast<double>(extreme) / static_cast<double>(result.permutations);
}

void drawn_p(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
             const CorrelationOptions& options, RankCorrelation& result) {
  const std::int64_t observed = std::abs(product(a, b));
  std::int64_t extreme = 0;
#pragma omp parallel for schedule(static) reduction(+ : extreme) num_threads(threads_of(options))
  for (std::int64_t block = 0; block < kDraws / kDrawBlock; ++block) {
    detail::IndexSource indexes = stream(options, "permutation ", block, b.size());
    std::vector<std::int64_t> shuffled = b;
    for (std::int64_t draw = 0; draw < kDrawBlock; ++draw) {
      for (std::size_t i = shuffled.size(); i > 1; --i)
        std::swap(shuffled[i - 1], shuffled[indexes.below(i)]);
      extreme += std::abs(product(a, shuffled)) >= observed;
    }
  }
  result.permutations = kDraws;
  result.p_value = static_cast<double>(extreme + 1) / static_cast<double>(kDraws + 1);
}

void add_interval(std::span<const double> a, std::span<const double> b, const CorrelationOptions& options,
                  RankCorrelation& result) {
  std::vector<double> values(static_cast<std::size_t>(options.resamples));
  const std::int64_t blocks = (options.resamples + kResampleBlock - 1) / kResampleBlock;
#pragma omp parallel for schedule(static) num_threads(threads_of(options))
  for (std::int64_t block = 0; block < blocks; ++block) {
    detail::IndexSource indexes = stream(options, "bootstrap ", block, a.size());
    std::vector<double> x(a.size()), y(a.size());
    const std::int64_t end = std::min((block + 1) * kResampleBlock, options.resamples);
    for (std::int64_t r = block * kResampleBlock; r < end;) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t drawn = indexes.next();
        x[i] = a[drawn];
        y[i] = b[drawn];
      }
      const double rho = spearman(x, y);
      if (std::isnan(rho)) continue;
      values[static_cast<std::size_t>(r++)] = rho;
    }
  }
  std::sort(values.begin(), values.end());
  result.low = detail::quantile(values, 0.025);
  result.high = detail::quantile(values, 0.975);
}

}  // namespace

RankCorrelation rank_correlation(std::span<const double> a, std::span<const double> b,
                                 const CorrelationOptions& options) {
  RankCorrelation result{kNaN, kNaN, kNaN, kNaN, 0, false};
  if (a.size() < 3) return result;
  result.rho = spearman(a, b);
  if (std::isnan(result.rho)) return result;
  const std::vector<std::int64_t> x = centred_ranks(a), y = centred_ranks(b);
  if (a.size() <= kLargestExact)
    exact_p(x, y, result);
  else
    drawn_p(x, y, options, result);
  if (options.resamples > 0) add_interval(a, b, options, result);
  return result;
}

}  // namespace rope

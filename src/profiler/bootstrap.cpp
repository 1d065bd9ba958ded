#include "profiler/bootstrap.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "profiler/index_source.hpp"

namespace rope::detail {
namespace {

/// Value and weight side by side, so that a missing value adds nothing.
struct Entry {
  double semantic, positional;
  double has_semantic, has_positional;
};

void resample_task(const TaskValues& task, std::uint64_t seed, std::int64_t count, double* semantic,
                   double* positional) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < task.semantic.size(); ++i) {
    const double s = task.semantic[i], p = task.positional[i];
    entries.push_back(
        {std::isnan(s) ? 0 : s, std::isnan(p) ? 0 : p, std::isnan(s) ? 0.0 : 1.0, std::isnan(p) ? 0.0 : 1.0});
  }
  IndexSource indexes(stream_seed(seed, task.name), entries.size());
  for (std::int64_t b = 0; b < count;) {
    Entry sum{0, 0, 0, 0};
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& drawn = entries[indexes.next()];
      sum.semantic += drawn.semantic;
      sum.positional += drawn.positional;
      sum.has_semantic += drawn.has_semantic;
      sum.has_positional += drawn.has_positional;
    }
    if (sum.has_semantic == 0 || sum.has_positional == 0) continue;
    semantic[b] = sum.semantic / sum.has_semantic;
    positional[b] = sum.positional / sum.has_positional;
    ++b;
  }
}

int threads_of(int wanted) { return wanted > 0 ? wanted : omp_get_max_threads(); }

void interval(std::vector<double>& values, double& low, double& high) {
  std::sort(values.begin(), values.end());
  low = quantile(values, 0.025);
  high = quantile(values, 0.975);
}

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double part = position - static_cast<double>(below);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

Resamples resample_tasks(const std::vector<TaskValues>& tasks, const BootstrapOptions& options) {
  Resamples all;
  all.count = options.resamples;
  const auto count = static_cast<std::size_t>(options.resamples);
  all.semantic.resize(tasks.size() * count);
  all.positional.resize(tasks.size() * count);
#pragma omp parallel for schedule(dynamic) num_threads(threads_of(options.threads))
  for (std::size_t t = 0; t < tasks.size(); ++t)
    resample_task(tasks[t], options.seed, options.resamples, all.semantic.data() + t * count,
                  all.positional.data() + t * count);
  return all;
}

void add_intervals(std::vector<RankedTask>& ranked, const Resamples& resamples, int threads) {
  const std::size_t tasks = ranked.size(), count = static_cast<std::size_t>(resamples.count);
  std::vector<double> r_s(tasks * count), r_p(tasks * count), w_s(tasks * count);  // [task][resample]
  std::vector<char> same(tasks * count);
#pragma omp parallel for schedule(static) num_threads(threads_of(threads))
  for (std::size_t b = 0; b < count; ++b) {
    std::vector<double> semantic(tasks), positional(tasks);
    for (std::size_t t = 0; t < tasks; ++t) {
      semantic[t] = resamples.semantic[t * count + b];
      positional[t] = resamples.positional[t * count + b];
    }
    const auto rank_s = competition_ranks(semantic), rank_p = competition_ranks(positional);
    const auto w = susceptibility(semantic, positional);
    const auto direction = directions(w);
    for (std::size_t t = 0; t < tasks; ++t) {
      r_s[t * count + b] = rank_s[t];
      r_p[t * count + b] = rank_p[t];
      w_s[t * count + b] = w[t];
      same[t * count + b] = direction[t] == ranked[t].direction;
    }
  }
#pragma omp parallel for schedule(static) num_threads(threads_of(threads))
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto slice = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(t * count),
                                 all.begin() + static_cast<std::ptrdiff_t>((t + 1) * count));
    };
    std::vector<double> values = slice(r_s);
    interval(values, ranked[t].r_s_low, ranked[t].r_s_high);
    values = slice(r_p);
    interval(values, ranked[t].r_p_low, ranked[t].r_p_high);
    values = slice(w_s);
    interval(values, ranked[t].w_s_low, ranked[t].w_s_high);
    std::int64_t kept = 0;
    for (std::size_t b = 0; b < count; ++b) kept += same[t * count + b];
    ranked[t].direction_probability = static_cast<double>(kept) / static_cast<double>(count);
  }
}

}  // namespace rope::detail

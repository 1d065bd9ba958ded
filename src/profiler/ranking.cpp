#include "profiler/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/bootstrap.hpp"
#include "profiler/error.hpp"
#include "profiler/task_summary.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMaxResamples = 1'000'000;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  std::int64_t count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kNaN;
}

double window_mean(const ProfileReader& profile, const ProfileTask& task) {
  double sum = 0;
  constexpr std::int64_t kBlock = 1 << 16;
  for (std::int64_t first = 0; first < task.examples; first += kBlock)
    for (const auto window : profile.windows(task, first, std::min(kBlock, task.examples - first)))
      sum += static_cast<double>(window);
  return task.examples > 0 ? sum / static_cast<double>(task.examples) : kNaN;
}

RankedTask without_ranks(const ProfileReader& profile, const ProfileTask& task) {
  RankedTask row;
  row.task = task.name;
  row.family = task.family;
  row.examples = task.examples;
  row.window_mean = window_mean(profile, task);
  for (double* value :
       {&row.semantic_score, &row.positional_score, &row.r_s, &row.r_p, &row.w_s, &row.w_p, &row.w_s_low,
        &row.w_s_high, &row.r_s_low, &row.r_s_high, &row.r_p_low, &row.r_p_high, &row.direction_probability})
    *value = kNaN;
  return row;
}

void set_ranks(std::vector<RankedTask>& tasks) {
  std::vector<double> semantic, positional;
  for (const auto& task : tasks) {
    semantic.push_back(task.semantic_score);
    positional.push_back(task.positional_score);
  }
  const auto r_s = competition_ranks(semantic), r_p = competition_ranks(positional);
  const auto w_s = susceptibility(semantic, positional);
  const auto direction = directions(w_s);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    tasks[t].r_s = r_s[t];
    tasks[t].r_p = r_p[t];
    tasks[t].w_s = w_s[t];
    tasks[t].w_p = 1 - w_s[t];
    tasks[t].direction = direction[t];
  }
}

}  // namespace

Ranking rank_profile(const ProfileReader& profile, const BootstrapOptions& options) {
  if (options.resamples < 0 || options.resamples > kMaxResamples)
    throw usage_error("--resamples must lie between 0 and " + std::to_string(kMaxResamples));
  Ranking ranking;
  ranking.model_name = profile.header().model_name;
  ranking.resamples = options.resamples;
  ranking.seed = options.seed;
  std::vector<detail::TaskValues> values;
  for (const auto& task : profile.tasks()) {
    RankedTask row = without_ranks(profile, task);
    detail::TaskValues own{task.name, example_values(profile, task, Score::kSemantic),
                           example_values(profile, task, Score::kPositional)};
    row.semantic_score = mean_of(own.semantic);
    row.positional_score = mean_of(own.positional);
    if (std::isnan(row.semantic_score) || std::isnan(row.positional_score)) {
      ranking.unranked.push_back(task.name);
      ranking.unranked_tasks.push_back(std::move(row));
      continue;
    }
    ranking.tasks.push_back(std::move(row));
    values.push_back(std::move(own));
  }
  set_ranks(ranking.tasks);
  if (options.resamples > 0 && !ranking.tasks.empty())
    detail::add_intervals(ranking.tasks, detail::resample_tasks(values, options), options.threads);
  // Tasks come by name, so a stable sort settles ties.
  std::stable_sort(ranking.tasks.begin(), ranking.tasks.end(),
                   [](const RankedTask& a, const RankedTask& b) { return a.w_s > b.w_s; });
  return ranking;
}

}  // namespace rope

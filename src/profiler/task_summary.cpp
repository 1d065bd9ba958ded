#include "profiler/task_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/mean.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kScores = static_cast<std::size_t>(Score::kCount);

/// Rows of a block of about 4 MB.
std::int64_t block_rows(std::size_t heads) {
  return std::max<std::int64_t>(1, (1 << 19) / static_cast<std::int64_t>(std::max<std::size_t>(heads, 1)));
}

/// Calls f(first, count) over all rows of a task, in order.
template <class F>
void for_blocks(const ProfileTask& task, std::size_t heads, F f) {
  const std::int64_t rows = block_rows(heads);
  for (std::int64_t first = 0; first < task.examples; first += rows)
    f(first, std::min(rows, task.examples - first));
}

std::vector<std::size_t> selected_rows(const ProfileReader& profile) {
  std::vector<std::size_t> rows;
  const auto& selected = profile.selection().selected;
  for (std::size_t n = 0; n < selected.size(); ++n)
    if (selected[n]) rows.push_back(n);
  return rows;
}

/// Calls f(mean over the selected heads) for every example, in order.
template <class F>
void for_example_means(const ProfileReader& profile, const ProfileTask& task, Score score, F f) {
  const std::size_t heads = profile.header().heads.size();
  const std::vector<std::size_t> chosen = selected_rows(profile);
  for_blocks(task, heads, [&](std::int64_t first, std::int64_t count) {
    const std::vector<double> block = profile.read(task, score, first, count);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      Mean mean;
      for (const std::size_t n : chosen) mean.add(block[row * heads + n]);
      f(mean.value());
    }
  });
}

std::int64_t total(const ProfileReader& profile, const ProfileTask& task, Count what) {
  const std::size_t heads = profile.header().heads.size();
  const std::vector<std::size_t> chosen = selected_rows(profile);
  std::uint64_t sum = 0;
  for_blocks(task, heads, [&](std::int64_t first, std::int64_t count) {
    const std::vector<std::int64_t> block = profile.read(task, what, first, count);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row)
      for (const std::size_t n : chosen) sum += static_cast<std::uint64_t>(block[row * heads + n]);
  });
  return static_cast<std::int64_t>(sum);
}

void summarize_windows(const ProfileReader& profile, const ProfileTask& task, TaskSummary& summary) {
  double sum = 0;
  for_blocks(task, 1, [&](std::int64_t first, std::int64_t count) {
    for (const std::int64_t window : profile.windows(task, first, count)) {
      const bool none_yet = summary.window_max == 0;
      summary.window_min = none_yet ? window : std::min(summary.window_min, window);
      summary.window_max = std::max(summary.window_max, window);
      sum += static_cast<double>(window);  // exact: whole numbers far below 2^53
    }
  });
  summary.window_mean = task.examples > 0 ? sum / static_cast<double>(task.examples) : kNaN;
}

}  // namespace

std::vector<TaskSummary> summarize_tasks(const ProfileReader& profile) {
  std::vector<TaskSummary> summaries;
  for (const auto& task : profile.tasks()) {
    TaskSummary summary;
    summary.task = task.name;
    summary.family = task.family;
    summary.examples = task.examples;
    summarize_windows(profile, task, summary);
    for (std::size_t s = 0; s < kScores; ++s) {
      Mean mean;
      for_example_means(profile, task, static_cast<Score>(s), [&mean](double value) { mean.add(value); });
      summary.score[s] = mean.value();
    }
    const auto count = [&](Count what) { return total(profile, task, what); };
    summary.triplets = count(Count::kTriplets);
    summary.ties = count(Count::kTies);
    summary.pairs = count(Count::kPairs);
    summary.undefined = count(Count::kUndefinedPairs) + count(Count::kUndefinedTriplets);
    summary.non_finite = count(Count::kNonFinitePairs) + count(Count::kNonFiniteTriplets);
    summary.fragile = count(Count::kFragile);
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<double> head_means(const ProfileReader& profile, const ProfileTask& task, Score score) {
  std::vector<Mean> means(profile.header().heads.size());
  for_blocks(task, means.size(), [&](std::int64_t first, std::int64_t count) {
    const std::vector<double> block = profile.read(task, score, first, count);
    for (std::size_t i = 0; i < block.size(); ++i) means[i % means.size()].add(block[i]);
  });
  std::vector<double> values;
  for (const Mean& mean : means) values.push_back(mean.value());
  return values;
}

std::vector<HeadSummary> summarize_heads(const ProfileReader& profile, const ProfileTask& task) {
  const auto& heads = profile.header().heads;
  std::vector<std::vector<double>> means;
  for (std::size_t s = 0; s < kScores; ++s) means.push_back(head_means(profile, task, static_cast<Score>(s)));

  std::vector<HeadSummary> summaries;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    if (!heads[n].rotates || !std::binary_search(task.layers.begin(), task.layers.end(), heads[n].layer))
      continue;
    HeadSummary summary;
    summary.task = task.name;
    summary.head = static_cast<std::int64_t>(n);
    summary.selected = profile.selection().selected[n] != 0;
    for (std::size_t s = 0; s < kScores; ++s) summary.score[s] = means[s][n];
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<double> example_values(const ProfileReader& profile, const ProfileTask& task, Score score) {
  std::vector<double> values;
  for_example_means(profile, task, score, [&values](double value) { values.push_back(value); });
  return values;
}

}  // namespace rope

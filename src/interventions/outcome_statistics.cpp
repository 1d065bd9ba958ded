#include "interventions/outcome_statistics.hpp"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "interventions/mcnemar.hpp"
#include "profiler/bootstrap.hpp"
#include "profiler/index_source.hpp"

namespace rope::detail {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kBlock = 256;  // resamples of one stream; part of what a seed means

/// Examples with the same results are alike: what is drawn and held out are their patterns.
struct Patterns {
  std::size_t candidates = 0;
  std::vector<std::uint32_t> of_example;  ///< [E] pattern of each example
  std::vector<std::int64_t> examples;     ///< [P] how many have it
  std::vector<std::int8_t> change;        ///< [P, C] candidate - baseline: -1, 0, 1
  std::size_t count() const { return examples.size(); }
};

Patterns find_patterns(const PairedRuns& runs) {
  Patterns patterns;
  patterns.candidates = runs.candidates;
  std::unordered_map<std::string, std::uint32_t> seen;
  std::string changes(runs.candidates, '\0');
  for (std::size_t e = 0; e < runs.examples(); ++e) {
    const char* row = runs.correct.data() + e * (runs.candidates + 1);
    for (std::size_t c = 0; c < runs.candidates; ++c) changes[c] = static_cast<char>(row[c + 1] - row[0]);
    const auto [found, fresh] = seen.emplace(changes, static_cast<std::uint32_t>(patterns.count()));
    if (fresh) {
      patterns.examples.push_back(0);
      for (const char change : changes) patterns.change.push_back(static_cast<std::int8_t>(change));
    }
    patterns.of_example.push_back(found->second);
    ++patterns.examples[found->second];
  }
  return patterns;
}

/// Sum of changes of every candidate, over patterns that come `times` [P] times each.
void add_changes(const Patterns& patterns, const std::int64_t* times, std::int64_t* sums) {
  std::fill_n(sums, patterns.candidates, 0);
  for (std::size_t p = 0; p < patterns.count(); ++p) {
    if (times[p] == 0) continue;
    const std::int8_t* change = patterns.change.data() + p * patterns.candidates;
    for (std::size_t c = 0; c < patterns.candidates; ++c) sums[c] += times[p] * change[c];
  }
}

/// The first of the largest.
std::size_t best_of(const std::int64_t* sums, std::size_t candidates) {
  return static_cast<std::size_t>(std::max_element(sums, sums + candidates) - sums);
}

/// For each example the candidate that is best on the others, scored on it; the mean.
double held_out_change(const Patterns& patterns, const std::vector<std::int64_t>& sums) {
  const std::size_t examples = patterns.of_example.size();
  if (examples < 2) return kNaN;
  std::vector<std::int64_t> rest(patterns.candidates);
  std::int64_t total = 0;
  for (std::size_t p = 0; p < patterns.count(); ++p) {
    const std::int8_t* change = patterns.change.data() + p * patterns.candidates;
    for (std::size_t c = 0; c < patterns.candidates; ++c) rest[c] = sums[c] - change[c];
    total += patterns.examples[p] * change[best_of(rest.data(), patterns.candidates)];
  }
  return static_cast<double>(total) / static_cast<double>(examples);
}

/// Middle 95 % of sums over `examples` examples, as changes; `values` are sorted.
void set_interval(std::vector<double>& values, double examples, double& low, double& high) {
  std::sort(values.begin(), values.end());
  low = quantile(values, 0.025) / examples;
  high = quantile(values, 0.975) / examples;
}

/// Every resample of examples that are all alike is the same.
void set_constant_intervals(TaskOutcome& task) {
  for (CandidateOutcome& c : task.candidates) c.change_low = c.change_high = c.change;
  task.best_change_low = task.best_change_high = task.best_change;
}

void add_intervals(TaskOutcome& task, const Patterns& patterns, const OutcomeOptions& options) {
  if (patterns.count() == 1) return set_constant_intervals(task);
  const std::size_t candidates = patterns.candidates, examples = patterns.of_example.size();
  const auto count = static_cast<std::size_t>(options.resamples);
  std::vector<double> sums((candidates + 1) * count);  // [C + 1, resamples], the largest last
  const std::string stream = task.task + '\0' + std::to_string(task.stage) + '\0';
  const std::int64_t blocks = (options.resamples + kBlock - 1) / kBlock;
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
#pragma omp parallel for schedule(static) num_threads(threads) if (examples * count > 100'000)
  for (std::int64_t block = 0; block < blocks; ++block) {
    IndexSource indexes(stream_seed(options.seed, stream + std::to_string(block)), examples);
    std::vector<std::int64_t> times(patterns.count()), own(candidates);
    for (std::int64_t b = block * kBlock; b < std::min((block + 1) * kBlock, options.resamples); ++b) {
      std::fill(times.begin(), times.end(), 0);
      for (std::size_t e = 0; e < examples; ++e) ++times[patterns.of_example[indexes.next()]];
      add_changes(patterns, times.data(), own.data());
      for (std::size_t c = 0; c < candidates; ++c)
        sums[c * count + static_cast<std::size_t>(b)] = static_cast<double>(own[c]);
      sums[candidates * count + static_cast<std::size_t>(b)] =
          static_cast<double>(own[best_of(own.data(), candidates)]);
    }
  }
  for (std::size_t c = 0; c <= candidates; ++c) {
    std::vector<double> values(sums.begin() + static_cast<std::ptrdiff_t>(c * count),
                               sums.begin() + static_cast<std::ptrdiff_t>((c + 1) * count));
    double& low = c < candidates ? task.candidates[c].change_low : task.best_change_low;
    double& high = c < candidates ? task.candidates[c].change_high : task.best_change_high;
    set_interval(values, static_cast<double>(examples), low, high);
  }
}

void clear(TaskOutcome& task) {
  for (double* value :
       {&task.baseline_accuracy, &task.best_change, &task.best_change_low, &task.best_change_high,
        &task.held_out_change, &task.optimism, &task.p_value, &task.p_holm})
    *value = kNaN;
  for (CandidateOutcome& c : task.candidates)
    for (double* value : {&c.accuracy, &c.change, &c.change_low, &c.change_high, &c.p_value}) *value = kNaN;
}

}  // namespace

void add_statistics(TaskOutcome& task, const PairedRuns& runs, const OutcomeOptions& options) {
  clear(task);
  const std::size_t examples = runs.examples(), candidates = runs.candidates;
  if (examples == 0) return;
  const auto share = [&](std::int64_t n) { return static_cast<double>(n) / static_cast<double>(examples); };
  std::int64_t baseline = 0;
  for (std::size_t e = 0; e < examples; ++e) {
    const char* row = runs.correct.data() + e * (candidates + 1);
    baseline += row[0];
    for (std::size_t c = 0; c < candidates; ++c) {
      task.candidates[c].gained += row[c + 1] > row[0];
      task.candidates[c].lost += row[c + 1] < row[0];
    }
  }
  task.baseline_accuracy = share(baseline);
  std::vector<std::int64_t> sums;
  for (CandidateOutcome& c : task.candidates) {
    sums.push_back(c.gained - c.lost);
    c.accuracy = share(baseline + sums.back());
    c.change = share(sums.back());
    c.p_value = mcnemar_p(c.gained, c.lost);
  }
  const CandidateOutcome& best = task.candidates[best_of(sums.data(), candidates)];
  task.best = static_cast<int>(best_of(sums.data(), candidates));
  task.best_change = best.change;
  task.p_value = best.p_value;
  task.improved = best.change > 0;
  const Patterns patterns = find_patterns(runs);
  task.held_out_change = held_out_change(patterns, sums);
  task.optimism = task.best_change - task.held_out_change;
  if (options.resamples > 0) add_intervals(task, patterns, options);
}

}  // namespace rope::detail

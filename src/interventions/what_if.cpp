#include "interventions/what_if.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "interventions/mask.hpp"
#include "interventions/preview_bootstrap.hpp"
#include "interventions/what_if_inputs.hpp"
#include "profiler/error.hpp"
#include "profiler/mean.hpp"

namespace rope {
namespace {

using Values = std::array<double, kPreviewScores>;
using Wanted = std::optional<Intervention>;  // none: the baseline

/// The intervention under way, on every head that is scored. One object serves all runs of a scorer, so that
/// they share grids and moments; it changes between runs only.
class CurrentChange : public HeadChanges {
 public:
  explicit CurrentChange(const spectral::SplitRule& split) : split_(split) {}
  void set(const Wanted& wanted) { wanted_ = wanted; }

  HeadChange of(const LayerModel& layer, int, std::int64_t example_window,
                const spectral::FrequencyGrid& grid) const override {
    HeadChange change;
    if (!wanted_) return change;
    const std::vector<int> pairs = masked_pairs(split_, grid.omega, grid.rho, example_window, layer.window);
    if (wanted_->operation == Operation::kFreeze) {
      change.frozen.assign(grid.omega.size(), 0);
      for (const int pair : pairs) change.frozen[static_cast<std::size_t>(pair)] = 1;
    } else {
      change.scale.assign(grid.omega.size(), 1.0);
      for (const int pair : pairs) change.scale[static_cast<std::size_t>(pair)] = wanted_->alpha;
    }
    return change;
  }

 private:
  spectral::SplitRule split_;
  Wanted wanted_;
};

/// Scores of a task under one intervention, by example and head of the plan.
struct TaskScores {
  std::size_t heads = 0;
  std::vector<Values> values;  // [E, heads]
  std::size_t examples() const { return heads > 0 ? values.size() / heads : 0; }

  /// Mean over the heads of one example of f(score of a head).
  double mean(std::size_t example, const std::function<double(std::size_t)>& of) const {
    Mean mean;
    for (std::size_t h = 0; h < heads; ++h) mean.add(of(example * heads + h));
    return mean.value();
  }
};

Values preview_values(const HeadScores& head) {
  const auto score = [&](Score which) { return head.score[static_cast<std::size_t>(which)]; };
  return {score(Score::kSemantic),        score(Score::kPositional), score(Score::kNormShare),
          score(Score::kEffectiveLength), head.logit_spread,         head.positional_fixed_norm};
}

class Previewer {
 public:
  Previewer(const ActivationSet& set, const WhatIfOptions& options, const spectral::SplitRule& split)
      : set_(set),
        options_(options),
        change_(std::make_shared<CurrentChange>(split)),
        scorer_(set, scoring(options.scoring, change_), options.resources) {}

  std::vector<PreviewRow> preview(const PlanTask& task, const std::vector<const SetExample*>& examples,
                                  const std::function<void()>& step);
  static std::vector<PreviewRow> rows_of(const PlanTask& task, const std::vector<Intervention>& sweep);

 private:
  static ScoringOptions scoring(ScoringOptions options, std::shared_ptr<const HeadChanges> changes) {
    options.semantic = options.positional = options.share = options.length = true;
    options.usage = options.aliasing = options.exact_reversal = false;
    options.logit_spread = options.fixed_norm = true;
    options.changes = std::move(changes);
    return options;
  }
  std::vector<std::size_t> places(const PlanTask& task) const;
  TaskScores score(const std::vector<std::size_t>& heads, const std::vector<const SetExample*>& examples,
                   const Wanted& wanted, const std::function<void()>& step);

  const ActivationSet& set_;
  const WhatIfOptions& options_;
  std::shared_ptr<CurrentChange> change_;
  ExampleScorer scorer_;
};

// The plan's heads among those of the set.
std::vector<std::size_t> Previewer::places(const PlanTask& task) const {
  std::vector<std::size_t> places;
  for (const auto& [layer, head] : task.heads)
    if (const std::int64_t first = set_.first_head(layer); first >= 0)
      places.push_back(static_cast<std::size_t>(first + head));
  return places;
}

TaskScores Previewer::score(const std::vector<std::size_t>& heads,
                            const std::vector<const SetExample*>& examples, const Wanted& wanted,
                            const std::function<void()>& step) {
  std::vector<HeadWork> work(set_.heads().size(), HeadWork::kNone);
  for (const std::size_t head : heads)
    if (set_.heads()[head].rotates) work[head] = HeadWork::kAll;
  change_->set(wanted);
  TaskScores scores{heads.size(), {}};
  scorer_.score(examples, work, [&](std::size_t, const std::vector<HeadScores>& all) {
    for (const std::size_t head : heads) scores.values.push_back(preview_values(all[head]));
    step();
  });
  return scores;
}

// Rows without values: baseline, candidates, what the sweep adds.
std::vector<PreviewRow> Previewer::rows_of(const PlanTask& task, const std::vector<Intervention>& sweep) {
  std::vector<PreviewRow> rows(1);
  for (const Intervention& candidate : task.candidates) {
    rows.emplace_back();
    rows.back().intervention = candidate;
    rows.back().in_plan = true;
  }
  for (const Intervention& point : sweep) {
    auto row =
        std::find_if(rows.begin(), rows.end(), [&](const PreviewRow& r) { return r.intervention == point; });
    if (row == rows.end()) {
      row = rows.emplace(rows.end());
      row->intervention = point;
    }
    row->in_sweep = true;
  }
  return rows;
}

std::vector<PreviewRow> Previewer::preview(const PlanTask& task,
                                           const std::vector<const SetExample*>& examples,
                                           const std::function<void()>& step) {
  const std::vector<std::size_t> heads = places(task);
  std::vector<PreviewRow> rows = rows_of(task, options_.sweep);
  std::vector<std::vector<double>> changes;  // of every row but the first, by score: [E]
  TaskScores baseline;
  for (PreviewRow& row : rows) {
    const bool is_baseline = !row.intervention;
    const TaskScores scores = score(heads, examples, row.intervention, step);
    if (is_baseline) baseline = scores;
    row.examples = std::ssize(examples);
    for (std::size_t s = 0; s < kPreviewScores; ++s) {
      Mean value, change;
      std::vector<double> of_examples;
      for (std::size_t e = 0; e < scores.examples(); ++e) {
        value.add(scores.mean(e, [&](std::size_t at) { return scores.values[at][s]; }));
        of_examples.push_back(
            scores.mean(e, [&](std::size_t at) { return scores.values[at][s] - baseline.values[at][s]; }));
        change.add(of_examples.back());
      }
      row.score[s].value = value.value();
      if (is_baseline) continue;
      row.score[s].change = change.value();
      changes.push_back(std::move(of_examples));
    }
  }
  const auto intervals = detail::paired_intervals(changes, task.task, options_.resamples, options_.seed);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    PreviewValue& value = rows[1 + i / kPreviewScores].score[i % kPreviewScores];
    value.change_low = intervals[i].low;
    value.change_high = intervals[i].high;
  }
  return rows;
}

const std::string& setting(const ProfileReader& profile, const std::string& name) {
  for (const auto& [key, value] : profile.header().settings)
    if (key == name) return value;
  throw input_error(profile.path(), "/settings", "the setting " + name, "none", "use a finished profile");
}

}  // namespace

ScoringOptions profile_scoring(const ProfileReader& profile) {
  ScoringOptions scoring;
  const std::string &split = setting(profile, "split"), &window = setting(profile, "window"),
                    &cap = setting(profile, "window_cap");
  try {
    scoring.split = spectral::parse_split(split);
  } catch (const std::invalid_argument& error) {
    throw input_error(profile.path(), "/settings/split", "a split", split);
  }
  if (window != "example") {
    const char* end = window.data() + window.size();
    const auto parsed = std::from_chars(window.data(), end, scoring.window);
    if (parsed.ec != std::errc() || parsed.ptr != end || scoring.window < 2 ||
        scoring.window > (std::int64_t{1} << 24))
      throw input_error(profile.path(), "/settings/window", "\"example\" or 2 to 16777216 tokens", window);
  }
  if (cap != "true" && cap != "false")
    throw input_error(profile.path(), "/settings/window_cap", "true or false", cap);
  scoring.window_cap = cap == "true";
  return scoring;
}

std::vector<std::string> add_preview(Plan& plan, const ProfileReader& profile, const ActivationSet& set,
                                     const WhatIfOptions& options, const ProgressCallback& progress) {
  detail::require_plan_model(plan, profile, set);
  std::vector<detail::MatchedExamples> matched;
  std::int64_t runs = 0, done = 0;
  for (const PlanTask& task : plan.tasks) {
    matched.push_back(detail::match_examples(profile, set, task.task));
    runs += std::ssize(matched.back().examples) * std::ssize(Previewer::rows_of(task, options.sweep));
  }
  if (runs == 0)
    throw UserError(set.files()[0].path() + ": the caches hold no example of the plan's tasks",
                    "preview the caches that the profile was made from");
  Previewer previewer(set, options, plan.split);
  for (std::size_t t = 0; t < plan.tasks.size(); ++t)
    if (!matched[t].examples.empty())
      plan.tasks[t].preview = previewer.preview(plan.tasks[t], matched[t].examples,
                                                [&] { progress("previewing", ++done, runs); });
  return detail::preview_warnings(plan, set, matched);
}

}  // namespace rope

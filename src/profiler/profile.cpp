#include "profiler/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "profiler/atomic_file.hpp"
#include "profiler/background_digest.hpp"
#include "profiler/cache_run.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"
#include "profiler/input_stamps.hpp"
#include "spectral/band_split.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr Score kSweepScores[] = {Score::kPositional,        Score::kResponseMax,     Score::kEffectiveLength,
                                  Score::kAliasing,          Score::kExactSemantic,   Score::kReversalGap,
                                  Score::kAliasingF16,       Score::kNearFarOrder,    Score::kNearFarGaussian,
                                  Score::kBarrierExceedance, Score::kBarrierGaussian, Score::kBarrierLimit};

const std::pair<const char*, bool ScoringOptions::*> kMetrics[] = {
    {"semantic", &ScoringOptions::semantic}, {"positional", &ScoringOptions::positional},
    {"share", &ScoringOptions::share},       {"length", &ScoringOptions::length},
    {"usage", &ScoringOptions::usage},       {"aliasing", &ScoringOptions::aliasing}};

// The whole of `text` as a number; nothing where it is none.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// near_far, near_far:M and barrier:S0.
void set_order_metric(const std::string& word, ScoringOptions& options) {
  const std::size_t colon = word.find(':');
  const std::string name = word.substr(0, colon);
  const std::string_view value =
      colon == std::string::npos ? std::string_view() : std::string_view(word).substr(colon + 1);
  if (name == "near_far") {
    if (options.near_far) throw usage_error("--metrics: near_far is given twice", "one M per profile");
    options.near_far = true;
    if (colon == std::string::npos) return;
    const auto m = number_of<std::int64_t>(value);
    if (!m || *m < 1 || *m > spectral::kMostNearFar)
      throw usage_error(fmt::format("--metrics: near_far:M expects M from 1 to {} distances, found \"{}\"",
                                    spectral::kMostNearFar, value),
                        "near keys stand at M+1 ... 2M, far ones at 2M+1 ... 3M; without :M it is the "
                        "layer's window");
    options.near_far_window = *m;
  } else if (name == "barrier") {
    const auto level = number_of<double>(value);
    if (!level || !std::isfinite(*level))
      throw usage_error(fmt::format("--metrics: barrier:S0 expects a finite score S0, found \"{}\"", value),
                        "e.g. barrier:0 or barrier:2.5");
    if (options.barrier) throw usage_error("--metrics: barrier is given twice", "one S0 per profile");
    options.barrier = *level + 0.0;  // no negative zero
  } else {
    throw usage_error(fmt::format("--metrics: unknown metric \"{}\"", word),
                      "the metrics are semantic, positional, share, length, usage, aliasing, near_far[:M], "
                      "barrier:S0");
  }
}

// The near-far order looks three windows far.
void require_near_far_windows(const ActivationSet& set, const ScoringOptions& scoring) {
  if (!scoring.near_far || scoring.near_far_window > 0) return;
  for (const SetTask& task : set.tasks())
    for (const SetExample& example : task.examples)
      for (const int layer : task.layers) {
        const std::int64_t window = layer_window(scoring, set.layer(layer), example);
        if (set.layer(layer).rotates && window > spectral::kMostNearFar)
          throw usage_error(
              fmt::format(
                  "--metrics near_far: a window of {} tokens (task {}, layer {}) is too long: 3 M may "
                  "be at most 2^24",
                  window, rope::quoted(std::string_view(task.name)), layer),
              fmt::format("set M with near_far:M, up to {}", spectral::kMostNearFar));
      }
}

bool is_sweep_score(Score score) {
  return std::find(std::begin(kSweepScores), std::end(kSweepScores), score) != std::end(kSweepScores);
}

// Frequency use of a task: sums over examples, one spectrum per distinct grid (in order of first use, which
// is that of the sorted examples and heads).
class UsageSums {
 public:
  void add(const std::vector<HeadScores>& heads) {
    for (std::size_t head = 0; head < heads.size(); ++head)
      if (!heads[head].usage.empty()) add(static_cast<std::int64_t>(head), heads[head]);
  }

  std::vector<UsageSpectrum> spectra() const {
    std::vector<UsageSpectrum> result;
    for (const Sums& sums : sums_) {
      UsageSpectrum spectrum;
      spectrum.omega = sums.grid->frequencies.omega;
      const std::size_t h = spectrum.omega.size();
      for (const auto& [head, s] : sums.heads) {
        spectrum.heads.push_back(head);
        spectrum.examples.push_back(s.examples);
        const std::size_t row = spectrum.usage.size();
        spectrum.usage.resize(row + h, kNaN);
        spectrum.usage_norm.resize(row + h, kNaN);
        for (std::size_t n = 0; n < s.usage.size(); ++n) {
          const std::size_t pair = row + static_cast<std::size_t>(sums.grid->lanes.pair[n]);
          spectrum.usage[pair] = s.usage[n] / static_cast<double>(s.examples);
          spectrum.usage_norm[pair] = s.usage_norm[n] / static_cast<double>(s.examples);
        }
      }
      result.push_back(std::move(spectrum));
    }
    return result;
  }

 private:
  struct HeadSums {
    std::int64_t examples = 0;
    std::vector<double> usage, usage_norm;
  };
  struct Sums {
    const Grid* grid;
    std::map<std::int64_t, HeadSums> heads;
  };

  void add(std::int64_t head, const HeadScores& scores) {
    const auto [place, fresh] = index_.try_emplace(scores.grid, sums_.size());
    if (fresh) sums_.push_back({scores.grid, {}});
    HeadSums& sums = sums_[place->second].heads[head];
    sums.usage.resize(scores.usage.size(), 0.0);
    sums.usage_norm.resize(scores.usage.size(), 0.0);
    ++sums.examples;
    for (std::size_t n = 0; n < scores.usage.size(); ++n) {
      sums.usage[n] += scores.usage[n];
      sums.usage_norm[n] += scores.usage_norm[n];
    }
  }

  std::map<const Grid*, std::size_t> index_;
  std::vector<Sums> sums_;
};

ProfileLayer describe_layer(const ActivationSet& set, int layer) {
  const LayerModel& facts = set.layer(layer);
  const int file = set.file_of_layer(layer);
  ProfileLayer row;
  row.layer = layer;
  row.kind = facts.kind;
  row.rope_type = facts.rope_type;
  row.theta = facts.rotates ? facts.rope.theta : kNaN;
  row.logit_scale = facts.logit_scale;
  row.softcap = facts.softcap;
  row.window = facts.window;
  row.norm_after_rotation = facts.norm_after_epsilon.has_value();
  row.head_dim = set.files()[static_cast<std::size_t>(file)].model().head_dim;
  for (const SetHead& head : set.heads()) row.query_heads += head.layer == layer;
  row.kv_heads = set.files()[static_cast<std::size_t>(file)].model().num_kv_heads;
  if (facts.rotates) {
    const spectral::FrequencyGrid grid = set.model(file).grid(layer, 0, 2);
    row.attention_factor = grid.attention_factor;
    row.rotary_dim = grid.rotary_dim();
    row.pairs = static_cast<int>(
        std::count_if(grid.omega.begin(), grid.omega.end(), [](double w) { return w != 0; }));
  }
  return row;
}

// Every frequency grid that a rotating head of the set runs with, and who runs with it.
class GridList {
 public:
  explicit GridList(const ActivationSet& set) : set_(set) {
    for (const SetTask& task : set.tasks())
      for (const SetExample& example : task.examples) windows_.insert(example.window);
  }

  void fill(ProfileHeader& header) {
    int done = -1;  // layer whose heads share one grid and that is in
    for (const SetHead& head : set_.heads()) {
      if (!head.rotates || head.layer == done) continue;
      const ResolvedModel& model = set_.model(set_.file_of_layer(head.layer));
      const bool shared = model.shared_by_heads(head.layer);
      if (shared) done = head.layer;
      const std::set<std::int64_t> any{0};
      for (const std::int64_t window : model.depends_on_length(head.layer) ? windows_ : any)
        header.grid_uses.push_back(
            {head.layer, shared ? -1 : head.head, window,
             index_of(header, model.grid(head.layer, head.head, std::max<std::int64_t>(window, 2)))});
    }
  }

 private:
  int index_of(ProfileHeader& header, const spectral::FrequencyGrid& grid) {
    const auto [place, fresh] = index_.try_emplace(std::tuple(grid.omega, grid.rho, grid.attention_factor),
                                                   static_cast<int>(header.grids.size()));
    if (fresh) header.grids.push_back({grid.omega, grid.rho, grid.attention_factor});
    return place->second;
  }

  const ActivationSet& set_;
  std::set<std::int64_t> windows_;
  std::map<std::tuple<std::vector<double>, double, double>, int> index_;
};

std::string heads_setting(const ProfileOptions& options) {
  if (options.selection_from && !options.heads_given) return "selection";
  if (options.selection_from && options.heads.kind == HeadRequest::Kind::kTop)
    return "selection " + heads_text(options.heads);
  return heads_text(options.heads);
}

Settings settings_of(const ProfileOptions& options) {
  Settings settings = cache_settings(options.scoring, options.input);
  const auto after_split = settings.begin() + 3;
  settings.insert(after_split, {{"metrics", metric_names(options.scoring)},
                                {"heads", heads_setting(options)},
                                {"exact_reversal", options.scoring.exact_reversal ? "true" : "false"}});
  settings.insert(settings.end(), {{"backend", options.backend}, {"simd", options.simd}, {"seed", "none"}});
  const ScoringOptions& s = options.scoring;
  if (s.near_far)
    settings.emplace_back("near_far_window",
                          s.near_far_window > 0 ? std::to_string(s.near_far_window) : "layer");
  if (s.barrier) settings.emplace_back("barrier", fmt::format("{}", *s.barrier));
  return settings;
}

ProfileHeader header_of(const ActivationSet& set, const ProfileOptions& options,
                        const std::vector<std::string>& warnings) {
  ProfileHeader header;
  header.tool_version = ROPE_PROFILER_VERSION;
  header.model_name = set.files()[0].model().name;
  header.model_type = set.model(0).model_type();
  header.num_layers = set.files()[0].model().num_layers;
  header.rope_layout = set.files()[0].model().layout == spectral::PairLayout::kHalf ? "half" : "interleaved";
  header.settings = settings_of(options);
  header.warnings = warnings;
  for (const SetHead& head : set.heads()) {
    if (header.layers.empty() || header.layers.back().layer != head.layer)
      header.layers.push_back(describe_layer(set, head.layer));
    header.heads.push_back({head.layer, head.head, head.rotates});
  }
  GridList(set).fill(header);
  return header;
}

// Passes of a scorer over all examples in canonical order, and what they find into the profile.
class Pipeline {
 public:
  Pipeline(const ActivationSet& set, ProfileWriter& writer, const ProgressCallback& progress,
           const ProfileOptions& options)
      : set_(set),
        writer_(writer),
        progress_(progress),
        resources_{options.threads, options.memory, options.engine, options.clock} {
    for (const SetTask& task : set.tasks())
      for (const SetExample& example : task.examples) {
        examples_.push_back(&example);
        places_.push_back({&task, &example - task.examples.data()});
      }
  }

  ScoringFacts score_all(const std::vector<HeadWork>& work, const ScoringOptions& scoring) {
    ExampleScorer scorer(set_, scoring, resources_);
    auto task = set_.tasks().begin();
    UsageSums usage;
    // Tasks without examples have spectra, too: none.
    const auto close_tasks = [&](const SetTask* until) {
      for (; task != set_.tasks().end() && &*task != until; ++task) {
        if (scoring.usage) writer_.put_usage(task->name, usage.spectra());
        usage = {};
      }
    };
    scorer.score(examples_, work, [&](std::size_t e, const std::vector<HeadScores>& heads) {
      const PhaseScope scope(Phase::kWriting);
      close_tasks(places_[e].task);
      put_example(places_[e], scoring, heads);
      usage.add(heads);
      progress_("scoring", static_cast<std::int64_t>(e + 1), std::ssize(examples_));
    });
    close_tasks(nullptr);
    return scorer.facts();
  }

  ScoringFacts sweep_selected(const std::vector<HeadWork>& work, const ScoringOptions& scoring) {
    ExampleScorer scorer(set_, scoring, resources_);
    scorer.score(examples_, work, [&](std::size_t e, const std::vector<HeadScores>& heads) {
      const PhaseScope scope(Phase::kWriting);
      put_scores(places_[e], heads, true);
      progress_("sweeping the selected heads", static_cast<std::int64_t>(e + 1), std::ssize(examples_));
    });
    return scorer.facts();
  }

 private:
  struct Place {
    const SetTask* task;
    std::int64_t row;
  };

  void put_example(const Place& place, const ScoringOptions& scoring, const std::vector<HeadScores>& heads) {
    const SetExample& example = place.task->examples[static_cast<std::size_t>(place.row)];
    writer_.put_example(place.task->name, place.row, example.id,
                        scoring.window > 0 ? scoring.window : example.window);
    put_scores(place, heads, false);
    std::vector<std::int64_t> values(heads.size());
    for (int c = 0; c < static_cast<int>(Count::kCount); ++c) {
      for (std::size_t n = 0; n < heads.size(); ++n) values[n] = heads[n].count[c];
      writer_.put(place.task->name, static_cast<Count>(c), place.row, values);
    }
  }

  void put_scores(const Place& place, const std::vector<HeadScores>& heads, bool sweep_only) {
    std::vector<double> values(heads.size());
    for (int s = 0; s < static_cast<int>(Score::kCount); ++s) {
      const Score score = static_cast<Score>(s);
      if (sweep_only && !is_sweep_score(score)) continue;
      for (std::size_t n = 0; n < heads.size(); ++n) values[n] = heads[n].score[s];
      if (std::any_of(values.begin(), values.end(), [](double v) { return !std::isnan(v); }))
        writer_.put(place.task->name, score, place.row, values);
    }
  }

  const ActivationSet& set_;
  ProfileWriter& writer_;
  const ProgressCallback& progress_;
  ScoringResources resources_;
  std::vector<const SetExample*> examples_;
  std::vector<Place> places_;
};

// nu_h from the norm shares written so far.
HeadSelection select_from(const ActivationSet& set, const ProfileReader& profile,
                          const HeadRequest& request) {
  std::vector<std::vector<double>> share;
  std::vector<std::vector<char>> stored;
  for (std::size_t t = 0; t < set.tasks().size(); ++t) {
    const SetTask& task = set.tasks()[t];
    share.push_back(head_means(profile, profile.tasks()[t], Score::kNormShare));
    stored.emplace_back();
    for (const SetHead& head : set.heads())
      stored.back().push_back(std::binary_search(task.layers.begin(), task.layers.end(), head.layer));
  }
  return select_heads(profile_heads(set), share, stored, request);
}

std::vector<std::string> input_names(const ProfileOptions& options) {
  std::vector<std::string> names = cache_inputs(options.files, options.input);
  if (options.selection_from) names.push_back(*options.selection_from);
  std::sort(names.begin(), names.end());
  return names;
}

// A selection made on one model says nothing about the heads of another.
void require_same_model(const ActivationSet& set, const ProfileReader& from) {
  const std::string& name = set.files()[0].model().name;
  if (from.header().model_name != name)
    throw input_error(from.path(), "/model", fmt::format("a profile of the caches' model \"{}\"", name),
                      fmt::format("one of \"{}\"", from.header().model_name));
}

// When the ranking of heads by variance cannot mean anything.
std::vector<std::string> selection_warnings(const HeadSelection& selection, const HeadRequest& request) {
  if (request.kind != HeadRequest::Kind::kTop || selection.order.empty()) return {};
  const auto variance = [&](std::int64_t head) { return selection.variance[static_cast<std::size_t>(head)]; };
  if (std::isnan(variance(selection.order.front())))
    return {"the variance over tasks needs at least two tasks: all heads are taken"};
  if (variance(selection.order.front()) == 0)
    return {
        "the norm share of no head varies over the tasks (is H(M) empty, or every pair, under this "
        "split?): "
        "the "
        "selection by variance means nothing here"};
  return {};
}

}  // namespace

void set_metrics(const std::string& text, ScoringOptions& options) {
  for (const auto& [name, member] : kMetrics) options.*member = false;
  options.near_far = false;
  options.near_far_window = 0;
  options.barrier.reset();
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    const auto* found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                     [&](const auto& metric) { return word == metric.first; });
    if (found != std::end(kMetrics))
      options.*found->second = true;
    else
      set_order_metric(word, options);
    start = end + 1;
  }
}

std::string metric_names(const ScoringOptions& options) {
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : ",") + name; };
  for (const auto& [name, member] : kMetrics)
    if (options.*member) add(name);
  if (options.near_far)
    add(options.near_far_window > 0 ? fmt::format("near_far:{}", options.near_far_window) : "near_far");
  if (options.barrier) add(fmt::format("barrier:{}", *options.barrier));
  return text;
}

ProfileReport run_profile(const ProfileOptions& options, const ProgressCallback& progress) {
  require_output_is_no_input(options.output, input_names(options));
  const InputStamps stamps(input_names(options));
  const PhaseThread booked(options.clock);
  ActivationSetOptions input = options.input;
  input.chunk_bytes = std::min(input.chunk_bytes, options.memory / 8);
  const ActivationSet set(options.files, input);
  std::unique_ptr<BackgroundDigest> digest;
  if (options.digest) digest = std::make_unique<BackgroundDigest>(input_names(options), options.clock);
  std::vector<std::string> warnings = set.warnings();
  for (std::string& warning : split_warnings(set, options.scoring.split))
    warnings.push_back(std::move(warning));

  require_near_far_windows(set, options.scoring);

  const bool reuse = options.selection_from.has_value();
  HeadSelection selection;
  if (!reuse) selection.selected = requested_heads(profile_heads(set), options.heads);
  const bool two_passes = options.heads.kind == HeadRequest::Kind::kTop && !reuse;
  ScoringOptions scoring = options.scoring;
  if (two_passes) scoring.share = true;  // the selection stands on it

  ProfileOptions recorded = options;
  recorded.scoring = scoring;
  ProfileWriter writer(options.output, options.force, header_of(set, recorded, warnings));
  for (const SetTask& task : set.tasks())
    writer.add_task({task.name, task.family, task.source, task.nominal_length, task.layers,
                     static_cast<std::int64_t>(task.examples.size())});

  if (reuse) {
    const ProfileReader from(*options.selection_from);
    require_same_model(set, from);
    const DecimalFraction* recut = options.heads_given ? &options.heads.fraction : nullptr;
    selection = reuse_selection(from, profile_heads(set), recut);
  }
  auto selected_work = [&](const HeadSelection& from, HeadWork chosen, HeadWork others) {
    std::vector<HeadWork> work;
    for (std::size_t n = 0; n < set.heads().size(); ++n)
      work.push_back(!set.heads()[n].rotates ? HeadWork::kNone : from.selected[n] ? chosen : others);
    return work;
  };
  Pipeline pipeline(set, writer, progress, options);
  ProfileReport report;
  const std::vector<HeadWork> first = two_passes
                                          ? std::vector<HeadWork>(set.heads().size(), HeadWork::kWithoutSweep)
                                          : selected_work(selection, HeadWork::kAll, HeadWork::kWithoutSweep);
  report.passes.push_back(pipeline.score_all(first, scoring));

  if (!reuse) {
    const ProfileReader so_far(writer.flush());
    selection = select_from(set, so_far, options.heads);
  }
  if (two_passes && scoring.needs_sweep())
    report.passes.push_back(
        pipeline.sweep_selected(selected_work(selection, HeadWork::kSweepOnly, HeadWork::kNone), scoring));
  const PhaseScope writing(Phase::kWriting);
  writer.put_selection(selection);
  writer.put_inputs(describe_inputs(input_names(options), digest.get()));
  stamps.require_unchanged();

  {
    const ProfileReader profile(writer.flush());
    report.model_name = profile.header().model_name;
    report.heads = profile.header().heads;
    report.warnings = warnings;
    if (!reuse)
      for (std::string& warning : selection_warnings(selection, options.heads))
        report.warnings.push_back(std::move(warning));
    report.selection = selection;
    report.tasks = summarize_tasks(profile);
    report.ranking = rank_profile(profile, {.resamples = 0});
    std::set<int> still;
    for (const SetHead& head : set.heads())
      if (!set.layer(head.layer).rotates) still.insert(head.layer);
    report.still_layers.assign(still.begin(), still.end());
  }
  const std::string scratch = writer.flush();
  writer.commit();
  if (options.deliver) options.deliver(scratch);  // a scratch file lives as long as its writer
  return report;
}

}  // namespace rope

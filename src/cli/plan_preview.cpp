#include "cli/plan_preview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/option_checks.hpp"
#include "cli/ranking_table.hpp"
#include "interventions/alpha_sweep.hpp"
#include "interventions/what_if.hpp"
#include "profiler/background_digest.hpp"
#include "profiler/cache_run.hpp"
#include "profiler/input_stamps.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kMostCurveRows = 16;

const std::vector<Table::Column> kScoreColumns{{"Semantic", true}, {"Positional", true},
                                               {"r_H", true},      {"E_2", true},
                                               {"spread", true},   {"Pos. fixed U", true}};

/// A change with its sign, and a star where its interval leaves out 0.
std::string change_text(const PreviewValue& value) {
  if (std::isnan(value.change)) return "-";
  const bool sure = value.change_low > 0 || value.change_high < 0;
  return fmt::format("{:+.3g}{}", value.change, sure ? "*" : " ");
}

std::vector<std::string> row_cells(const PreviewRow& row) {
  std::vector<std::string> cells;
  for (const PreviewValue& value : row.score)
    cells.push_back(row.intervention ? change_text(value) : short_number(value.value) + " ");
  return cells;
}

void print_changes(const Plan& plan, Console& console, std::ostream& to, bool for_err) {
  std::vector<Table::Column> columns{{"task"}, {"candidate"}};
  columns.insert(columns.end(), kScoreColumns.begin(), kScoreColumns.end());
  Table table(columns);
  for (const PlanTask& task : plan.tasks)
    for (const PreviewRow& row : task.preview) {
      if (row.intervention && !row.in_plan) continue;
      std::vector<std::string> cells{row.intervention ? "" : task.task, row.candidate()};
      for (std::string& cell : row_cells(row)) cells.push_back(std::move(cell));
      table.row(std::move(cells), row.intervention ? Style::kPlain : Style::kDim);
    }
  table.print(console, to, for_err);
}

/// Means over the tasks of the change of each score at one point of the sweep.
struct CurvePoint {
  std::string alpha;
  std::array<double, kPreviewScores> sum{}, count{};
};

std::vector<CurvePoint> curve_of(const Plan& plan) {
  std::vector<CurvePoint> curve;
  for (const PlanTask& task : plan.tasks)
    for (const PreviewRow& row : task.preview) {
      if (!row.in_sweep) continue;
      const std::string alpha = row.candidate();
      auto point =
          std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& p) { return p.alpha == alpha; });
      if (point == curve.end()) {
        point = curve.emplace(curve.end());
        point->alpha = alpha;
      }
      for (std::size_t s = 0; s < kPreviewScores; ++s) {
        if (std::isnan(row.score[s].change)) continue;
        point->sum[s] += row.score[s].change;
        point->count[s] += 1;
      }
    }
  std::sort(curve.begin(), curve.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return std::stod(a.alpha) < std::stod(b.alpha); });
  return curve;
}

void print_curve(const std::vector<CurvePoint>& curve, Console& console, std::ostream& to, bool for_err) {
  std::vector<Table::Column> columns{{"alpha", true}};
  columns.insert(columns.end(), kScoreColumns.begin(), kScoreColumns.end());
  Table table(columns);
  const std::size_t rows = std::min(curve.size(), kMostCurveRows);
  for (std::size_t i = 0; i < rows; ++i) {
    const CurvePoint& point = curve[rows > 1 ? i * (curve.size() - 1) / (rows - 1) : 0];
    std::vector<std::string> cells{point.alpha};
    for (std::size_t s = 0; s < kPreviewScores; ++s)
      cells.push_back(point.count[s] > 0 ? fmt::format("{:+.3g}", point.sum[s] / point.count[s]) : "-");
    table.row(std::move(cells));
  }
  table.print(console, to, for_err);
}

std::string setting(const ProfileReader& profile, const std::string& name) {
  for (const auto& [key, value] : profile.header().settings)
    if (key == name) return value;
  return {};
}

}  // namespace

void PlanPreview::add_options(CLI::App& app) {
  constexpr const char* kGroup = "Preview";
  resamples_ = BootstrapOptions{}.resamples;
  seed_ = BootstrapOptions{}.seed;
  backend_ = "auto";
  memory_ = "512M";
  digest_ = "full";
  const auto dependent = [&](CLI::Option* option) {
    dependent_.push_back(option->group(kGroup));
    return option;
  };
  app.add_option(
         "--preview", files_,
         "predict every candidate's scores from these activation caches of the model, without running it")
      ->type_name("FILE")
      ->group(kGroup);
  dependent(app.add_option("--alpha-sweep", sweep_,
                           "FROM:TO:STEP, e.g. 0:3:0.1: also rescale by FROM, FROM+STEP, ... up to TO (exact "
                           "decimals), the trade-off curve"))
      ->type_name("RANGE");
  dependent(
      app.add_option("--resamples", resamples_, "bootstrap resamples of the examples; 0 = no intervals"))
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}))
      ->capture_default_str();
  dependent(app.add_option("--seed", seed_, "seed of the bootstrap"))
      ->type_name("N")
      ->check(check_seed)
      ->capture_default_str();
  dependent(app.add_option("--config", config_, "the model's config.json, when the caches hold none"))
      ->type_name("FILE");
  dependent(
      app.add_option("--trust", trust_,
                     "which frequencies hold when config and caches differ (default: as in the profile)"))
      ->check(CLI::IsMember({"inv_freq", "config"}));
  dependent(app.add_option("--backend", backend_, "where the sweep over distances runs"))
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  dependent(
      app.add_option("--device", device_,
                     "which GPU, as `devices` numbers them; without it all that are usable share the work"))
      ->type_name("N")
      ->check(CLI::Range(0, 1023));
  dependent(
      app.add_option("--memory", memory_, "working memory in bytes, about, or with K, M or G; at least 64M"))
      ->type_name("BYTES")
      ->capture_default_str();
  dependent(app.add_option("--digest", digest_, "SHA-256 of the caches, for the record"))
      ->check(CLI::IsMember({"full", "none"}))
      ->capture_default_str();
}

void PlanPreview::check() const {
  if (wanted()) {
    if (!sweep_.empty()) parse_alpha_sweep(sweep_);
    parse_memory(memory_);
    return;
  }
  for (const CLI::Option* option : dependent_)
    if (option->count() > 0)
      throw usage_error(option->get_name() + " belongs to --preview",
                        "name the caches with --preview FILE...");
}

std::vector<std::string> PlanPreview::inputs() const {
  std::vector<std::string> names = files_;
  if (!config_.empty()) names.push_back(config_);
  return names;
}

void PlanPreview::run(Plan& plan, const ProfileReader& profile, Console& console, int threads) const {
  const InputStamps stamps(inputs());
  WhatIfOptions options;
  options.scoring = profile_scoring(profile);
  if (!sweep_.empty()) options.sweep = parse_alpha_sweep(sweep_);
  options.resamples = resamples_;
  options.seed = seed_;
  options.resources.threads = threads;
  options.resources.memory = parse_memory(memory_);
  const OpenedBackend opened = open_backend(backend_, device_);
  options.resources.engine = opened.engine;
  console.detail(fmt::format("backend {}: {}", opened.choice.name, opened.choice.reason));

  ActivationSetOptions input;
  if (!config_.empty()) input.config_path = config_;
  const std::string trust = trust_.empty() ? setting(profile, "trust") : trust_;
  input.trust = trust_of(trust);
  input.chunk_bytes = std::min(input.chunk_bytes, options.resources.memory / 8);
  const ActivationSet set(files_, input);
  std::vector<std::string> names = inputs();
  std::sort(names.begin(), names.end());
  std::unique_ptr<BackgroundDigest> digest;
  if (digest_ == "full") digest = std::make_unique<BackgroundDigest>(names, nullptr);

  std::unique_ptr<Progress> progress;
  for (std::string& warning :
       add_preview(plan, profile, set, options, [&](const char*, std::int64_t, std::int64_t total) {
         if (!progress) progress = std::make_unique<Progress>(console, "examples, previewing", total);
         progress->advance();
       }))
    plan.warnings.push_back(std::move(warning));
  progress.reset();
  const spectral::SplitRule& split = options.scoring.split;
  plan.preview = PreviewFacts{split.name(),
                              setting(profile, "window"),
                              setting(profile, "window_cap"),
                              trust.empty() ? "neither" : trust,
                              opened.choice.name,
                              spectral::simd_in_use(),
                              resamples_,
                              seed_,
                              describe_inputs(names, digest.get())};
  stamps.require_unchanged();
}

void PlanPreview::print(const Plan& plan, Console& console, std::ostream& to, bool for_err) const {
  to << "\npredicted: baseline scores over the plan's heads, then each candidate's change"
     << (resamples_ > 0 ? " (* 95 % interval without 0)" : "") << '\n';
  print_changes(plan, console, to, for_err);
  const std::vector<CurvePoint> curve = curve_of(plan);
  if (curve.empty()) return;
  const auto tasks = std::count_if(plan.tasks.begin(), plan.tasks.end(),
                                   [](const PlanTask& task) { return !task.preview.empty(); });
  to << "\nchanges by alpha, mean over " << counted(static_cast<std::size_t>(tasks), "task");
  if (curve.size() > kMostCurveRows)
    to << fmt::format(" ({} of {} points; all of them, by task: export --table preview)", kMostCurveRows,
                      curve.size());
  to << '\n';
  print_curve(curve, console, to, for_err);
}

}  // namespace rope::cli

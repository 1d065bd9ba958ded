#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/bound_table.hpp"
#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "profiler/context_bounds.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"
#include "profiler/json_text.hpp"
#include "profiler/margin_measures.hpp"
#include "spectral/band_split.hpp"

namespace rope::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 40;
constexpr int kMostPairs = 512;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class BoundCommand : public Command {
 public:
  std::string name() const override { return "bound"; }
  std::string group() const override { return kTheoryGroup; }
  std::string summary() const override { return "the context length that the theory excludes, if it does"; }
  std::string details() const override {
    return "A margin between two keys that still responds to one step of distance by zeta (the largest "
           "|D(m+1) - D(m)| over its norm) must hold a part of its norm in the high frequencies, and those "
           "average out over a long window: the preference then flips at nearly half of the distances. The "
           "bound (paper: Theorem 1 and 3, equations 26 to 37) says from which window M on that happens in "
           "more than a share delta of them:\n\n"
           "  R_F = sqrt(sum 4 sin(omega/2)^2) over the h pairs, Gamma = 2 C / ((1 - rho) epsilon)\n"
           "  k_N = number of pairs with M omega < Gamma, c = sqrt(1/2 - epsilon)\n"
           "  l = max(0, zeta - Gamma sqrt(h) / M) / R_F, for 0 < zeta < R_F\n"
           "  u = epsilon l + sqrt(k_N (1 - l^2)), v = max(0, c l - sqrt(k_N (1 - l^2)))\n"
           "  p_floor = max(0, Phi(-u / v) - tau) where v > 0, else 0; it does not fall with M\n\n"
           "M-dagger is the first window given with p_floor above delta, M_max the last one before it. Where "
           "there is none, it says so; M_suff = max(2, ceil(Gamma / omega_min), floor(Gamma sqrt(h) / zeta) "
           "+ "
           "1) is where p_floor has reached delta* = max(0, Phi(-epsilon / c) - tau), more than which it "
           "never is. With the constants that the theorem is proved for (C = 2 pi, epsilon = 0.01) that is "
           "billions of tokens for the frequencies of today's models: the bound excludes almost nothing at "
           "lengths in use.\n\n"
           "The frequencies come from numbers (--theta with --head-dim or --pairs), from a config.json "
           "(--config: one table per distinct grid of its layers), or from activation caches. Caches also "
           "give tau and zeta per task and grid: tau is the largest difference of Gaussian and exact "
           "reversal over the task's margins (paper: equation 25), zeta their quantiles 0.1, 0.5 and 0.9; "
           "every margin at its own window. --tau and --zeta replace what is measured.\n\n"
           "Lists: 0.1,0.5 or FIRST:LAST:STEP or FIRST:LAST:xFACTOR. The theorem is proved for geometric "
           "grids; for others (llama3, yarn, ...) a warning says that the constants are borrowed.";
  }
  std::string example() const override {
    return "rope-profiler bound --theta 1e6 --head-dim 128 --zeta 0.5,1 --delta 0.1";
  }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.files_required = defaults.split_option = defaults.window_option = false;
    caches_.add_options(app, defaults);
    theta_option_ = app.add_option("--theta", theta_, "base B of a geometric grid")->type_name("X");
    head_dim_option_ =
        app.add_option("--head-dim", head_dim_, "with --theta: lanes of a head, all of them rotary")
            ->type_name("N")
            ->check(CLI::Range(2, 2 * kMostPairs));
    pairs_option_ = app.add_option("--pairs", pairs_, "with --theta: rotary pairs h, in place of --head-dim")
                        ->type_name("N")
                        ->check(CLI::Range(1, kMostPairs));
    head_dim_option_->excludes(pairs_option_);
    seq_len_option_ =
        app.add_option(
               "--seq-len", seq_len_,
               "with --config alone: length in tokens, for frequencies that follow it (dynamic, longrope)")
            ->type_name("N")
            ->check(CLI::Range(std::int64_t{1}, kLongestSequence));
    const auto list = [&](const char* name, std::string& text, const char* what) {
      return app.add_option(name, text, what)->type_name("LIST");
    };
    list("--window", windows_, "windows M in tokens")->capture_default_str();
    zeta_option_ = list("--zeta", zeta_, "largest response per norm, 0 < zeta < R_F");
    tau_option_ = list("--tau", tau_, "gap between Gaussian and exact reversal, 0 <= tau < 1");
    zeta_option_->default_str("0.5, or measured");
    tau_option_->default_str("0, or measured");
    list("--delta", delta_, "share of flipped distances that is tolerated, 0 <= delta < 1")
        ->capture_default_str();
    list("--c", c_, "C > 0; the theorem is proved with 2 pi")->default_str("6.283185307179586");
    list("--epsilon", epsilon_, "0 < epsilon < 1/2")->capture_default_str();
    add_json_option(app, json_);
  }

  int run(Console& console, int threads) override {
    BoundRequest request = parse_lists();
    Json record;
    std::vector<std::string> warnings;
    if (caches_.files().empty())
      record = from_numbers(request, warnings);
    else
      record = from_caches(request, warnings, console, threads);
    for (const std::string& warning : grid_warnings(request)) warnings.push_back(warning);
    const std::vector<BoundSeries> series = bound_series(request);
    for (const std::string& warning : warnings) console.warning(warning);
    if (json_) {
      record["warnings"] = warnings;
      for (const auto& [name, list] : list_settings()) record["settings"][name] = list;
      add_bounds(request, series, record);
      console.out() << json_text(record);
    } else {
      print_bounds(console, request, series);
    }
    return 0;
  }

 private:
  BoundRequest parse_lists() const {
    BoundRequest request;
    request.windows = parse_whole_numbers("--window", windows_, 2, spectral::kLargestBoundWindow);
    request.delta = parse_numbers("--delta", delta_, {0, 1, false, true});
    request.c = parse_numbers("--c", c_, {0, kInfinity, true, true});
    request.epsilon = parse_numbers("--epsilon", epsilon_, {0, 0.5, true, true});
    if (zeta_option_->count() > 0) request.zeta = parse_numbers("--zeta", zeta_, {0, kInfinity, true, true});
    if (tau_option_->count() > 0) request.tau = parse_numbers("--tau", tau_, {0, 1, false, true});
    return request;
  }

  std::vector<std::pair<std::string, std::string>> list_settings() const {
    const auto or_measured = [&](const std::string& text, const char* otherwise) {
      return !text.empty()             ? text
             : caches_.files().empty() ? std::string(otherwise)
                                       : std::string("measured");
    };
    return {{"bound_windows", windows_},
            {"zeta", or_measured(zeta_, "0.5")},
            {"tau", or_measured(tau_, "0")},
            {"delta", delta_},
            {"c", c_},
            {"epsilon", epsilon_}};
  }

  /// Without caches: fills the grids and what is not measured.
  Json from_numbers(BoundRequest& request, std::vector<std::string>& warnings) const {
    if (const CLI::Option* option = caches_.first_given())
      throw usage_error(option->get_name() + " needs activation caches");
    if (request.zeta.empty()) request.zeta = {0.5};
    if (request.tau.empty()) request.tau = {0.0};
    std::vector<ProfileInput> inputs;
    const bool numbers = theta_option_->count() + head_dim_option_->count() + pairs_option_->count() > 0;
    if (!caches_.config().empty()) {
      if (numbers) throw usage_error("--config and --theta, --head-dim, --pairs exclude each other");
      const ModelConfig config = parse_model_config(read_config_file(caches_.config()), caches_.config());
      request.grids = grids_of_config(config, caches_.config(), seq_len_);
      warnings = config.warnings;
      if (seq_len_ && std::none_of(config.layers.begin(), config.layers.end(), follows_length))
        warnings.push_back("--seq-len changes nothing: no layer's frequencies follow the length");
      inputs = {{caches_.config(), sha256_of_file(caches_.config()),
                 static_cast<std::int64_t>(std::filesystem::file_size(caches_.config()))}};
    } else {
      if (seq_len_) throw usage_error("--seq-len needs --config");
      request.grids = {grid_of_given_numbers()};
    }
    return bound_record(inputs);
  }

  /// With caches: measures, and fills the grids.
  Json from_caches(BoundRequest& request, std::vector<std::string>& warnings, Console& console,
                   int threads) const {
    for (const CLI::Option* option : {theta_option_, head_dim_option_, pairs_option_, seq_len_option_})
      if (option->count() > 0)
        throw usage_error(option->get_name() + " and activation caches exclude each other");
    const CacheRun run(caches_.parse(threads));
    Progress progress(console, "examples", std::ssize(run.examples()));
    std::size_t done = 0;
    MarginMeasures measures = measure_margins(run, [&](std::size_t example) {
      progress.advance(static_cast<std::int64_t>(example - done));
      done = example;
    });
    if (measures.tasks.empty())
      throw UserError(
          caches_.files().front() + ": expected triplets (a query and two keys), found none to measure",
          "zeta and tau are those of margins between two keys");
    for (const std::string& task : measures.without_margin)
      warnings.push_back("task " + task + " has no margin to measure");
    if (!measures.exact_quantiles)
      console.note(fmt::format("quantiles of zeta over more than {} margins are within {:.1g} of their value",
                               ResponseQuantiles::kExact, ResponseQuantiles::kRelativeError));
    request.grids = std::move(measures.grids);
    request.measured = std::move(measures.tasks);
    Json record = run.record("rope-profiler/bound");
    record["settings"]["zeta_relative_error"] =
        measures.exact_quantiles ? 0.0 : ResponseQuantiles::kRelativeError;
    for (const char* name : {"split", "split_C", "split_epsilon"}) record["settings"].erase(name);
    warnings.insert(warnings.begin(), run.warnings().begin(), run.warnings().end());
    return record;
  }

  GridFacts grid_of_given_numbers() const {
    if (theta_option_->count() == 0 || head_dim_option_->count() + pairs_option_->count() == 0)
      throw usage_error(
          "expected frequencies: --theta with --head-dim or --pairs, --config, or activation caches",
          "for example --theta 1e6 --head-dim 128");
    if (!(theta_ > 1 && theta_ < kInfinity))
      throw usage_error(fmt::format("--theta: expected a base above 1, found {}", theta_));
    if (head_dim_ % 2 != 0)
      throw usage_error(fmt::format("--head-dim: expected an even number of lanes, found {}", head_dim_),
                        "--pairs H gives the number of rotary pairs itself");
    return grid_of_numbers(theta_, pairs_ > 0 ? pairs_ : head_dim_ / 2);
  }

  static bool follows_length(const LayerModel& layer) {
    return layer.has_attention && layer.rotates && spectral::depends_on_length(layer.rope);
  }

  static std::vector<std::string> grid_warnings(const BoundRequest& request) {
    std::vector<std::string> warnings;
    for (std::size_t g = 0; g < request.grids.size(); ++g)
      if (!spectral::is_geometric(request.grids[g].omega))
        warnings.push_back(fmt::format(
            "the bound is proved for geometric grids; grid {} ({}) is none, so its figures are borrowed", g,
            request.grids[g].rope_type));
    return warnings;
  }

  CacheOptions caches_;
  double theta_ = 0;
  int head_dim_ = 0, pairs_ = 0;
  std::optional<std::int64_t> seq_len_;
  std::string windows_ = "1024:8589934592:x2", zeta_, tau_, delta_ = "0.1", c_ = "6.283185307179586",
              epsilon_ = "0.01";
  bool json_ = false;
  CLI::Option *seq_len_option_ = nullptr, *theta_option_ = nullptr, *head_dim_option_ = nullptr,
              *pairs_option_ = nullptr, *zeta_option_ = nullptr, *tau_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_bound() { return std::make_unique<BoundCommand>(); }

}  // namespace rope::cli

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "profiler/error.hpp"
#include "profiler/profile.hpp"
#include "spectral/backend.hpp"

namespace rope::cli {
namespace {

constexpr double kFragileWarning = 0.05;  // share of the triplets

std::string layer_list(const std::vector<int>& layers) {
  std::string text;
  for (int layer : layers) text += fmt::format("{}{}", text.empty() ? "" : ", ", layer);
  return text;
}

std::string selection_sentence(const ProfileReport& report, const std::string& rule) {
  std::string heads;
  int selected = 0, rotating = 0;
  for (std::size_t n = 0; n < report.heads.size(); ++n) {
    rotating += report.heads[n].rotates;
    if (!report.selection.selected[n]) continue;
    if (++selected <= 12)
      heads += fmt::format("{}{}.{}", heads.empty() ? "" : " ", report.heads[n].layer, report.heads[n].head);
  }
  if (selected > 12) heads += " ...";
  return fmt::format("scores over {} of {} heads ({}): {}", selected, rotating, rule, heads);
}

// What did not enter the scores, in one line.
std::string left_out_sentence(const ProfileReport& report) {
  std::int64_t triplets = 0, ties = 0, pairs = 0, undefined = 0, non_finite = 0, fragile = 0;
  for (const TaskSummary& task : report.tasks) {
    triplets += task.triplets;
    ties += task.ties;
    pairs += task.pairs;
    undefined += task.undefined;
    non_finite += task.non_finite;
    fragile += task.fragile;
  }
  return fmt::format(
      "of {} triplets and {} pairs left out: {} ties, {} undefined, {} non-finite; {} fragile triplets kept",
      triplets, pairs, ties, undefined, non_finite, fragile);
}

double fragile_share(const ProfileReport& report) {
  double fragile = 0, triplets = 0;
  for (const TaskSummary& task : report.tasks) {
    fragile += static_cast<double>(task.fragile);
    triplets += static_cast<double>(task.triplets);
  }
  return triplets > 0 ? fragile / triplets : 0;
}

class ProfileCommand : public Command {
 public:
  std::string name() const override { return "profile"; }
  std::string summary() const override { return "score every task and head of a cache and rank the tasks"; }
  std::string details() const override {
    return "Evaluates the attention scores that the cached vectors would have at every relative distance of "
           "each "
           "example's window and writes all scores per (task, example, layer, head) to an HDF5 profile. "
           "Prints the "
           "tasks ranked by susceptibility w_S: high where position flips the preference between keys "
           "(low Semantic Score) while neighbouring positions stay apart (high Positional Score).\n\n"
           "Several files are read as one cache of one model; their order does not matter. By default the 5 "
           "% of "
           "heads whose high-frequency norm share varies most over the tasks are swept; the others get norm "
           "share, "
           "Semantic Score and frequency use only.\n\n"
           "Three metrics are computed only when asked for, of the swept heads. aliasing: the shares of "
           "neighbouring distances whose scores are the same number in bfloat16, and in float16. near_far: "
           "how "
           "often a far key outscores a near one, P[S(m_far) > S(m_near)] with m_near uniform on M+1 ... 2M "
           "and m_far on 2M+1 ... 3M, counted exactly and as the Gaussian of exact moments (P App. B); M is "
           "the "
           "layer's window unless near_far:M sets it. It evaluates 2M scores per pair in float64 and sorts "
           "them: some forty times the work of the default sweep. barrier:S0: the share of distances with "
           "S(m) > S0, its Gaussian value with exact moments, and with the variance of the fast pairs "
           "replaced "
           "by half their squared norm (P 45); about as much work as the sweep once more.\n\n"
           "Without -o it prints the table and writes no file. With -o - the profile goes to standard output "
           "and the "
           "table to standard error.";
  }
  std::string example() const override {
    return "rope-profiler profile examples/data/smollm2.h5 -o profile.h5";
  }

  void add_options(CLI::App& app) override {
    add_output_options(app, output_, "the profile");
    CacheDefaults defaults;
    defaults.heads = "top:0.05";
    defaults.heads_help =
        "heads that are swept and averaged: all, the top share F by variance of the norm share, or a list "
        "LAYER.HEAD,...";
    caches_.add_options(app, defaults);
    app.add_option("--backend", backend_, "where the sweep runs")
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--device", device_,
                   "which GPU, as `devices` numbers them; without it all that are usable share the work")
        ->type_name("N")
        ->check(CLI::Range(0, 1023));
    app.add_option("--selection", selection_,
                   "take the heads that another profile selected; with --heads top:F its ranking is cut anew")
        ->type_name("FILE");
    app.add_option("--metrics", metrics_,
                   "what to compute, comma-separated: semantic, positional, share, length, usage; further "
                   "aliasing, near_far[:M], barrier:S0 (see below)")
        ->type_name("LIST")
        ->capture_default_str();
    app.add_flag("--exact-reversal", exact_reversal_,
                 "count reversals exactly beside the Gaussian value, with their gap");
  }

  int run(Console& console, int threads) override {
    const auto start = std::chrono::steady_clock::now();
    const bool to_stdout = output_.path == "-";
    ProfileOptions options = make_options(console, threads);
    PhaseClock clock;
    if (console.verbose()) options.clock = &clock;
    std::unique_ptr<Output> standard;
    if (to_stdout) {
      standard = std::make_unique<Output>(console, output_, Output::Content::kBinary);
      options.deliver = [&](const std::string& path) {
        standard->append_file(path);
        standard->commit();
      };
    } else {
      options.output = output_.path;
    }
    const ProfileReport report = run_with_progress(options, console);
    print(report, console, to_stdout);
    if (console.verbose()) {
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      print_timing(report, clock, wall.count(), console);
    }
    if (!options.output.empty()) console.note("wrote " + options.output);
    return 0;
  }

 private:
  ProfileOptions make_options(Console& console, int threads) {
    const CacheRunOptions caches = caches_.parse(threads);
    ProfileOptions options;
    options.files = caches.files;
    options.input = caches.input;
    options.scoring = caches.scoring;
    options.heads = caches.heads;
    options.heads_given = caches_.heads_given();
    options.digest = caches.digest;
    options.memory = caches.memory;
    options.threads = threads;
    options.force = output_.force;
    if (!selection_.empty()) {
      if (options.heads_given && options.heads.kind != HeadRequest::Kind::kTop)
        throw usage_error("--selection and --heads exclude each other",
                          "--selection P.h5 --heads top:F cuts that profile's ranking anew");
      options.selection_from = selection_;
    }
    set_metrics(metrics_, options.scoring);
    options.scoring.exact_reversal = exact_reversal_;
    if (exact_reversal_ && !options.scoring.semantic)
      throw usage_error("--exact-reversal needs the metric semantic");
    const OpenedBackend opened = open_backend(backend_, device_);
    options.engine = opened.engine;
    options.backend = opened.choice.name;
    options.simd = spectral::simd_in_use();
    const std::string sentence =
        fmt::format("backend {} ({}): {}", options.backend, options.simd, opened.choice.reason);
    // A GPU in use is news; that there is none is not.
    if (options.backend == "cuda" && backend_ == "auto")
      console.note(sentence);
    else
      console.detail(sentence);
    return options;
  }

  static ProfileReport run_with_progress(const ProfileOptions& options, Console& console) {
    std::unique_ptr<Progress> progress;
    std::string shown;
    return run_profile(options, [&](const char* what, std::int64_t, std::int64_t total) {
      if (shown != what) {
        progress.reset();
        progress = std::make_unique<Progress>(console, std::string("examples, ") + what, total);
        shown = what;
      }
      progress->advance();
    });
  }

  // One line of KEY=VALUE that programs can read: seconds of wall time, of CPU time in all and by phase; then
  // what was computed.
  static void print_timing(const ProfileReport& report, const PhaseClock& clock, double wall,
                           Console& console) {
    double all = 0;
    std::string phases;
    for (int p = 0; p < static_cast<int>(Phase::kCount); ++p) {
      const double seconds = clock.seconds(static_cast<Phase>(p));
      all += seconds;
      phases += fmt::format(" {}={:.4f}", phase_name(static_cast<Phase>(p)), seconds);
    }
    console.detail(fmt::format("timing: wall={:.4f} cpu={:.4f}{}", wall, all, phases));
    for (const ScoringFacts& pass : report.passes)
      console.detail(
          fmt::format("pass: vector_bytes={} batches={} lanes={} swept_batches={} swept_lanes={} "
                      "peak_vector_bytes={} peak_result_bytes={}",
                      pass.vector_bytes, pass.batches, pass.lanes, pass.swept_batches, pass.swept_lanes,
                      pass.peak_vectors, pass.peak_results));
  }

  static void print(const ProfileReport& report, Console& console, bool to_stdout) {
    for (const std::string& warning : report.warnings) console.warning(warning);
    std::ostream& to = to_stdout ? console.err() : console.out();
    if (to_stdout && console.quiet()) return;
    to << printable(report.model_name) << ": " << counted(report.ranking.tasks.size(), "task")
       << " ranked by susceptibility w_S\n";
    print_ranking(report.ranking, console, to, to_stdout);
    to << selection_sentence(report, report.selection.rule) << '\n';
    if (!report.still_layers.empty())
      to << "layers without rotation, not scored: " << layer_list(report.still_layers) << '\n';
    to << left_out_sentence(report) << '\n';
    if (fragile_share(report) > kFragileWarning)
      console.warning(
          fmt::format("{:.1f} % of the triplets are fragile: rounding to the cache's element type could "
                      "turn their preference at distance 0",
                      100 * fragile_share(report)));
  }

  CacheOptions caches_;
  OutputOptions output_;
  std::string backend_ = "auto", selection_, metrics_ = metric_names(ScoringOptions{});
  int device_ = -1;
  bool exact_reversal_ = false;
};

}  // namespace

std::unique_ptr<Command> make_profile() { return std::make_unique<ProfileCommand>(); }

}  // namespace rope::cli

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/audit_table.hpp"
#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/json_text.hpp"

namespace rope::cli {
namespace {

class AuditCommand : public Command {
 public:
  std::string name() const override { return "audit"; }
  std::string group() const override { return kTheoryGroup; }
  std::string summary() const override {
    return "check the theory's inequalities on every query-key pair of a cache";
  }
  std::string details() const override {
    return "One step of distance moves the score of a pair of vectors by no more than its frequencies allow "
           "(P 166, A.4.1, C.6.4, D.1; Figure 7). With gamma_n = 2 |sin(omega_n/2)| and the fast pairs H of "
           "--split:\n\n"
           "  zeta = largest step |S(m+1) - S(m)| / U  <=  T = w_N + kappa_H r_H\n"
           "  f_pos = [zeta - w_N]_+ / kappa_H  <=  r_H = U_H / U\n"
           "  w_N = sum over the slow pairs of gamma_n |z_n| / U,  kappa_H = sum over H of the same / U_H\n\n"
           "Both hold for every vector, window and split, so there must be 0 violations beyond the rounding "
           "of float64, whose bound is derived and printed; steps that the fast sweep finds near T are "
           "evaluated again in float64. Where the frequencies of H lie far enough apart (M delta >= 2 C / "
           "epsilon, C >= 2 pi: `certified` on geometric grids, `separation` on any), Prop. 1 bounds mean "
           "and "
           "variance of the fast part of the score over the window:\n\n"
           "  |mean X_H| <= epsilon U_H        |Var X_H - U_H^2/2| <= epsilon U_H^2\n\n"
           "Elsewhere the table still says how many vectors keep these two, but none is counted as a "
           "violation. \"Used\" is left side over right side: 1 is all that is allowed. Exit code 1 if "
           "anything "
           "is violated; the worst pair is named.\n\n"
           "Certified sets are empty at short windows; --window 32768 --no-window-cap is the paper's "
           "setting. "
           "--bins writes P Figure 7: medians and 10-90 % bands of zeta and T in 32 bins of r_H with equally "
           "many pairs. Quantiles are exact up to 10 million pairs, then from a sample whose error is "
           "printed.";
  }
  std::string example() const override {
    return "rope-profiler audit examples/data/smollm2.h5 --window 32768 --no-window-cap";
  }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.split = "certified";
    defaults.split_help =
        "which pairs are H; zeta <= T holds for every rule, Prop. 1 for certified and separation";
    cache_.add_options(app, defaults);
    app.add_option("--by", by_, "a row per layer or head besides the sums")
        ->check(CLI::IsMember({"layer", "head"}));
    app.add_option("--bins", bins_.path, "CSV of the equal-count bins of r_H")->type_name("FILE");
    app.add_flag("--force", bins_.force, "replace an existing file");
    add_json_option(app, json_);
  }

  int run(Console& console, int threads) override {
    const CacheRunOptions options = cache_.parse(threads);
    std::optional<Output> bins;
    if (!bins_.path.empty()) {
      if (bins_.path == "-") throw usage_error("--bins: expected the name of a file, found -");
      require_output_is_no_input(bins_.path, cache_inputs(options.files, options.input));
      bins.emplace(console, bins_);
    }
    const CacheRun run(options);
    for (const std::string& warning : run.warnings()) console.warning(warning);
    const AuditResult result = audit(console, run);
    if (json_) {
      nlohmann::ordered_json record = run.record("rope-profiler/audit");
      append_audit(result, record);
      console.out() << json_text(record);
    } else {
      print_audit(console, result, title(run, result), rows());
    }
    if (bins) {
      write_share_bins(result, bins->stream());
      bins->commit();
    }
    return audit_verdict(console, result);
  }

 private:
  static AuditResult audit(Console& console, const CacheRun& run) {
    Progress progress(console, "examples", std::ssize(run.examples()));
    AuditOptions options;
    options.progress = [&](std::int64_t examples) { progress.advance(examples); };
    return run_audit(run, options);
  }

  static std::string title(const CacheRun& run, const AuditResult& result) {
    return fmt::format("{}: {} pairs of {} heads, {} examples\nsplit {}, C = {:.4g}, epsilon = {:.4g}",
                       printable(run.set().files()[0].model().name), result.all.tally.pairs,
                       run.selected_heads(), run.examples().size(), run.scoring().split.name(), result.c,
                       result.epsilon);
  }

  AuditRows rows() const {
    return by_ == "layer" ? AuditRows::kLayers : by_ == "head" ? AuditRows::kHeads : AuditRows::kNone;
  }

  CacheOptions cache_;
  OutputOptions bins_;
  std::string by_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_audit() { return std::make_unique<AuditCommand>(); }

}  // namespace rope::cli

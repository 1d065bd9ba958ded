#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/band_table.hpp"
#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "profiler/error.hpp"
#include "profiler/json_text.hpp"

namespace rope::cli {
namespace {

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 24;
constexpr std::size_t kMostPrefixes = 16, kMostWindows = 64;

class BandCommand : public Command {
 public:
  std::string name() const override { return "band"; }
  std::string group() const override { return kTheoryGroup; }
  std::string summary() const override {
    return "up to which frequency the high-frequency picture of a score's variance holds";
  }
  std::string details() const override {
    return "H_k are the k fastest pairs. Were they fast enough, the variance of their score X over the "
           "window "
           "would be half its squared norm U^2, and X sqrt(2) / U would look like N(0,1). Over the margins d "
           "of "
           "the chosen heads (paper: equations 168 and 169, Figure 3):\n\n"
           "  R_var = sum Var(X of H_k) / sum U_k^2 / 2, a = sqrt(R_var), R = max(0, 1 - |a - 1|)\n\n"
           "for every k, from exact variances, with the share of each pair in the energy sum U^2; `pair's "
           "R_var` "
           "is that of the pair alone. The first k with R below --threshold is named with its pair, its "
           "frequency "
           "omega and M omega, the radians that it turns over the window.\n\n"
           "The score law (paper: D.3) is the distribution of X_H(m) sqrt(2) / U_H over all distances m and "
           "pairs (query, key), each pair with equal weight, for the H(M) of --split and for each --prefix, "
           "beside N(0,1). Its Kolmogorov distance comes from bins of 1/512: the value at their edges, and "
           "by "
           "how much what lies between could raise it. It takes a sweep over all distances; --law-stride N "
           "takes every Nth pair of a head, 0 leaves it out.\n\n"
           "Heads that turn by different frequencies are never pooled. Every margin has its own window "
           "unless "
           "--window says another; several windows give results of their own. Margins: the valid triplets of "
           "the Semantic Score, oriented, without constant.";
  }
  std::string example() const override {
    return "rope-profiler band examples/data/smollm2.h5 --heads 0.0,0.1 --threshold 0.9";
  }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.window_option = false;
    caches_.add_options(app, defaults);
    app.add_option("--by", by_,
                   "what is pooled: all heads of a grid, the heads of a layer, of the layers that are "
                   "alike (as `inspect` groups them), or nothing")
        ->check(CLI::IsMember({"pooled", "layer", "group", "head"}))
        ->capture_default_str();
    app.add_option(
           "--window", windows_,
           "windows in tokens in place of the examples' own: 8192,32768 or FIRST:LAST:xFACTOR; positions are "
           "then not checked against them, and frequencies that depend on length keep the example's")
        ->type_name("LIST");
    app.add_option("--prefix", prefixes_, "sizes k that the table shows, each with a score law")
        ->type_name("LIST");
    app.add_option("--threshold", threshold_, "R below which the agreement is said to break, 0 < X <= 1")
        ->type_name("X")
        ->capture_default_str();
    app.add_option("--law-stride", options_.law_stride,
                   "every Nth pair of a head enters the score law; 0: none")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}))
        ->capture_default_str();
    add_json_option(app, json_);
  }

  int run(Console& console, int threads) override {
    read_lists();
    const CacheRun run(caches_.parse(threads));
    for (const std::string& warning : run.warnings()) console.warning(warning);
    const BandResult result = measure(console, run);
    if (result.groups.empty())
      throw UserError(caches_.files().front() + ": expected windows of at least 2 tokens, found none");
    remark(console, run, result);
    if (json_) {
      nlohmann::ordered_json record = run.record("rope-profiler/band");
      if (!windows_.empty()) record["settings"]["window"] = windows_;
      record["settings"]["by"] = band_by_name(options_.by);
      record["settings"]["prefix"] =
          prefixes_.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(prefixes_);
      record["settings"]["law_stride"] = options_.law_stride;
      record["settings"]["threshold"] = threshold_;
      add_bands(result, options_, threshold_, record);
      console.out() << json_text(record);
    } else {
      console.out() << fmt::format("{}: {} heads, {} examples, split {}\n\n",
                                   printable(run.set().files()[0].model().name), run.selected_heads(),
                                   run.examples().size(), run.scoring().split.name());
      print_bands(console, result, options_, threshold_, options_.prefixes);
    }
    return 0;
  }

 private:
  void read_lists() {
    options_.by = by_ == "layer"   ? BandBy::kLayer
                  : by_ == "group" ? BandBy::kGroup
                  : by_ == "head"  ? BandBy::kHead
                                   : BandBy::kPooled;
    if (!(threshold_ > 0 && threshold_ <= 1))
      throw usage_error(
          fmt::format("--threshold: expected a number above 0 and up to 1, found {}", threshold_));
    if (!windows_.empty()) options_.windows = parse_whole_numbers("--window", windows_, 2, kLargestWindow);
    if (options_.windows.size() > kMostWindows)
      throw usage_error(fmt::format("--window: expected at most {} windows, found {}", kMostWindows,
                                    options_.windows.size()));
    if (prefixes_.empty()) return;
    for (const std::int64_t size : parse_whole_numbers("--prefix", prefixes_, 1, 512))
      options_.prefixes.push_back(static_cast<int>(size));
    if (options_.prefixes.size() > kMostPrefixes)
      throw usage_error(fmt::format("--prefix: expected at most {} sizes, found {}", kMostPrefixes,
                                    options_.prefixes.size()));
  }

  BandResult measure(Console& console, const CacheRun& run) const {
    const std::int64_t examples = std::ssize(run.examples());
    Progress progress(console, "examples", examples * band_scans(options_));
    std::int64_t done = 0;
    return measure_bands(run, options_, [&](int scan, std::size_t example) {
      const std::int64_t now = scan * examples + static_cast<std::int64_t>(example);
      progress.advance(now - done);
      done = now;
    });
  }

  void remark(Console& console, const CacheRun& run, const BandResult& result) const {
    std::size_t most = 0;
    for (const GridFacts& grid : result.grids) most = std::max(most, grid.omega.size());
    for (const int size : options_.prefixes)
      if (static_cast<std::size_t>(size) > most)
        console.warning(fmt::format(
            "--prefix {}: no head has more than {} rotating pairs, so it is all of them", size, most));
    for (const BandGroup& group : result.groups) {
      if (group.sums.vectors == 0) {
        console.warning("there are no margins (a query and two keys), so R is left out where they lack");
        break;
      }
    }
    for (const BandGroup& group : result.groups) {
      if (!group.laws.empty() && group.laws[0].size_min == 0) {
        console.warning(fmt::format("H(M) is empty under the split {} at a window of {}: no score law there",
                                    run.scoring().split.name(), group.window_min));
        break;
      }
    }
  }

  CacheOptions caches_;
  BandOptions options_;
  std::string by_ = "pooled", windows_, prefixes_;
  double threshold_ = 0.9;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_band() { return std::make_unique<BandCommand>(); }

}  // namespace rope::cli

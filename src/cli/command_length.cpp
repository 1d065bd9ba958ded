#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/length_table.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kMostHeadRows = 40;  // more heads than this are shown by layer

/// "1,2,inf" as orders.
spectral::LengthOrders parse_orders(const std::string& text) {
  std::vector<double> beta;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    double value = 0;
    const auto parsed = std::from_chars(item.data(), item.data() + item.size(), value);
    if (item.empty() || parsed.ec != std::errc() || parsed.ptr != item.data() + item.size())
      throw usage_error(
          fmt::format("--beta: expected numbers from 0 to inf, comma-separated, found \"{}\"", text),
          "for example --beta 1,2,inf");
    beta.push_back(value);
    at = end + 1;
  }
  try {
    return spectral::LengthOrders(std::move(beta));
  } catch (const std::invalid_argument& error) {
    throw usage_error(std::string("--beta: ") + error.what(), "for example --beta 1,2,inf");
  }
}

class LengthCommand : public Command {
 public:
  std::string name() const override { return "length"; }
  std::string summary() const override { return "effective lengths: how many keys a head spreads over"; }
  std::string details() const override {
    return "The effective length of weights alpha is E_beta = (sum alpha^beta)^(1/(1-beta)) (AdaRoPE, "
           "section "
           "3): E_1 is exp(entropy), E_2 is 1 / sum alpha^2, E_inf is 1 / max alpha; 1 where one key takes "
           "all, L where L keys share alike.\n\n"
           "Virtual, from any cache: alpha is the softmax of S(m), m = 0 ... M-1, of one fixed (query, key) "
           "pair; mean over pairs, then examples. Beside it the same with the high-frequency pairs H of "
           "--split stopped: a constant, which the softmax does not see, so that is the length of the slow "
           "pairs N alone.\n\n"
           "Attention, from tasks with key_coverage \"full\": alpha is the softmax over all keys at or "
           "before "
           "the query and inside the layer's window (a softcap and a sink logit of the model included). The "
           "i-th query of every example makes one length group with L keys, L and ln E averaged over "
           "examples, "
           "then tasks. Growth is the least-squares line ln E_2 = a + b ln L over the groups, with the 95 % "
           "interval b -+ t sqrt(sum r^2 / (n-2) / sum (x - mean x)^2), t of Student's distribution with n - "
           "2 "
           "degrees of freedom: b near 0 is a retrieval head, near 1 an aggregation head. A head that rests "
           "on "
           "the first token has E_2 = 1 at every length and says nothing; so everything is given without the "
           "first token, too. Patterns: sink is the mean weight of the first token, slash(D) that of the key "
           "D "
           "tokens back (D = 1: previous-token heads), the best D among those that half of the rows have, "
           "and "
           "local the weight of the keys less than --local tokens back.";
  }
  std::string example() const override { return "rope-profiler length examples/data/smollm2_full.h5"; }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.split_help = "which pairs H are stopped for the lengths of the slow pairs N";
    cache_.add_options(app, defaults);
    add_json_option(app, json_);
    app.add_option("--beta", beta_, "orders of the effective length, comma-separated, 0 to inf")
        ->type_name("LIST")
        ->capture_default_str();
    app.add_flag("--attention", attention_,
                 "attention lengths must be there: a task without all keys is an error, not left out");
    app.add_flag("--no-virtual", no_virtual_,
                 "leave the virtual lengths out: with all keys stored there are many pairs");
    app.add_option("--local", options_.local, "width of the local mass in tokens")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
        ->capture_default_str();
    app.add_option("--offsets", options_.offsets, "slash scores at offsets 0 to N-1")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{2}, std::int64_t{65536}))
        ->capture_default_str();
    app.add_option("--retrieval-below", options_.retrieval_below, "growth b below which a head is retrieval")
        ->type_name("X")
        ->capture_default_str();
    app.add_option("--aggregation-above", options_.aggregation_above,
                   "growth b above which a head is aggregation")
        ->type_name("X")
        ->capture_default_str();
    app.add_option("--by", by_, "rows of the table: one per head, or the means of each layer's heads")
        ->check(CLI::IsMember({"head", "layer"}))
        ->default_str("head for up to 40 heads");
  }

  int run(Console& console, int threads) override {
    options_.orders = parse_orders(beta_);
    options_.virtual_lengths = !no_virtual_;
    if (attention_ || no_virtual_) options_.attention = LengthOptions::Attention::kRequired;
    if (!std::isfinite(options_.retrieval_below) || !std::isfinite(options_.aggregation_above) ||
        options_.retrieval_below > options_.aggregation_above)
      throw usage_error(
          fmt::format("--retrieval-below {} and --aggregation-above {}: expected numbers in this order",
                      options_.retrieval_below, options_.aggregation_above));
    options_.cache = cache_.parse(threads);
    const CacheRun run(options_.cache);
    const LengthReport report = run_with_progress(run, console);
    for (const std::string& warning : run.warnings()) console.warning(warning);
    if (json_)
      console.out() << length_json(report, run, options_);
    else
      print(report, run, console);
    remark(report, console);
    return 0;
  }

 private:
  LengthReport run_with_progress(const CacheRun& run, Console& console) const {
    std::unique_ptr<Progress> progress;
    return run_length(run, options_, [&](std::int64_t, std::int64_t total) {
      if (!progress) progress = std::make_unique<Progress>(console, "examples", total);
      progress->advance();
    });
  }

  void print(const LengthReport& report, const CacheRun& run, Console& console) const {
    const bool by_head = by_.empty() ? report.heads.size() <= kMostHeadRows : by_ == "head";
    console.out() << printable(run.set().files()[0].model().name) << ": "
                  << counted(report.heads.size(), "head") << " (" << run.head_rule() << "), "
                  << counted(run.set().tasks().size(), "task") << ", "
                  << counted(run.examples().size(), "example") << ", split " << run.scoring().split.name()
                  << "\n\n";
    print_lengths(report, options_, by_head ? LengthRows::kHeads : LengthRows::kLayers, console);
  }

  static void remark(const LengthReport& report, Console& console) {
    if (report.covered.empty())
      console.note("no attention lengths: no task has key_coverage \"full\"");
    else if (!report.sampled.empty())
      console.note(fmt::format("attention lengths of {} of {} tasks: the others have not all keys stored",
                               report.covered.size(), report.covered.size() + report.sampled.size()));
    std::int64_t undefined = 0, rows = 0;
    std::size_t without_fit = 0, without_interval = 0;
    for (const LengthHeadRow& head : report.heads) {
      if (!head.attention) continue;
      undefined += head.attention->undefined;
      rows += head.attention->rows;
      without_fit += !head.attention->growth.fit;
      without_interval += head.attention->growth.fit && head.attention->growth.fit->groups < 3;
    }
    if (undefined > 0)
      console.warning(
          fmt::format("{} of {} attention rows left out: a zero vector or a score that is not finite",
                      undefined, rows + undefined));
    if (without_fit > 0)
      console.note(fmt::format("no growth fit for {}: it takes rows of at least two different lengths",
                               counted(without_fit, "head")));
    if (without_interval > 0)
      console.note(fmt::format("no interval for {}: two lengths only", counted(without_interval, "head")));
  }

  CacheOptions cache_;
  LengthOptions options_;
  std::string beta_ = "1,2,inf", by_;
  bool json_ = false, attention_ = false, no_virtual_ = false;
};

}  // namespace

std::unique_ptr<Command> make_length() { return std::make_unique<LengthCommand>(); }

}  // namespace rope::cli

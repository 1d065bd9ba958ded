#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/command.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/comparison.hpp"
#include "profiler/digest.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kShownNames = 20;

std::string fixed(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kShownNames)
    text += fmt::format(" and {} more, which --json lists", names.size() - kShownNames);
  return text;
}

class CompareCommand : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string summary() const override { return "compares two rankings: of two models, or of two runs"; }
  std::string details() const override {
    return "A and B are each a ranking written by `rank -o`, a profile, or CSV with the columns task and w_s "
           "(both in fractions, or both in per cent).\n\n"
           "Prints w_S of the tasks that both have, their differences and ranks, and Spearman's rho of w_S: "
           "the Pearson correlation of the average ranks, with the middle 95 % of --resamples bootstrap "
           "resamples of the tasks, and a two-sided permutation p: over all orders for at most 9 tasks, else "
           "over 100,000 drawn ones as (b + 1) / (100,000 + 1). With fewer than 3 shared tasks, or where all "
           "w_S of a side are equal, there is no rho.\n\n"
           "For two profiles of one model it adds the Jaccard index of the selected heads: those in both "
           "over "
           "those in either.";
  }
  std::string example() const override {
    return "rope-profiler compare examples/rankings/qwen3-8b.csv examples/rankings/llama-3.1-8b.csv";
  }

  void add_options(CLI::App& app) override {
    app.add_option("A", a_, "a ranking, a profile, or CSV with the columns task and w_s")
        ->type_name("")
        ->required();
    app.add_option("B", b_, "what to compare it with")->type_name("")->required();
    add_json_option(app, json_);
    app.add_option("--resamples", options_.resamples, "bootstrap resamples; 0 = no interval")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}))
        ->capture_default_str();
    app.add_option("--seed", options_.seed, "seed of the bootstrap and the drawn orders")
        ->type_name("N")
        ->check(check_seed)
        ->capture_default_str();
  }

  int run(Console& console, int threads) override {
    options_.threads = threads;
    const RankedSide a = read_ranked_side(a_), b = read_ranked_side(b_);
    const Comparison comparison = compare_sides(a, b, options_);
    if (json_)
      console.out() << comparison_json(comparison, a, b, {input_of(a_), input_of(b_)}, options_);
    else
      print(console, comparison, a, b);
    if (comparison.tasks.empty()) console.warning("no task is in both A and B");
    return 0;
  }

 private:
  static ProfileInput input_of(const std::string& path) {
    return {path, sha256_of_file(path), static_cast<std::int64_t>(std::filesystem::file_size(path))};
  }

  static void print_side(std::ostream& out, const char* letter, const RankedSide& side) {
    out << letter << ": " << printable(side.path) << " (" << kind_name(side.kind)
        << (side.model_name.empty() ? "" : " of " + printable(side.model_name)) << "), "
        << counted(side.tasks.size(), "task") << '\n';
    if (!side.without_w_s.empty()) out << "   without w_S: " << list_of(side.without_w_s) << '\n';
  }

  void print(Console& console, const Comparison& comparison, const RankedSide& a, const RankedSide& b) const {
    std::ostream& out = console.out();
    print_side(out, "A", a);
    print_side(out, "B", b);
    Table table({{"task"},
                 {"w_S A", true},
                 {"w_S B", true},
                 {"B - A", true},
                 {"rank A", true},
                 {"rank B", true},
                 {"direction A"},
                 {"direction B"}});
    for (const ComparedTask& task : comparison.tasks)
      table.row({task.task, fixed(task.w_s_a, 4), fixed(task.w_s_b, 4),
                 fmt::format("{:+.4f}", task.w_s_b - task.w_s_a), fixed(task.rank_a, 1),
                 fixed(task.rank_b, 1), direction_name(task.direction_a), direction_name(task.direction_b)},
                task.direction_a == task.direction_b ? Style::kPlain : Style::kYellow);
    if (!comparison.tasks.empty()) table.print(console, out);
    print_summary(out, comparison);
  }

  void print_summary(std::ostream& out, const Comparison& comparison) const {
    const RankCorrelation& c = comparison.correlation;
    const std::string tasks = counted(comparison.tasks.size(), "shared task");
    if (std::isnan(c.rho)) {
      out << "Spearman's rho: none, " << tasks
          << (comparison.tasks.size() < 3 ? " (3 are needed)" : ", all w_S of a side equal") << '\n';
    } else {
      out << fmt::format("Spearman's rho of w_S over {}: {:.6f}", tasks, c.rho);
      if (!std::isnan(c.low)) out << fmt::format(", 95 % {:.3f} to {:.3f}", c.low, c.high);
      out << fmt::format(", p {:.2g} ({} orders, {})\n", c.p_value, c.permutations,
                         c.exact ? "all there are" : "drawn");
    }
    out << fmt::format("the same direction in {} of {}\n", comparison.same_direction, tasks);
    if (comparison.heads)
      out << fmt::format("selected heads: {} in A, {} in B, {} in both, Jaccard index {}\n",
                         comparison.heads->selected_a, comparison.heads->selected_b, comparison.heads->common,
                         fixed(comparison.heads->jaccard, 4));
    else
      out << "selected heads not compared: " << comparison.no_heads << '\n';
    if (!comparison.only_in_a.empty()) out << "only in A: " << list_of(comparison.only_in_a) << '\n';
    if (!comparison.only_in_b.empty()) out << "only in B: " << list_of(comparison.only_in_b) << '\n';
  }

  std::string a_, b_;
  bool json_ = false;
  CorrelationOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<CompareCommand>(); }

}  // namespace rope::cli

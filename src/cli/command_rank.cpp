#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "profiler/digest.hpp"
#include "profiler/ranking.hpp"
#include "profiler/result_json.hpp"

namespace rope::cli {
namespace {

std::string interval(double low, double high) {
  const std::string text = short_number(low, 3);
  return text == "-" ? text : text + " to " + short_number(high, 3);
}

class RankCommand : public Command {
 public:
  std::string name() const override { return "rank"; }
  std::string summary() const override { return "ranks a profile's tasks by what they are susceptible to"; }
  std::string details() const override {
    return "Prints r_S and r_P (ranks of falling Semantic and Positional Score, ties share the better rank), "
           "w_S = 1/2 + (r_S - r_P) / (2 (T - 1)) over the T tasks that have both scores, and the direction "
           "of an intervention: `semantic` (reduce the high frequencies) for the upper half of the tasks by "
           "w_S, else `positional` (amplify them); `none` where all w_S are equal.\n\n"
           "The intervals of w_S hold 95 % of --resamples bootstrap resamples: in each, every task's "
           "examples "
           "are drawn anew with replacement; the selected heads, the split and the tasks stay. P(direction) "
           "is "
           "the share of resamples in which the task keeps its direction. The same profile, --resamples and "
           "--seed give the same numbers for any --threads.";
  }
  std::string example() const override { return "rope-profiler rank profile.h5 -o ranking.json --force"; }

  void add_options(CLI::App& app) override {
    app.add_option("FILE", input_, "a profile, written by `profile -o`")->type_name("")->required();
    add_output_options(app, output_, "the ranking as JSON");
    app.add_option("--resamples", options_.resamples, "bootstrap resamples; 0 = no intervals")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}))
        ->capture_default_str();
    app.add_option("--seed", options_.seed, "seed of the bootstrap")->type_name("N")->capture_default_str();
  }

  int run(Console& console, int threads) override {
    options_.threads = threads;
    const bool wants_file = !output_.path.empty();
    std::optional<Output> output;
    if (wants_file) output.emplace(console, output_);
    const ProfileReader profile(input_);
    const Ranking ranking = rank_profile(profile, options_);
    if (wants_file) {
      output->stream() << ranking_json(ranking, profile, profile_input());
      output->commit();
    }
    const bool table_on_err = output && output->to_standard_output();
    if (!table_on_err || !console.quiet()) print(console, ranking, table_on_err);
    remark(console, profile, ranking);
    return 0;
  }

 private:
  ProfileInput profile_input() const {
    return {input_, sha256_of_file(input_), static_cast<std::int64_t>(std::filesystem::file_size(input_))};
  }

  void print(Console& console, const Ranking& ranking, bool on_err) const {
    std::vector<Table::Column> columns{{"task"},         {"family"},         {"examples", true},
                                       {"window", true}, {"semantic", true}, {"positional", true},
                                       {"r_S", true},    {"r_P", true},      {"w_S", true}};
    const bool intervals = ranking.resamples > 0;
    if (intervals) columns.push_back({"w_S 95 %", true});
    columns.push_back({"direction"});
    if (intervals) columns.push_back({"P(direction)", true});
    Table table(columns);
    const auto add = [&](const RankedTask& t, bool ranked) {
      std::vector<std::string> cells{printable(t.task),
                                     printable(t.family),
                                     std::to_string(t.examples),
                                     fmt::format("{:.0f}", t.window_mean),
                                     short_number(t.semantic_score, 4),
                                     short_number(t.positional_score, 4),
                                     ranked ? fmt::format("{:.0f}", t.r_s) : "-",
                                     ranked ? fmt::format("{:.0f}", t.r_p) : "-",
                                     short_number(t.w_s, 3)};
      if (intervals) cells.push_back(interval(t.w_s_low, t.w_s_high));
      cells.push_back(ranked ? direction_name(t.direction) : "-");
      if (intervals) cells.push_back(short_number(t.direction_probability, 3));
      const Style style = t.direction == Direction::kSemantic     ? Style::kCyan
                          : t.direction == Direction::kPositional ? Style::kYellow
                                                                  : Style::kDim;
      table.row(std::move(cells), style);
    };
    for (const auto& task : ranking.tasks) add(task, true);
    for (const auto& task : ranking.unranked_tasks) add(task, false);
    table.print(console, on_err ? console.err() : console.out(), on_err);
  }

  void remark(Console& console, const ProfileReader& profile, const Ranking& ranking) const {
    const auto& selected = profile.selection().selected;
    console.note(fmt::format("{} of {} heads ({}), {} tasks ranked",
                             std::count(selected.begin(), selected.end(), char{1}), selected.size(),
                             printable(profile.selection().rule), ranking.tasks.size()));
    std::string missing;
    for (const auto& task : ranking.unranked) missing += (missing.empty() ? "" : ", ") + printable(task);
    if (!missing.empty()) console.warning("not ranked, a score is missing: " + missing);
    if (ranking.tasks.size() == 1) console.note("one task alone has w_S = 1/2 and no direction");
  }

  std::string input_;
  OutputOptions output_;
  BootstrapOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_rank() { return std::make_unique<RankCommand>(); }

}  // namespace rope::cli

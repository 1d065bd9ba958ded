#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/digest.hpp"
#include "profiler/ranking.hpp"
#include "profiler/result_json.hpp"

namespace rope::cli {
namespace {

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
    app.add_option("--seed", options_.seed, "seed of the bootstrap")
        ->type_name("N")
        ->check(check_seed)
        ->capture_default_str();
  }

  int run(Console& console, int threads) override {
    options_.threads = threads;
    const bool wants_file = !output_.path.empty();
    std::optional<Output> output;
    require_output_is_no_input(output_.path, {input_});
    if (wants_file) output.emplace(console, output_);
    const ProfileReader profile(input_);
    const Ranking ranking = rank_profile(profile, options_);
    if (wants_file) {
      output->stream() << ranking_json(ranking, profile, profile_input());
      output->commit();
    }
    const bool table_on_err = output && output->to_standard_output();
    if (!table_on_err || !console.quiet()) {
      std::ostream& to = table_on_err ? console.err() : console.out();
      to << printable(profile.header().model_name) << ": " << counted(ranking.tasks.size(), "task")
         << " ranked by susceptibility w_S\n";
      print_ranking(ranking, console, to, table_on_err);
    }
    remark(console, profile, ranking);
    return 0;
  }

 private:
  ProfileInput profile_input() const {
    return {input_, sha256_of_file(input_), static_cast<std::int64_t>(std::filesystem::file_size(input_))};
  }

  void remark(Console& console, const ProfileReader& profile, const Ranking& ranking) const {
    const auto& selected = profile.selection().selected;
    console.note(fmt::format("scores over {} of {} heads ({})",
                             std::count(selected.begin(), selected.end(), char{1}), selected.size(),
                             printable(profile.selection().rule)));
    std::string missing;
    for (const auto& task : ranking.unranked) missing += (missing.empty() ? "" : ", ") + printable(task);
    if (!missing.empty()) console.warning("not ranked, a score is missing: " + missing);
    if (ranking.tasks.size() == 1) console.note("one task alone has w_S = 1/2 and no direction");
    if (ranking.tasks.size() == 2 || ranking.tasks.size() == 3)
      console.note("ranks of so few tasks say little: w_S can take few values, whatever the intervals are");
  }

  std::string input_;
  OutputOptions output_;
  BootstrapOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_rank() { return std::make_unique<RankCommand>(); }

}  // namespace rope::cli

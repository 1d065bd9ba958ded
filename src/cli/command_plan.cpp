#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/plan_preview.hpp"
#include "cli/ranking_table.hpp"
#include "interventions/outcome_json.hpp"
#include "interventions/plan_json.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

std::string range_text(std::int64_t low, std::int64_t high) {
  return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
}

std::string length_range(const PlanTask& task) {
  return task.prompts.empty() ? "-" : range_text(task.prompts.front().length, task.prompts.back().length);
}

std::string pair_range(const PlanTask& task) {
  std::set<std::int64_t> sizes;
  for (const PlanPrompt& prompt : task.prompts)
    for (const PlanPromptLayer& layer : prompt.layers) sizes.insert(std::ssize(layer.pairs));
  return sizes.empty() ? "-" : range_text(*sizes.begin(), *sizes.rbegin());
}

std::string candidate_list(const PlanTask& task) {
  std::string text;
  for (const Intervention& candidate : task.candidates) text += (text.empty() ? "" : " ") + candidate.id();
  return text.empty() ? "-" : text;
}

class PlanCommand : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string group() const override { return kChangeGroup; }
  std::string summary() const override { return "plans interventions for the tasks of a profile"; }
  std::string details() const override {
    return "A semantic task gets candidates that reduce the high-frequency part of the score on the chosen "
           "heads, a positional task candidates that amplify it: NR freezes the rotation of the pairs in "
           "H(M), "
           "a number alpha multiplies their part of the score. H(M) follows from each example's prompt "
           "length "
           "M, the layer's own window and --split, and stays fixed for the whole generation.\n\n"
           "Stage 5 takes the top 5 % of the heads by variance of the norm share and the candidates NR, 0, "
           "0.5 "
           "(semantic) or 1.5, 2, 2.5 (positional). Stage 10 takes the top 10 % and NR, 0.25, 0.5, 0.75 or "
           "1.25, 1.5, 1.75, 2, for the tasks that stage 5 did not improve: those that --outcomes, a file "
           "written by `outcome -o`, names as not improved.\n\n"
           "The plan lists, for every prompt length of a task, the pairs and the frequencies of each changed "
           "layer; for other lengths the `steps` of the model's frequencies say how many pairs are in H. It "
           "depends on the profile and the options alone.\n\n"
           "With --preview it also says what every candidate would do to the Semantic Score, the Positional "
           "Score (over its own U, and over the baseline's), the norm share, E_2 and the spread of the "
           "logits: recomputed from the cached vectors of the examples that the profile has, with the "
           "coefficients "
           "or "
           "frequencies changed, averaged over the plan's heads; the intervals hold 95 % of --resamples "
           "paired "
           "resamples of the examples.";
  }
  std::string example() const override { return "rope-profiler plan profile.h5 -o plan.json --force"; }

  void add_options(CLI::App& app) override {
    app.add_option("PROFILE", input_, "a profile, written by `profile -o`")->type_name("")->required();
    add_output_options(app, output_, "the plan as JSON");
    app.add_option("--tasks", tasks_, "only tasks whose name matches a pattern (may be repeated)")
        ->type_name("GLOB");
    app.add_option("--stage", stage_, "share of the heads, in per cent, and its candidates")
        ->type_name("5|10")
        ->check(CLI::IsMember({5, 10}))
        ->capture_default_str();
    app.add_option("--direction", direction_, "direction of every task, in place of the ranking's")
        ->type_name("semantic|positional")
        ->check(CLI::IsMember({"semantic", "positional"}));
    app.add_option("--strengths", strengths_, "candidates in place of the stage's, e.g. NR,0.5,2")
        ->type_name("LIST");
    app.add_option("--heads", heads_, "heads in place of the stage's: all, top:F or LAYER.HEAD,...")
        ->type_name("all|top:F|LIST");
    app.add_option("--split", split_, "rule of the pairs in H(M)")->type_name("SPLIT")->capture_default_str();
    app.add_option("--outcomes", outcomes_, "stage 10: what stage 5 did, written by `outcome -o`")
        ->type_name("FILE");
    preview_.add_options(app);
  }

  int run(Console& console, int threads) override {
    PlanOptions options = plan_options();
    preview_.check();
    std::vector<std::string> inputs = preview_.inputs();
    inputs.insert(inputs.end(), {input_, outcomes_});
    require_output_is_no_input(output_.path, inputs);
    std::optional<Output> output;
    if (!output_.path.empty()) output.emplace(console, output_);
    if (!outcomes_.empty()) take_outcomes(options);
    const ProfileReader profile(input_);
    Plan plan = make_plan(profile, options);
    plan.profile = described(input_);
    plan.profile_digest = plan.profile.sha256;
    if (!outcomes_.empty()) plan.outcomes = described(outcomes_);
    if (preview_.wanted()) preview_.run(plan, profile, console, threads);
    if (output) {
      output->stream() << plan_json(plan);
      output->commit();
    }
    const bool table_on_err = output && output->to_standard_output();
    if (!table_on_err || !console.quiet()) print(plan, console, table_on_err);
    for (const std::string& warning : plan.warnings) console.warning(warning);
    return 0;
  }

 private:
  void take_outcomes(PlanOptions& options) const {
    const Outcome outcome = read_outcome_json(outcomes_);
    options.not_improved = tasks_not_improved(outcome, 5);
    for (const TaskOutcome& task : outcome.tasks)
      if (task.stage == 5 && task.matched > 0) options.measured.push_back(task.task);
  }

  static ProfileInput described(const std::string& path) {
    return {path, sha256_of_file(path), static_cast<std::int64_t>(std::filesystem::file_size(path))};
  }

  PlanOptions plan_options() const {
    PlanOptions options;
    options.stage = stage_;
    options.task_globs = tasks_;
    try {
      options.split = spectral::parse_split(split_);
    } catch (const std::invalid_argument& error) {
      throw usage_error(std::string("--split: ") + error.what());
    }
    if (direction_ == "semantic") options.direction = Direction::kSemantic;
    if (direction_ == "positional") options.direction = Direction::kPositional;
    if (!strengths_.empty()) options.strengths = parse_strengths(strengths_);
    if (!heads_.empty()) options.heads = parse_heads(heads_);
    if (!outcomes_.empty() && stage_ != 10)
      throw usage_error("--outcomes belongs to --stage 10", "stage 5 plans for every task");
    return options;
  }

  void print(const Plan& plan, Console& console, bool on_err) const {
    std::ostream& to = on_err ? console.err() : console.out();
    to << printable(plan.model.name) << ": " << counted(plan.tasks.size(), "task") << ", stage " << stage_
       << ", " << counted(plan.tasks.front().heads.size(), "head") << " (" << plan.heads_rule << "), split "
       << plan.split.name() << "\n";
    Table table({{"task"}, {"w_S", true}, {"direction"}, {"prompt", true}, {"pairs", true}, {"candidates"}});
    for (const PlanTask& task : plan.tasks)
      table.row({task.task, short_number(task.w_s, 4), direction_name(task.direction), length_range(task),
                 pair_range(task), candidate_list(task)});
    table.print(console, to, on_err);
    if (preview_.wanted()) preview_.print(plan, console, to, on_err);
  }

  std::string input_, direction_, strengths_, heads_, split_ = "intervention", outcomes_;
  std::vector<std::string> tasks_;
  int stage_ = 5;
  OutputOptions output_;
  PlanPreview preview_;
};

}  // namespace

std::unique_ptr<Command> make_plan() { return std::make_unique<PlanCommand>(); }

}  // namespace rope::cli

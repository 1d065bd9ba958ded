#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/command.hpp"
#include "cli/option_checks.hpp"
#include "cli/outcome_table.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "interventions/outcome_json.hpp"
#include "interventions/outcome_plan.hpp"
#include "interventions/plan_json.hpp"
#include "interventions/record_reader.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/digest.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

ProfileInput input_of(const std::string& path) {
  const std::string digest = sha256_of_file(path);  // first: it says why a file cannot be read
  return {path, digest, static_cast<std::int64_t>(std::filesystem::file_size(path))};
}

class OutcomeCommand : public Command {
 public:
  std::string name() const override { return "outcome"; }
  std::string group() const override { return kChangeGroup; }
  std::string summary() const override { return "measures what a plan's candidates did to the accuracy"; }
  std::string details() const override {
    return "Reads accuracy records, one per example and run, with the columns task, example_id, candidate "
           "(`baseline` for the unchanged model, else the candidate's id), correct (or score; solved = true "
           "or exactly 1) and, if any, stage (5 or 10). RESULTS are\n\n"
           "  FILE.csv                 comma-separated with a header line\n"
           "  FILE.jsonl               one JSON object per line\n"
           "  CANDIDATE=FILE           either, of a run whose file does not name the candidate\n"
           "  CANDIDATE=samples_*.jsonl  samples of lm-evaluation-harness: doc_id and a metric\n\n"
           "Examples that have the baseline and every candidate of their task and stage are matched; all "
           "numbers use these, the others are counted and named. Per task it prints the change of every "
           "candidate in points, the best one (the largest change, the first of equal ones) with its 95 % "
           "bootstrap interval and exact two-sided McNemar p, and Holm's p over the tasks of the stage. The "
           "best candidate was chosen on the examples that its change is measured on, so the change is too "
           "good; neither p corrects for that. Held out: the candidate is chosen on all examples but one and "
           "scored on that one, over all examples. Optimism is the difference of the two.\n\n"
           "With --plan (one per stage), candidates keep the plan's order, directions come from it, and what "
           "it does not "
           "name is left out and listed. `plan --stage 10 --outcomes` reads what -o writes.";
  }
  std::string example() const override {
    return "rope-profiler outcome examples/outcomes.csv -o outcome.json --force";
  }

  void add_options(CLI::App& app) override {
    app.add_option("RESULTS", results_, "files of accuracy records, FILE or CANDIDATE=FILE")
        ->type_name("")
        ->required();
    app.add_option("--plan", plans_, "the plan whose candidates were run; again for that of another stage")
        ->type_name("FILE")
        ->expected(1)
        ->take_all();
    add_output_options(app, output_, "the outcome as JSON");
    app.add_flag("--sweep", sweep_, "print a second table with every candidate's numbers");
    add_bootstrap_options(app);
    add_record_options(app);
  }

  int run(Console& console, int threads) override {
    options_.threads = threads;
    const std::vector<RecordFile> files = record_files();
    std::vector<std::string> inputs = plans_;
    for (const RecordFile& file : files) inputs.push_back(file.path);
    require_output_is_no_input(output_.path, inputs);
    std::optional<Output> output;
    if (!output_.path.empty()) output.emplace(console, output_);

    OutcomeSource source;
    std::optional<OutcomePlan> plan;
    for (const std::string& path : plans_) {
      if (!plan) plan.emplace();
      add_plan(outcome_plan(read_plan_json(path)), path, *plan);
      source.plans.push_back(input_of(path));
    }
    const Records records = read_records(files, fields_);
    refuse_unused(records.used);
    const Outcome outcome = measure_outcome(records.table, plan, options_);
    if (output) {
      describe(records, source);
      output->stream() << outcome_json(outcome, source);
      output->commit();
    }
    const bool table_on_err = output && output->to_standard_output();
    if (!table_on_err || !console.quiet()) print(outcome, console, table_on_err);
    warn_of_gaps(outcome, console);
    return 0;
  }

 private:
  static void add_plan(const OutcomePlan& more, const std::string& path, OutcomePlan& plan) {
    for (const OutcomePlanTask& task : more) {
      for (const OutcomePlanTask& known : plan)
        if (known.task == task.task && known.stage == task.stage)
          throw usage_error("--plan " + path + ": stage " + std::to_string(task.stage) + " of task \"" +
                                printable(task.task) + "\" is in another plan, too",
                            "give one plan per stage");
      plan.push_back(task);
    }
  }

  void add_bootstrap_options(CLI::App& app) {
    app.add_option("--resamples", options_.resamples, "bootstrap resamples; 0 = no intervals")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{0}, kMaxOutcomeResamples))
        ->capture_default_str();
    app.add_option("--seed", options_.seed, "seed of the bootstrap")
        ->type_name("N")
        ->check(check_seed)
        ->capture_default_str();
  }

  void add_record_options(CLI::App& app) {
    const auto column = [&](const char* option, std::string& value, const char* what) {
      app.add_option(option, value, what)->type_name("NAME")->capture_default_str();
    };
    column("--task-column", fields_.task_column, "column or member that holds the task");
    column("--example-column", fields_.example_column, "the example's id");
    column("--candidate-column", fields_.candidate_column, "the candidate");
    column("--score-column", fields_.score_column, "true, false or a score; default correct, else score");
    column("--stage-column", fields_.stage_column, "the stage");
    app.add_option("--task", fields_.task, "task of files that do not say")->type_name("TASK");
    app.add_option("--candidate", fields_.candidate, "candidate of files that do not say")
        ->type_name("CANDIDATE");
    app.add_option("--stage", fields_.stage, "stage of records that do not say")
        ->type_name("STAGE")
        ->check(CLI::IsMember({5, 10}));
    app.add_option(
           "--metric", fields_.metric,
           "metric of lm-evaluation-harness samples; default acc, else exact_match, else the only one")
        ->type_name("NAME");
    app.add_option("--filter", fields_.filter, "filter of such samples, where they have several")
        ->type_name("NAME");
  }

  std::vector<RecordFile> record_files() const {
    const std::vector<std::string> columns{fields_.task_column, fields_.example_column,
                                           fields_.candidate_column, fields_.stage_column,
                                           fields_.score_column};
    std::set<std::string> distinct(columns.begin(), columns.end());
    if (distinct.size() != columns.size())
      throw usage_error("two of the --...-column options name the same column");
    std::vector<RecordFile> files;
    for (const std::string& argument : results_) files.push_back(parse_record_file(argument));
    // By name, so that the order on the command line does not show.
    std::stable_sort(files.begin(), files.end(), [](const RecordFile& a, const RecordFile& b) {
      return std::tie(a.path, a.candidate) < std::tie(b.path, b.candidate);
    });
    return files;
  }

  void refuse_unused(const UsedOptions& used) const {
    const auto refuse = [](bool given, bool was_used, const char* option, const char* why) {
      if (given && !was_used) throw usage_error(std::string(option) + " is for " + why);
    };
    refuse(!fields_.task.empty(), used.task, "--task", "files that do not name a task, and all of these do");
    refuse(!fields_.candidate.empty(), used.candidate, "--candidate",
           "files that do not name a candidate, and all of these do");
    refuse(fields_.stage != 0, used.stage, "--stage", "records without a stage, and all of these have one");
    refuse(!fields_.metric.empty(), used.metric, "--metric",
           "samples of lm-evaluation-harness, and none were given");
    refuse(!fields_.filter.empty(), used.filter, "--filter",
           "samples of lm-evaluation-harness that name a filter, and none do");
  }

  void describe(const Records& records, OutcomeSource& source) const {
    for (std::size_t i = 0; i < records.files.size(); ++i) {
      const RecordFileSummary& file = records.files[i];
      source.inputs.push_back({input_of(records.table.files[i]), file.format, file.records});
    }
    const auto set = [&](const char* name, const std::string& value) {
      if (!value.empty()) source.settings.emplace_back(name, value);
    };
    set("task_column", fields_.task_column);
    set("example_column", fields_.example_column);
    set("candidate_column", fields_.candidate_column);
    set("score_column", fields_.score_column);
    set("stage_column", fields_.stage_column);
    set("task", fields_.task);
    set("candidate", fields_.candidate);
    set("stage", fields_.stage != 0 ? std::to_string(fields_.stage) : "");
    std::set<std::string> metrics;
    for (const RecordFileSummary& file : records.files)
      if (!file.metric.empty()) metrics.insert(file.metric);
    std::string list;
    for (const std::string& metric : metrics) list += (list.empty() ? "" : ",") + metric;
    set("metric", list);
    set("filter", fields_.filter);
  }

  void print(const Outcome& outcome, Console& console, bool on_err) const {
    std::ostream& to = on_err ? console.err() : console.out();
    if (outcome.tasks.empty()) {
      to << "no task has a candidate\n";
      return;
    }
    to << "accuracies in per cent, changes in points, paired over the matched examples\n";
    print_outcome(outcome, console, to, on_err);
    if (!sweep_) return;
    to << '\n';
    print_sweep(outcome, console, to, on_err);
  }

  std::vector<std::string> results_;
  std::vector<std::string> plans_;
  OutputOptions output_;
  OutcomeOptions options_;
  RecordOptions fields_;
  bool sweep_ = false;
};

}  // namespace

std::unique_ptr<Command> make_outcome() { return std::make_unique<OutcomeCommand>(); }

}  // namespace rope::cli

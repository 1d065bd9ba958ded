#include <fstream>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "interventions/outcome_json.hpp"
#include "interventions/outcome_table.hpp"
#include "interventions/plan_json.hpp"
#include "interventions/preview_table.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/export_table.hpp"
#include "profiler/result_json.hpp"

namespace rope::cli {
namespace {

/// '{' tells a ranking from a profile; 0 for an empty or unreadable file.
char first_byte(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char start = 0;
  in.get(start);
  return start;
}

class ExportCommand : public Command {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override { return "turns a result into a tidy table for other programs"; }
  std::string details() const override {
    return "Tables of a profile:\n\n"
           "  tasks        one row per task: scores over the selected heads, counts\n"
           "  heads        one row per task and head: means over its valid examples\n"
           "  examples     one row per task, example and head; window is the layer's own\n"
           "  frequencies  one row per task, head and rotary pair: how much it is used\n"
           "  selection    heads by falling variance of the norm share, with their stage\n"
           "  ranking      ranks, w_S and direction per task (also from a ranking's JSON)\n\n"
           "Of a plan made with --preview:\n\n"
           "  preview      predicted scores and changes per task and candidate, baseline first\n\n"
           "Of an outcome written by `outcome -o`:\n\n"
           "  outcome      one row per task and stage: baseline, best and held-out change, p\n\n"
           "CSV: a value that was not computed is an empty field; numbers read back the same float64. JSON "
           "lines: it is null. NPY: a structured array for numpy.load, NaN for an empty number. Columns keep "
           "their names and places; further ones may be added at the end.\n\n"
           "From a profile, `ranking` holds the intervals of `rank` at its default --resamples and --seed.";
  }
  std::string example() const override {
    return "rope-profiler export profile.h5 --table tasks -o tasks.csv --force";
  }

  void add_options(CLI::App& app) override {
    app.add_option("RESULT", input_, "a profile, or what `rank -o`, `plan -o` or `outcome -o` wrote")
        ->type_name("")
        ->required();
    app.add_option("--table", table_, "which table")
        ->type_name("TABLE")
        ->check(CLI::IsMember(table_names()))
        ->required();
    app.add_option("--format", format_, "form of the output")
        ->type_name("FORMAT")
        ->check(CLI::IsMember({"csv", "jsonl", "npy"}))
        ->capture_default_str();
    add_output_options(app, output_, "the table (default: standard output)");
  }

  static std::vector<std::string> table_names() {
    std::vector<std::string> names = profile_table_names();
    names.insert(names.end(), {"preview", "outcome"});
    return names;
  }

  int run(Console& console, int threads) override {
    const TableFormat format = parse_table_format(format_);
    const auto content = format == TableFormat::kNpy ? Output::Content::kBinary : Output::Content::kText;
    require_output_is_no_input(output_.path, {input_});
    Output output(console, output_, content);
    const char start = first_byte(input_);
    if (table_ == "preview") {
      write_preview(format, output.stream());
      output.commit();
      return 0;
    }
    if (table_ == "outcome") {
      write_table(outcome_table(read_outcome_json(input_)), format, output.stream());
      output.commit();
      return 0;
    }
    if (start == '{' && table_ != "ranking")
      throw usage_error(input_ + ": only a profile has a table \"" + table_ + "\"",
                        "give the profile; a ranking has the table ranking");
    if (start != '{') {
      BootstrapOptions options;
      options.threads = threads;
      const ProfileReader profile(input_);
      write_table(profile_table(profile, table_, options), format, output.stream());
    } else {
      write_table(ranking_table(read_ranking_json(input_)), format, output.stream());
    }
    output.commit();
    return 0;
  }

 private:
  void write_preview(TableFormat format, std::ostream& to) const {
    const Plan plan = read_plan_json(input_);
    if (!plan.preview)
      throw UserError(input_ + ": a plan without a preview",
                      "make one with plan PROFILE --preview CACHES -o PLAN");
    write_table(preview_table(plan), format, to);
  }

  std::string input_, table_, format_ = "csv";
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<ExportCommand>(); }

}  // namespace rope::cli

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "interventions/outcome_json.hpp"
#include "interventions/outcome_table.hpp"
#include "interventions/plan_json.hpp"
#include "interventions/preview_table.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/export_table.hpp"
#include "profiler/json_document.hpp"
#include "profiler/json_tables.hpp"
#include "profiler/regular_file.hpp"
#include "profiler/result_json.hpp"

namespace rope::cli {
namespace {

enum class Kind { kProfile, kRanking, kPlan, kOutcome, kTables };

/// A result and what it is.
struct Result {
  Kind kind = Kind::kProfile;
  std::shared_ptr<const JsonDocument> document;  ///< kTables
  std::string format;                            ///< kTables: its "format"
};

/// What a result is: JSON says it itself, everything else is taken for a profile. JSON that does not say it
/// is left to the reader of the table's kind, which tells what is wrong.
Result open_result(const std::string& path, const std::string& table) {
  require_regular_file(path);
  std::ifstream in(path, std::ios::binary);
  char start = 0;
  in.get(start);
  if (start != '{') return {};
  auto document =
      std::make_shared<const JsonDocument>(path, "rank -o`, `plan -o`, `outcome -o` or `audit --json");
  for (const char* name : {"schema", "format"}) {
    const auto found = document->root().find(name);
    if (found == document->root().end() || !found->is_string()) continue;
    if (*found == kPlanSchema) return {Kind::kPlan, {}, {}};
    if (*found == "rope-profiler/outcome") return {Kind::kOutcome, {}, {}};
    if (*found == "rope-profiler/ranking") return {Kind::kRanking, {}, {}};
    const std::string format = found->get<std::string>();
    if (!json_tables_of(format).empty()) return {Kind::kTables, std::move(document), format};
  }
  return {table == "preview" ? Kind::kPlan : table == "outcome" ? Kind::kOutcome : Kind::kRanking, {}, {}};
}

/// The table of a kind of JSON result.
const char* table_of(Kind kind) {
  return kind == Kind::kRanking ? "ranking" : kind == Kind::kPlan ? "preview" : "outcome";
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
           "  outcome      one row per task and stage: baseline, best and held-out change, p\n\n" +
           json_table_help() +
           "CSV: a value that was not computed is an empty field; numbers read back the same float64. JSON "
           "lines: it is null. NPY: a structured array for numpy.load, NaN for an empty number. Columns keep "
           "their names and places; further ones may be added at the end.\n\n"
           "From a profile, `ranking` holds the intervals of `rank` at its default --resamples and --seed.";
  }
  /// One line for each command whose JSON holds tables.
  static std::string json_table_help() {
    std::string text = "Of the JSON of other commands:\n\n", command;
    for (const JsonTable& table : json_tables()) {
      const std::string name = std::string(table.command).substr(0, std::string(table.command).find(' '));
      text += name == command ? ", " : fmt::format("{}  {:<12} ", command.empty() ? "" : "\n", name);
      text += table.name;
      command = name;
    }
    return text + "\n\n";
  }
  std::string example() const override {
    return "rope-profiler export profile.h5 --table tasks -o tasks.csv --force";
  }

  void add_options(CLI::App& app) override {
    app.add_option("RESULT", input_,
                   "a profile, or the JSON of rank, plan, outcome, audit, band, bound, length or adarope")
        ->type_name("")
        ->required();
    app.add_option("--table", table_, "which table")
        ->type_name("TABLE")
        ->check(CLI::IsMember(table_names()))
        ->required();
    app.add_option("--format", format_, "form of the output (default: by the name of -o, else csv)")
        ->type_name("csv|jsonl|npy")
        ->check(CLI::IsMember({"csv", "jsonl", "npy"}));
    add_output_options(app, output_, "the table (default: standard output)");
  }

  static std::vector<std::string> table_names() {
    std::vector<std::string> names = profile_table_names();
    names.insert(names.end(), {"preview", "outcome"});
    for (const JsonTable& table : json_tables())
      if (std::find(names.begin(), names.end(), table.name) == names.end()) names.push_back(table.name);
    return names;
  }

  int run(Console& console, int threads) override {
    const TableFormat format = parse_table_format(file_format());
    const auto content = format == TableFormat::kNpy ? Output::Content::kBinary : Output::Content::kText;
    require_output_is_no_input(output_.path, {input_});
    Output output(console, output_, content);
    write(open_result(input_, table_), format, threads, output.stream());
    output.commit();
    return 0;
  }

 private:
  std::string file_format() const {
    if (!format_.empty()) return format_;
    for (const char* format : {"jsonl", "npy"})
      if (output_.path.ends_with(std::string(".") + format)) return format;
    return "csv";
  }

  void write(const Result& result, TableFormat format, int threads, std::ostream& to) const {
    const Kind kind = result.kind;
    if (kind == Kind::kTables) return write_json_table(result, format, to);
    if (kind != Kind::kProfile && table_ != table_of(kind)) refuse(kind);
    if (kind == Kind::kPlan) return write_preview(format, to);
    if (kind == Kind::kOutcome) return write_table(outcome_table(read_outcome_json(input_)), format, to);
    if (kind == Kind::kRanking) return write_table(ranking_table(read_ranking_json(input_)), format, to);
    const auto& tables = profile_table_names();
    if (std::find(tables.begin(), tables.end(), table_) == tables.end()) refuse(kind);
    BootstrapOptions options;
    options.threads = threads;
    const ProfileReader profile(input_);
    write_table(profile_table(profile, table_, options), format, to);
  }

  void write_json_table(const Result& result, TableFormat format, std::ostream& to) const {
    std::string names;
    for (const JsonTable* table : json_tables_of(result.format)) {
      if (table_ == table->name) return write_table(json_table(result.document, *table), format, to);
      names += (names.empty() ? "" : ", ") + std::string(table->name);
    }
    throw usage_error(fmt::format("{}: {} has no table \"{}\"", input_, result.format, table_),
                      "its tables are " + names);
  }

  [[noreturn]] void refuse(Kind kind) const {
    const char* what = kind == Kind::kProfile   ? "a profile"
                       : kind == Kind::kRanking ? "a ranking"
                       : kind == Kind::kPlan    ? "a plan"
                                                : "an outcome";
    throw usage_error(
        fmt::format("{}: {} has no table \"{}\"", input_, what, table_),
        table_ == "preview"   ? "give a plan made with `plan --preview`"
        : table_ == "outcome" ? "give a file written by `outcome -o`"
        : kind == Kind::kProfile
            ? "that is a table of another command's JSON"
            : fmt::format("its table is {}; the others are those of a profile", table_of(kind)));
  }

  void write_preview(TableFormat format, std::ostream& to) const {
    const Plan plan = read_plan_json(input_);
    if (!plan.preview)
      throw UserError(input_ + ": a plan without a preview",
                      "make one with plan PROFILE --preview CACHES -o PLAN");
    write_table(preview_table(plan), format, to);
  }

  std::string input_, table_, format_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<ExportCommand>(); }

}  // namespace rope::cli

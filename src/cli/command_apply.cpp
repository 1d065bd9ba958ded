#include <fmt/format.h>

#include <optional>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/ranking_table.hpp"
#include "interventions/adapter.hpp"
#include "interventions/expressible.hpp"
#include "interventions/plan_json.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

Style style_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kExact:
      return Style::kGreen;
    case Verdict::kApproximate:
      return Style::kYellow;
    case Verdict::kNotExpressible:
      break;
  }
  return Style::kDim;
}

class ApplyCommand : public Command {
 public:
  std::string name() const override { return "apply"; }
  std::string group() const override { return kChangeGroup; }
  std::string summary() const override { return "writes one candidate of a plan as a file for a runtime"; }
  std::string details() const override {
    return "json holds heads, pairs and frequencies for every prompt length of the task, or for "
           "--prompt-length alone. safetensors and npz hold tables for one prompt length: for each changed "
           "layer I, layer.I.query_scale, by which both lanes of a pair of the query are multiplied, and "
           "layer.I.frequency in radians per token, float32 [query heads, pairs]; heads that are not chosen "
           "have ones and the model's own frequencies. Where the pairs differ between the plan's prompt "
           "lengths, --prompt-length says which are meant.\n\n"
           "--fold writes what a rescaling does to the weights instead: layer.I.query_rows, a factor for "
           "each "
           "row of the query projection (and of its bias), float32 [query heads * head width], in the row "
           "order of Hugging Face. That is exact only where nothing normalises the queries between "
           "projection "
           "and rotation; elsewhere it is refused (exit 1).\n\n"
           "The table says for each way of running a model whether it can hold the candidate.";
  }
  std::string example() const override {
    return "rope-profiler apply plan.json --task niah_single --candidate NR -o niah_single.json --force";
  }

  void add_options(CLI::App& app) override {
    app.add_option("PLAN", input_, "a plan, written by `plan -o`")->type_name("")->required();
    app.add_option("--task", task_, "task of the plan")->type_name("TASK")->required();
    app.add_option("--candidate", candidate_, "id of one of its candidates, e.g. NR or 0.5")
        ->type_name("ID")
        ->required();
    app.add_option("--stage", stage_, "where the plan has the candidate at both stages")
        ->type_name("5|10")
        ->check(CLI::IsMember({5, 10}));
    app.add_option("--format", format_, "form of the file (default: by its name, else json)")
        ->type_name("json|safetensors|npz")
        ->check(CLI::IsMember({"json", "safetensors", "npz"}));
    app.add_option("--prompt-length", length_, "tokens of the prompts that the tables are for")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
    app.add_flag("--fold", fold_, "factors on the rows of the query projection (rescale only)");
    add_output_options(app, output_, "the adapter", true);
  }

  int run(Console& console, int) override {
    const std::string format = file_format();
    if (fold_ && format == "json")
      throw usage_error("--fold writes tables: its format is safetensors or npz", "give --format");
    require_output_is_no_input(output_.path, {input_});
    Output output(console, output_, format == "json" ? Output::Content::kText : Output::Content::kBinary);
    const Plan plan = read_plan_json(input_);
    const AdapterChoice choice = choose_candidate(plan, task_, candidate_, stage_);
    std::optional<std::int64_t> length;
    if (length_ > 0) length = length_;
    if (format != "json") length = table_length(choice, length);
    output.stream() << content(choice, format, length);
    output.commit();
    print(choice, length.value_or(0), console, output.to_standard_output());
    return 0;
  }

 private:
  std::string file_format() const {
    if (!format_.empty()) return format_;
    for (const char* format : {"safetensors", "npz"})
      if (output_.path.ends_with(std::string(".") + format)) return format;
    return "json";
  }

  std::string content(const AdapterChoice& choice, const std::string& format,
                      std::optional<std::int64_t> length) const {
    if (format == "json") return adapter_json(choice, length);
    TensorMetadata metadata = adapter_metadata(choice, *length);
    if (fold_) metadata.emplace_back("fold", fold_target(choice.plan->model.model_type));
    const std::vector<NamedTensor> tensors =
        fold_ ? fold_tensors(choice, *length) : adapter_tensors(choice, *length);
    return format == "npz" ? npz_bytes(tensors, metadata) : safetensors_bytes(tensors, metadata);
  }

  void print(const AdapterChoice& choice, std::int64_t length, Console& console, bool on_err) const {
    if (on_err && console.quiet()) return;
    std::ostream& to = on_err ? console.err() : console.out();
    to << printable(fmt::format("{}: {} {} on {} ", choice.task->task,
                                operation_name(choice.candidate.operation), choice.candidate.id(),
                                counted(choice.task->heads.size(), "head")))
       << (length > 0 ? fmt::format("at {} tokens", length) : "at every prompt length of the plan") << "\n";
    Table table({{"target"}, {"can hold it"}, {"why"}});
    for (const Expressibility& row : expressible(choice, length))
      table.row({row.target, verdict_name(row.verdict), row.reason}, style_of(row.verdict));
    table.print(console, to, on_err);
  }

  std::string input_, task_, candidate_, format_;
  int stage_ = 0;
  std::int64_t length_ = 0;
  bool fold_ = false;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_apply() { return std::make_unique<ApplyCommand>(); }

}  // namespace rope::cli

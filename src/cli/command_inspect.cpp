#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "profiler/inspection.hpp"

namespace rope::cli {
namespace {

/// "0-3, 7" of a rising list.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (j > i) text += "-" + std::to_string(numbers[j]);
    i = j + 1;
  }
  return text;
}

std::string counted(int count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// "sliding" of "sliding_attention": the column would be twice as wide.
std::string short_kind(const std::string& kind) {
  constexpr std::string_view kEnd = "_attention";
  return kind.ends_with(kEnd) ? kind.substr(0, kind.size() - kEnd.size()) : kind;
}

std::string or_dash(bool given, const std::string& text) { return given ? text : "-"; }

void print_model(Console& console, const Inspection& file) {
  const ModelHeader& model = *file.model;
  const auto rotation = [](Rotation r) { return r == Rotation::kPre ? "pre" : "post"; };
  std::ostream& out = console.out();
  out << "  model      " << printable(model.name);
  if (!file.model_type.empty()) out << " (" << printable(file.model_type) << ")";
  out << fmt::format("\n             {}, {}, {}, head_dim {}\n", counted(model.num_layers, "layer"),
                     counted(model.num_query_heads, "query head"), counted(model.num_kv_heads, "kv head"),
                     model.head_dim);
  out << fmt::format("             layout {}, queries {}, keys {}{}\n",
                     model.layout == spectral::PairLayout::kHalf ? "half" : "interleaved",
                     rotation(model.query_rotation), rotation(model.key_rotation),
                     model.reversed ? ", rotation reversed" : "");
  std::string from = model.config ? "config" : "";
  if (!model.inv_freq_shape.empty()) from += from.empty() ? "inv_freq" : " and inv_freq (they agree)";
  if (!file.layers.empty()) out << "             frequencies from " << from << '\n';
  if (model.attention_scale)
    out << "             attention_scale " << exact_number(*model.attention_scale)
        << " in place of the config's\n";
  if (!file.created_by.empty()) out << "  written by " << printable(file.created_by) << '\n';
}

void print_layers(Console& console, const Inspection& file) {
  Table table({{"layers"},
               {"kind"},
               {"rope"},
               {"theta", true},
               {"pairs", true},
               {"r", true},
               {"ω first", true},
               {"last", true},
               {"A", true},
               {"scale", true},
               {"window", true},
               {"M", true},
               {"H o/i/c/s", true}});
  std::vector<std::string> notes;
  for (const std::vector<int>& group : file.layer_groups) {
    const InspectedLayer& layer = file.layers[static_cast<std::size_t>(group.front())];
    const LayerModel& facts = layer.facts;
    const bool rotates = facts.rotates && !layer.grids.empty();
    std::vector<std::string> cells{ranges(group), short_kind(facts.kind), facts.rope_type};
    std::vector<double> turning;
    if (rotates)
      for (const double omega : layer.grids.back().grid.omega)
        if (omega > 0) turning.push_back(omega);
    const auto number = [&](bool given, double value) {
      return or_dash(given, fmt::format("{:.4g}", value));
    };
    const auto count = [&](bool given, std::int64_t value) { return or_dash(given, std::to_string(value)); };
    cells.push_back(or_dash(rotates && facts.rope.theta > 0, fmt::format("{:g}", facts.rope.theta)));
    cells.push_back(count(rotates, layer.pairs));
    cells.push_back(count(rotates, rotates ? layer.grids[0].grid.rotary_dim() : 0));
    cells.push_back(number(!turning.empty(), turning.empty() ? 0 : turning.front()));
    cells.push_back(number(!turning.empty(), turning.empty() ? 0 : turning.back()));
    cells.push_back(number(rotates, rotates ? layer.grids.back().grid.attention_factor : 0));
    cells.push_back(number(facts.has_attention, facts.logit_scale));
    cells.push_back(count(facts.window > 0, facts.window));
    const bool split = rotates && layer.split_window > 0;
    cells.push_back(count(split, layer.split_window));
    cells.push_back(or_dash(split, fmt::format("{}/{}/{}/{}", layer.operational, layer.intervention,
                                               layer.certified, layer.separation)));
    table.row(cells, rotates ? Style::kPlain : Style::kDim);
    const std::string which = "layers " + ranges(group) + ": ";
    if (!facts.has_attention) notes.push_back(which + "no attention, so no scores");
    if (facts.has_attention && !facts.rotates) notes.push_back(which + "no rotation, so no scores");
    if (facts.softcap > 0)
      notes.push_back(which + "attention softcap " + short_number(facts.softcap) +
                      " acts in softmaxes only; Semantic and Positional Score use S itself");
    if (facts.query_temperature)
      notes.push_back(which + "query temperature applied at each query's position");
    if (facts.norm_after_epsilon) notes.push_back(which + "norm after the rotation applied on reading");
    if (layer.grids.size() > 1)
      notes.push_back(
          which + fmt::format("{} grids, by the example's window; the largest is shown", layer.grids.size()));
    if (!layer.shared_by_heads) notes.push_back(which + "one grid per head; head 0 is shown");
  }
  console.out() << '\n';
  table.print(console, console.out());
  console.out()
      << "  r: rotary lanes; A: attention factor; H: high-frequency pairs at length M under the splits\n"
         "  operational/intervention/certified/separation\n";
  for (const std::string& note : notes) console.out() << "  " << note << '\n';
}

void print_tasks(Console& console, const Inspection& file) {
  Table table({{"task"},
               {"family"},
               {"examples", true},
               {"layers"},
               {"heads", true},
               {"queries", true},
               {"keys", true},
               {"window", true},
               {"mean", true},
               {"max", true},
               {"coverage"},
               {"type"},
               {"triplets"},
               {"zero", true},
               {"non-finite", true}});
  for (const InspectedTask& task : file.tasks) {
    const TaskHeader& h = task.header;
    const auto known = [&](std::int64_t value) { return or_dash(task.windows_known, std::to_string(value)); };
    const auto found = [&](auto member) {
      return or_dash(task.scan.has_value(),
                     task.scan ? std::to_string(task.scan->query.*member + task.scan->key.*member) : "");
    };
    const std::string type = element_name(h.query_type);
    table.row({printable(h.name), printable(h.family), std::to_string(h.examples), ranges(h.layers),
               fmt::format("{}/{}", h.query_heads, h.kv_heads), std::to_string(h.query_slots),
               std::to_string(h.key_slots), known(task.window_min),
               or_dash(task.windows_known, short_number(task.window_mean)), known(task.window_max),
               h.full_coverage ? "full" : "sampled",
               h.query_type == h.key_type ? type : type + "/" + element_name(h.key_type),
               h.triplet_slots > 0 ? fmt::format("{} stored", h.triplet_slots) : "in pairs",
               found(&VectorScan::Side::zero), found(&VectorScan::Side::non_finite)});
  }
  console.out() << '\n';
  table.print(console, console.out());
}

void print_checks(Console& console, const Inspection& file) {
  const auto failed =
      std::count_if(file.checks.begin(), file.checks.end(), [](const auto& c) { return !c.passed; });
  std::ostream& out = console.out();
  out << '\n';
  if (failed > 0 || console.verbose())
    for (const CheckResult& check : file.checks) {
      out << "  "
          << (check.passed ? console.styled("ok    ", Style::kGreen) : console.styled("FAILED", Style::kRed))
          << "  " << printable(check.name) << '\n';
      if (!check.passed) out << "          " << printable(check.detail) << '\n';
      if (!check.hint.empty())
        out << "          " << console.styled("hint: ", Style::kCyan) << printable(check.hint) << '\n';
    }
  if (failed > 0)
    out << console.styled(fmt::format("  {} of {} checks failed", failed, file.checks.size()), Style::kRed)
        << '\n';
  else
    out << console.styled(fmt::format("  all {} checks passed", file.checks.size()), Style::kGreen) << '\n';
}

class InspectCommand : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string group() const override { return kInputGroup; }
  std::string summary() const override { return "checks activation caches and describes what they hold"; }
  std::string details() const override {
    return "Checks every file against the cache format (docs/activation-format.md) and describes the model, "
           "the frequencies of every kind of layer, and the tasks: windows, key coverage, element types, "
           "zero "
           "and non-finite vectors. All vectors are read once.\n\n"
           "H is the set of high-frequency pairs under the splits operational, intervention, certified and "
           "separation, at the largest window M of the file's examples, capped at the layer's own.\n\n"
           "Exit code 1 when a check fails, with every check listed; 3 when a file is no HDF5 file. Zero and "
           "non-finite vectors are warnings.";
  }
  std::string example() const override { return "rope-profiler inspect examples/data/smollm2.h5"; }

  void add_options(CLI::App& app) override {
    app.add_option("FILE", files_, "activation caches")->type_name("")->required();
    add_json_option(app, json_);
  }

  int run(Console& console, int) override {
    std::vector<Inspection> inspections;
    bool passed = true;
    for (const std::string& path : files_) {
      Inspection file = inspect_file(path);
      passed &= file.passed();
      for (const std::string& warning : file.warnings)
        console.warning(files_.size() > 1 ? fmt::format("{}: {}", path, warning) : warning);
      if (json_)
        inspections.push_back(std::move(file));
      else
        print(console, file, path != files_.front());
    }
    if (json_)
      console.out() << inspection_json(inspections)
                           .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                    << '\n';
    return passed ? 0 : 1;
  }

 private:
  static void print(Console& console, const Inspection& file, bool gap) {
    if (gap) console.out() << '\n';
    console.out() << console.styled(printable(file.file), Style::kBold) << '\n';
    if (file.model) print_model(console, file);
    if (!file.layers.empty()) print_layers(console, file);
    if (!file.tasks.empty()) print_tasks(console, file);
    print_checks(console, file);
  }

  std::vector<std::string> files_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect() { return std::make_unique<InspectCommand>(); }

}  // namespace rope::cli

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/trace_output.hpp"
#include "interventions/mask.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/json_text.hpp"
#include "profiler/trace.hpp"
#include "spectral/band_split.hpp"

namespace rope::cli {
namespace {

constexpr std::int64_t kLargestDistance = std::int64_t{1} << 24;

class TraceCommand : public Command {
 public:
  std::string name() const override { return "trace"; }
  std::string group() const override { return kTheoryGroup; }
  std::string summary() const override { return "one pair's score, or one margin, at every distance"; }
  std::string details() const override {
    return "Evaluates, for one query and one key of a cache, the score that they would have at every "
           "distance m, "
           "with their rotary pairs split into the fast ones H (--split) and the slow ones N (paper: P 172, "
           "167):\n\n"
           "  S(m) = c_0 + Re sum_n z_n e^(i m omega_n) = S_H(m) + S_N(m) + c_0\n"
           "  g(m) = S(m+1) - S(m)\n\n"
           "With --key2 or --triplet it is the margin D(m) = S(m; key) - S(m; key2), turned so that D(0) > "
           "0, and "
           "its reversal: the Gaussian Phi(-mu / sigma) from the exact mean and deviation over the window (P "
           "173, "
           "175 to 179) beside the exact share of distances with D(m) < 0. Scores are float64, right to "
           "about "
           "1e-15 of the sum of |z_n|.\n\n"
           "--freeze and --rescale show what an intervention on the head would do to the curve: pairs of the "
           "mask "
           "(--mask-split at the example's length, as `plan` has it) stop rotating, or are multiplied by "
           "ALPHA.\n\n"
           "Output is a table with a row per distance: distance, score (margin), step, high, low, tail, real "
           "(the "
           "distance at which the key really stands; real2 for the second key), and with an intervention "
           "changed_score, changed_step and so on. It goes to -o, or to standard output where nothing else "
           "is "
           "asked for: --plot draws the curve in the terminal, --json prints its facts, --svg writes a "
           "picture. "
           "--all-pairs has every pair of the head in one long table, with its query and key slots and "
           "positions.\n\n"
           "Slots are numbered from 0 as in the cache. What is not named is taken where there is only one; "
           "else "
           "the error says what there is.";
  }
  std::string example() const override {
    return "rope-profiler trace examples/data/smollm2.h5 --task niah_single --example niah_single-0 \\\n"
           "    --heads 9.3 --query 0 --key 1 --plot";
  }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.one_file = true;
    defaults.heads_help = "the head as LAYER.HEAD, in place of --layer and --head";
    caches_.add_options(app, defaults);
    app.add_option("--task", request_.task, "task of the example")->type_name("NAME");
    app.add_option("--example", request_.example, "id of the example")->type_name("ID");
    layer_option_ = app.add_option("--layer", request_.layer, "layer, from 0")->type_name("N");
    head_option_ =
        app.add_option("--head", request_.head, "query head within the layer, from 0")->type_name("N");
    CLI::Option* query = app.add_option("--query", request_.query, "query slot")->type_name("N");
    CLI::Option* key = app.add_option("--key", request_.key, "key slot")->type_name("N");
    CLI::Option* key2 =
        app.add_option("--key2", request_.key2, "second key slot: the margin of --key over it")
            ->type_name("N");
    CLI::Option* triplet =
        app.add_option("--triplet", request_.triplet,
                       "the margin of a stored triplet, from 0; without stored ones of keys 2N and 2N + 1")
            ->type_name("N");
    CLI::Option* all =
        app.add_flag("--all-pairs", request_.all_pairs, "every pair of the head, in one long table");
    triplet->excludes(key)->excludes(key2);
    for (CLI::Option* one : {query, key, key2, triplet}) all->excludes(one);
    app.add_option("--from", range_.first, "first distance")->type_name("N")->capture_default_str();
    to_option_ = app.add_option("--to", range_.last, "last distance, up to 16777216")
                     ->type_name("N")
                     ->default_str("window - 1");
    app.add_option("--stride", range_.stride, "distances from row to row")
        ->type_name("N")
        ->capture_default_str();
    CLI::Option* freeze =
        app.add_flag("--freeze", freeze_, "beside it the curve with the mask's pairs frozen");
    app.add_option("--rescale", rescale_, "beside it the curve with the mask's pairs times ALPHA, 0 to 10000")
        ->type_name("ALPHA")
        ->excludes(freeze);
    mask_option_ = app.add_option("--mask-split", mask_split_, "which pairs --freeze and --rescale change")
                       ->type_name("RULE")
                       ->capture_default_str();
    app.add_option("--format", format_, "form of the table (default: by the name of -o, else csv)")
        ->type_name("csv|jsonl|npy")
        ->check(CLI::IsMember({"csv", "jsonl", "npy"}));
    CLI::Option* plot = app.add_flag("--plot", plot_, "draw the curve in the terminal, with its facts");
    CLI::Option* svg = app.add_option("--svg", svg_, "write a picture of the curve")->type_name("FILE");
    add_output_options(app, output_, "the table");
    add_json_option(app, json_);
    for (CLI::Option* one : {plot, svg}) all->excludes(one);
  }

  int run(Console& console, int threads) override {
    check_options();
    CacheRunOptions options = caches_.parse(threads);
    take_head(options);
    options.digest = options.digest && json_;
    mask_ = parse_mask();
    for (const std::string& output : {output_.path, svg_})
      require_output_is_no_input(output, cache_inputs(options.files, options.input));
    const CacheRun run(options);
    for (const std::string& warning : run.warnings()) console.warning(warning);
    const TracePlace place = find_trace_place(run.set(), request_, options.scoring.window == 0);

    std::vector<char> heads(run.set().heads().size(), 0);
    heads[static_cast<std::size_t>(place.head_index)] = 1;
    ScanOptions scan;
    scan.unit = ScanUnit::kHead;
    const SetExample* const example = place.example;
    bool found = false;
    scan_heads(
        run.set(), options.scoring, run.resources(), {&example, 1}, heads, scan,
        [](const ScanBlock&) { return std::make_unique<ScanResult>(); },
        [&](const ScanBlock& block, std::unique_ptr<ScanResult>) {
          found = true;
          show(console, run, place, *block.job, threads);
        });
    if (!found)
      throw UserError(fmt::format("{}: layer {}, head {} has no pair that rotates", place.file->path(),
                                  place.layer, place.head));
    return 0;
  }

 private:
  bool table_to_standard_output() const { return output_.path == "-" || default_table(); }
  bool default_table() const { return output_.path.empty() && !plot_ && !json_ && svg_.empty(); }

  void check_options() const {
    if (range_.stride < 1)
      throw usage_error(fmt::format("--stride: expected 1 or more, found {}", range_.stride));
    for (const auto& [name, value] : {std::pair("--from", range_.first), std::pair("--to", range_.last)})
      if (value < 0 || value > kLargestDistance)
        throw usage_error(
            fmt::format("{}: expected a distance from 0 to {}, found {}", name, kLargestDistance, value));
    if (to_option_->count() > 0 && range_.first > range_.last)
      throw usage_error(fmt::format("--from {} lies behind --to {}", range_.first, range_.last));
    if (mask_option_->count() > 0 && !freeze_ && rescale_.empty())
      throw usage_error("--mask-split needs --freeze or --rescale");
    if (plot_ && json_) throw usage_error("--plot and --json both go to standard output", "choose one");
    if (output_.path == "-" && (plot_ || json_))
      throw usage_error("-o - and --plot or --json both go to standard output", "name a file with -o");
    if (svg_ == "-" && (plot_ || json_ || output_.path == "-"))
      throw usage_error("--svg - shares standard output with another result", "name a file");
    if (!svg_.empty() && svg_ != "-" && svg_ == output_.path)
      throw usage_error("-o and --svg name the same file");
    if (json_ && request_.all_pairs)
      throw usage_error("--json tells the facts of one pair", "leave out --all-pairs, or --json");
    if (!format_.empty() && output_.path.empty() && !default_table())
      throw usage_error("--format is of the table, which is not written here", "name a file with -o");
  }

  /// --heads L.H in place of --layer and --head.
  void take_head(CacheRunOptions& options) {
    if (!caches_.heads_given()) return;
    if (layer_option_->count() + head_option_->count() > 0)
      throw usage_error("--heads stands in place of --layer and --head", "give one or the other");
    if (options.heads.kind != HeadRequest::Kind::kList || options.heads.list.size() != 1)
      throw usage_error("--heads: trace looks at one head", "for example --heads 9.3");
    request_.layer = options.heads.list[0].first;
    request_.head = options.heads.list[0].second;
    options.heads = {HeadRequest::Kind::kAll, {}, {}};
  }

  spectral::SplitRule parse_mask() const {
    try {
      return spectral::parse_split(mask_split_);
    } catch (const std::invalid_argument& error) {
      throw usage_error(std::string("--mask-split: ") + error.what());
    }
  }

  std::optional<Intervention> intervention() const {
    if (freeze_) return Intervention{Operation::kFreeze, 1.0};
    if (rescale_.empty()) return std::nullopt;
    const Intervention rescale = parse_intervention(rescale_, "--rescale");
    if (rescale.operation == Operation::kFreeze)
      throw usage_error("--rescale: expected a number, found NR", "--freeze stops the rotation");
    return rescale;
  }

  HeadChange change_of(const TracePlace& place, const HeadJob& job, const Intervention& wanted) const {
    const spectral::FrequencyGrid& grid = job.grid->grid().frequencies;
    HeadChange change;
    const std::vector<int> pairs =
        masked_pairs(mask_, grid.omega, grid.rho, place.example->window, job.setting.layer->window);
    if (wanted.operation == Operation::kFreeze)
      change.frozen.assign(grid.omega.size(), 0);
    else
      change.scale.assign(grid.omega.size(), 1.0);
    for (const int pair : pairs) {
      if (wanted.operation == Operation::kFreeze)
        change.frozen[static_cast<std::size_t>(pair)] = 1;
      else
        change.scale[static_cast<std::size_t>(pair)] = wanted.alpha;
    }
    return change;
  }

  void show(Console& console, const CacheRun& run, const TracePlace& place, const HeadJob& job, int threads) {
    TraceView view;
    view.task = place.task->name;
    view.example = place.example->id;
    view.layer = place.layer;
    view.head = place.head;
    view.window = job.grid->window();
    view.softcap = job.setting.layer->softcap;
    view.range = range_;
    if (to_option_->count() == 0) view.range.last = std::max(view.window - 1, range_.first);
    view.margin = request_.key2 || request_.triplet;
    view.all_pairs = request_.all_pairs;
    view.intervention = intervention();
    view.threads = threads;
    std::optional<HeadChange> change;
    if (view.intervention) change = change_of(place, job, *view.intervention);

    TracedHead head(job);
    const auto curve_of = [&](const TraceKeys& keys) {
      TracedCurve curve{keys, head.vector(keys), std::nullopt, 1};
      if (keys.is_margin() && curve.original.finite) orient(curve);
      if (change && curve.original.finite) {
        curve.changed = curve.original;
        curve.changed->vector = change_vector(curve.original.vector, *job.setting.lanes, *change);
      }
      return curve;
    };
    if (request_.all_pairs) {
      write_all(console, view, all_trace_keys(*job.slots), curve_of);
      return;
    }
    const TraceKeys keys = find_trace_keys(place, request_, *job.slots);
    const TracedCurve curve = curve_of(keys);
    if (!curve.original.finite)
      throw UserError(
          fmt::format("{}: the {} of query slot {} and key slot {} is not finite", place.file->path(),
                      view.margin ? "margin" : "score", keys.query_slot, keys.key_slot),
          "the cache holds NaN, infinite or overflowing values there: see `inspect`");
    show_one(console, run, place, view, curve);
  }

  static void orient(TracedCurve& curve) {
    curve.sign = margin_sign(curve.original);
    if (curve.sign >= 0) return;
    spectral::TraceVector& v = curve.original.vector;
    for (auto* values : {&v.re, &v.im})
      for (double& x : *values) x = -x;
    v.constant = -v.constant;
  }

  /// The form of the table: as asked, else by the name.
  TableFormat form() const {
    if (!format_.empty()) return parse_table_format(format_);
    for (const char* ending : {"jsonl", "npy"})
      if (output_.path.ends_with(std::string(".") + ending)) return parse_table_format(ending);
    return TableFormat::kCsv;
  }

  void write(Console& console, const TableSource& table) const {
    const TableFormat format = form();
    Output output(console, output_,
                  format == TableFormat::kNpy ? Output::Content::kBinary : Output::Content::kText);
    write_table(table, format, output.stream());
    output.commit();
  }

  template <class CurveOf>
  void write_all(Console& console, const TraceView& view, const std::vector<TraceKeys>& pairs,
                 const CurveOf& curve_of) const {
    std::int64_t left_out = 0;
    write(console, trace_table(view, [&](const std::function<void(const TracedCurve&)>& sink) {
            left_out = 0;
            for (const TraceKeys& keys : pairs) {
              const TracedCurve curve = curve_of(keys);
              if (curve.original.finite)
                sink(curve);
              else
                ++left_out;
            }
          }));
    if (left_out > 0)
      console.warning(fmt::format("{} of {} pairs left out: not finite", left_out, pairs.size()));
  }

  void show_one(Console& console, const CacheRun& run, const TracePlace& place, const TraceView& view,
                const TracedCurve& curve) const {
    if (default_table() || !output_.path.empty())
      write(console,
            trace_table(view, [&](const std::function<void(const TracedCurve&)>& sink) { sink(curve); }));
    if (!svg_.empty()) {
      Output picture(console, {svg_, output_.force});
      picture.stream() << svg_plot(trace_scene(view, curve));
      picture.commit();
    }
    if (table_to_standard_output() || svg_ == "-") return;
    const std::vector<TraceFacts> facts = facts_of(view, curve);
    if (json_) {
      nlohmann::ordered_json record = run.record("rope-profiler/trace");
      record["settings"]["heads"] = fmt::format("{}.{}", place.layer, place.head);
      record["settings"]["intervention"] = view.intervention ? view.intervention->id() : "none";
      record["settings"]["mask_split"] = mask_.name();
      add_trace_facts(view, curve, facts, record);
      console.out() << json_text(record);
      return;
    }
    if (plot_) draw(console, trace_scene(view, curve));
    print_trace_facts(console, view, curve, facts);
  }

  static void draw(Console& console, const PlotScene& scene) {
    const int width = std::min(console.streams().width, 100);
    const std::vector<std::string> lines = braille_plot(scene, width);
    if (lines.empty())
      console.warning(fmt::format("a terminal of {} columns is too narrow to draw in: {} are needed", width,
                                  kLeastPlotWidth));
    for (const std::string& line : lines) console.out() << line << '\n';
    if (!lines.empty()) console.out() << '\n';
  }

  CacheOptions caches_;
  TraceRequest request_;
  TraceRange range_;
  bool freeze_ = false, plot_ = false, json_ = false;
  std::string rescale_, mask_split_ = "intervention", format_, svg_;
  OutputOptions output_;
  spectral::SplitRule mask_;
  CLI::Option *layer_option_ = nullptr, *head_option_ = nullptr, *to_option_ = nullptr,
              *mask_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_trace() { return std::make_unique<TraceCommand>(); }

}  // namespace rope::cli

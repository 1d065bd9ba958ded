#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "cli/adarope_table.hpp"
#include "cli/cache_options.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

constexpr std::int64_t kMostFrozenPairs = 1'000'000'000;
constexpr double kLongestLength = 1e15;

class AdaropeCommand : public Command {
 public:
  std::string name() const override { return "adarope"; }
  std::string group() const override { return kTheoryGroup; }
  std::string summary() const override {
    return "fit a logit scale with length to every head; frequency use";
  }
  std::string details() const override {
    return "A is AdaRoPE (arXiv:2607.19363); numbers in brackets are its equations and sections.\n\n"
           "AdaScale (A 4.3) multiplies the query of a head by lambda(L) = (1/tau) [ln(1 + max(L, L_ref) / "
           "L_ref)]^gamma at L keys. The fit needs no training: lambda(L) is the scale at which the head's "
           "effective length E_2 = 1 / sum of squared attention weights is what it was at L_ref, found by "
           "bisection to 1e-8, and (tau, gamma) follow by least squares of ln lambda. It reads caches that "
           "hold every key (key_coverage full). Length group i is the i-th used query of every example; its "
           "L "
           "and its mean ln E_2 are means over examples, then over tasks; the groups from L_ref on count, at "
           "least 3. A head has no fit where its layer caps its logits or where no lambda in (0, 1e4] does "
           "it, and the output says so. Beside it stands what normal logits without position would need, "
           "lambda = sqrt((2 / (beta sigma^2)) ln(L / E_2(L_ref))), beta = 2, sigma^2 the variance of a "
           "row's "
           "logits (A 36).\n\n"
           "-o writes adarope.json, which examples/python installs in a model; xi = ln omega, the "
           "frequencies as they are (A 4.3).\n\n"
           "Frequency use (A 3, App. B), alone with --use and then from any cache: u_n = mean |Re(z_n e^{i m "
           "omega_n})| at the pair's own distance, and mean |z_n| without phase; CoV = standard deviation / "
           "mean of u_n over n; centroid = sum u_n ln omega_n / sum u_n; mass = sum |z_n| omega_n / sum "
           "|z_n| "
           "(A 10); Theta = exp(-(4 / (d - 2)) sum ln omega_n), the base of the geometric grid with the same "
           "product. For --frozen-pairs pairs of query and key of each head and example: what E_2 of S(0) "
           "... "
           "S(M-1) and the variance of S over the window would change by if one frequency were 0.\n\n"
           "Window-task bounds (A 12, 47), with --window-task, from numbers alone or from what the heads of "
           "a "
           "cache measure. A head has to give one key the weight 1 - epsilon at the distances 0 to w, but "
           "for "
           "a share r of them, and epsilon at most outside. Then its mass lies between C1 / (r w / 2 + 1) "
           "and "
           "pi / (w + 1), plus C2 where some omega > pi / (w + 1), with\n\n"
           "  C1 = (2 / A*) (ln((1 - epsilon) / epsilon) - |q||k_-|)\n"
           "  C2 = pi [1 - (1 / A*) (ln(L - 1) + ln((1 - epsilon) / epsilon) - |q||k_-|)]\n\n"
           "A* = sum |z_n| of the query and that key, |q||k_-| the norms of the query and of any other key, "
           "both times the softmax scale, L the number of keys. (The meaning of r, and the bounds under it, "
           "are derived in src/spectral/window_task_bounds.hpp.)";
  }
  std::string example() const override {
    return "rope-profiler adarope examples/data/smollm2_full.h5 -o adarope.json";
  }

  void add_options(CLI::App& app) override {
    CacheDefaults defaults;
    defaults.files_required = false;
    defaults.split_help = "for --heads top:F alone: which pairs count as high-frequency";
    caches_.add_options(app, defaults);
    split_ = app.get_option("--split");
    add_output_options(app, output_, "adarope.json");
    add_json_option(app, json_);
    reference_ = app.add_option("--reference-length", reference_length_,
                                "L_ref in keys: the length group nearest in ln L; without it the first group")
                     ->type_name("X")
                     ->check(CLI::Range(1.0, kLongestLength));
    app.add_flag("--use", use_, "frequency use alone; sampled keys will do");
    frozen_ = app.add_option("--frozen-pairs", frozen_pairs_,
                             "pairs of query and key, of each head and example, whose frequencies are frozen "
                             "one by one: some, spread evenly, or all; each costs h sweeps over the window")
                  ->type_name("N|all")
                  ->capture_default_str();
    add_task_options(app);
  }

  int run(Console& console, int threads) override {
    check_combinations();
    WindowTaskRequest task;
    if (window_task_->count() > 0) task = task_request();
    HeadUseOptions use_options;
    use_options.norms = window_task_->count() > 0;
    use_options.frozen_pairs = wants_use() ? parse_frozen_pairs() : 0;

    std::optional<CacheRunOptions> caches;
    if (!caches_.files().empty()) {
      caches = parse_caches(threads);
      require_output_is_no_input(output_.path, cache_inputs(caches->files, caches->input));
    }
    std::unique_ptr<Output> output;
    if (!output_.path.empty()) output = std::make_unique<Output>(console, output_);
    AdaropeResult result;
    std::optional<CacheRun> run;
    if (caches) run.emplace(*caches);
    if (wants_fit()) {
      AdaropeOptions options;
      options.reference_length = given(reference_, reference_length_);
      Progress progress(console, "examples, fit", 0);
      options.progress = [&](std::int64_t examples) { progress.advance(examples); };
      result.fit = fit_adarope(*run, options);
      console.detail(fmt::format("{} passes over the vectors, {} rows of attention", result.fit->passes,
                                 result.fit->rows));
      result.settings.emplace_back(
          "reference_length", reference_->count() > 0 ? fmt::format("{}", reference_length_) : "first group");
    }
    if (run) {
      Progress progress(console, "examples, use", std::ssize(run->examples()));
      use_options.progress = [&](std::int64_t examples) { progress.advance(examples); };
      std::vector<HeadUse> heads = measure_use(*run, use_options);
      if (window_task_->count() > 0)
        result.window_task = bounded([&] { return window_task_of_heads(task, heads); });
      if (wants_use()) {
        result.settings.emplace_back("frozen_pairs", frozen_pairs_);
        result.use = std::move(heads);
      }
    } else {
      result.window_task = bounded([&] { return window_task_from_numbers(task); });
    }
    write(result, run ? &*run : nullptr, output.get(), console);
    return 0;
  }

 private:
  void add_task_options(CLI::App& app) {
    window_task_ = app.add_option("--window-task", window_, "w: the key is found at the distances 0 to w")
                       ->type_name("N")
                       ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
    const auto add = [&](const char* name, double& value, const char* what) {
      CLI::Option* option = app.add_option(name, value, what)->type_name("X");
      task_options_.push_back(option);
      return option;
    };
    add("--r", slack_, "r >= 0: the share of the window's distances that may fail")->capture_default_str();
    add("--epsilon", epsilon_,
        "0 < epsilon < 1: the weight that is left to other keys inside, to the key outside")
        ->capture_default_str();
    a_star_ = add("--a-star", amplitude_, "A* > 0, in place of the measured mean of sum |z_n|");
    norms_ = add("--norm-product", norm_product_,
                 "|q||k_-| >= 0 times the softmax scale, in place of the measured mean over all keys");
    length_ = add("--length", keys_, "L >= 2 keys, in place of the layer's window");
    max_omega_ =
        add("--max-omega", omega_,
            "largest frequency in radians per token, in place of the head's own; without caches 1, as "
            "every geometric grid has");
  }

  bool wants_fit() const { return !use_ && window_task_->count() == 0; }
  bool wants_use() const { return wants_fit() || use_; }

  static std::optional<double> given(const CLI::Option* option, double value) {
    return option->count() > 0 ? std::optional<double>(value) : std::nullopt;
  }

  void check_combinations() const {
    const bool task = window_task_->count() > 0;
    for (const CLI::Option* option : task_options_)
      if (!task && option->count() > 0) throw usage_error(option->get_name() + " belongs to --window-task");
    if (!wants_fit() && reference_->count() > 0)
      throw usage_error("--reference-length belongs to the fit, which --use and --window-task leave out");
    if (std::isnan(reference_length_))  // passes CLI::Range
      throw usage_error("--reference-length: expected a number of keys of at least 1, found nan");
    if (!wants_use() && frozen_->count() > 0)
      throw usage_error("--frozen-pairs belongs to the frequency use", "add --use");
    if (!caches_.files().empty()) return;
    if (!task || use_)
      throw usage_error("expected activation caches", "--window-task alone does with numbers");
    if (const CLI::Option* option = caches_.first_given())
      throw usage_error(option->get_name() + " needs activation caches");
    for (const CLI::Option* option : {a_star_, norms_, length_})
      if (option->count() == 0)
        throw usage_error("--window-task without activation caches needs " + option->get_name());
  }

  CacheRunOptions parse_caches(int threads) const {
    CacheRunOptions options = caches_.parse(threads);
    if (split_->count() > 0 && options.heads.kind != HeadRequest::Kind::kTop)
      throw usage_error("--split decides nothing here but which heads --heads top:F takes");
    return options;
  }

  std::int64_t parse_frozen_pairs() const {
    if (frozen_pairs_ == "all") return HeadUseOptions::kAllPairs;
    std::int64_t value = 0;
    const char* end = frozen_pairs_.data() + frozen_pairs_.size();
    const auto parsed = std::from_chars(frozen_pairs_.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || value < 0 || value > kMostFrozenPairs)
      throw usage_error(fmt::format("--frozen-pairs: expected all or a whole number from 0 to {}, found {}",
                                    kMostFrozenPairs, frozen_pairs_));
    return value;
  }

  WindowTaskRequest task_request() const {
    WindowTaskRequest request;
    request.window = static_cast<double>(window_);
    request.slack = slack_;
    request.epsilon = epsilon_;
    request.amplitude = given(a_star_, amplitude_);
    request.norm_product = given(norms_, norm_product_);
    request.length = given(length_, keys_);
    request.max_omega = given(max_omega_, omega_);
    // Whatever is measured later, what was given has to be in range.
    WindowTaskRequest complete = request;
    if (!complete.amplitude) complete.amplitude = 1;
    if (!complete.norm_product) complete.norm_product = 0;
    if (!complete.length) complete.length = 2;
    bounded([&] { return window_task_from_numbers(complete); });
    return request;
  }

  template <class Work>
  static WindowTaskRun bounded(const Work& work) {
    try {
      return work();
    } catch (const std::invalid_argument& error) {
      throw usage_error(std::string("--window-task: ") + error.what());
    }
  }

  void write(const AdaropeResult& result, const CacheRun* run, Output* output, Console& console) const {
    if (run != nullptr)
      for (const std::string& warning : run->warnings()) console.warning(warning);
    if (result.fit)
      for (const std::string& warning : result.fit->warnings) console.warning(warning);
    const bool to_stdout = output != nullptr && output->to_standard_output();
    if (output != nullptr || json_) {
      const std::string text = adarope_json(result, run);
      if (output != nullptr) {
        output->stream() << text;
        output->commit();
      }
      if (json_ && !to_stdout) console.out() << text;
    }
    if (json_ || (to_stdout && console.quiet())) return;
    print_adarope(result, console, to_stdout ? console.err() : console.out(), to_stdout);
  }

  CacheOptions caches_;
  OutputOptions output_;
  bool json_ = false, use_ = false;
  double reference_length_ = 0, slack_ = 0, epsilon_ = 0.1, amplitude_ = 0, norm_product_ = 0, keys_ = 0,
         omega_ = 1;
  std::int64_t window_ = 0;
  std::string frozen_pairs_ = "16";
  CLI::Option *split_ = nullptr, *reference_ = nullptr, *frozen_ = nullptr, *window_task_ = nullptr,
              *a_star_ = nullptr, *norms_ = nullptr, *length_ = nullptr, *max_omega_ = nullptr;
  std::vector<CLI::Option*> task_options_;
};

}  // namespace

std::unique_ptr<Command> make_adarope() { return std::make_unique<AdaropeCommand>(); }

}  // namespace rope::cli

#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "cli/command.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "profiler/atomic_file.hpp"
#include "profiler/error.hpp"
#include "profiler/model_config.hpp"
#include "profiler/synth.hpp"

namespace rope::cli {
namespace {

constexpr std::int64_t kLongestWindow = std::int64_t{1} << 24;

/// "1000,2000,4000": the examples take them in turn.
std::vector<std::int64_t> parse_windows(const std::string& text) {
  std::vector<std::int64_t> windows;
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    std::int64_t window = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), window);
    if (error != std::errc() || end != part.data() + part.size() || window < 2 || window > kLongestWindow)
      throw usage_error("synth: --windows: '" + part + "' is not a number of tokens from 2 to 16777216",
                        "several windows are separated by commas: 1000,2000,4000");
    windows.push_back(window);
  }
  return windows;
}

class SynthCommand : public Command {
 public:
  std::string name() const override { return "synth"; }
  std::string group() const override { return kInputGroup; }
  std::string summary() const override { return "makes a synthetic activation cache with known spectra"; }
  std::string details() const override {
    return "For demos and tests. In every pair of vectors the rotary pairs have exactly the moduli that "
           "--spectrum "
           "names (before rounding to --dtype) and random phases, so norm share, frequency mass and usage "
           "are "
           "known. Under `mix` the first task uses mostly slow pairs and the last mostly fast ones: Semantic "
           "Score falls, Positional Score rises, and w_S runs from 0 in the first task to 1 in the last. "
           "Later "
           "heads follow the task more strongly, so the last ones are selected.\n\n"
           "The same options and seed give the same bytes on one machine; another C library may round a "
           "sine differently.";
  }
  std::string example() const override {
    return "rope-profiler synth -o demo.h5 --tasks 6 --windows 1000,4000";
  }

  void add_options(CLI::App& app) override;
  int run(Console& console, int) override;

 private:
  void take_values();

  OutputOptions output_;
  SynthOptions synth_;
  std::string config_, windows_ = "1000,2000", dtype_ = "float16", layout_ = "half", query_rotation_ = "pre",
                       key_rotation_ = "pre", coverage_ = "sampled", spectrum_ = "mix", compress_ = "none";
  CLI::Option* keys_option_ = nullptr;
};

void SynthCommand::add_options(CLI::App& app) {
  const auto number = [&](const char* option, auto& value, auto least, auto most,
                          const std::string& meaning) {
    return app.add_option(option, value, meaning)
        ->type_name("N")
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  const auto choice = [&](const char* option, std::string& value, std::vector<std::string> values,
                          const std::string& meaning) {
    app.add_option(option, value, meaning)->check(CLI::IsMember(std::move(values)))->capture_default_str();
  };
  add_output_options(app, output_, "the cache", true);
  app.option_defaults()->group("Tasks and tokens");
  number("--tasks", synth_.tasks, 1, 10000, "number of tasks");
  number("--examples", synth_.examples, std::int64_t{1}, std::int64_t{1} << 31, "examples per task");
  app.add_option("--windows", windows_,
                 "lengths in tokens, separated by commas; the examples take them in turn")
      ->type_name("N,...")
      ->capture_default_str();
  number("--queries", synth_.queries, std::int64_t{1}, std::int64_t{4096}, "query tokens per example");
  keys_option_ = number("--keys", synth_.keys, std::int64_t{1}, std::int64_t{1} << 20,
                        "key tokens per example (sampled coverage)");
  choice("--coverage", coverage_, {"sampled", "full"},
         "keys stored: some, or all tokens up to the last query");
  choice("--spectrum", spectrum_, {"flat", "high", "low", "mix"}, "which pairs carry the scores");
  app.add_option("--seed", synth_.seed, "seed of phases and positions")
      ->type_name("N")
      ->check(check_seed)
      ->capture_default_str();

  app.option_defaults()->group("Model");
  app.add_option("--name", synth_.name, "name of the model")->type_name("TEXT")->capture_default_str();
  CLI::Option* config =
      app.add_option("--config", config_,
                     "a model's config.json to embed; it decides layers, heads and frequencies")
          ->type_name("FILE");
  for (CLI::Option* option :
       {number("--layers", synth_.layers, 1, 4096, "decoder layers"),
        number("--query-heads", synth_.query_heads, 1, 4096, "query heads per layer"),
        number("--kv-heads", synth_.kv_heads, 1, 4096, "key/value heads per layer; divides the query heads"),
        number("--head-dim", synth_.head_dim, 2, 1024, "width of a head, even")})
    option->excludes(config);
  app.add_option("--rope-theta", synth_.rope_theta, "base of the frequencies")
      ->type_name("X")
      ->capture_default_str()
      ->excludes(config);

  app.option_defaults()->group("Storage");
  choice("--dtype", dtype_, {"float16", "bfloat16", "float32", "float64"}, "element type of the vectors");
  choice("--layout", layout_, {"half", "interleaved"}, "lanes of a rotary pair: (n, n+r/2) or (2n, 2n+1)");
  choice("--query-rotation", query_rotation_, {"pre", "post"}, "queries before or after the rotary step");
  choice("--key-rotation", key_rotation_, {"pre", "post"}, "keys before or after the rotary step");
  choice("--compress", compress_, {"none", "gzip", "lzf"},
         "filter of the vectors, in chunks of one example and layer");
}

void SynthCommand::take_values() {
  const std::map<std::string, ElementType> types{{"float16", ElementType::kFloat16},
                                                 {"bfloat16", ElementType::kBfloat16},
                                                 {"float32", ElementType::kFloat32},
                                                 {"float64", ElementType::kFloat64}};
  const std::map<std::string, SynthSpectrum> spectra{{"flat", SynthSpectrum::kFlat},
                                                     {"high", SynthSpectrum::kHigh},
                                                     {"low", SynthSpectrum::kLow},
                                                     {"mix", SynthSpectrum::kMix}};
  synth_.type = types.at(dtype_);
  synth_.spectrum = spectra.at(spectrum_);
  synth_.windows = parse_windows(windows_);
  synth_.layout = layout_ == "half" ? spectral::PairLayout::kHalf : spectral::PairLayout::kInterleaved;
  synth_.query_rotation = query_rotation_ == "pre" ? Rotation::kPre : Rotation::kPost;
  synth_.key_rotation = key_rotation_ == "pre" ? Rotation::kPre : Rotation::kPost;
  synth_.full_coverage = coverage_ == "full";
  if (!(synth_.rope_theta > 1.0 && synth_.rope_theta <= 1e30))  // CLI::Range lets NaN pass
    throw usage_error("synth: --rope-theta is not a number above 1");
  if (synth_.full_coverage && keys_option_->count() > 0)
    throw usage_error("synth: --keys has no meaning with --coverage full", "all tokens are keys there");
  if (synth_.query_heads % synth_.kv_heads != 0)
    throw usage_error("synth: --query-heads " + std::to_string(synth_.query_heads) +
                      " is no multiple of --kv-heads " + std::to_string(synth_.kv_heads));
  if (synth_.head_dim % 2 != 0)
    throw usage_error("synth: --head-dim " + std::to_string(synth_.head_dim) + " is odd");
  if (compress_ != "none") {
    synth_.storage.chunk = {1, 1, 0, 0, 0};
    synth_.storage.shuffle = true;
    synth_.storage.gzip = compress_ == "gzip" ? 4 : 0;
    synth_.storage.lzf = compress_ == "lzf";
  }
  if (!config_.empty()) {
    synth_.config = read_config_file(config_);
    synth_.config_name = config_;
  }
}

int SynthCommand::run(Console& console, int) {
  take_values();
  const bool to_standard_output = output_.path == "-";
  std::optional<Output> out;
  if (to_standard_output) out.emplace(console, output_, Output::Content::kBinary);
  AtomicFile file(to_standard_output ? std::string() : output_.path, output_.force);
  {
    Progress progress(console, "examples", synth_.tasks * synth_.examples);
    write_synthetic_cache(file.partial_path(), synth_, [&] { progress.advance(); });
  }
  const auto bytes = std::filesystem::file_size(file.partial_path());
  if (to_standard_output) {
    out->append_file(file.partial_path());
    out->commit();
  } else {
    file.commit();
    console.detail(output_.path + ": " + std::to_string(bytes) + " bytes");
  }
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_synth() { return std::make_unique<SynthCommand>(); }

}  // namespace rope::cli

#include "cli/cache_options.hpp"

#include <fmt/format.h>

#include "cli/option_checks.hpp"
#include "profiler/error.hpp"

namespace rope::cli {
namespace {

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 24;

}  // namespace

void CacheOptions::add_options(CLI::App& app, const CacheDefaults& defaults) {
  heads_ = defaults.heads;
  split_ = defaults.split;
  CLI::Option* files = app.add_option("FILE", files_, "activation caches of one model")->type_name("FILE");
  if (defaults.files_required) files->required();
  if (defaults.one_file) files->expected(1);
  const auto add = [this](CLI::Option* option) {
    options_.push_back(option);
    return option;
  };
  app.add_option("--config", config_, "the model's config.json, when the cache holds none")
      ->type_name("FILE");
  add(app.add_option(
          "--trust", trust_,
          "which frequencies hold when the config and /model/inv_freq differ by more than 1e-5; without it "
          "that is an error"))
      ->check(CLI::IsMember({"inv_freq", "config"}));
  heads_option_ = add(app.add_option("--heads", heads_, defaults.heads_help))
                      ->type_name("all|top:F|LAYER.HEAD,...")
                      ->capture_default_str();
  add(app.add_option("--tasks", tasks_, "only tasks whose name matches; may be given several times"))
      ->type_name("GLOB")
      ->allow_extra_args(false)
      ->take_all();
  if (defaults.split_option)
    add(app.add_option("--split", split_,
                       defaults.split_help +
                           ": operational, intervention, certified, separation[:C,E], custom:C,E, omega:X, "
                           "periods:X, prefix:K"))
        ->type_name("RULE")
        ->capture_default_str();
  if (defaults.window_option)
    add(app.add_option(
            "--window", window_,
            "window in tokens in place of the examples' own; positions are then not checked against it, and "
            "frequencies that depend on length keep the example's"))
        ->type_name("N");
  add(app.add_flag("--no-window-cap", no_cap_, "do not cap the window at a layer's sliding window"));
  add(app.add_option(
          "--memory", memory_,
          "working memory in bytes, about, or with K, M or G; at least 64M. Results do not depend on it"))
      ->type_name("BYTES")
      ->capture_default_str();
  add(app.add_option("--digest", digest_, "SHA-256 of the inputs, for the record"))
      ->check(CLI::IsMember({"full", "none"}))
      ->capture_default_str();
}

CacheRunOptions CacheOptions::parse(int threads) const {
  CacheRunOptions options;
  options.files = files_;
  if (!config_.empty()) options.input.config_path = config_;
  options.input.trust = trust_of(trust_);
  options.input.task_globs = tasks_;
  options.heads = parse_heads(heads_);
  try {
    options.scoring.split = spectral::parse_split(split_);
  } catch (const std::invalid_argument& error) {
    throw usage_error(std::string("--split: ") + error.what());
  }
  if (window_ && (*window_ < 2 || *window_ > kLargestWindow))
    throw usage_error(fmt::format("--window: expected 2 to {} tokens, found {}", kLargestWindow, *window_));
  options.scoring.window = window_.value_or(0);
  options.scoring.window_cap = !no_cap_;
  options.digest = digest_ == "full";
  options.memory = parse_memory(memory_);
  options.threads = threads;
  return options;
}

const CLI::Option* CacheOptions::first_given() const {
  for (const CLI::Option* option : options_)
    if (option->count() > 0) return option;
  return nullptr;
}

}  // namespace rope::cli

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/cache_run.hpp"

namespace rope::cli {

/// What differs between the commands that read activation caches.
struct CacheDefaults {
  std::string heads = "all";
  std::string heads_help =
      "heads to look at: all, the top share F by variance of the norm share over the "
      "tasks, or a list LAYER.HEAD,...";
  std::string split = "operational";
  std::string split_help = "which pairs count as high-frequency";
  bool files_required = true;
  bool one_file = false;                           ///< the argument is FILE, not FILE...
  bool split_option = true, window_option = true;  ///< false: the command has its own, or none
};

/// The options that all commands over activation caches have alike: FILE..., --config, --trust, --heads,
/// --tasks, --split, --window, --no-window-cap, --memory, --digest.
class CacheOptions {
 public:
  void add_options(CLI::App& app, const CacheDefaults& defaults = {});
  /// What they say. Throws UserError (usage).
  CacheRunOptions parse(int threads) const;

  const std::vector<std::string>& files() const { return files_; }
  bool heads_given() const { return heads_option_->count() > 0; }
  bool window_given() const { return window_.has_value(); }
  const std::string& config() const { return config_; }  ///< empty: not given
  /// The first of the options (neither FILE nor --config) that was given, for commands that sometimes have no
  /// caches; null.
  const CLI::Option* first_given() const;

 private:
  std::vector<std::string> files_, tasks_;
  std::string config_, trust_, heads_, split_, memory_ = "512M", digest_ = "full";
  std::optional<std::int64_t> window_;
  bool no_cap_ = false;
  CLI::Option* heads_option_ = nullptr;
  std::vector<CLI::Option*> options_;
};

}  // namespace rope::cli

#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "profiler/activation_set.hpp"
#include "profiler/background_digest.hpp"
#include "profiler/head_scan.hpp"
#include "profiler/head_selection.hpp"
#include "profiler/input_stamps.hpp"
#include "profiler/profile_file.hpp"

namespace rope {

/// What decides a run over activation caches, whatever is computed in it.
struct CacheRunOptions {
  std::vector<std::string> files;
  ActivationSetOptions input;
  ScoringOptions scoring;  ///< split, window, window_cap, changes
  HeadRequest heads{HeadRequest::Kind::kAll, {}, {}};
  bool digest = true;                             ///< SHA-256 of the inputs, for the record
  int threads = 0;                                ///< that compute; 0: as OpenMP would
  std::int64_t memory = std::int64_t{512} << 20;  ///< bytes in all, about
};

/// Caches of one model, opened for a command that walks over the vectors of chosen heads.
class CacheRun {
 public:
  /// Opens the caches and selects the heads; under `top:F` that is a pass over all vectors. Throws UserError
  /// where a file is unusable, files disagree, or a listed head does not exist or does not rotate.
  explicit CacheRun(const CacheRunOptions& options);

  const CacheRunOptions& options() const { return options_; }
  const ActivationSet& set() const { return set_; }
  const ScoringOptions& scoring() const { return options_.scoring; }
  /// [set().heads()], 1 for the heads to be walked over: all of them rotate.
  const std::vector<char>& heads() const { return heads_; }
  std::int64_t selected_heads() const;
  const std::string& head_rule() const { return head_rule_; }  ///< in words

  /// All examples in canonical order, and the task that each belongs to.
  std::span<const SetExample* const> examples() const { return examples_; }
  const SetTask& task_of(std::size_t example) const { return *task_of_[example]; }
  std::size_t task_index(std::size_t example) const {
    return static_cast<std::size_t>(task_of_[example] - set_.tasks().data());
  }

  ScoringResources resources() const;
  /// scan_heads over all examples and the selected heads, with the run's options.
  void scan(const ScanOptions& options, const ScanWork& work, const ScanFold& fold) const;

  /// Of headers, models and the split, sorted, each once.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Where the results come from, for the record: `format` ("rope-profiler/audit"), format_version 1, tool
  /// version, model, settings, inputs with digests, warnings. Waits for the digests; throws UserError where a
  /// file was changed meanwhile. Call it once, when the vectors have been read.
  nlohmann::ordered_json record(const std::string& format) const;

 private:
  void select();

  CacheRunOptions options_;
  InputStamps stamps_;
  ActivationSet set_;
  std::unique_ptr<BackgroundDigest> digest_;
  std::vector<char> heads_;
  std::string head_rule_;
  std::vector<const SetExample*> examples_;
  std::vector<const SetTask*> task_of_;
  std::vector<std::string> warnings_;
};

/// Names of files and config, sorted: what digests and records are of.
std::vector<std::string> cache_inputs(const std::vector<std::string>& files,
                                      const ActivationSetOptions& input);
/// Name, digest and size of each path. digest: made for the same paths, or null; waits for it.
std::vector<ProfileInput> describe_inputs(const std::vector<std::string>& paths, BackgroundDigest* digest);
/// The heads of a set as profiles list them.
std::vector<ProfileHead> profile_heads(const ActivationSet& set);
/// What to say where a split claims more than it may on some head's grid; the heads [set.heads()] not 0, or
/// all where there are none.
std::vector<std::string> split_warnings(const ActivationSet& set, const spectral::SplitRule& split);
/// The spelling of `--heads`.
std::string heads_text(const HeadRequest& request);
/// split, split_C, split_epsilon, window, window_cap, tasks, trust: what every run over caches records.
Settings cache_settings(const ScoringOptions& scoring, const ActivationSetOptions& input);
}  // namespace rope

#include "profiler/cache_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "profiler/error.hpp"
#include "profiler/mean.hpp"
#include "profiler/result_json.hpp"
#include "spectral/adjacent_sweep.hpp"

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Part of the working memory that decoded chunks may keep.
ActivationSetOptions bounded(ActivationSetOptions input, std::int64_t memory) {
  input.chunk_bytes = std::min(input.chunk_bytes, memory / 8);
  return input;
}

// Norm shares [task][head], from a pass over all vectors without a sweep.
std::vector<std::vector<double>> norm_shares(const CacheRun& run) {
  const std::size_t heads = run.set().heads().size(), tasks = run.set().tasks().size();
  ScoringOptions scoring = run.scoring();
  scoring.semantic = scoring.positional = scoring.length = scoring.usage = false;
  scoring.share = true;
  std::vector<HeadWork> work(heads, HeadWork::kNone);
  for (std::size_t n = 0; n < heads; ++n)
    if (run.set().heads()[n].rotates) work[n] = HeadWork::kWithoutSweep;
  std::vector<std::vector<Mean>> means(tasks, std::vector<Mean>(heads));
  ExampleScorer(run.set(), scoring, run.resources())
      .score(run.examples(), work, [&](std::size_t e, const std::vector<HeadScores>& scores) {
        for (std::size_t n = 0; n < heads; ++n)
          means[run.task_index(e)][n].add(scores[n].score[static_cast<int>(Score::kNormShare)]);
      });
  std::vector<std::vector<double>> shares(tasks, std::vector<double>(heads, kNaN));
  for (std::size_t t = 0; t < tasks; ++t)
    for (std::size_t n = 0; n < heads; ++n) shares[t][n] = means[t][n].value();
  return shares;
}

}  // namespace

std::vector<std::string> cache_inputs(const std::vector<std::string>& files,
                                      const ActivationSetOptions& input) {
  std::vector<std::string> names = files;
  if (input.config_path) names.push_back(*input.config_path);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<ProfileInput> describe_inputs(const std::vector<std::string>& paths, BackgroundDigest* digest) {
  std::vector<std::string> digests(paths.size());
  if (digest != nullptr) digests = digest->wait();
  std::vector<ProfileInput> inputs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::error_code failed;
    const auto bytes = std::filesystem::file_size(paths[i], failed);
    inputs.push_back({paths[i], digests[i], failed ? 0 : static_cast<std::int64_t>(bytes)});
  }
  return inputs;
}

std::vector<ProfileHead> profile_heads(const ActivationSet& set) {
  std::vector<ProfileHead> heads;
  for (const SetHead& head : set.heads()) heads.push_back({head.layer, head.head, head.rotates});
  return heads;
}

std::vector<std::string> split_warnings(const ActivationSet& set, const spectral::SplitRule& split) {
  if (split.kind != spectral::SplitRule::Kind::kCertified) return {};
  for (const SetHead& head : set.heads()) {
    if (!head.rotates) continue;
    const auto grid = set.model(set.file_of_layer(head.layer)).grid(head.layer, head.head, 2);
    if (!spectral::is_geometric(grid.omega))
      return {
          fmt::format("the certified split is proved for geometric grids only; that of layer {} is none "
                      "(separation holds for any grid)",
                      head.layer)};
  }
  return {};
}

std::string heads_text(const HeadRequest& request) {
  if (request.kind == HeadRequest::Kind::kAll) return "all";
  if (request.kind == HeadRequest::Kind::kTop) return "top:" + request.fraction.text;
  std::string text;
  for (const auto& [layer, head] : request.list)
    text += fmt::format("{}{}.{}", text.empty() ? "" : ",", layer, head);
  return text;
}

Settings cache_settings(const ScoringOptions& scoring, const ActivationSetOptions& input) {
  std::string tasks;
  for (const std::string& glob : input.task_globs) tasks += (tasks.empty() ? "" : ",") + glob;
  const char* trust = input.trust == Trust::kConfig    ? "config"
                      : input.trust == Trust::kInvFreq ? "inv_freq"
                                                       : "neither";
  return {{"split", scoring.split.name()},
          {"split_C", fmt::format("{}", scoring.split.c)},
          {"split_epsilon", fmt::format("{}", scoring.split.epsilon)},
          {"window", scoring.window > 0 ? std::to_string(scoring.window) : "example"},
          {"window_cap", scoring.window_cap ? "true" : "false"},
          {"tasks", tasks.empty() ? "*" : tasks},
          {"trust", trust}};
}

CacheRun::CacheRun(const CacheRunOptions& options)
    : options_(options),
      stamps_(cache_inputs(options.files, options.input)),
      set_(options.files, bounded(options.input, options.memory)) {
  if (options_.digest)
    digest_ = std::make_unique<BackgroundDigest>(cache_inputs(options_.files, options_.input), nullptr);
  for (const SetTask& task : set_.tasks())
    for (const SetExample& example : task.examples) {
      examples_.push_back(&example);
      task_of_.push_back(&task);
    }
  std::set<std::string> warnings;
  for (const std::string& warning : set_.warnings()) warnings.insert(warning);
  for (const std::string& warning : split_warnings(set_, options_.scoring.split)) warnings.insert(warning);
  select();
  warnings_.assign(warnings.begin(), warnings.end());
}

void CacheRun::select() {
  const std::vector<ProfileHead> heads = profile_heads(set_);
  head_rule_ = heads_text(options_.heads);
  if (options_.heads.kind != HeadRequest::Kind::kTop) {
    heads_ = requested_heads(heads, options_.heads);
    return;
  }
  std::vector<std::vector<char>> stored;
  for (const SetTask& task : set_.tasks()) {
    stored.emplace_back();
    for (const SetHead& head : set_.heads())
      stored.back().push_back(std::binary_search(task.layers.begin(), task.layers.end(), head.layer));
  }
  heads_ = select_heads(heads, norm_shares(*this), stored, options_.heads).selected;
}

std::int64_t CacheRun::selected_heads() const {
  return std::count_if(heads_.begin(), heads_.end(), [](char wanted) { return wanted != 0; });
}

ScoringResources CacheRun::resources() const {
  ScoringResources resources;
  resources.threads = options_.threads;
  resources.memory = options_.memory;
  return resources;
}

void CacheRun::scan(const ScanOptions& options, const ScanWork& work, const ScanFold& fold) const {
  scan_heads(set_, options_.scoring, resources(), examples_, heads_, options, work, fold);
}

nlohmann::ordered_json CacheRun::record(const std::string& format) const {
  using Json = nlohmann::ordered_json;
  Json settings = Json::object(), inputs = Json::array();
  for (const auto& [name, value] : cache_settings(options_.scoring, options_.input)) settings[name] = value;
  settings["heads"] = head_rule_;
  settings["backend"] = "cpu";
  settings["simd"] = spectral::simd_in_use();
  settings["seed"] = nullptr;
  for (const ProfileInput& input :
       describe_inputs(cache_inputs(options_.files, options_.input), digest_.get()))
    inputs.push_back(input_json(input));
  stamps_.require_unchanged();
  return {{"format", format},
          {"format_version", 1},
          {"tool_version", ROPE_PROFILER_VERSION},
          {"model", {{"name", set_.files()[0].model().name}, {"type", set_.model(0).model_type()}}},
          {"settings", std::move(settings)},
          {"inputs", std::move(inputs)},
          {"warnings", warnings_}};
}

}  // namespace rope

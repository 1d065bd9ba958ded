#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interventions/intervention.hpp"
#include "interventions/mask.hpp"
#include "interventions/preview_row.hpp"
#include "interventions/stages.hpp"
#include "profiler/profile_file.hpp"
#include "profiler/ranking.hpp"
#include "spectral/band_split.hpp"

namespace rope {

/// A frequency grid of the plan's model, at one length or at any.
struct PlanGrid {
  std::int64_t window = 0;       ///< prompt length it holds for; 0 = any
  std::vector<double> inv_freq;  ///< [h] rad/token, every pair, zeros too
  double rho = 0;                ///< theory §5
  bool operator==(const PlanGrid&) const = default;
};

/// Heads that share their frequencies.
struct PlanFrequencies {
  std::vector<int> layers;  ///< rising
  std::vector<int> heads;   ///< of these layers; empty = every head
  std::string rope_type;
  std::int64_t window = 0;      ///< sliding window or chunk of the layers, tokens; 0 = none
  std::vector<PlanGrid> grids;  ///< one with window 0, or one per prompt length (dynamic, longrope)
  std::vector<MaskStep>
      steps;  ///< H under the plan's split at every length; empty where the grid depends on it
  bool operator==(const PlanFrequencies&) const = default;
};

/// Shape of a layer that the plan changes, for whoever applies it.
struct PlanLayerShape {
  int layer = 0, query_heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  bool norm_after_rotation = false;
  bool operator==(const PlanLayerShape&) const = default;
};

/// The model that a plan was made for.
struct PlanModel {
  std::string name, model_type;
  int num_layers = 0;
  std::string rope_layout;  ///< "half", "interleaved"
  std::vector<PlanLayerShape> layers;
  std::vector<PlanFrequencies> frequencies;
  bool operator==(const PlanModel&) const = default;

  /// Frequencies of a head; nullptr where the plan has none.
  const PlanFrequencies* of(int layer, int head) const;
  const PlanLayerShape* shape(int layer) const;
};

/// What is done at one prompt length in some heads of one layer.
struct PlanPromptLayer {
  int layer = 0;
  std::vector<int> heads;  ///< chosen heads of the layer that this holds for
  std::vector<int> pairs;  ///< H(M): indexes into inv_freq, rising
  /// [h] frequencies with those pairs frozen where the task has a freeze among its candidates; else as they
  /// are.
  std::vector<double> inv_freq;
  bool operator==(const PlanPromptLayer&) const = default;
};
struct PlanPrompt {
  std::int64_t length = 0;  ///< tokens
  std::vector<PlanPromptLayer> layers;
  bool operator==(const PlanPrompt&) const = default;
};

/// One task at one stage.
struct PlanTask {
  std::string task;
  Direction direction = Direction::kNone;
  double w_s = 0;  ///< NaN where the task is not ranked
  int stage = 5;
  std::vector<HeadIndex> heads;
  std::vector<Intervention> candidates;
  std::vector<PlanPrompt> prompts;  ///< one per distinct length of the task's examples, rising
  std::vector<PreviewRow> preview;  ///< see what_if.hpp; empty without a preview
  bool operator==(const PlanTask&) const = default;
};

/// plan.json (theory §7).
struct Plan {
  std::string tool_version;
  PlanModel model;
  spectral::SplitRule split;
  std::string profile_digest;  ///< SHA-256 of the profile
  ProfileInput profile;
  std::optional<ProfileInput> outcomes;  ///< `--outcomes`
  std::vector<ProfileInput> inputs;      ///< the caches that the profile was made from
  Settings settings;                     ///< of the profile
  std::string heads_rule;                ///< how the heads were chosen: "top:0.05", "all", "list"
  std::vector<PlanTask> tasks;           ///< by falling w_s, ties by name
  std::vector<std::string> warnings;
  std::optional<PreviewFacts> preview;  ///< of `plan --preview`
};

/// What decides a plan.
struct PlanOptions {
  spectral::SplitRule split = spectral::parse_split("intervention");
  int stage = 5;
  std::vector<std::string> task_globs;                   ///< empty: every task
  std::optional<Direction> direction;                    ///< `--direction`: for every task
  std::optional<std::vector<Intervention>> strengths;    ///< `--strengths`, in place of the stage's
  std::optional<HeadRequest> heads;                      ///< `--heads`, in place of the stage's share
  std::optional<std::vector<std::string>> not_improved;  ///< tasks that stage 5 did not improve
  std::vector<std::string> measured;                     ///< with not_improved: those that it was measured on
};

/// Makes a plan from a finished profile. Deterministic in (profile, options). Throws UserError where the
/// profile lacks what a plan needs: frequencies, a selection, a task that `task_globs` or the options name.
Plan make_plan(const ProfileReader& profile, const PlanOptions& options);

}  // namespace rope

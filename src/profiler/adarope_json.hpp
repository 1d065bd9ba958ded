#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/adarope.hpp"
#include "profiler/head_use.hpp"
#include "profiler/window_task_heads.hpp"

namespace rope {

/// What `adarope` found, for its JSON; only what was asked for is there.
struct AdaropeResult {
  std::optional<AdaropeFit> fit;
  std::optional<std::vector<HeadUse>> use;
  std::optional<WindowTaskRun> window_task;
  Settings settings;  ///< beside those of the run
};

/// The text of adarope.json (schemas/adarope.schema.json). run: null where the bounds come from numbers
/// alone.
std::string adarope_json(const AdaropeResult& result, const CacheRun* run);

}  // namespace rope

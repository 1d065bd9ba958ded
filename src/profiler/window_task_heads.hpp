#pragma once

#include <optional>
#include <span>
#include <vector>

#include "profiler/head_use.hpp"
#include "spectral/window_task_bounds.hpp"

namespace rope {

/// A window task as it is asked for: w, r and epsilon, and numbers that hold in place of what a head
/// measures.
struct WindowTaskRequest {
  double window = 0, slack = 0, epsilon = 0.1;
  std::optional<double> amplitude, norm_product, length, max_omega;
};

/// The bounds of one head, or of the numbers alone (layer and head -1).
struct HeadWindowTask {
  int layer = -1, head = -1;
  spectral::WindowTask task;
  std::optional<spectral::WindowTaskBounds> bounds;  ///< none where the head has no valid pair
  double frequency_mass = HeadUse::kNone;            ///< as measured
};

struct WindowTaskRun {
  WindowTaskRequest request;
  std::vector<HeadWindowTask> heads;
};

/// From numbers alone: amplitude, norm_product and length must be there; max_omega is 1 unless given. Throws
/// std::invalid_argument naming a parameter out of range.
WindowTaskRun window_task_from_numbers(const WindowTaskRequest& request);

/// Of measured heads (HeadUseOptions::norms): A* and c ||q|| ||k|| are means over their pairs, every key
/// standing for k_-; L is the layer's window and the frequencies are the head's own.
WindowTaskRun window_task_of_heads(const WindowTaskRequest& request, std::span<const HeadUse> heads);

}  // namespace rope

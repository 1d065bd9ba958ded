#include "profiler/window_task_heads.hpp"

#include <cmath>

namespace rope {
namespace {

spectral::WindowTask task_of(const WindowTaskRequest& request, double amplitude, double norm_product,
                             double length, double max_omega) {
  spectral::WindowTask task;
  task.window = request.window;
  task.slack = request.slack;
  task.epsilon = request.epsilon;
  task.amplitude = request.amplitude.value_or(amplitude);
  task.norm_product = request.norm_product.value_or(norm_product);
  task.length = request.length.value_or(length);
  task.max_omega = request.max_omega.value_or(max_omega);
  return task;
}

}  // namespace

WindowTaskRun window_task_from_numbers(const WindowTaskRequest& request) {
  WindowTaskRun run;
  run.request = request;
  HeadWindowTask one;
  one.task = task_of(request, HeadUse::kNone, HeadUse::kNone, HeadUse::kNone, 1.0);
  one.bounds = spectral::window_task_bounds(one.task);
  run.heads.push_back(one);
  return run;
}

WindowTaskRun window_task_of_heads(const WindowTaskRequest& request, std::span<const HeadUse> heads) {
  WindowTaskRun run;
  run.request = request;
  for (const HeadUse& use : heads) {
    HeadWindowTask head;
    head.layer = use.layer;
    head.head = use.head;
    head.frequency_mass = use.frequency_mass;
    head.task = task_of(request, use.amplitude, use.norm_product, use.window, use.max_omega());
    if (use.amplitude > 0) head.bounds = spectral::window_task_bounds(head.task);
    run.heads.push_back(head);
  }
  return run;
}

}  // namespace rope

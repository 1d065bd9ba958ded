#include "spectral/window_task_bounds.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace rope::spectral {
namespace {

void require(bool fine, const char* what) {
  if (!fine) throw std::invalid_argument(what);
}

void check(const WindowTask& task) {
  require(std::isfinite(task.window) && task.window >= 0, "the task's window w must be a number >= 0");
  require(std::isfinite(task.slack) && task.slack >= 0, "r must be a number >= 0");
  require(task.epsilon > 0 && task.epsilon < 1, "epsilon must lie between 0 and 1, both excluded");
  require(std::isfinite(task.amplitude) && task.amplitude > 0, "A* must be a number > 0");
  require(std::isfinite(task.norm_product) && task.norm_product >= 0,
          "the product of the norms must be a number >= 0");
  require(std::isfinite(task.length) && task.length >= 2, "the length L must be at least 2 keys");
  require(task.max_omega > 0 && task.max_omega <= std::numbers::pi,
          "the largest frequency must lie between 0 (excluded) and pi");
}

}  // namespace

WindowTaskBounds window_task_bounds(const WindowTask& task) {
  check(task);
  WindowTaskBounds bounds;
  // ln((1 - eps) / eps) without loss near eps = 1.
  const double odds = std::log1p(-task.epsilon) - std::log(task.epsilon);
  const double slow = std::numbers::pi / (task.window + 1);
  bounds.needed = std::log(task.length - 1) + odds - task.norm_product;
  bounds.c1 = 2 / task.amplitude * (odds - task.norm_product);
  bounds.c2 = std::numbers::pi * (1 - bounds.needed / task.amplitude);
  bounds.lower = bounds.c1 / (task.slack * task.window / 2 + 1);
  bounds.has_fast = task.max_omega > slow;
  bounds.upper = slow + (bounds.has_fast ? bounds.c2 : 0);
  bounds.says_low = bounds.lower > 0;
  bounds.says_high = bounds.upper < task.max_omega;
  bounds.possible =
      bounds.needed <= task.amplitude && bounds.lower <= bounds.upper && bounds.lower <= task.max_omega;
  return bounds;
}

}  // namespace rope::spectral

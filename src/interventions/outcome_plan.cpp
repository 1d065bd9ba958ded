#include "interventions/outcome_plan.hpp"

namespace rope {

OutcomePlan outcome_plan(const Plan& plan) {
  OutcomePlan tasks;
  for (const PlanTask& task : plan.tasks) {
    tasks.push_back({task.task, task.stage, task.direction, {}});
    for (const Intervention& candidate : task.candidates) tasks.back().candidates.push_back(candidate.id());
  }
  return tasks;
}

}  // namespace rope

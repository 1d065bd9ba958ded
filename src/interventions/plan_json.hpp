#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "interventions/plan.hpp"

namespace rope {

inline constexpr const char* kPlanSchema = "rope-profiler/plan-1";

/// The text of plan.json (schemas/plan.schema.json).
std::string plan_json(const Plan& plan);

/// Reads plan.json back. Treats the file as hostile: throws UserError that names file and JSON path for what
/// is not of this schema, for candidates that are none, heads or pairs out of range, and numbers that are not
/// finite.
Plan read_plan_json(const std::string& path);

/// Parts that adapter files share with the plan.
nlohmann::ordered_json plan_model_json(const PlanModel& model);
nlohmann::ordered_json plan_split_json(const spectral::SplitRule& split);
nlohmann::ordered_json plan_prompts_json(const std::vector<PlanPrompt>& prompts);
nlohmann::ordered_json plan_candidate_json(const Intervention& candidate);

}  // namespace rope

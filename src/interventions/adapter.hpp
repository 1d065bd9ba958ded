#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interventions/plan.hpp"
#include "interventions/tensor_file.hpp"

namespace rope {

inline constexpr const char* kAdapterSchema = "rope-profiler/adapter-1";

/// One candidate of one task of a plan.
struct AdapterChoice {
  const Plan* plan = nullptr;
  const PlanTask* task = nullptr;
  Intervention candidate;
};

/// Finds task and candidate. stage 0: the only stage of the task that has the candidate. Throws UserError
/// (usage) that names what there is. The plan must outlive the result.
AdapterChoice choose_candidate(const Plan& plan, const std::string& task, const std::string& candidate,
                               int stage);

/// What the candidate does to prompts of `length` tokens: the pairs of H and the frequencies it leaves, per
/// layer. Lengths that the plan does not list follow from its frequencies; where those depend on the length,
/// UserError.
PlanPrompt adapter_prompt(const AdapterChoice& choice, std::int64_t length);

/// The adapter as JSON (schemas/adapter.schema.json), for the plan's prompt lengths or for one.
std::string adapter_json(const AdapterChoice& choice, std::optional<std::int64_t> prompt_length);

/// The adapter as float32 arrays [Hq, h] of each changed layer: `layer.I.query_scale`, which multiplies both
/// lanes of a pair of the query, and `layer.I.frequency`, rad/token. Heads that are not chosen: ones, and the
/// model's own frequencies.
std::vector<NamedTensor> adapter_tensors(const AdapterChoice& choice, std::int64_t prompt_length);

/// `prompt_length`, `task`, `stage`, `candidate`, `model`, `schema`, `tool_version`.
TensorMetadata adapter_metadata(const AdapterChoice& choice, std::int64_t prompt_length);

/// The length that tables for one length are made for: as given, or the plan's where it has one alone or the
/// masks of all are equal (then the shortest). Throws UserError (usage) otherwise.
std::int64_t table_length(const AdapterChoice& choice, std::optional<std::int64_t> given);

}  // namespace rope

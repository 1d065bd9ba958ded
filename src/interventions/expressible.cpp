#include "interventions/expressible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "interventions/plan_warnings.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

struct NormOfType {
  std::string_view model_type;
  QueryNorm norm;
};

// Observed on the classes of transformers 5.24. Types whose config decides (cohere, phi, stablelm, glm4_moe,
// olmo with clip_qkv, ...) are left out: unknown.
constexpr NormOfType kNorms[] = {
    {"arcee", QueryNorm::kNone},
    {"bamba", QueryNorm::kNone},
    {"bitnet", QueryNorm::kNone},
    {"cohere2", QueryNorm::kNone},
    {"ernie4_5", QueryNorm::kNone},
    {"gemma", QueryNorm::kNone},
    {"gemma2", QueryNorm::kNone},
    {"glm", QueryNorm::kNone},
    {"glm4", QueryNorm::kNone},
    {"gpt_oss", QueryNorm::kNone},
    {"granite", QueryNorm::kNone},
    {"granitemoe", QueryNorm::kNone},
    {"helium", QueryNorm::kNone},
    {"llama", QueryNorm::kNone},
    {"ministral", QueryNorm::kNone},
    {"ministral3", QueryNorm::kNone},
    {"mistral", QueryNorm::kNone},
    {"mixtral", QueryNorm::kNone},
    {"nemotron", QueryNorm::kNone},
    {"phi3", QueryNorm::kNone},
    {"phimoe", QueryNorm::kNone},
    {"qwen2", QueryNorm::kNone},
    {"qwen2_moe", QueryNorm::kNone},
    {"seed_oss", QueryNorm::kNone},
    {"smollm3", QueryNorm::kNone},
    {"starcoder2", QueryNorm::kNone},
    {"apertus", QueryNorm::kPerHead},
    {"dots1", QueryNorm::kPerHead},
    {"exaone4", QueryNorm::kPerHead},
    {"gemma3", QueryNorm::kPerHead},
    {"gemma3_text", QueryNorm::kPerHead},
    {"gemma3n_text", QueryNorm::kPerHead},
    {"gemma4_text", QueryNorm::kPerHead},
    {"lfm2", QueryNorm::kPerHead},
    {"qwen3", QueryNorm::kPerHead},
    {"qwen3_moe", QueryNorm::kPerHead},
    {"qwen3_next", QueryNorm::kPerHead},
    {"minimax_m2", QueryNorm::kFlattened},
    {"olmo2", QueryNorm::kFlattened},
    {"olmo3", QueryNorm::kFlattened},
    {"hunyuan_v1_dense", QueryNorm::kAfterRotation},
    {"llama4_text", QueryNorm::kAfterRotation},
    {"nanochat", QueryNorm::kAfterRotation},
    {"deepseek_v2", QueryNorm::kLatent},
    {"deepseek_v3", QueryNorm::kLatent},
    {"kimi_k2", QueryNorm::kLatent},
};

bool freezes(const AdapterChoice& choice) { return choice.candidate.operation == Operation::kFreeze; }

bool normed_after(const AdapterChoice& choice) {
  const auto& layers = choice.plan->model.layers;
  return std::any_of(layers.begin(), layers.end(),
                     [](const PlanLayerShape& shape) { return shape.norm_after_rotation; });
}

/// Why the candidate cannot be moved into the weights; empty: it can.
std::string fold_obstacle(const AdapterChoice& choice) {
  if (freezes(choice)) return "a freeze changes the rotation, which no weight holds";
  if (normed_after(choice)) return "queries are normalised after the rotation, which would undo the factor";
  const std::string& type = choice.plan->model.model_type;
  switch (query_norm(type)) {
    case QueryNorm::kNone:
    case QueryNorm::kFlattened:
      return {};
    case QueryNorm::kPerHead:
      return "every head's queries are normalised with one shared weight after the projection";
    case QueryNorm::kAfterRotation:
      return "queries are normalised after the rotation, which would undo the factor";
    case QueryNorm::kLatent:
      return "queries come from a latent vector, with their rotary lanes last";
    case QueryNorm::kUnknown:
      break;
  }
  return type.empty() ? "the caches held no config, so it is not known whether queries are normalised"
                      : fmt::format("it is not known where models of type {} normalise queries", type);
}

bool one_mask(const AdapterChoice& choice) {
  const auto& prompts = choice.task->prompts;
  return std::all_of(prompts.begin(), prompts.end(), [&](const PlanPrompt& prompt) {
    return std::equal(prompt.layers.begin(), prompt.layers.end(), prompts[0].layers.begin(),
                      prompts[0].layers.end(), [](const PlanPromptLayer& a, const PlanPromptLayer& b) {
                        return a.layer == b.layer && a.heads == b.heads && a.pairs == b.pairs;
                      });
  });
}

/// " at 900 tokens; other lengths of the plan have other pairs" where that is so.
std::string length_clause(const AdapterChoice& choice, std::int64_t length) {
  if (length == 0 || one_mask(choice)) return {};
  return fmt::format(", at {} tokens alone: other prompts of the task have other pairs", length);
}

Expressibility of_adapter(const AdapterChoice& choice, std::int64_t length) {
  const std::size_t shared = heads_with_shared_keys(choice.plan->model, choice.task->heads).size();
  std::string reason = "factor on the queries of the chosen heads, keys untouched";
  if (normed_after(choice)) reason += ", after the norm that follows the rotation";
  if (freezes(choice))
    reason = shared == 0 ? "queries and keys of the chosen heads rotate by other frequencies"
                         : "the chosen heads get keys of their own, so the KV cache of their layers grows";
  return {"adapter", Verdict::kExact, reason + length_clause(choice, length)};
}

}  // namespace

QueryNorm query_norm(std::string_view model_type) {
  for (const NormOfType& entry : kNorms)
    if (entry.model_type == model_type) return entry.norm;
  return QueryNorm::kUnknown;
}

bool fused_query_first(std::string_view model_type) { return model_type == "phi3"; }

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kExact:
      return "exact";
    case Verdict::kApproximate:
      return "approximate";
    case Verdict::kNotExpressible:
      break;
  }
  return "not expressible";
}

std::string fold_target(std::string_view model_type) {
  if (query_norm(model_type) == QueryNorm::kFlattened) return "q_norm";
  return fused_query_first(model_type) ? "qkv_proj (its first rows)" : "q_proj";
}

std::vector<Expressibility> expressible(const AdapterChoice& choice, std::int64_t prompt_length) {
  std::vector<Expressibility> rows{of_adapter(choice, prompt_length)};
  const std::string obstacle = fold_obstacle(choice);
  if (!obstacle.empty())
    rows.push_back({"weights", Verdict::kNotExpressible, obstacle});
  else if (prompt_length == 0 && !one_mask(choice))
    rows.push_back({"weights", Verdict::kApproximate,
                    "weights hold the pairs of one prompt length (--fold --prompt-length)"});
  else
    rows.push_back({"weights", one_mask(choice) ? Verdict::kExact : Verdict::kApproximate,
                    "rows of " + fold_target(choice.plan->model.model_type) + ", with --fold" +
                        length_clause(choice, prompt_length)});
  rows.push_back({"llama.cpp rope factors", Verdict::kNotExpressible,
                  freezes(choice)
                      ? "one list of factors for all heads of the model"
                      : "factors change frequencies, not the size of a score; one list for all heads"});
  rows.push_back({"config rope_scaling", Verdict::kNotExpressible,
                  "one grid for all heads of a layer kind, and no factor on single pairs"});
  return rows;
}

std::vector<NamedTensor> fold_tensors(const AdapterChoice& choice, std::int64_t prompt_length) {
  if (const std::string obstacle = fold_obstacle(choice); !obstacle.empty())
    throw UserError("--fold: not expressible in the weights: " + obstacle,
                    "write the adapter without --fold, and let the runtime apply it", ExitCode::kCheckFailed);
  const bool half = choice.plan->model.rope_layout == "half";
  std::vector<NamedTensor> tensors;
  for (const PlanPromptLayer& entry : adapter_prompt(choice, prompt_length).layers) {
    const PlanLayerShape* shape = choice.plan->model.shape(entry.layer);
    if (!shape) throw UserError(fmt::format("the plan does not say how wide layer {} is", entry.layer));
    const std::size_t width = static_cast<std::size_t>(shape->head_dim), pairs = entry.inv_freq.size();
    const std::string name = fmt::format("layer.{}.query_rows", entry.layer);
    if (tensors.empty() || tensors.back().name != name) {
      const std::size_t rows = width * static_cast<std::size_t>(shape->query_heads);
      tensors.push_back({name, {static_cast<std::int64_t>(rows)}, std::vector<float>(rows, 1.0F)});
    }
    for (const int head : entry.heads)
      for (const int pair : entry.pairs) {
        const std::size_t n = static_cast<std::size_t>(pair), start = static_cast<std::size_t>(head) * width;
        const auto alpha = static_cast<float>(choice.candidate.alpha);
        tensors.back().values[start + (half ? n : 2 * n)] = alpha;
        tensors.back().values[start + (half ? n + pairs : 2 * n + 1)] = alpha;
      }
  }
  return tensors;
}

}  // namespace rope

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interventions/adapter.hpp"

namespace rope {

/// Where a model type of Hugging Face transformers normalises its queries. It decides whether a factor on
/// some lanes of a query can be moved into the weights.
enum class QueryNorm {
  kNone,
  kPerHead,    ///< one weight for all heads, before the rotation
  kFlattened,  ///< over all heads at once, with a weight per head and lane, before the rotation
  kAfterRotation,
  kLatent,   ///< latent attention: rows of the query projection are not [rotary | rest] per head
  kUnknown,  ///< not a type we know, or its config decides
};
QueryNorm query_norm(std::string_view model_type);
/// Queries are the first rows of one fused projection.
bool fused_query_first(std::string_view model_type);

enum class Verdict { kExact, kApproximate, kNotExpressible };
const char* verdict_name(Verdict verdict);

/// Whether one way of running a model can hold the candidate.
struct Expressibility {
  std::string target;
  Verdict verdict = Verdict::kExact;
  std::string reason;
};
/// For: adapter (hooks on queries and keys, as in examples/python), weights (`--fold`), llama.cpp's factors,
/// a config's rope_scaling. prompt_length: of the tables; 0 = every length of the plan.
std::vector<Expressibility> expressible(const AdapterChoice& choice, std::int64_t prompt_length);

/// The exact change of the weights of a rescaling, for prompts with the mask of `prompt_length`:
/// `layer.I.query_rows`, float32 [Hq * D], by which each row of the query projection (and of its bias) is
/// multiplied; where `fold_target` says so, each element of the query norm's weight instead. Throws UserError
/// (exit 1) with the reason where that is not exact.
std::vector<NamedTensor> fold_tensors(const AdapterChoice& choice, std::int64_t prompt_length);
std::string fold_target(std::string_view model_type);  ///< "q_proj", "qkv_proj (its first rows)", "q_norm"

}  // namespace rope

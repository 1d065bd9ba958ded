#include "profiler/model_families.hpp"

#include <array>

namespace rope {
namespace {

using NormAfter = ModelFamily::NormAfter;
using Rotates = ModelFamily::Rotates;
using Scale = ModelFamily::Scale;

// Only types that differ from the general rules; the others are known by their defaults.
// clang-format off
constexpr ModelFamily kFamilies[] = {
    {.model_type = "afmoe", .pattern = "sssf", .rotates = Rotates::kSlidingOnly},
    {.model_type = "axk2", .pattern = "i"},
    {.model_type = "bailing_hybrid", .pattern = "lllllf"},
    {.model_type = "beam", .pattern = "sssssf", .last_layer_full = true},
    {.model_type = "codegen", .uses_rotary_dim = true},
    {.model_type = "cohere2", .pattern = "sssf", .rotates = Rotates::kSlidingOnly},
    {.model_type = "cohere2_moe", .pattern = "sssf", .rotates = Rotates::kSlidingOnly},
    {.model_type = "cohere_compass_text", .bidirectional = true},
    {.model_type = "cwm", .pattern = "fsss"},
    {.model_type = "deepseek_v32", .pattern = "i"},
    {.model_type = "deepseek_v4", .pattern = "HH|HC",
     .caution = "deepseek_v4 attends to compressed blocks of keys beside its window; scores are of the stored vectors"},
    {.model_type = "diffusion_gemma_text", .bidirectional = true},
    {.model_type = "dory", .pattern = "smsmsmfm"},
    {.model_type = "dots3_note_text", .pattern = "ii|sssi"},
    {.model_type = "embedding_gemma2_text", .pattern = "sssssf", .last_layer_full = true, .scale = Scale::kOne, .bidirectional = true},
    {.model_type = "eurobert", .bidirectional = true},
    {.model_type = "exaone4", .pattern = "sssf", .rotates = Rotates::kSlidingOnlyIfWindow},
    {.model_type = "exaone_moe", .pattern = "sssf", .rotates = Rotates::kSlidingOnlyIfWindow},
    {.model_type = "flint", .pattern = "ff|sssf", .last_layer_full = true},
    {.model_type = "gemma2", .pattern = "sf"},
    {.model_type = "gemma3_text", .pattern = "sssssf"},
    {.model_type = "gemma3n_text", .pattern = "ssssf", .scale = Scale::kOne},
    {.model_type = "gemma4_text", .pattern = "sssssf", .last_layer_full = true, .scale = Scale::kOne},
    {.model_type = "gemma4_unified_text", .pattern = "sssssf", .last_layer_full = true, .scale = Scale::kOne},
    {.model_type = "glm_moe_dsa", .pattern = "i"},
    {.model_type = "gpt_oss", .pattern = "sf"},
    {.model_type = "granite_swa", .pattern = "fsss"},
    {.model_type = "granitemoe_swa", .pattern = "fsss"},
    {.model_type = "gptj", .uses_rotary_dim = true},
    {.model_type = "gte", .bidirectional = true},
    {.model_type = "granitemoehybrid", .pattern = "l"},
    {.model_type = "hunyuan_v1_dense", .norm_after = NormAfter::kLearned},
    {.model_type = "hunyuan_v1_moe", .norm_after = NormAfter::kLearned},
    {.model_type = "hunyuan_vl_text", .norm_after = NormAfter::kLearned},
    {.model_type = "hy_v4", .pattern = "i"},
    {.model_type = "hy_v4_vl_text", .pattern = "i"},
    {.model_type = "jina_embeddings_v3", .bidirectional = true},
    {.model_type = "kolibri1", .pattern = "ssssf", .rotates = Rotates::kSlidingOnlyIfWindow},
    {.model_type = "laguna", .pattern = "f"},
    {.model_type = "lara_mini", .pattern = "lslfs", .rotates = Rotates::kSlidingOnly},
    {.model_type = "lfm3", .pattern = "v|vfvs"},
    {.model_type = "llama4_text", .norm_after = NormAfter::kWeightless},
    {.model_type = "mellum", .pattern = "f"},
    {.model_type = "mimo_v2_flash", .pattern = "fssss|fsssss"},
    {.model_type = "minimax", .pattern = "fl"},
    {.model_type = "minimax_m2", .uses_rotary_dim = true},
    {.model_type = "modernbert", .pattern = "fss", .bidirectional = true},
    {.model_type = "modernbert-decoder", .pattern = "fss"},
    {.model_type = "mistral_large4_text", .pattern = "i",
     .caution = "mistral_large4 multiplies queries by a learned function of their position; scores of E_2 leave it out"},
    {.model_type = "muse_glimmer_text", .pattern = "fsss", .pattern_from_end = true, .rotates = Rotates::kSlidingOnly},
    {.model_type = "muse_spark_text", .pattern = "fsss", .pattern_from_end = true, .rotates = Rotates::kSlidingOnly},
    {.model_type = "nanochat", .norm_after = NormAfter::kWeightless, .reversed = true},
    {.model_type = "neomme", .pattern = "sssssf", .last_layer_full = true, .bidirectional = true},
    {.model_type = "nomic_bert", .bidirectional = true},
    {.model_type = "olmo3", .pattern = "sssf"},
    {.model_type = "olmo_hybrid", .pattern = "lllf"},
    {.model_type = "qwen3_5_moe_text", .pattern = "lllf"},
    {.model_type = "qwen3_5_text", .pattern = "lllf"},
    {.model_type = "qwen3_next", .pattern = "lllf"},
    {.model_type = "qwen4_exp_text", .pattern = "llli"},
    {.model_type = "recurrent_gemma", .pattern = "lls"},
    {.model_type = "t5_gemma_module", .pattern = "sf"},
    {.model_type = "t5gemma2_decoder", .pattern = "sssssf"},
    {.model_type = "t5gemma2_text", .pattern = "sssssf", .bidirectional = true},
    {.model_type = "ultrabert", .pattern = "ssf", .bidirectional = true},
    {.model_type = "unlimited_ocr_text", .pattern = "r"},
    {.model_type = "vaultgemma", .pattern = "sf"},
    {.model_type = "zaya", .pattern = "h"},
    {.model_type = "zamba2", .scale = Scale::kHalfHeadDim},
    // Known by name only: the shape of DeepSeek-V3.
    {.model_type = "kimi_k2"},
    // No rotary embedding at all: learned, ALiBi, relative or no positions.
    {.model_type = "biogpt", .rotates = Rotates::kNone},
    {.model_type = "bloom", .rotates = Rotates::kNone},
    {.model_type = "ctrl", .rotates = Rotates::kNone},
    {.model_type = "gpt2", .rotates = Rotates::kNone},
    {.model_type = "gpt_bigcode", .rotates = Rotates::kNone},
    {.model_type = "gpt_neo", .rotates = Rotates::kNone},
    {.model_type = "jamba", .rotates = Rotates::kNone},
    {.model_type = "cpmant", .rotates = Rotates::kNone},
    {.model_type = "git", .rotates = Rotates::kNone},
    {.model_type = "glm5_next_text", .rotates = Rotates::kNone},
    {.model_type = "gpt-sw3", .rotates = Rotates::kNone},
    {.model_type = "inkling_text", .rotates = Rotates::kNone},
    {.model_type = "inkling2_text", .rotates = Rotates::kNone},
    {.model_type = "inkling2_loop_text", .rotates = Rotates::kNone},
    {.model_type = "kimi_linear", .rotates = Rotates::kNone},
    {.model_type = "musicgen_decoder", .rotates = Rotates::kNone},
    {.model_type = "musicgen_melody_decoder", .rotates = Rotates::kNone},
    {.model_type = "openai-gpt", .rotates = Rotates::kNone},
    {.model_type = "mpt", .rotates = Rotates::kNone},
    {.model_type = "nemotron_h", .rotates = Rotates::kNone},
    {.model_type = "opt", .rotates = Rotates::kNone},
    {.model_type = "trocr", .rotates = Rotates::kNone},
    {.model_type = "xglm", .rotates = Rotates::kNone},
    {.model_type = "xlnet", .rotates = Rotates::kNone},
    {.model_type = "zamba", .rotates = Rotates::kNone, .scale = Scale::kHalfHeadDim},
    // Encoders with rotary embeddings.
    {.model_type = "esm", .bidirectional = true},
    {.model_type = "esmc", .bidirectional = true},
    {.model_type = "openai_privacy_filter", .bidirectional = true},
    {.model_type = "roformer", .bidirectional = true},
};
// clang-format on

constexpr ModelFamily kGeneral{};

}  // namespace

const ModelFamily* find_family(std::string_view model_type) {
  for (const ModelFamily& family : kFamilies)
    if (model_type == family.model_type) return &family;
  return default_values(model_type).empty() ? nullptr : &kGeneral;
}

}  // namespace rope

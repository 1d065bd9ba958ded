"""Tiny random models of many architectures, made from configs: nothing is downloaded."""

from __future__ import annotations

import copy

import torch
import transformers

VOCABULARY = 400

COMMON = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    initializer_range=0.3,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    tie_word_embeddings=False,
)
LONG, SHORT = [1.5, 2.0, 3.0, 4.0], [1.0, 1.05, 1.1, 1.2]

SPECS: dict[str, tuple[str, dict]] = {
    "llama": ("LlamaConfig", dict(rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "llama3": (
        "LlamaConfig",
        dict(
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        ),
    ),
    "yarn": (
        "Qwen2Config",
        dict(
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 500.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        ),
    ),
    "dynamic": (
        "LlamaConfig",
        dict(
            max_position_embeddings=32,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 500.0, "factor": 2.0},
        ),
    ),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", dict(head_dim=16)),
    "mistral": ("MistralConfig", dict(sliding_window=8)),
    "ministral3": (
        "Ministral3Config",
        dict(
            head_dim=8,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 500.0,
                "factor": 4.0,
                "original_max_position_embeddings": 8,
                "llama_4_scaling_beta": 0.3,
            },
        ),
    ),
    "gemma": ("GemmaConfig", dict(head_dim=8)),
    "gemma2": (
        "Gemma2Config",
        dict(head_dim=8, sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=5.0),
    ),
    "gemma3": (
        "Gemma3TextConfig",
        dict(
            head_dim=8,
            sliding_window=8,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
    ),
    "phi3": ("Phi3Config", dict(rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "longrope": (
        "Phi3Config",
        dict(
            original_max_position_embeddings=32,
            rope_parameters={
                "rope_type": "longrope",
                "rope_theta": 500.0,
                "long_factor": LONG,
                "short_factor": SHORT,
                "original_max_position_embeddings": 32,
            },
        ),
    ),
    "olmo": ("OlmoConfig", {}),
    "olmo2": ("Olmo2Config", {}),
    "smollm3": ("SmolLM3Config", dict(no_rope_layers=[1, 0, 1])),
    "granite": ("GraniteConfig", dict(attention_multiplier=0.2)),
    "cohere": ("CohereConfig", {}),
    "glm": ("GlmConfig", dict(head_dim=8)),
    # Its attention knows no key-value heads; a config that names some would describe another model.
    "gpt_neox": ("GPTNeoXConfig", dict(num_key_value_heads=4)),
    "phi": ("PhiConfig", {}),
    "gpt_oss": (
        "GptOssConfig",
        dict(head_dim=8, num_local_experts=2, num_experts_per_tok=1, sliding_window=8),
    ),
    "nanochat": ("NanoChatConfig", {}),
    "gemma3n": (
        "Gemma3nTextConfig",
        dict(
            head_dim=8,
            sliding_window=8,
            num_hidden_layers=4,
            intermediate_size=[48] * 4,
            activation_sparsity_pattern=[0.0] * 4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            num_kv_shared_layers=0,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=VOCABULARY,
            laurel_rank=4,
        ),
    ),
}

LATENT = dict(
    q_lora_rank=16,
    kv_lora_rank=16,
    qk_rope_head_dim=8,
    qk_nope_head_dim=12,
    v_head_dim=8,
    num_key_value_heads=4,
)
# Gemma 4: layers of two shapes, the last two attending to the keys of the first two; the others:
# multi-head latent attention. Their keys cannot be frozen.
ODD = {
    "gemma4": (
        "Gemma4TextConfig",
        dict(
            head_dim=8,
            global_head_dim=16,
            sliding_window=8,
            num_hidden_layers=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            num_kv_shared_layers=2,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=VOCABULARY,
        ),
    ),
    "deepseek_v3": ("DeepseekV3Config", LATENT | dict(first_k_dense_replace=3)),
    "deepseek_yarn": (
        "DeepseekV3Config",
        LATENT
        | dict(
            first_k_dense_replace=3,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 500.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "mscale": 1.0,
                "mscale_all_dim": 0.8,
            },
        ),
    ),
    "minicpm3": ("MiniCPM3Config", LATENT),
}


def config(name: str):
    """A fresh one: some tests change it."""
    kind, extra = copy.deepcopy((SPECS | ODD)[name])
    return getattr(transformers, kind)(**{**COMMON, **extra})


def make(name: str, attention: str = "eager", dtype: torch.dtype = torch.float32):
    """A fresh model, the same weights for every attention implementation."""
    torch.manual_seed(sorted(SPECS | ODD).index(name))
    model = transformers.AutoModelForCausalLM.from_config(
        config(name), attn_implementation=attention, dtype=dtype
    )
    add_noise(model)
    return model.eval()


def add_noise(model) -> None:
    """To norms and biases too: they start as ones and zeros."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_((0.2 * noise).to(parameter.dtype))


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))

"""Where a model's rotary attention is: one adapter per family, with a default that suits nearly all of
transformers.

The default adapter needs attention modules whose forward calls a module-level function
`apply_rotary_pos_emb(q, k, cos, sin)` and hands the result to `ALL_ATTENTION_FUNCTIONS.get_interface(...)`:
Llama, Qwen2/3, Mistral, Gemma 1/2/3, Phi, Phi-3, OLMo 1/2/3, SmolLM3, Granite, Cohere, GLM, GPT-NeoX, gpt-oss
and their kin. For another family derive from Adapter and `register` it under its model_type.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
from torch import nn


class RopeError(RuntimeError):
    """Something about the model, the prompts or a file that makes the work impossible; its text is one
    line."""


class Adapter:
    """How to find rotary attention. Override what differs in a family."""

    rotary_functions = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave")
    attention_registry = "ALL_ATTENTION_FUNCTIONS"

    def text_config(self, model: nn.Module):
        """The decoder's config, inside a multimodal one or not."""
        return model.config.get_text_config(decoder=True)

    def decoder(self, model: nn.Module) -> nn.Module:
        """The part to run for its attention only: without the output layer."""
        inner = getattr(model, "get_decoder", lambda: None)()
        return inner if inner is not None and inner is not model else getattr(model, "base_model", model)

    def namespace(self, attention: nn.Module) -> dict:
        """The global names that the attention's forward looks its functions up in."""
        return inspect.unwrap(type(attention).forward).__globals__

    def is_rotary_attention(self, module: nn.Module) -> bool:
        """Whether this module's forward calls a rotary function."""
        if not isinstance(getattr(module, "layer_idx", None), int):
            return False
        names = inspect.unwrap(type(module).forward).__code__.co_names
        return any(function in names for function in self.rotary_functions)

    def attention_layers(self, model: nn.Module) -> dict[int, nn.Module]:
        """Layer number → attention module, of all that may rotate. Raises RopeError when there is none."""
        found: dict[int, nn.Module] = {}
        for module in self.decoder(model).modules():
            if self.is_rotary_attention(module):
                if module.layer_idx in found:
                    raise RopeError(
                        f"{type(model).__name__}: two rotary attention modules in layer {module.layer_idx}; "
                        "a model of this kind needs an adapter (architectures.py)"
                    )
                found[module.layer_idx] = module
        if not found:
            raise RopeError(
                f"{type(model).__name__} ({self.model_type(model)}): no attention module calls "
                f"{self.rotary_functions[0]}; a model of this kind needs an adapter (architectures.py)"
            )
        return dict(sorted(found.items()))

    def read_call(self, arguments: dict, count: int) -> tuple:
        """(q or None, k or None, cos, sin, whether heads come before tokens) of a rotary call; `arguments` by
        name, `count` calls came before it in this run of the layer."""
        heads_first = arguments.get("unsqueeze_dim", 1) == 1
        return arguments["q"], arguments["k"], arguments["cos"], arguments["sin"], heads_first

    def rotate(self, function, q, cos, sin):
        """Rotated q [1, 1, T, D] by the model's own function, for tables [1, T, w]."""
        return function(q, q.clone(), cos, sin)[0]

    def shares_keys(self, attention: nn.Module) -> bool:
        """Whether another layer attends to this layer's keys, or this layer to another's."""
        return False

    def query_temperature(self, model: nn.Module, positions: np.ndarray) -> np.ndarray:
        """[n] factors that the model multiplies rotated queries at these positions with, beside its softmax
        scale. Caches hold the queries without them; rope-profiler takes them from the config."""
        return np.ones(len(positions))

    def norm_after_rotation(self, model: nn.Module) -> float | None:
        """ε of a root-mean-square norm without weights between rotation and attention, or None. Caches hold
        the vectors before it; rope-profiler applies it on reading."""
        return None

    def model_type(self, model: nn.Module) -> str:
        return getattr(self.text_config(model), "model_type", "unknown type")


_ADAPTERS: dict[str, Adapter] = {}


def register(model_type: str, adapter: Adapter) -> None:
    """Use `adapter` for models whose decoder config has this model_type."""
    _ADAPTERS[model_type] = adapter


class _NanoChat(Adapter):
    def norm_after_rotation(self, model: nn.Module) -> float | None:
        return float(self.text_config(model).rms_norm_eps)


class _Ministral3(Adapter):
    def query_temperature(self, model: nn.Module, positions: np.ndarray) -> np.ndarray:
        parameters = self.text_config(model).rope_parameters
        beta, period = parameters.get("llama_4_scaling_beta"), parameters.get(
            "original_max_position_embeddings"
        )
        if not beta or not period:
            return np.ones(len(positions))
        return 1 + beta * np.log(1 + np.floor(np.asarray(positions) / period))


class _SeparateCalls(Adapter):
    """Gemma 3n and Gemma 4: apply_rotary_pos_emb(x, cos, sin) once for q, then for k in layers with keys of
    their own."""

    def read_call(self, arguments: dict, count: int) -> tuple:
        x, heads_first = arguments["x"], arguments.get("unsqueeze_dim", 1) == 1
        q, k = (x, None) if count == 0 else (None, x)
        return q, k, arguments["cos"], arguments["sin"], heads_first

    def rotate(self, function, q, cos, sin):
        return function(q, cos, sin)

    def shares_keys(self, attention: nn.Module) -> bool:
        return bool(attention.is_kv_shared_layer or attention.store_full_length_kv)


register("nanochat", _NanoChat())
register("ministral3", _Ministral3())
for _name in ("gemma3n_text", "gemma4_text"):
    register(_name, _SeparateCalls())


def adapter_of(model: nn.Module) -> Adapter:
    default = Adapter()
    return _ADAPTERS.get(default.model_type(model), default)


def model_name(model: nn.Module) -> str:
    """What the model calls itself: rope_profiler_name where its loader set it, a GGUF file's name, the name
    of its folder, or its name on the hub; "" for a model made from a config."""
    given = getattr(model, "rope_profiler_name", None)
    if given:
        return str(given)
    quantization = getattr(model.config, "quantization_config", None)
    file = (
        quantization.get("gguf_file")
        if isinstance(quantization, dict)
        else getattr(quantization, "gguf_file", None)
    )
    if file:
        return Path(file).stem
    name = str(getattr(model.config, "_name_or_path", "") or "")
    return Path(name).name if Path(name).is_absolute() or Path(name).is_dir() else name

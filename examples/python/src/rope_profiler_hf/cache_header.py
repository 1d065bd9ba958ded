"""What a cache says about the model, and what makes two captures the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import numpy as np
from torch import nn

import rope_profiler_hf
from rope_profiler_hf import cache_file
from rope_profiler_hf.architectures import RopeError, adapter_of
from rope_profiler_hf.examples import CaptureSettings, Example
from rope_profiler_hf.grids import LENGTH_DEPENDENT
from rope_profiler_hf.rotary import LayerRotary


def stored_layers(found: dict[int, LayerRotary], wanted: tuple[int, ...] | None) -> dict[int, LayerRotary]:
    """The layers to store; all must have one shape, because a cache holds one."""
    found = {number: layer for number, layer in found.items() if layer.own_keys}
    if wanted is not None:
        missing = sorted(set(wanted) - set(found))
        if missing:
            raise RopeError(
                f"--layers: layer {missing[0]} does not rotate, has no keys of its own or does not exist"
            )
        found = {layer: found[layer] for layer in sorted(set(wanted))}
    shapes: dict[tuple, list[int]] = {}
    for number, layer in found.items():
        shape = (layer.num_query_heads, layer.num_kv_heads, layer.head_dim, layer.layout, layer.reversed)
        shapes.setdefault(shape, []).append(number)
    if len(shapes) > 1:
        kinds = "; ".join(
            f"{shape}: layers {','.join(map(str, numbers))}" for shape, numbers in shapes.items()
        )
        raise RopeError(
            "layers of different shapes (query heads, key heads, lanes, layout, reversed) belong in files of "
            f"their own: use --layers. {kinds}"
        )
    return found


def cache_model(model: nn.Module, layers: dict[int, LayerRotary], name: str) -> cache_file.CacheModel:
    first = next(iter(layers.values()))
    scales = {layer.scaling for layer in layers.values()}
    num_layers = adapter_of(model).text_config(model).num_hidden_layers
    return cache_file.CacheModel(
        name=name,
        num_layers=num_layers,
        num_query_heads=first.num_query_heads,
        num_kv_heads=first.num_kv_heads,
        head_dim=first.head_dim,
        rope_layout=first.layout,
        reversed=first.reversed,
        config=model.config.to_json_string(use_diff=False),
        attention_scale=scales.pop() if len(scales) == 1 else None,
        inv_freq=stored_frequencies(layers, num_layers),
    )


def stored_frequencies(layers: dict[int, LayerRotary], num_layers: int) -> np.ndarray | None:
    """[h] where all layers agree, else [num_layers, h]; None where a grid follows the length of the run."""
    if any(layer.rope_type() in LENGTH_DEPENDENT for layer in layers.values()):
        return None
    rows = {number: layer.inv_freq().double().cpu().numpy() for number, layer in layers.items()}
    first = next(iter(rows.values()))
    if all(np.array_equal(row, first) for row in rows.values()):
        return first
    width = {len(row) for row in rows.values()}
    if len(width) > 1:
        raise RopeError(
            "layers with different numbers of rotary pairs belong in files of their own: use --layers"
        )
    table = np.zeros((num_layers, width.pop()))  # rows of layers that are not stored are not read
    for number, row in rows.items():
        table[number] = row
    return table


def resume_key(
    model: nn.Module, header: cache_file.CacheModel, examples: list[Example], settings: CaptureSettings
) -> str:
    """JSON text, equal for runs that would write the same file: settings, digests of model and prompts."""
    weights = hashlib.sha256()
    for name, parameter in model.named_parameters():
        sample = parameter.detach().flatten()[:: max(1, parameter.numel() // 256)].float().cpu().numpy()
        weights.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode() + sample.tobytes())
    prompts = hashlib.sha256()
    for example in examples:
        prompts.update(json.dumps([example.task, example.id, example.tokens, example.query]).encode() + b"\n")
    return json.dumps(
        {
            "capture": rope_profiler_hf.__version__,
            "settings": asdict(settings),
            "name": header.name,
            "weights": weights.hexdigest(),
            "prompts": prompts.hexdigest(),
        },
        sort_keys=True,
    )

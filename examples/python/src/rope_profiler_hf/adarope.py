"""Runs a loaded model with AdaRoPE's logit scales: `with apply_adarope(model, read_adarope(path)): …`.

The query of a fitted head is multiplied by λ(L) as it enters the attention, L being the number of keys that
this query sees. Every token of a prompt has an L of its own, so a growing cache, a prompt run at once and a
left-padded batch all compute the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from rope_profiler_hf.adarope_file import AdaRope, HeadScale, read_adarope
from rope_profiler_hf.apply import SAME_FREQUENCY
from rope_profiler_hf.architectures import adapter_of, model_name
from rope_profiler_hf.describe import describe
from rope_profiler_hf.grids import LENGTH_DEPENDENT
from rope_profiler_hf.intervention import InterventionError
from rope_profiler_hf.rotary import LayerRotary
from rope_profiler_hf.tap import AttentionCall, Tap

__all__ = ["AdaRope", "HeadScale", "apply_adarope", "read_adarope"]


@contextmanager
def apply_adarope(model: nn.Module, adarope: AdaRope, check_name: bool = True) -> Iterator[nn.Module]:
    """The model with the scales, inside a `with` block; outside it is what it was. Raises InterventionError
    where they were made for another model, or no head has a fit."""
    check_model(model, adarope, check_name)
    by_layer: dict[int, list[HeadScale]] = {}
    for scale in adarope.heads:
        by_layer.setdefault(scale.layer, []).append(scale)
    lengths = KeyCounter(model)
    layers = {number: LayerScale(scales) for number, scales in by_layer.items()}

    def on_attention(number: int, call: AttentionCall):
        return layers[number].attend(call, lengths)

    with lengths, Tap(model, lambda _, call: call.run(), on_attention, set(layers)):
        yield model


class LayerScale:
    """The scales of one layer's heads."""

    def __init__(self, scales: list[HeadScale]):
        scales = sorted(scales, key=lambda scale: scale.head)
        self.heads = torch.tensor([scale.head for scale in scales])
        table = torch.tensor([(s.tau, s.gamma, s.reference_length) for s in scales], dtype=torch.float64)
        self.tau, self.gamma, self.reference = table.T[:, :, None, None]  # each [n, 1, 1]

    def at(self, keys: torch.Tensor) -> torch.Tensor:
        """λ [B, n, T, 1] float64 for numbers of keys [B, T]."""
        length = keys.double()[:, None, :, None]
        grown = torch.log1p(torch.maximum(length, self.reference) / self.reference)
        return grown**self.gamma / self.tau

    def attend(self, call: AttentionCall, counter: KeyCounter):
        keys = counter.keys(call)
        factor = self.at(keys).to(call.q.device)
        heads = self.heads.to(call.q.device)
        call.q = call.q.clone()  # keeps the strides, so that the other heads' sums keep their order
        wide = torch.promote_types(call.q.dtype, torch.float32)
        call.q[:, heads] = (call.q[:, heads].to(wide) * factor.to(wide)).to(call.q.dtype)
        return call.run()


class KeyCounter:
    """Counts the keys at or before each token of the decoder's current run: a context manager around runs.

    By the positions where the run states them (generate does, without padding), else by the padding mask,
    else by what the cache holds.
    """

    def __init__(self, model: nn.Module):
        self._decoder = adapter_of(model).decoder(model)
        self._signature = inspect.signature(self._decoder.forward)
        self._handle = None
        self._counts: torch.Tensor | None = None  # [B or 1, T]

    def __enter__(self) -> KeyCounter:
        self._handle = self._decoder.register_forward_pre_hook(self._enter, with_kwargs=True)
        return self

    def __exit__(self, *exception) -> None:
        self._handle.remove()
        self._counts = None

    def _enter(self, _, args, kwargs) -> None:
        given = self._signature.bind(*args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        inputs = given.get("input_ids") if given.get("input_ids") is not None else given.get("inputs_embeds")
        tokens = inputs.shape[1]
        positions, mask = given.get("position_ids"), given.get("attention_mask")
        cache = given.get("past_key_values")
        past = 0 if cache is None else int(cache.get_seq_length())
        if positions is not None:
            if positions.dim() != 2:
                raise InterventionError("positions in several sections are not supported")
            counts = positions + 1
        elif isinstance(mask, torch.Tensor) and mask.dim() == 2:
            counts = mask.long().cumsum(dim=1)[:, past : past + tokens]
        elif mask is None:
            counts = torch.arange(past + 1, past + tokens + 1)[None]
        else:
            raise InterventionError("a mask made outside the model, without position_ids: L is not known")
        # A padding token sees nothing; its output is not used, but has to be a number.
        self._counts = counts.clamp(min=1).cpu()

    def keys(self, call: AttentionCall) -> torch.Tensor:
        """[B or 1, T]: keys that each query of the call sees."""
        window = call.options.get("sliding_window") or getattr(call.module, "sliding_window", None)
        if self._counts is None or self._counts.shape[1] != call.q.shape[2]:
            raise InterventionError("an attention call outside the decoder's own run: L is not known")
        return self._counts.clamp(max=window) if window else self._counts


def check_model(model: nn.Module, adarope: AdaRope, check_name: bool) -> None:
    """Refuses scales of another model: name, layers, heads, or frequencies off by more than 1e-4."""
    if not adarope.heads:
        raise InterventionError("no head has a fit")
    name = model_name(model)
    if check_name and name and adarope.model_name and name != adarope.model_name:
        raise InterventionError(
            f"made for model {adarope.model_name!r}, this one is {name!r} "
            "(check_name=False where they are the same)"
        )
    count = adapter_of(model).text_config(model).num_hidden_layers
    if adarope.num_layers is not None and adarope.num_layers != count:
        raise InterventionError(f"made for a model of {adarope.num_layers} layers, this one has {count}")
    rotary = describe(model)
    for scale in adarope.heads:
        layer = rotary.get(scale.layer)
        if layer is None:
            raise InterventionError(f"layer {scale.layer} does not rotate or does not exist in this model")
        if not 0 <= scale.head < layer.num_query_heads:
            raise InterventionError(
                f"head {scale.layer}.{scale.head}: the layer has {layer.num_query_heads} heads"
            )
        if scale.xi:
            _compare(scale, layer)


def _compare(scale: HeadScale, layer: LayerRotary) -> None:
    own = layer.inv_freq().double().cpu().numpy()
    if len(scale.xi) != len(own):
        raise InterventionError(
            f"layer {scale.layer}: made for {len(scale.xi)} rotary pairs, this model has {len(own)}"
        )
    if layer.rope_type() in LENGTH_DEPENDENT:
        return  # those of the longest example of a capture: of another run
    stated = np.array([0.0 if xi is None else np.exp(xi) for xi in scale.xi])
    if not (np.abs(stated - own) <= SAME_FREQUENCY * own).all():
        raise InterventionError(f"layer {scale.layer}: made for other frequencies than this model's")

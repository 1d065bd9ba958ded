"""What one forward pass shows: pre-rotation q and k of chosen tokens, and what entered the attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from rope_profiler_hf.architectures import RopeError
from rope_profiler_hf.rotary import LayerRotary, table_error, table_tolerance
from rope_profiler_hf.tap import AttentionCall, RotaryCall, Tap

Store = Callable[[int, torch.Tensor, torch.Tensor], None]


def example_frequencies(layer: LayerRotary) -> np.ndarray:
    """[h] float64: what the last run rotated with."""
    return layer.inv_freq().double().cpu().numpy()


class Recorder:
    """A context manager around one forward pass of one row without padding.

    store(layer, query [Hq, Nq, D], key [Hkv, Nk, D]): float32 on the CPU, before the rotation and after any
    q/k norm. rotated(layer, query, key, scaling), where given: the same tokens as they enter the attention,
    in the model's type.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: dict[int, LayerRotary],
        query: list[int],
        key: list[int],
        store: Store,
        rotated: Callable[[int, torch.Tensor, torch.Tensor, float], None] | None = None,
    ):
        self._layers, self._store, self._rotated = layers, store, rotated
        self._query, self._key = torch.tensor(query), torch.tensor(key)
        self._content: dict[int, dict[str, torch.Tensor]] = {}
        self._left = set(layers)
        self._tap = Tap(model, self._on_rotary, self._on_attention, set(layers))

    def __enter__(self) -> Recorder:
        self._tap.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self._tap.__exit__(*exception)

    def missing(self) -> list[int]:
        return sorted(self._left)

    def _pick(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return x[0].index_select(1, positions.to(x.device)).float().cpu()

    def _on_rotary(self, number: int, call: RotaryCall):
        layer = self._layers[number]
        content = self._content.setdefault(number, {})
        for axis, x, positions in (("query", call.q, self._query), ("key", call.k, self._key)):
            if x is None:
                continue
            if x.shape[0] != 1 or number not in self._left or axis in content:
                raise RopeError(f"layer {number}: expected one rotation of one row per run")
            content[axis] = self._pick(x, positions)
        tokens = call.cos.shape[1]
        error = table_error(
            call.cos[0],
            call.sin[0],
            layer.inv_freq(),
            torch.arange(tokens, device=call.cos.device),
            layer.attention_factor,
            layer.table_form,
        )
        if not error <= table_tolerance(call.cos.dtype, layer.attention_factor, tokens):
            raise RopeError(
                f"layer {number}: cos and sin are off by {error:.2g} from positions 0 … {tokens - 1}"
            )
        return call.run()

    def _on_attention(self, number: int, call: AttentionCall):
        if number in self._content:
            content = self._content.pop(number)
            query, key = content["query"], content["key"]
            self._left.discard(number)
            whole = (self._pick(call.q, self._query), self._pick(call.k, self._key))
            width, at = query.shape[-1], self._layers[number].rotary_at
            if whole[0].shape[-1] > width:  # the rotary function saw the rotary lanes only
                tails = [torch.cat((x[..., :at], x[..., at + width :]), dim=-1) for x in whole]
                query = torch.cat((query, tails[0]), dim=-1)
                key = torch.cat((key.expand(tails[1].shape[0], -1, -1), tails[1]), dim=-1)
            self._store(number, query, key)
            if self._rotated is not None:
                self._rotated(number, *whole, call.scaling)
        return call.run()

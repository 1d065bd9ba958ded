"""What an intervention does to the vectors of one layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from transformers.cache_utils import DynamicLayer

from rope_profiler_hf.intervention import InterventionError, LayerChange
from rope_profiler_hf.rotary import LayerRotary
from rope_profiler_hf.tap import AttentionCall, RotaryCall


@dataclass
class LayerEdit:
    """The change of one layer for P prompt lengths (1, or one per row). Heads are the n that any row
    changes."""

    layer: LayerRotary
    heads: torch.Tensor  # [n]
    scale: torch.Tensor | None  # [P, n, 1, r] float32, for the rotary lanes
    frozen: torch.Tensor | None  # [P, n, 1, r] bool
    _key_content: tuple[torch.Tensor, torch.Tensor] | None = None  # of the last rotary call

    @classmethod
    def make(cls, layer: LayerRotary, changes: list[LayerChange | None]) -> LayerEdit | None:
        shape = (layer.num_query_heads, layer.pairs)
        scale = np.stack([np.ones(shape, np.float32) if c is None else c.query_scale for c in changes])
        frozen = np.stack([np.zeros(shape, bool) if c is None else c.frozen for c in changes])
        heads = np.flatnonzero(((scale != 1) | frozen).any(axis=(0, 2)))
        if not len(heads):
            return None
        lanes = layer.lanes(torch.arange(layer.pairs))

        def spread(table: np.ndarray) -> torch.Tensor:
            """[P, Hq, h] by pair → [P, n, 1, r] by lane of rotated vectors"""
            picked = torch.from_numpy(np.ascontiguousarray(table[:, heads]))
            full = picked.new_empty((*picked.shape[:2], layer.rotary_dim))
            pairs = torch.arange(layer.pairs)
            by_lane = torch.cat((pairs, pairs)) if layer.layout == "half" else pairs.repeat_interleave(2)
            full[..., lanes] = picked[..., by_lane]
            return full[..., layer.order][:, :, None]

        return cls(
            layer,
            torch.from_numpy(heads),
            spread(scale) if (scale != 1).any() else None,
            spread(frozen) if frozen.any() else None,
        )

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.layer.num_query_heads // self.layer.num_kv_heads

    @property
    def expands(self) -> bool:
        """Whether every query head gets keys of its own."""
        return self.frozen is not None and self.layer.num_kv_heads != self.layer.num_query_heads

    def _heads_on(self, device: torch.device) -> torch.Tensor:
        """The chosen heads; they move to the device once."""
        self.heads = self.heads.to(device)
        return self.heads

    def _rows(self, name: str, rows: int, device: torch.device) -> torch.Tensor:
        """The table of this name for a batch of `rows`; it moves to the device once."""
        table = getattr(self, name).to(device)
        setattr(self, name, table)
        count = table.shape[0]
        if count in (1, rows):
            return table
        if rows % count:
            raise InterventionError(f"a batch of {rows} rows for {count} prompt lengths")
        return table.repeat_interleave(rows // count, dim=0)

    def rotate(self, call: RotaryCall) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's own rotation, with the frozen lanes of the chosen heads as they came in (times A)."""
        q, k = call.run()
        if self.frozen is None:
            return q, k
        some = call.k if call.q is None else call.q
        heads = self._heads_on(some.device)
        still = self._rows("frozen", some.shape[0], some.device)
        factor = torch.tensor(self.layer.attention_factor, dtype=call.cos.dtype, device=some.device)
        if call.q is not None:
            q[:, heads] = self._unturned(q[:, heads], call.q[:, heads] * factor, still)
        if call.k is not None:
            key_heads = heads if call.k.shape[1] == self.layer.num_query_heads else heads // self.group
            self._key_content = (call.k[:, key_heads] * factor, still)
            if not self.expands or k.shape[-1] == self.layer.head_dim:
                k = self.own_keys(k)
            # else these are rotary lanes alone, which the tail joins first: see OwnKeys
        return q, k

    def _unturned(self, rotated: torch.Tensor, content: torch.Tensor, still: torch.Tensor) -> torch.Tensor:
        """rotated [B, n, T, D], changed in place: the frozen lanes are taken from content [B, n, T, ≥ r]."""
        r = self.layer.rotary_dim
        content = content[..., :r][..., self.layer.order.to(content.device)].to(rotated.dtype)
        rotated[..., :r] = torch.where(still, content, rotated[..., :r])
        return rotated

    def own_keys(self, k: torch.Tensor) -> torch.Tensor:
        """Rotated keys [B, Hkv or Hq, T, D] of the last rotary call → [B, Hq, T, D] with the chosen heads'
        frozen."""
        heads = self._heads_on(k.device)
        own = k if k.shape[1] == self.layer.num_query_heads else k.repeat_interleave(self.group, dim=1)
        own[:, heads] = self._unturned(own[:, heads], *self._key_content)
        return own

    def attend(self, call: AttentionCall):
        """The attention with rescaled queries, and with a value head for every key head where freezing made
        more."""
        if self.scale is not None:
            heads, start = self._heads_on(call.q.device), self.layer.rotary_at
            lanes = slice(start, start + self.layer.rotary_dim)
            scale = self._rows("scale", call.q.shape[0], call.q.device)
            call.q = call.q.clone()  # keeps the strides, so that the other heads' sums keep their order
            chosen = call.q[:, heads]
            chosen[..., lanes] = (chosen[..., lanes] * scale).to(chosen.dtype)
            call.q[:, heads] = chosen
        if not self.expands:
            return call.run()
        if call.k.shape[1] != self.layer.num_query_heads:  # not through OwnKeys: there is no cache
            call.k = self.own_keys(call.k)
        if call.v.shape[1] != self.layer.num_query_heads:
            call.v = call.v.repeat_interleave(self.group, dim=1)
        before = getattr(call.module, "num_key_value_groups", None)
        if before is None:
            return call.run()
        call.module.num_key_value_groups = 1
        try:
            return call.run()
        finally:
            call.module.num_key_value_groups = before


class OwnKeys:
    """A layer's KV cache that is given a key head for every query head, and value heads too where it is
    preallocated with one number of heads for both."""

    def __init__(self, cache, edit: LayerEdit):
        self._cache, self._edit = cache, edit

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *args, **kwargs):
        layers = getattr(self._cache, "layers", [])
        if keys.shape[1] != self._edit.layer.num_query_heads:
            keys = self._edit.own_keys(keys)
        if layer_idx < len(layers) and not isinstance(layers[layer_idx], DynamicLayer):
            values = values.repeat_interleave(keys.shape[1] // values.shape[1], dim=1)
        return self._cache.update(keys, values, layer_idx, *args, **kwargs)

    def __getattr__(self, name: str):
        return getattr(self._cache, name)

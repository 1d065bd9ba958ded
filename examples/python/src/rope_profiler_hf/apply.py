"""Runs a loaded model with an intervention: `with apply_intervention(model, intervention, prompt_length): …`.

Query and key vectors are changed between the model's own rotary step and its attention, so every attention
implementation sees the changed vectors, and a KV cache holds the right keys: decoding needs nothing more.
Leaving the block leaves the model as it was.

Rescale multiplies the chosen query lanes as they enter the attention. Freeze leaves the chosen pairs of a
head unrotated, in its queries and in its copy of the keys: in the touched layers every query head then has
keys of its own, so their cached keys grow by num_query_heads / num_kv_heads (values do not, except in static
caches).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import DynamicLayer

from rope_profiler_hf.architectures import adapter_of, model_name
from rope_profiler_hf.grids import LENGTH_DEPENDENT, config_grid
from rope_profiler_hf.intervention import Intervention, InterventionError, LayerChange
from rope_profiler_hf.rotary import AttentionCall, LayerRotary, RotaryCall, Tap, describe

SAME_FREQUENCY = 1e-4  # relative


@contextmanager
def apply_intervention(
    model: nn.Module,
    intervention: Intervention,
    prompt_length: int | Sequence[int],
    check_name: bool = True,
) -> Iterator[nn.Module]:
    """The model with the intervention, inside a `with` block; mask and strengths stay fixed in it.

    prompt_length: tokens of the prompt without padding, for all rows of a batch or one number per row; H(M)
    follows from it and stays for the whole generation. Where generation multiplies the rows (beams), the
    copies of a row are beside each other, as transformers makes them. Raises InterventionError where the
    intervention was made for another model or not for this length.
    """
    try:
        lengths = [operator.index(prompt_length)]  # numpy's and torch's whole numbers too
    except TypeError:
        lengths = [operator.index(length) for length in prompt_length]
    if not lengths:
        raise InterventionError("prompt_length: expected one number or one per row")
    rotary = describe(model)
    check_model(model, rotary, intervention, lengths, check_name)
    shapes = {number: (layer.num_query_heads, layer.pairs) for number, layer in rotary.items()}
    by_length = {length: intervention.changes(length, shapes) for length in set(lengths)}
    if len(by_length) == 1:
        lengths = lengths[:1]
    edits = {}
    for number in sorted({layer for changes in by_length.values() for layer in changes}):
        edit = LayerEdit.make(rotary[number], [by_length[length].get(number) for length in lengths])
        if edit is not None and edit.frozen is not None and rotary[number].shares_keys:
            raise InterventionError(f"layer {number}: shares its keys with another layer: cannot be frozen")
        if edit is not None and edit.frozen is not None and rotary[number].latent:
            raise InterventionError(
                f"layer {number}: its heads share one rotary key (latent attention): cannot be frozen"
            )
        if edit is not None:
            edits[number] = edit
    if not edits:
        yield model
        return

    def on_rotary(number: int, call: RotaryCall):
        return edits[number].rotate(call)

    def on_attention(number: int, call: AttentionCall):
        return edits[number].attend(call)

    def on_cache(number: int, cache):
        return _OwnKeys(cache, edits[number]) if edits[number].expands else cache

    with Tap(model, on_rotary, on_attention, set(edits), on_cache):
        yield model


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
            # else these are rotary lanes alone, which the tail joins first: see _OwnKeys
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
        if call.k.shape[1] != self.layer.num_query_heads:  # not through _OwnKeys: there is no cache
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


class _OwnKeys:
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


def check_model(
    model: nn.Module,
    rotary: dict[int, LayerRotary],
    intervention: Intervention,
    lengths: list[int],
    check_name: bool,
) -> None:
    """Refuses an intervention for another model: name, number of layers, layout, or frequencies off by more
    than 1e-4."""
    name = model_name(model)
    if check_name and name and intervention.model_name and name != intervention.model_name:
        raise InterventionError(
            f"made for model {intervention.model_name!r}, this one is {name!r} "
            "(check_name=False where they are the same)"
        )
    for layer in intervention.layers():
        if layer not in rotary:
            raise InterventionError(f"layer {layer} does not rotate or does not exist in this model")
    if intervention.arrays is not None:
        for number, (scale, frequency) in intervention.arrays.items():
            layer = rotary[number]
            if scale.shape != (layer.num_query_heads, layer.pairs):
                raise InterventionError(
                    f"layer.{number}: arrays of {scale.shape}, the model has "
                    f"{layer.num_query_heads} heads with {layer.pairs} pairs"
                )
            _compare(number, np.where(frequency == 0, np.nan, frequency), model, layer, lengths)
    identity = intervention.model
    if identity is None:
        return
    count = adapter_of(model).text_config(model).num_hidden_layers
    if count != identity.num_layers:
        raise InterventionError(f"made for a model of {identity.num_layers} layers, this one has {count}")
    for number, head in intervention.heads:
        layer, entry = rotary[number], identity.entry(number, head)
        if layer.layout != identity.rope_layout:
            raise InterventionError(
                f"made for rope layout {identity.rope_layout}, this model has {layer.layout}"
            )
        if not 0 <= head < layer.num_query_heads:
            raise InterventionError(f"head {number}.{head}: the layer has {layer.num_query_heads} heads")
        if identity.query_heads.get(number, layer.num_query_heads) != layer.num_query_heads:
            raise InterventionError(
                f"layer {number}: made for {identity.query_heads[number]} query heads, "
                f"this model has {layer.num_query_heads}"
            )
        if entry is None:
            raise InterventionError(f"head {number}.{head}: the file states no frequencies for it")
        if entry.inv_freq is not None:
            _compare(number, np.asarray(entry.inv_freq), model, layer, lengths)
        else:
            for length in set(lengths):
                if length in entry.inv_freq_by_window:
                    _compare(number, np.asarray(entry.inv_freq_by_window[length]), model, layer, [length])


def _compare(
    number: int, stated: np.ndarray, model: nn.Module, layer: LayerRotary, lengths: list[int]
) -> None:
    """stated: [h] or [Hq, h], NaN where nothing is said."""
    if layer.rope_type() in LENGTH_DEPENDENT:
        config = adapter_of(model).text_config(model)
        grids = [config_grid(config, layer.kind_prefix.removesuffix("_"), length) for length in set(lengths)]
    else:
        grids = [layer.inv_freq().double().cpu().numpy()]
    for own in grids:
        if stated.shape[-1] != own.shape[0]:
            raise InterventionError(
                f"layer {number}: made for {stated.shape[-1]} rotary pairs, this model has {own.shape[0]}"
            )
        close = np.abs(stated - own) <= SAME_FREQUENCY * own
        if not (close | np.isnan(stated)).all():
            raise InterventionError(f"layer {number}: made for other frequencies than this model's")

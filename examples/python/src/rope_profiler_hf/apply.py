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

import numpy as np
from torch import nn

from rope_profiler_hf.architectures import adapter_of, model_name
from rope_profiler_hf.describe import describe
from rope_profiler_hf.grids import LENGTH_DEPENDENT, config_grid
from rope_profiler_hf.intervention import Intervention, InterventionError
from rope_profiler_hf.layer_edit import LayerEdit, OwnKeys
from rope_profiler_hf.rotary import LayerRotary
from rope_profiler_hf.tap import AttentionCall, RotaryCall, Tap

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
    edits = layer_edits(model, intervention, lengths, check_name)
    if not edits:
        yield model
        return

    def on_rotary(number: int, call: RotaryCall):
        return edits[number].rotate(call)

    def on_attention(number: int, call: AttentionCall):
        return edits[number].attend(call)

    def on_cache(number: int, cache):
        return OwnKeys(cache, edits[number]) if edits[number].expands else cache

    with Tap(model, on_rotary, on_attention, set(edits), on_cache):
        yield model


def layer_edits(
    model: nn.Module, intervention: Intervention, lengths: list[int], check_name: bool = True
) -> dict[int, LayerEdit]:
    """Layer → its change, for one prompt length per row. Refuses all that apply_intervention refuses, without a
    run of the model over the prompt."""
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
    return edits


def name_difference(model: nn.Module, intervention: Intervention) -> str | None:
    """Both names where the intervention names another model than this one; None also where either has none."""
    name = model_name(model)
    if not name or not intervention.model_name or name == intervention.model_name:
        return None
    return f"made for model {intervention.model_name!r}, this one is {name!r}"


def check_model(
    model: nn.Module,
    rotary: dict[int, LayerRotary],
    intervention: Intervention,
    lengths: list[int],
    check_name: bool,
) -> None:
    """Refuses an intervention for another model: name, number of layers, layout, or frequencies off by more
    than 1e-4."""
    difference = name_difference(model, intervention) if check_name else None
    if difference:
        raise InterventionError(f"{difference} (check_name=False where they are the same)")
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

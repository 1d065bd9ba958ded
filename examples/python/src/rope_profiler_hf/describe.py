"""How a model's layers rotate, found by running it on a few tokens rather than from a table of models."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import torch
from torch import nn

from rope_profiler_hf.architectures import Adapter, RopeError, adapter_of
from rope_profiler_hf.rotary import (
    LayerRotary,
    evaluating,
    frequency_buffers,
    table_error,
    table_tolerance,
)
from rope_profiler_hf.tap import AttentionCall, RotaryCall, Tap

PROBE_TOKENS = 16

_described: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def describe(model: nn.Module) -> dict[int, LayerRotary]:
    """Layer number → how it rotates, for every layer that does. Runs the model on a few tokens, once per
    model."""
    if model not in _described:
        _described[model] = _describe(model, adapter_of(model))
    return _described[model]


def _describe(model: nn.Module, adapter: Adapter) -> dict[int, LayerRotary]:
    rotary_calls, attention_calls = _probe(model, adapter)
    if not rotary_calls:
        raise RopeError(
            f"{type(model).__name__}: {adapter.rotary_functions[0]} was not called when the model ran "
            "(it rotates by another function, or by a kernel from the hub): "
            "this model needs an adapter (architectures.py)"
        )
    buffers, modules = frequency_buffers(model), adapter.attention_layers(model)
    found = {}
    for layer, rotary in sorted(rotary_calls.items()):
        if layer not in attention_calls:
            raise RopeError(f"layer {layer}: its attention call was not seen; this model needs an adapter")
        found[layer] = _layer(layer, rotary, attention_calls[layer], buffers, adapter, model, modules[layer])
    return found


def _probe(model: nn.Module, adapter: Adapter) -> tuple[dict[int, dict], dict[int, dict]]:
    """What each layer's rotary and attention calls look like in a run over a few tokens."""
    rotary_calls: dict[int, dict] = {}
    attention_calls: dict[int, dict] = {}

    def on_rotary(layer: int, call: RotaryCall):
        seen = rotary_calls.setdefault(layer, {"key_heads": None})
        q, k = call.run()
        if call.q is not None:
            seen.update(heads=q.shape[1], rotated=q.clone(), function=call.function)
            seen.update(cos=call.cos.clone(), sin=call.sin.clone())
        if call.k is not None:
            seen["key_heads"] = k.shape[1]
        return q, k

    def on_attention(layer: int, call: AttentionCall):
        attention_calls[layer] = {
            "q": call.q.clone(),
            "k_shape": tuple(call.k.shape),
            "scaling": call.scaling,
        }
        return call.run()

    embeddings = model.get_input_embeddings().weight
    if embeddings.device.type == "meta":
        raise RopeError("the model has no weights (meta device)")
    tokens = torch.arange(PROBE_TOKENS, device=embeddings.device) % embeddings.shape[0]
    with evaluating(model), Tap(model, on_rotary, on_attention):
        adapter.decoder(model)(input_ids=tokens[None], use_cache=False)
    return rotary_calls, attention_calls


def _layer(
    layer: int,
    rotary: dict,
    attention: dict,
    buffers: list,
    adapter: Adapter,
    model: nn.Module,
    module: nn.Module,
) -> LayerRotary:
    """One layer, from its two calls."""
    width, head_dim = rotary["rotated"].shape[-1], attention["q"].shape[-1]
    _, key_heads, _, key_dim = attention["k_shape"]
    if head_dim != key_dim or attention["scaling"] is None:
        raise RopeError(
            f"layer {layer}: queries and keys of {head_dim} and {key_dim} lanes, scale {attention['scaling']}"
        )
    own_keys = rotary["key_heads"] is not None
    latent = rotary["key_heads"] == 1 != key_heads and width < head_dim
    if own_keys and rotary["key_heads"] != key_heads and not latent:
        raise RopeError(
            f"layer {layer}: {rotary['key_heads']} key heads are rotated and {key_heads} attended to: "
            "this model needs an adapter"
        )
    rotate = functools.partial(adapter.rotate, rotary["function"])
    layout, backwards, r, order = vector_layout(rotate, width, rotary["cos"].shape[-1])
    owner, buffer, factor, form = _match(layer, rotary["cos"][0], rotary["sin"][0], buffers)
    if getattr(owner, buffer).shape[0] * 2 != r:
        raise RopeError(f"layer {layer}: {getattr(owner, buffer).shape[0]} frequencies for {r} rotary lanes")
    return LayerRotary(
        layer=layer,
        num_query_heads=rotary["heads"],
        num_kv_heads=key_heads,
        head_dim=head_dim,
        rotary_dim=r,
        layout=layout,
        reversed=backwards,
        owner=owner,
        buffer=buffer,
        table_form=form,
        attention_factor=factor,
        scaling=float(attention["scaling"]),
        norm_after=adapter.norm_after_rotation(model),
        own_keys=own_keys,
        shares_keys=adapter.shares_keys(module),
        latent=latent,
        rotary_at=_place(layer, rotary["rotated"], attention["q"]),
        order=order,
    )


def vector_layout(
    rotate: Callable, rotary_width: int, table_width: int
) -> tuple[str, bool, int, torch.Tensor]:
    """(layout, reversed, r, order) of rotate(q, cos, sin), found by turning unit vectors by nothing and by a
    quarter.

    order [r]: lane j of the result holds what came in as lane order[j]; some functions sort the pairs.
    """
    unit = torch.eye(rotary_width)[None, None]  # [1, 1, T = lanes, D]
    zero, one = torch.zeros(1, rotary_width, table_width), torch.ones(1, rotary_width, table_width)
    kept, turned = rotate(unit, one, zero)[0, 0], rotate(unit, zero, one)[0, 0]  # [lane in, lane out]
    passed = [i for i in range(rotary_width) if turned[i, i] == 1]  # lanes that no angle moves
    r = rotary_width - len(passed)
    if r < 2 or r % 2 or passed != list(range(r, rotary_width)):
        raise RopeError("the rotary function does not turn pairs of the first lanes")
    kept, h = kept[:r, :r], r // 2
    if not torch.equal(kept @ kept.T, torch.eye(r)):
        raise RopeError("the rotary function changes vectors at position 0")
    turned = turned[:r, :r] @ kept.T  # [lane in, lane in]
    for layout, a, b in (
        ("half", torch.arange(h), torch.arange(h) + h),
        ("interleaved", 2 * torch.arange(h), 2 * torch.arange(h) + 1),
    ):
        for sign in (1.0, -1.0):
            if bool((turned[a, b] == sign).all()) and bool((turned[b, a] == -sign).all()):
                return layout, sign < 0, r, kept.argmax(dim=0)
    raise RopeError("the rotary function pairs lanes neither (n, n + r/2) nor (2n, 2n + 1)")


def _place(layer: int, rotated: torch.Tensor, queries: torch.Tensor) -> int:
    """The first lane of the rotated part [B, H, T, ≤ D] in the attention's queries [B, H, T, D]."""
    width, head_dim = rotated.shape[-1], queries.shape[-1]
    if width == head_dim:
        return 0
    for start in (0, head_dim - width):
        if torch.equal(queries[..., start : start + width], rotated):
            return start
    raise RopeError(f"layer {layer}: the attention's queries do not hold the rotated lanes at either end")


def _match(layer: int, cos, sin, buffers) -> tuple[nn.Module, str, float, str]:
    """The buffer whose frequencies made these tables [T, w]."""
    positions = torch.arange(cos.shape[0], device=cos.device)
    best = (float("inf"), None)
    for owner, name, factor in buffers:
        for form in ("half", "interleaved", "single"):
            error = table_error(cos, sin, getattr(owner, name), positions, factor, form)
            if error < best[0] and error <= table_tolerance(cos.dtype, factor, cos.shape[0]):
                best = (error, (owner, name, factor, form))
    if best[1] is None:
        raise RopeError(f"layer {layer}: no inv_freq of the model gives the cos and sin that it rotates with")
    return best[1]

"""A tap on a model's rotary step and attention calls, and what the model really rotates with (by running
it)."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from rope_profiler_hf.architectures import Adapter, RopeError, adapter_of

PROBE_TOKENS = 16
CACHE_ARGUMENTS = ("cache", "past_key_values")  # what an attention's forward calls its KV cache


@dataclass
class RotaryCall:
    """One call of the rotary function. q [B, Hq, T, D], k [B, Hkv, T, D] (views), cos and sin [B or 1, T, w].

    Families that rotate q and k in calls of their own have k None in the first and q None in the second.
    """

    q: torch.Tensor | None
    k: torch.Tensor | None
    cos: torch.Tensor
    sin: torch.Tensor
    heads_first: bool
    function: Callable  # the model's own
    original: Callable  # the same with this call's arguments

    def run(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The model's own result, [B, H, T, D]; None where the call has none."""
        made = self.original()
        q, k = (
            made
            if self.q is not None and self.k is not None
            else (made, None) if self.k is None else (None, made)
        )
        return self._turned(q), self._turned(k)

    def give_back(self, q: torch.Tensor | None, k: torch.Tensor | None):
        """What the model's code expects in place of run's result."""
        given = tuple(self._turned(x) for x in (q, k) if x is not None)
        return given if len(given) == 2 else given[0]

    def _turned(self, x: torch.Tensor | None) -> torch.Tensor | None:
        """Between the model's order of axes and ours."""
        return x if x is None or self.heads_first else x.transpose(1, 2)


@dataclass
class AttentionCall:
    """One call of the attention function with rotated q [B, Hq, T, D], k and v [B, Hkv, S, D]."""

    module: nn.Module
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scaling: float | None
    softcap: float | None
    function: Callable
    rest: tuple
    options: dict

    def run(self):
        return self.function(self.module, self.q, self.k, self.v, *self.rest, **self.options)


class _Registry:
    """Stands for ALL_ATTENTION_FUNCTIONS in one modelling module and wraps what it hands out."""

    def __init__(self, inner, wrap: Callable[[Callable], Callable]):
        self._inner, self._wrap = inner, wrap

    def get_interface(self, *args, **kwargs):
        return self._wrap(self._inner.get_interface(*args, **kwargs))

    def __getitem__(self, key):
        return self._wrap(self._inner[key])

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Tap:
    """A context manager that sends the model's rotary and attention calls through two functions.

    on_rotary(layer, RotaryCall) → (q, k), both [B, H, T, D]; on_attention(layer, AttentionCall) → the
    attention's result; on_cache(layer, cache) → what the layer gets in place of its KV cache. Other models,
    of the same class too, are not touched. Taps are left in the reverse order of entering.
    """

    def __init__(
        self,
        model: nn.Module,
        on_rotary: Callable[[int, RotaryCall], tuple[torch.Tensor, torch.Tensor]],
        on_attention: Callable[[int, AttentionCall], object] | None = None,
        layers: set[int] | None = None,
        on_cache: Callable[[int, object], object] | None = None,
    ):
        self._adapter = adapter_of(model)
        modules = self._adapter.attention_layers(model)
        self._layer_of = {m: i for i, m in modules.items() if layers is None or i in layers}
        self._on_rotary, self._on_attention, self._on_cache = on_rotary, on_attention, on_cache
        self._running: list[list[int]] = []  # [layer, its rotary calls so far] of attentions being computed
        self._undo: ExitStack | None = None

    def __enter__(self) -> Tap:
        with ExitStack() as stack:
            for module in self._layer_of:
                for handle in (
                    module.register_forward_pre_hook(self._enter_layer, with_kwargs=True),
                    module.register_forward_hook(self._leave_layer, always_call=True),
                ):
                    stack.callback(handle.remove)
            spaces = {id(space): space for space in map(self._adapter.namespace, self._layer_of)}
            for space in spaces.values():
                for name in self._adapter.rotary_functions:
                    if name in space:
                        self._replace(stack, space, name, self._wrap_rotary)
                if self._on_attention is not None:
                    self._replace(stack, space, self._adapter.attention_registry, self._wrap_registry)
            self._undo = stack.pop_all()
        return self

    def __exit__(self, *exception) -> None:
        undo, self._undo = self._undo, None
        undo.close()

    @staticmethod
    def _replace(stack: ExitStack, space: dict, name: str, wrap: Callable) -> None:
        if name not in space:
            raise RopeError(
                f"{space.get('__name__')}: no {name} there; this model needs an adapter (architectures.py)"
            )
        before = space[name]
        after = wrap(before)

        def restore():
            if space[name] is not after:
                raise RuntimeError(f"{name}: taps must be left in the reverse order of entering")
            space[name] = before

        space[name] = after
        stack.callback(restore)

    def _enter_layer(self, module, args, kwargs):
        layer = self._layer_of[module]
        self._running.append([layer, 0])
        if self._on_cache is None:
            return None
        caches = {name: kwargs[name] for name in CACHE_ARGUMENTS if kwargs.get(name) is not None}
        return args, kwargs | {name: self._on_cache(layer, cache) for name, cache in caches.items()}

    def _leave_layer(self, *_):
        self._running.pop()

    def _wrap_rotary(self, original: Callable) -> Callable:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def rotary(*args, **kwargs):
            if not self._running:
                return original(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            layer, count = self._running[-1]
            self._running[-1][1] += 1
            try:
                q, k, cos, sin, heads_first = self._adapter.read_call(given.arguments, count)
            except KeyError:
                raise RopeError(
                    f"{original.__module__}.{original.__name__}{signature}: takes no q, k, cos, sin; "
                    "this model needs an adapter (architectures.py)"
                ) from None
            if cos.dim() != 3:
                raise RopeError(
                    f"cos of {cos.dim()} dimensions: positions in several sections are not supported"
                )
            call = RotaryCall(q, k, cos, sin, heads_first, original, lambda: original(*args, **kwargs))
            call.q, call.k = call._turned(q), call._turned(k)
            return call.give_back(*self._on_rotary(layer, call))

        return rotary

    def _wrap_registry(self, inner) -> _Registry:
        def wrap(function: Callable) -> Callable:
            def attention(module, query, key, value, *rest, **options):
                layer = self._layer_of.get(module)
                if layer is None:
                    return function(module, query, key, value, *rest, **options)
                scaling = options.get("scaling")
                if scaling is None:
                    scaling = getattr(module, "scaling", None)
                call = AttentionCall(
                    module, query, key, value, scaling, options.get("softcap"), function, rest, options
                )
                return self._on_attention(layer, call)

            return attention

        return _Registry(inner, wrap)


@dataclass(frozen=True)
class LayerRotary:
    """How one layer rotates, as seen in a run."""

    layer: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int  # of q and k in the attention: the rotary lanes and the tail
    rotary_dim: int  # r
    layout: str  # "half" | "interleaved"
    reversed: bool  # angles negated
    owner: nn.Module  # holds the buffer of frequencies
    buffer: str  # its name there
    table_form: str  # how cos and sin hold the pairs: "half", "interleaved", "single"
    attention_factor: float
    scaling: float
    norm_after: float | None  # ε of a norm without weights between rotation and attention
    own_keys: bool  # False: it attends to another layer's keys
    shares_keys: bool  # so does another layer to its keys, or it to another's
    latent: bool  # multi-head latent attention: all heads share one rotary key
    rotary_at: int  # where the rotary lanes begin in q and k of the attention
    order: torch.Tensor  # [r]: lane j of rotated vectors holds content lane order[j]

    @property
    def pairs(self) -> int:
        return self.rotary_dim // 2

    def inv_freq(self) -> torch.Tensor:
        """[h], radians per token: what the last forward ran with."""
        return getattr(self.owner, self.buffer)

    @property
    def kind_prefix(self) -> str:
        """ "sliding_attention_" and the like where a module holds one grid per kind of layer, else "" ."""
        return self.buffer.removesuffix("inv_freq")

    def rope_type(self) -> str:
        types = getattr(self.owner, "rope_type", "default")
        return types[self.kind_prefix.removesuffix("_")] if isinstance(types, dict) else types

    def lanes(self, pairs: torch.Tensor) -> torch.Tensor:
        """[2·n]: the lanes of these pairs."""
        if self.layout == "half":
            return torch.cat((pairs, pairs + self.pairs))
        return torch.stack((2 * pairs, 2 * pairs + 1), dim=-1).flatten()


def expected_tables(
    frequencies: torch.Tensor, positions: torch.Tensor, factor: float, form: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, sin) [T, w] in float32, as transformers' rotary modules make them. frequencies [h], positions
    [T]."""
    angles = positions[:, None].float() * frequencies.float()
    if form == "half":
        angles = torch.cat((angles, angles), dim=-1)
    elif form == "interleaved":
        angles = angles.repeat_interleave(2, dim=-1)
    return angles.cos() * factor, angles.sin() * factor


def table_error(cos, sin, frequencies, positions, factor: float, form: str) -> float:
    """Largest difference of tables [T, w] from those expected; infinite where the widths differ."""
    want_cos, want_sin = expected_tables(frequencies.to(cos.device), positions.to(cos.device), factor, form)
    if want_cos.shape != cos.shape:
        return float("inf")
    return max((cos.float() - want_cos).abs().max().item(), (sin.float() - want_sin).abs().max().item())


def table_tolerance(dtype: torch.dtype, factor: float, reach: int) -> float:
    """Rounding of a table's element type, and of float32 angles up to position `reach`."""
    return factor * (torch.finfo(dtype).eps + 1e-5 + 2.0**-23 * reach)


def frequency_buffers(model: nn.Module) -> list[tuple[nn.Module, str, float]]:
    """(module, name of the buffer, attention factor A) of every set of frequencies that the model holds."""
    found = []
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name and buffer.dim() == 1:
                factor = getattr(module, name.removesuffix("inv_freq") + "attention_scaling", None)
                if factor is None:
                    factor = getattr(module, "attention_scaling", 1.0)
                found.append((module, name, float(factor)))
    return found


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


@contextmanager
def evaluating(model: nn.Module):
    """Eval mode and no gradients, both as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def reset_frequencies(model: nn.Module) -> None:
    """Put grids that follow the length of the run back to where a fresh model has them."""
    for module, name, _ in frequency_buffers(model):
        prefix = name.removesuffix("inv_freq")
        original = getattr(module, f"{prefix}original_inv_freq", None)
        limit = getattr(module, "original_max_seq_len", None)
        if original is None or limit is None:
            continue
        getattr(module, name).data = original.to(getattr(module, name).device, copy=True)
        for cached in (f"{prefix}max_seq_len_cached", "max_seq_len_cached"):
            if hasattr(module, cached):
                setattr(module, cached, limit)


_described: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def describe(model: nn.Module) -> dict[int, LayerRotary]:
    """Layer number → how it rotates, for every layer that does. Runs the model on a few tokens, once per
    model."""
    if model not in _described:
        _described[model] = _describe(model, adapter_of(model))
    return _described[model]


def _describe(model: nn.Module, adapter: Adapter) -> dict[int, LayerRotary]:
    rotary_calls: dict[int, dict] = {}
    attention_calls: dict[int, tuple] = {}

    def on_rotary(layer: int, call: RotaryCall):
        seen = rotary_calls.setdefault(layer, {"own_keys": False})
        if call.q is not None:
            seen.update(
                heads=call.q.shape[1], width=call.q.shape[-1], cos=call.cos.clone(), sin=call.sin.clone()
            )
        if call.k is not None:
            seen.update(own_keys=True, key_heads=call.k.shape[1])
        q, k = call.run()
        if q is not None:
            seen.update(function=call.function, rotated=q.clone())
        return q, k

    def on_attention(layer: int, call: AttentionCall):
        attention_calls[layer] = (call.q.clone(), call.k.shape[-1], call.k.shape[1], call.scaling)
        return call.run()

    device = model.get_input_embeddings().weight.device
    if device.type == "meta":
        raise RopeError("the model has no weights (meta device)")
    vocabulary = model.get_input_embeddings().weight.shape[0]
    tokens = (torch.arange(PROBE_TOKENS, device=device) % vocabulary)[None]
    with evaluating(model), Tap(model, on_rotary, on_attention):
        adapter.decoder(model)(input_ids=tokens, use_cache=False)
    if not rotary_calls:
        raise RopeError(
            f"{type(model).__name__}: {adapter.rotary_functions[0]} was not called when the model ran "
            "(it rotates by another function, or by a kernel from the hub): "
            "this model needs an adapter (architectures.py)"
        )
    buffers = frequency_buffers(model)
    modules = adapter.attention_layers(model)
    found = {}
    for layer, seen in sorted(rotary_calls.items()):
        if layer not in attention_calls:
            raise RopeError(f"layer {layer}: its attention call was not seen; this model needs an adapter")
        queries, key_dim, key_heads, scaling = attention_calls[layer]
        head_dim = queries.shape[-1]
        if head_dim != key_dim or scaling is None:
            raise RopeError(
                f"layer {layer}: queries and keys of {head_dim} and {key_dim} lanes, scale {scaling}"
            )
        latent = seen.get("key_heads") == 1 != key_heads and seen["width"] < head_dim
        if seen.get("key_heads", key_heads) != key_heads and not latent:
            raise RopeError(
                f"layer {layer}: {seen['key_heads']} key heads are rotated and {key_heads} attended to: "
                "this model needs an adapter"
            )
        cos, sin = seen["cos"], seen["sin"]
        layout, backwards, r, order = vector_layout(
            functools.partial(adapter.rotate, seen["function"]), seen["width"], cos.shape[-1]
        )
        owner, buffer, factor, form = _match(layer, cos[0], sin[0], buffers)
        found[layer] = LayerRotary(
            layer=layer,
            num_query_heads=seen["heads"],
            num_kv_heads=key_heads,
            head_dim=head_dim,
            rotary_dim=r,
            layout=layout,
            reversed=backwards,
            owner=owner,
            buffer=buffer,
            table_form=form,
            attention_factor=factor,
            scaling=float(scaling),
            norm_after=adapter.norm_after_rotation(model),
            own_keys=seen["own_keys"],
            shares_keys=adapter.shares_keys(modules[layer]),
            latent=latent,
            rotary_at=_place(layer, seen["rotated"], queries),
            order=order,
        )
        if found[layer].inv_freq().shape[0] * 2 != r:
            raise RopeError(
                f"layer {layer}: {found[layer].inv_freq().shape[0]} frequencies for {r} rotary lanes"
            )
    return found


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

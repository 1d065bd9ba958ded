"""A tap on a model's rotary step and on its attention calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import nn

from rope_profiler_hf.architectures import RopeError, adapter_of

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

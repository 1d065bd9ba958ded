"""One change of a model: which heads, which rotary pairs for a prompt's length, rescaled or frozen (theory
§7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rope_profiler_hf.architectures import RopeError

Head = tuple[int, int]


class InterventionError(RopeError):
    """A plan, adapter file or intervention that cannot be used; its text is one line."""


@dataclass(frozen=True)
class FrequencyEntry:
    """The frequencies of some layers as a plan states them. inv_freq: [h], or None where a grid belongs to
    each window.

    steps: (length, pairs), rising: the first `pairs` frequencies in falling order are H(M) from that length
    on.
    """

    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    rope_type: str
    window: int | None
    inv_freq: tuple[float, ...] | None
    inv_freq_by_window: dict[int, tuple[float, ...]]
    steps: tuple[tuple[int, int], ...] | None

    def high_pairs(self, prompt_length: int) -> tuple[int, ...] | None:
        """H(M) by the steps, or None where the entry has none (grids that follow the length of the run)."""
        if self.steps is None or self.inv_freq is None:
            return None
        length = prompt_length if self.window is None else min(prompt_length, self.window)
        count = 0
        for start, pairs in self.steps:
            if start <= length:
                count = pairs
        falling = sorted(range(len(self.inv_freq)), key=lambda n: (-self.inv_freq[n], n))
        return tuple(sorted(n for n in falling[:count] if self.inv_freq[n] > 0))


@dataclass(frozen=True)
class ModelIdentity:
    """The model that a plan was made for."""

    name: str
    num_layers: int
    rope_layout: str
    frequencies: tuple[FrequencyEntry, ...]
    query_heads: dict[int, int] = field(default_factory=dict)  # by layer, where the file says so

    def entry(self, layer: int, head: int) -> FrequencyEntry | None:
        for entry in self.frequencies:
            if layer in entry.layers and (entry.heads is None or head in entry.heads):
                return entry
        return None


@dataclass(frozen=True)
class LayerPairs:
    """The pairs of some heads of a layer for one prompt length, and the layer's frequencies then (frozen ones
    0)."""

    layer: int
    heads: tuple[int, ...]
    pairs: tuple[int, ...]
    inv_freq: tuple[float, ...]


@dataclass(frozen=True)
class LayerChange:
    """What happens in one layer: query_scale [Hq, h] float32 (1: nothing) and frozen [Hq, h] bool."""

    query_scale: np.ndarray
    frozen: np.ndarray


@dataclass(frozen=True)
class Intervention:
    """One candidate. Made by plan_file.read_plan, read_adapter, candidates, or directly:

    Intervention(heads=[(3, 1)], operation="rescale", alpha=0.5, pairs=range(10))
    Intervention(heads=[(3, 1)], operation="freeze", pairs=lambda prompt_length, layer: [0, 1, 2])

    pairs: the pair indexes, or a function of (prompt length, layer) that gives them; a plan's own rule
    otherwise.
    """

    heads: tuple[Head, ...]
    operation: str
    alpha: float | None = None
    pairs: object = None
    model: ModelIdentity | None = None
    listed: dict[int, tuple[LayerPairs, ...]] = field(default_factory=dict)
    arrays: dict[int, tuple[np.ndarray, np.ndarray]] | None = None
    prompt_length: int | None = None  # the only one it holds for, or None
    model_name: str | None = None
    task: str | None = None
    stage: int | None = None
    candidate: str | None = None

    def __post_init__(self):
        heads = tuple((int(layer), int(head)) for layer, head in self.heads)
        object.__setattr__(self, "heads", heads)
        if self.operation not in ("rescale", "freeze", "arrays"):
            raise InterventionError(f"operation {self.operation!r}: expected rescale or freeze")
        if self.operation == "rescale" and not (self.alpha is not None and math.isfinite(self.alpha)):
            raise InterventionError(f"rescale: expected a finite alpha, found {self.alpha}")
        if self.operation == "freeze" and self.alpha is not None:
            raise InterventionError("freeze has no alpha")
        if not callable(self.pairs) and self.pairs is not None:
            object.__setattr__(self, "pairs", tuple(int(pair) for pair in self.pairs))
        if self.model_name is None and self.model is not None:
            object.__setattr__(self, "model_name", self.model.name)
        if self.model is not None:
            for layer, head in heads:
                if layer >= self.model.num_layers:
                    raise InterventionError(
                        f"head {layer}.{head}: the model has {self.model.num_layers} layers"
                    )

    @classmethod
    def from_arrays(cls, arrays: dict[int, tuple[np.ndarray, np.ndarray]], **given) -> Intervention:
        """arrays: layer → (query_scale [Hq, h], frequency [Hq, h]); a frequency of 0 is a frozen pair."""
        heads = tuple(
            (layer, head) for layer, (scale, _) in sorted(arrays.items()) for head in range(len(scale))
        )
        return cls(heads=heads, operation="arrays", arrays=arrays, **given)

    def layers(self) -> list[int]:
        """The layers it may touch."""
        return sorted({layer for layer, _ in self.heads})

    def high_pairs(self, prompt_length: int, layer: int, head: int) -> tuple[int, ...]:
        """The pairs that it changes in one head, for a prompt of this many tokens."""
        if self.prompt_length is not None and prompt_length != self.prompt_length:
            raise InterventionError(
                f"prompt of {prompt_length} tokens: this file holds for prompts of {self.prompt_length}"
            )
        if self.arrays is not None:
            scale, frequency = self.arrays[layer]
            return tuple(np.flatnonzero((scale[head] != 1) | (frequency[head] == 0)).tolist())
        if self.pairs is not None:
            return tuple(self.pairs(prompt_length, layer)) if callable(self.pairs) else self.pairs
        for item in self.listed.get(prompt_length, ()):
            if item.layer == layer and head in item.heads:
                return item.pairs
        entry = None if self.model is None else self.model.entry(layer, head)
        found = None if entry is None else entry.high_pairs(prompt_length)
        if found is None:
            why = "no frequencies" if entry is None else f"{entry.rope_type} frequencies follow the length"
            lengths = ", ".join(map(str, sorted(self.listed)))[:80] or "none"
            raise InterventionError(
                f"prompt of {prompt_length} tokens, head {layer}.{head}: {why}, "
                f"only listed lengths are possible ({lengths})"
            )
        return found

    def changes(self, prompt_length: int, shapes: dict[int, tuple[int, int]]) -> dict[int, LayerChange]:
        """Layer → LayerChange for a prompt of this many tokens. shapes: layer → (query heads, pairs) of the
        model. Layers where nothing changes are left out."""
        if not 2 <= prompt_length:
            raise InterventionError(f"prompt_length {prompt_length}: expected at least 2")
        if self.arrays is not None:
            return self._array_changes(prompt_length, shapes)
        made: dict[int, LayerChange] = {}
        for layer, head in self.heads:
            if layer not in shapes:
                raise InterventionError(f"head {layer}.{head}: the layer does not rotate or does not exist")
            heads, pairs = shapes[layer]
            if not 0 <= head < heads:
                raise InterventionError(f"head {layer}.{head}: the layer has {heads} heads")
            chosen = self.high_pairs(prompt_length, layer, head)
            wrong = [pair for pair in chosen if not 0 <= pair < pairs]
            if wrong:
                raise InterventionError(f"head {layer}.{head}: pair {wrong[0]}: the layer has {pairs}")
            if not chosen or self.alpha == 1:
                continue
            change = made.setdefault(
                layer, LayerChange(np.ones((heads, pairs), np.float32), np.zeros((heads, pairs), bool))
            )
            if self.operation == "freeze":
                change.frozen[head, list(chosen)] = True
            else:
                change.query_scale[head, list(chosen)] = self.alpha
        return made

    def _array_changes(
        self, prompt_length: int, shapes: dict[int, tuple[int, int]]
    ) -> dict[int, LayerChange]:
        if self.prompt_length is not None and prompt_length != self.prompt_length:
            raise InterventionError(
                f"prompt of {prompt_length} tokens: this file holds for prompts of {self.prompt_length}"
            )
        made = {}
        for layer, (scale, frequency) in self.arrays.items():
            if layer not in shapes:
                raise InterventionError(f"layer.{layer}: the layer does not rotate or does not exist")
            if scale.shape != shapes[layer]:
                raise InterventionError(
                    f"layer.{layer}: arrays of {scale.shape}, the model needs {shapes[layer]}"
                )
            made[layer] = LayerChange(scale, frequency == 0)
        return made

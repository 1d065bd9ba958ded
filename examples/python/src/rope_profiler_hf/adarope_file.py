"""Reads adarope.json of `rope-profiler adarope` with care: the file may hold anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rope_profiler_hf.intervention import Head, InterventionError
from rope_profiler_hf.json_reader import JsonReader, load_json
from rope_profiler_hf.plan_file import LONGEST, MOST_HEADS, MOST_LAYERS, MOST_PAIRS

FORMAT, VERSION = "rope-profiler/adarope", 1
LARGEST_SCALE = 1e6  # that λ may reach at any length; the program itself fits up to 1e4


@dataclass(frozen=True)
class HeadScale:
    """λ(L) = (1/τ) [ln(1 + max(L, L_ref) / L_ref)]^γ of one head. xi: ln ω of its pairs, None where a pair
    does not turn; empty: not said."""

    layer: int
    head: int
    tau: float
    gamma: float
    reference_length: float
    xi: tuple[float | None, ...] = ()

    def __post_init__(self):
        for name in ("tau", "gamma", "reference_length"):
            value = getattr(self, name)
            if not math.isfinite(value) or (name != "gamma" and value <= 0):
                raise InterventionError(f"head {self.layer}.{self.head}: {name} of {value}")
        if not all(0 < self.at(length) <= LARGEST_SCALE for length in (1, LONGEST)):
            raise InterventionError(
                f"head {self.layer}.{self.head}: its scale leaves (0, {LARGEST_SCALE:g}] at some length"
            )

    def at(self, length: float) -> float:
        """λ for a query that sees `length` keys; infinite where float64 does not hold it."""
        try:
            grown = math.log1p(max(length, self.reference_length) / self.reference_length)
            return grown**self.gamma / self.tau
        except OverflowError:
            return math.inf


@dataclass(frozen=True)
class AdaRope:
    """The scales of a model's heads, at most one per head. skipped: heads without a fit, and why."""

    heads: tuple[HeadScale, ...]
    model_name: str = ""
    num_layers: int | None = None
    skipped: tuple[tuple[Head, str], ...] = ()

    def __post_init__(self):
        places = [(scale.layer, scale.head) for scale in self.heads]
        if len(set(places)) != len(places):
            raise InterventionError("a head is there twice")


def read_adarope(path: str | Path) -> AdaRope:
    """The fitted heads of an adarope.json."""
    reader = load_json(path)
    if reader["format"].text() != FORMAT:
        raise reader["format"].error(FORMAT)
    if reader["format_version"].whole(0, 1 << 30) != VERSION:
        raise reader["format_version"].error(f"version {VERSION}")
    if reader.get("model") is None or reader.get("heads") is None:
        raise InterventionError(f"{reader.file}: no fit in it: `rope-profiler adarope` wrote it without one")
    count = reader["model"]["num_layers"].whole(1, MOST_LAYERS)
    heads, skipped = [], []
    for item in reader["heads"].items():
        place = item["layer"].whole(0, count - 1), item["head"].whole(0, MOST_HEADS)
        scale = _scale(item, *place)
        if scale is None:
            skipped.append((place, item["reason"].text()))
        else:
            heads.append(scale)
    try:
        return AdaRope(tuple(heads), reader["model"]["name"].text(), count, tuple(skipped))
    except InterventionError as error:
        raise InterventionError(f"{reader.file}: heads: {error}") from None


def _scale(item: JsonReader, layer: int, head: int) -> HeadScale | None:
    tau, gamma, reason = item.get("tau"), item.get("gamma"), item.get("reason")
    if (tau is None) != (gamma is None) or (tau is None) != (reason is not None):
        raise item.error("tau and gamma, or a reason for neither")
    _check_lists(item)
    if tau is None:
        return None
    try:
        return HeadScale(
            layer, head, tau.number(), gamma.number(), item["reference_length"].number(), _xi(item["xi"])
        )
    except InterventionError as error:
        if str(error).startswith(item.file):
            raise
        raise InterventionError(f"{item.file}: {item.place}: {error}") from None


def _xi(reader: JsonReader) -> tuple[float | None, ...]:
    values = tuple(None if entry.value is None else entry.number() for entry in reader.items())
    if not 1 <= len(values) <= MOST_PAIRS:
        raise InterventionError(f"{reader.file}: {reader.place}: expected 1 to {MOST_PAIRS} numbers")
    for entry, value in zip(reader.items(), values, strict=True):
        if value is not None and not -700 <= value <= math.log(math.pi):
            raise entry.error("the logarithm of a frequency up to pi")
    return values


def _check_lists(item: JsonReader) -> None:
    """The points of the fit, which are not needed here, but belong together."""
    lengths = item["lengths"].numbers()
    scales = item["lambda"].items()
    if len(scales) != len(lengths) and scales:
        raise item["lambda"].error(f"{len(lengths)} numbers")
    for entry in scales:
        if entry.value is not None and not 0 < entry.number() <= LARGEST_SCALE:
            raise entry.error("a scale above 0")

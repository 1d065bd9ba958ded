"""Reads plan.json and the adapter files of `rope-profiler apply` (json, safetensors, npz) into Interventions.

Every file is hostile: unknown schemas, NaN, numbers out of range and values of the wrong kind are refused in
one line that names the file and the place.
"""

from __future__ import annotations

import math
from pathlib import Path

from rope_profiler_hf.adapter_arrays import from_arrays, read_npz, read_safetensors
from rope_profiler_hf.intervention import (
    FrequencyEntry,
    Intervention,
    InterventionError,
    LayerPairs,
    ModelIdentity,
)
from rope_profiler_hf.json_reader import JsonReader, load_json

PLAN_SCHEMA = "rope-profiler/plan-1"
ADAPTER_SCHEMA = "rope-profiler/adapter-1"
MOST_LAYERS, MOST_HEADS, MOST_PAIRS, LONGEST = 100_000, 100_000, 512, 1 << 24


def _schema(reader: JsonReader, wanted: str) -> None:
    found = reader["schema"].text()
    if found != wanted:
        raise InterventionError(f"{reader.file}: schema: expected {wanted}, found {found[:60]!r}")


def _model(reader: JsonReader) -> ModelIdentity:
    layout = reader["rope_layout"].text()
    if layout not in ("half", "interleaved"):
        raise reader["rope_layout"].error("half or interleaved")
    entries = []
    for item in reader["frequencies"].items():
        by_window: dict[int, tuple[float, ...]] = {}
        grid = item["inv_freq"]
        if any(isinstance(entry.value, dict) for entry in grid.items()):
            fixed = None
            for entry in grid.items():
                by_window[entry["window"].whole(2, LONGEST)] = _frequencies(entry["inv_freq"])
        else:
            fixed = _frequencies(grid)
        steps, heads, window = item.get("steps"), item.get("heads"), item.get("window")
        entries.append(
            FrequencyEntry(
                layers=item["layers"].wholes(MOST_LAYERS),
                heads=None if heads is None else heads.wholes(MOST_HEADS),
                rope_type=item["rope_type"].text(),
                window=None if window is None else window.whole(1, LONGEST),
                inv_freq=fixed,
                inv_freq_by_window=by_window,
                steps=None if steps is None or fixed is None else _steps(steps, len(fixed)),
            )
        )
    count = reader["num_layers"].whole(1, MOST_LAYERS)
    shapes = reader.get("layers")
    query_heads = {
        item["layer"].whole(0, count - 1): item["query_heads"].whole(1, MOST_HEADS)
        for item in ([] if shapes is None else shapes.items())
    }
    return ModelIdentity(reader["name"].text(), count, layout, tuple(entries), query_heads)


def _frequencies(reader: JsonReader) -> tuple[float, ...]:
    values = reader.numbers()
    if not 1 <= len(values) <= MOST_PAIRS:
        raise InterventionError(f"{reader.file}: {reader.place}: expected 1 to {MOST_PAIRS} numbers")
    for item, value in zip(reader.items(), values, strict=True):
        if not 0 <= value <= math.pi:
            raise item.error("a frequency from 0 to pi")
    return values


def _steps(reader: JsonReader, pairs: int) -> tuple[tuple[int, int], ...]:
    steps = tuple(
        (item["length"].whole(0, LONGEST), item["pairs"].whole(0, pairs)) for item in reader.items()
    )
    if any(a[0] >= b[0] for a, b in zip(steps, steps[1:])):
        raise InterventionError(f"{reader.file}: {reader.place}: lengths must rise")
    return steps


def _heads(reader: JsonReader) -> tuple[tuple[int, int], ...]:
    heads = []
    for item in reader.items():
        numbers = item.wholes(MOST_HEADS)
        if len(numbers) != 2:
            raise item.error("[layer, head]")
        heads.append((numbers[0], numbers[1]))
    if len(set(heads)) != len(heads):
        raise InterventionError(f"{reader.file}: {reader.place}: a head is there twice")
    return tuple(heads)


def _prompts(reader: JsonReader) -> dict[int, tuple[LayerPairs, ...]]:
    found: dict[int, tuple[LayerPairs, ...]] = {}
    for prompt in reader.items():
        length = prompt["length"].whole(2, LONGEST)
        layers = []
        for item in prompt["layers"].items():
            frequencies = _frequencies(item["inv_freq"])
            pairs = item["pairs"].wholes(len(frequencies) - 1)
            layers.append(
                LayerPairs(
                    item["layer"].whole(0, MOST_LAYERS), item["heads"].wholes(MOST_HEADS), pairs, frequencies
                )
            )
        if length in found:
            raise InterventionError(f"{prompt.file}: {prompt.place}: length {length} is there twice")
        found[length] = tuple(layers)
    return found


def _candidate(reader: JsonReader) -> tuple[str, str, float | None]:
    operation, alpha = reader["operation"].text(), reader.get("alpha")
    if operation not in ("rescale", "freeze"):
        raise reader["operation"].error("rescale or freeze")
    if (operation == "rescale") != (alpha is not None):
        raise reader.error("alpha with rescale and null with freeze")
    return reader["id"].text(), operation, None if alpha is None else alpha.number()


def _build(
    reader: JsonReader, model: ModelIdentity, candidate: JsonReader, prompt_length: int | None
) -> Intervention:
    stage = reader.get("stage")
    name, operation, alpha = _candidate(candidate)
    try:
        return Intervention(
            heads=_heads(reader["heads"]),
            operation=operation,
            alpha=alpha,
            model=model,
            listed=_prompts(reader["prompts"]),
            prompt_length=prompt_length,
            task=reader["task"].text(),
            stage=None if stage is None else stage.whole(1, 100),
            candidate=name,
        )
    except InterventionError as error:
        raise (
            error if str(error).startswith(reader.file) else InterventionError(f"{reader.file}: {error}")
        ) from None


def read_plan(path: str | Path) -> list[Intervention]:
    """Every candidate of every task and stage of a plan.json, in its order."""
    reader = load_json(path)
    _schema(reader, PLAN_SCHEMA)
    model = _model(reader["model"])
    return [
        _build(task, model, candidate, None)
        for task in reader["tasks"].items()
        for candidate in task["candidates"].items()
    ]


def candidates(
    plan: str | Path | list[Intervention], task: str, stage: int | None = None
) -> list[Intervention]:
    """A task's candidates in the plan's order, of one stage or of all. Raises where the plan does not know
    the task."""
    known = plan if isinstance(plan, list) else read_plan(plan)
    found = [one for one in known if one.task == task and stage in (None, one.stage)]
    if not found:
        names = sorted({one.task for one in known if one.task})
        raise InterventionError(
            f"task {task!r}: no candidate in the plan; it has {', '.join(names)[:200] or 'none'}"
        )
    return found


def read_adapter(path: str | Path) -> Intervention:
    """One candidate from an adapter file: .json, .safetensors or .npz."""
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        return _read_json(path)
    if suffix == ".safetensors":
        return from_arrays(str(path), *read_safetensors(path))
    if suffix == ".npz":
        return from_arrays(str(path), *read_npz(path))
    raise InterventionError(f"{path}: expected a .json, .safetensors or .npz file")


def _read_json(path: str | Path) -> Intervention:
    reader = load_json(path)
    _schema(reader, ADAPTER_SCHEMA)
    length = reader.get("prompt_length")
    return _build(
        reader,
        _model(reader["model"]),
        reader["candidate"],
        None if length is None else length.whole(2, LONGEST),
    )

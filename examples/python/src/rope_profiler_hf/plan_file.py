"""Reads plan.json and the adapter files of `rope-profiler apply` (json, safetensors, npz) into Interventions.

Every file is hostile: unknown schemas, NaN, numbers out of range and values of the wrong kind are refused in
one line that names the file and the place.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rope_profiler_hf.intervention import (
    FrequencyEntry,
    Intervention,
    InterventionError,
    LayerPairs,
    ModelIdentity,
)

PLAN_SCHEMA = "rope-profiler/plan-1"
ADAPTER_SCHEMA = "rope-profiler/adapter-1"
LARGEST_FILE = 1 << 30
MOST_LAYERS, MOST_HEADS, MOST_PAIRS, LONGEST = 100_000, 100_000, 512, 1 << 24


class _Reader:
    """Typed access to JSON values with the place in the message."""

    def __init__(self, file: str, value: Any, place: str = ""):
        self.file, self.value, self.place = file, value, place

    def error(self, expected: str) -> InterventionError:
        found = repr(self.value)
        return InterventionError(
            f"{self.file}: {self.place or 'top level'}: expected {expected}, found {found[:60]}"
        )

    def __getitem__(self, key: str) -> _Reader:
        if not isinstance(self.value, dict):
            raise self.error("an object")
        if key not in self.value:
            raise InterventionError(f"{self.file}: {self.place or 'top level'}: {key} is missing")
        return _Reader(self.file, self.value[key], f"{self.place}.{key}" if self.place else key)

    def get(self, key: str) -> _Reader | None:
        """The member, or None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.error("an object")
        return self[key] if self.value.get(key) is not None else None

    def items(self) -> list[_Reader]:
        if not isinstance(self.value, list):
            raise self.error("a list")
        return [_Reader(self.file, item, f"{self.place}[{i}]") for i, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error("a text")
        return self.value

    def whole(self, low: int, high: int) -> int:
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.error(f"a whole number from {low} to {high}")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.error("a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.error("a finite number")
        return value

    def numbers(self) -> tuple[float, ...]:
        return tuple(item.number() for item in self.items())

    def wholes(self, high: int) -> tuple[int, ...]:
        return tuple(item.whole(0, high) for item in self.items())


def _load(path: str | Path) -> _Reader:
    path = Path(path)
    if path.stat().st_size > LARGEST_FILE:
        raise InterventionError(f"{path}: larger than {LARGEST_FILE} bytes")

    def refuse(text: str):
        raise ValueError(f"{text} is no number of JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a name is there twice in one object")
        return members

    try:
        value = json.loads(path.read_bytes().decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InterventionError(f"{path}: not a JSON file: {str(error).splitlines()[0][:120]}") from None
    return _Reader(str(path), value)


def _schema(reader: _Reader, wanted: str) -> None:
    found = reader["schema"].text()
    if found != wanted:
        raise InterventionError(f"{reader.file}: schema: expected {wanted}, found {found[:60]!r}")


def _model(reader: _Reader) -> ModelIdentity:
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


def _frequencies(reader: _Reader) -> tuple[float, ...]:
    values = reader.numbers()
    if not 1 <= len(values) <= MOST_PAIRS:
        raise InterventionError(f"{reader.file}: {reader.place}: expected 1 to {MOST_PAIRS} numbers")
    for item, value in zip(reader.items(), values, strict=True):
        if not 0 <= value <= math.pi:
            raise item.error("a frequency from 0 to pi")
    return values


def _steps(reader: _Reader, pairs: int) -> tuple[tuple[int, int], ...]:
    steps = tuple(
        (item["length"].whole(0, LONGEST), item["pairs"].whole(0, pairs)) for item in reader.items()
    )
    if any(a[0] >= b[0] for a, b in zip(steps, steps[1:])):
        raise InterventionError(f"{reader.file}: {reader.place}: lengths must rise")
    return steps


def _heads(reader: _Reader) -> tuple[tuple[int, int], ...]:
    heads = []
    for item in reader.items():
        numbers = item.wholes(MOST_HEADS)
        if len(numbers) != 2:
            raise item.error("[layer, head]")
        heads.append((numbers[0], numbers[1]))
    if len(set(heads)) != len(heads):
        raise InterventionError(f"{reader.file}: {reader.place}: a head is there twice")
    return tuple(heads)


def _prompts(reader: _Reader) -> dict[int, tuple[LayerPairs, ...]]:
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


def _candidate(reader: _Reader) -> tuple[str, str, float | None]:
    operation, alpha = reader["operation"].text(), reader.get("alpha")
    if operation not in ("rescale", "freeze"):
        raise reader["operation"].error("rescale or freeze")
    if (operation == "rescale") != (alpha is not None):
        raise reader.error("alpha with rescale and null with freeze")
    return reader["id"].text(), operation, None if alpha is None else alpha.number()


def _build(
    reader: _Reader, model: ModelIdentity, candidate: _Reader, prompt_length: int | None
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
    reader = _load(path)
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
        return _from_arrays(str(path), *_read_safetensors(path))
    if suffix == ".npz":
        return _from_arrays(str(path), *_read_npz(path))
    raise InterventionError(f"{path}: expected a .json, .safetensors or .npz file")


def _read_json(path: str | Path) -> Intervention:
    reader = _load(path)
    _schema(reader, ADAPTER_SCHEMA)
    length = reader.get("prompt_length")
    return _build(
        reader,
        _model(reader["model"]),
        reader["candidate"],
        None if length is None else length.whole(2, LONGEST),
    )


def _read_safetensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    import safetensors

    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})
    except (safetensors.SafetensorError, ValueError, TypeError) as error:
        raise InterventionError(
            f"{path}: not a safetensors file: {str(error).splitlines()[0][:120]}"
        ) from None


def _read_npz(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST_FILE:
                raise InterventionError(f"{path}: larger than {LARGEST_FILE} bytes when unpacked")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError)):
            raise
        raise InterventionError(f"{path}: not an npz file: {str(error).splitlines()[0][:120]}") from None
    text = arrays.pop("metadata", None)
    if text is None or text.shape != () or text.dtype.kind not in "US":
        raise InterventionError(f"{path}: metadata: expected a text")
    text = text.item() if text.dtype.kind == "U" else text.item().decode("utf-8", "replace")
    try:
        metadata = json.loads(text)
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise InterventionError(f"{path}: metadata: expected a JSON object")
    return arrays, metadata


def _from_arrays(file: str, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Intervention:
    """layer.{i}.query_scale and layer.{i}.frequency, float32 [Hq, h], of the touched layers."""
    tables: dict[int, dict[str, np.ndarray]] = {}
    if any(name.endswith(".query_rows") for name in arrays):
        raise InterventionError(
            f"{file}: factors on weights (--fold), no adapter: multiply q_proj's rows by them"
        )
    for name, array in arrays.items():
        parts = name.split(".")
        known = len(parts) == 3 and parts[0] == "layer" and parts[1].isascii() and parts[1].isdigit()
        if not known or len(parts[1]) > 6 or parts[2] not in ("query_scale", "frequency"):
            raise InterventionError(f"{file}: {name[:60]!r}: unknown array")
        if array.ndim != 2 or array.dtype != np.float32 or not np.isfinite(array).all():
            raise InterventionError(f"{file}: {name}: expected finite float32 numbers in two dimensions")
        tables.setdefault(int(parts[1]), {})[parts[2]] = array
    for layer, pair in tables.items():
        if len(pair) != 2 or pair["query_scale"].shape != pair["frequency"].shape:
            raise InterventionError(f"{file}: layer.{layer}: expected query_scale and frequency of one shape")
    length, name = metadata.get("prompt_length"), metadata.get("model")
    try:
        length = None if length in (None, "", "null") else int(length)
    except (TypeError, ValueError):
        raise InterventionError(f"{file}: metadata prompt_length: expected a whole number") from None
    if length is None:
        raise InterventionError(
            f"{file}: metadata: prompt_length is missing; arrays hold for one length only"
        )
    if isinstance(name, str) and name.startswith("{"):
        try:
            name = json.loads(name).get("name")
        except ValueError:
            name = None
    if isinstance(name, dict):
        name = name.get("name")
    return Intervention.from_arrays(
        {layer: (pair["query_scale"], pair["frequency"]) for layer, pair in tables.items()},
        prompt_length=length,
        model_name=name if isinstance(name, str) else None,
        task=metadata.get("task") if isinstance(metadata.get("task"), str) else None,
        candidate=metadata.get("candidate") if isinstance(metadata.get("candidate"), str) else None,
    )

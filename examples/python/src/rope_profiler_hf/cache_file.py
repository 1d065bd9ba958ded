"""The activation cache on disk (docs/activation-format.md), written so that an interruption costs one example
at most.

Everything but the vectors is known before the model runs: ids, positions, windows, shapes. So the HDF5 file
is made whole first, with contiguous datasets at fixed places, and closed; vectors then go straight to their
places in it, and a byte per example, in a file beside it, says which are there. Nothing of HDF5's own
structure is touched again: whenever the process is killed, what is on disk is a valid file. It carries the
name OUTPUT.partial-capture until it is complete.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from rope_profiler_hf.architectures import RopeError

UNUSED = -1


@dataclass
class CacheModel:
    """The group /model. inv_freq: [h], [num_layers, h] or None."""

    name: str
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    rope_layout: str
    config: str
    reversed: bool = False
    attention_scale: float | None = None
    inv_freq: np.ndarray | None = None


@dataclass
class CacheTask:
    """One group of /tasks: per example its id, window and the positions to store."""

    name: str
    example_ids: list[str] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    queries: list[Sequence[int]] = field(default_factory=list)
    keys: list[Sequence[int]] = field(default_factory=list)

    def add(self, example_id: str, window: int, query: Sequence[int], key: Sequence[int]) -> None:
        self.example_ids.append(example_id)
        self.windows.append(window)
        self.queries.append(query)
        self.keys.append(key)


def _padded(rows: list[Sequence[int]]) -> np.ndarray:
    table = np.full((len(rows), max(map(len, rows))), UNUSED, dtype=np.int32)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def _vectors(group: h5py.Group, name: str, shape: tuple[int, ...], element: str) -> None:
    """A contiguous dataset with its place in the file taken and nothing written."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)  # the same bytes at any time
    kind = h5py.h5t.IEEE_F16LE if element == "float16" else h5py.h5t.STD_U16LE
    h5py.h5d.create(group.id, name.encode(), kind, h5py.h5s.create_simple(shape), dcpl=properties)
    if element == "bfloat16":
        group[name].attrs["dtype"] = "bfloat16"


def write_structure(
    path: Path,
    model: CacheModel,
    tasks: list[CacheTask],
    layers: list[int],
    element: str,
    full_coverage: bool,
    created_by: str,
    settings: str,
) -> None:
    """A whole cache file at `path` whose vectors are all zero yet. element: "float16" or "bfloat16"."""
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "rope-profiler/activations"
        file.attrs["format_version"] = 1
        file.attrs["created_by"] = created_by
        group = file.create_group("model")
        for name in (
            "name",
            "num_layers",
            "num_query_heads",
            "num_kv_heads",
            "head_dim",
            "rope_layout",
            "config",
        ):
            group.attrs[name] = getattr(model, name)
        group.attrs["query_rotation"] = group.attrs["key_rotation"] = "pre"
        if model.reversed:
            group.attrs["rope_direction"] = "reversed"
        if model.attention_scale is not None:
            group.attrs["attention_scale"] = model.attention_scale
        if model.inv_freq is not None:
            group["inv_freq"] = model.inv_freq
        file.create_group("capture").attrs["settings"] = settings
        for task in tasks:
            group = file.create_group(f"tasks/{task.name}")
            group.attrs["key_coverage"] = "full" if full_coverage else "sampled"
            group["example_id"] = np.array(task.example_ids, dtype=h5py.string_dtype())
            group["window"] = np.array(task.windows, dtype=np.int32)
            group["layer"] = np.array(layers, dtype=np.int32)
            query, key = _padded(task.queries), _padded(task.keys)
            group["query_position"], group["key_position"] = query, key
            outer = (len(task.windows), len(layers))
            _vectors(group, "query", (*outer, model.num_query_heads, query.shape[1], model.head_dim), element)
            _vectors(group, "key", (*outer, model.num_kv_heads, key.shape[1], model.head_dim), element)


class CacheWriter:
    """Fills a file of write_structure. Used as a context manager; it holds a lock on the file."""

    def __init__(self, partial: Path):
        self.partial = partial
        self.marks = partial.with_name(partial.name + ".done")
        self._places: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = {}
        self._first: dict[str, int] = {}  # index of a task's first example in the marks
        count = 0
        with h5py.File(partial, "r", locking=False) as file:
            for name, group in file["tasks"].items():
                for axis in ("query", "key"):
                    dataset = group[axis]
                    self._places[name, axis] = (dataset.id.get_offset(), dataset.shape)
                self._first[name] = count
                count += len(group["window"])
        self._file = os.open(partial, os.O_RDWR)
        self._mark_file = -1
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._mark_file = os.open(self.marks, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            self.close()
            if isinstance(error, BlockingIOError):
                raise RopeError(f"{partial}: another capture is writing it") from None
            raise
        self._done = bytearray(count)
        stored = os.pread(self._mark_file, count, 0)
        self._done[: len(stored)] = stored

    def __enter__(self) -> CacheWriter:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        for name in ("_file", "_mark_file"):
            handle = getattr(self, name)
            if handle >= 0:
                setattr(self, name, -1)
                os.close(handle)

    def is_done(self, task: str, example: int) -> bool:
        return self._done[self._first[task] + example] == 1

    def write(self, task: str, axis: str, example: int, layer_slot: int, vectors: np.ndarray) -> None:
        """vectors [H, n, D] of 16 bits, n ≤ the slots of the axis ("query" or "key"); unused slots stay as
        they are."""
        offset, shape = self._places[task, axis]
        _, layers, heads, slots, lanes = shape
        if vectors.itemsize != 2 or vectors.shape[::2] != (heads, lanes) or vectors.shape[1] > slots:
            raise ValueError(f"{task}/{axis}: vectors of shape {vectors.shape} for {(heads, slots, lanes)}")
        block = np.zeros((heads, slots, lanes), dtype=vectors.dtype)
        block[:, : vectors.shape[1]] = vectors
        _write_all(self._file, block.tobytes(), offset + (example * layers + layer_slot) * block.nbytes)

    def mark_done(self, task: str, example: int) -> None:
        """The example's vectors are all written: put them on disk, then its mark."""
        os.fsync(self._file)
        index = self._first[task] + example
        _write_all(self._mark_file, b"\1", index)
        os.fsync(self._mark_file)
        self._done[index] = 1

    def finish(self, output: Path) -> None:
        """Every example is there: give the file its name."""
        missing = self._done.count(0)
        if missing:
            raise RuntimeError(f"{self.partial}: {missing} examples are missing")
        os.fsync(self._file)
        if os.fstat(self._file).st_ino != self.partial.stat().st_ino:
            raise RopeError(f"{self.partial}: was replaced by another capture")
        os.replace(self.partial, output)
        self.marks.unlink(missing_ok=True)
        folder = os.open(output.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write_all(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(file, view, offset)
        view, offset = view[count:], offset + count


def partial_path(output: Path) -> Path:
    return output.with_name(output.name + ".partial-capture")


def stored_settings(partial: Path) -> str | None:
    """The settings that a partial file was begun with, or None where it cannot be read."""
    try:
        with h5py.File(partial, "r", locking=False) as file:  # CacheWriter looks whether it is in use
            return file["capture"].attrs["settings"]
    except (OSError, KeyError):
        return None


def begin(output: Path, force: bool, settings: str, write: Callable[[Path], None]) -> CacheWriter:
    """Opens the partial file of an interrupted capture with the same settings, or makes one with
    write(path)."""
    partial = partial_path(output)
    if partial.exists():
        if stored_settings(partial) == settings:
            return CacheWriter(partial)
        if not force:
            raise RopeError(
                f"{partial}: was begun with another model, prompts or settings; use --force to start anew"
            )
        with CacheWriter(partial) if stored_settings(partial) else nullcontext():
            partial.unlink()
    partial.with_name(partial.name + ".done").unlink(missing_ok=True)
    aside = partial.with_name(partial.name + f"-new-{os.getpid()}")
    try:
        write(aside)
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, partial)
    finally:
        aside.unlink(missing_ok=True)
    return CacheWriter(partial)

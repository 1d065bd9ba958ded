"""Typed access to a JSON file that may hold anything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rope_profiler_hf.intervention import InterventionError

LARGEST_FILE = 1 << 30


class JsonReader:
    """Typed access to JSON values with the place in the message."""

    def __init__(self, file: str, value: Any, place: str = ""):
        self.file, self.value, self.place = file, value, place

    def error(self, expected: str) -> InterventionError:
        found = repr(self.value)
        return InterventionError(
            f"{self.file}: {self.place or 'top level'}: expected {expected}, found {found[:60]}"
        )

    def __getitem__(self, key: str) -> JsonReader:
        if not isinstance(self.value, dict):
            raise self.error("an object")
        if key not in self.value:
            raise InterventionError(f"{self.file}: {self.place or 'top level'}: {key} is missing")
        return JsonReader(self.file, self.value[key], f"{self.place}.{key}" if self.place else key)

    def get(self, key: str) -> JsonReader | None:
        """The member, or None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.error("an object")
        return self[key] if self.value.get(key) is not None else None

    def items(self) -> list[JsonReader]:
        if not isinstance(self.value, list):
            raise self.error("a list")
        return [JsonReader(self.file, item, f"{self.place}[{i}]") for i, item in enumerate(self.value)]

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


def load_json(path: str | Path) -> JsonReader:
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
    return JsonReader(str(path), value)

"""Adapter files that hold arrays: safetensors and npz."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rope_profiler_hf.intervention import Intervention, InterventionError
from rope_profiler_hf.json_reader import LARGEST_FILE


def read_safetensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    import safetensors

    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})
    except (safetensors.SafetensorError, ValueError, TypeError) as error:
        raise InterventionError(
            f"{path}: not a safetensors file: {str(error).splitlines()[0][:120]}"
        ) from None


def read_npz(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
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


def from_arrays(file: str, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Intervention:
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

"""The element types of a cache."""

from __future__ import annotations

import numpy as np
import torch

from rope_profiler_hf.architectures import RopeError

ELEMENTS = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def rounded(vectors: torch.Tensor, dtype: str, where: str) -> torch.Tensor:
    """float32 vectors in the cache's element type. Raises RopeError, naming `where`, for what it cannot
    hold."""
    if not bool(torch.isfinite(vectors).all()):
        raise RopeError(f"{where}: the model gives non-finite vectors")
    made = vectors.to(ELEMENTS[dtype])
    if not bool(torch.isfinite(made).all()):
        raise RopeError(f"{where}: values beyond {torch.finfo(ELEMENTS[dtype]).max:g}: use --dtype bfloat16")
    return made


def as_numpy(vectors: torch.Tensor) -> np.ndarray:
    """float16 numbers, or the bits of bfloat16 as uint16."""
    return (
        vectors.numpy()
        if vectors.dtype == torch.float16
        else vectors.view(torch.int16).numpy().view(np.uint16)
    )

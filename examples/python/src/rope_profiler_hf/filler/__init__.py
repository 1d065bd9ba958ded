"""Public-domain sentences that pad the synthetic tasks (README.md beside this file)."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

TEXTS = ("acts", "constitution", "declaration", "esther", "jonah", "ruth")


@lru_cache(maxsize=None)
def sentences() -> tuple[str, ...]:
    """All sentences, text after text."""
    folder = files(__name__)
    return tuple(line for name in TEXTS for line in (folder / f"{name}.txt").read_text("ascii").splitlines())

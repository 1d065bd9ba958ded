"""The repeatable choice of tokens: the same as the program's `sample` (commands.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def token_digest(protocol: str, task: str, example_id: str, role: str, position: int, seed: int) -> str:
    """Lower-case hex SHA-256 of `protocol NUL task/example_id NUL role NUL position NUL seed`."""
    text = "\0".join((protocol, f"{task}/{example_id}", role, str(position), str(seed)))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def choose_tokens(
    task: str,
    example_id: str,
    query: Iterable[int],
    key: Iterable[int],
    queries: int = 4,
    keys: int = 16,
    protocol: str = "p1",
    seed: int = 20260910,
) -> tuple[list[int], list[int]]:
    """(query positions, rising; key positions, all before the first query, neighbours forming the
    triplets)."""

    def by_digest(role: str, positions: Iterable[int], count: int) -> list[int]:
        order = sorted((token_digest(protocol, task, example_id, role, p, seed), p) for p in set(positions))
        return [position for _, position in order[:count]]

    chosen = sorted(by_digest("query", query, queries))
    if not chosen:
        return [], []
    kept = by_digest("key", (p for p in key if p < chosen[0]), keys)
    return chosen, by_digest("pair", kept, len(kept))

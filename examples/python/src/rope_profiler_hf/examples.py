"""Prompts made ready for a capture: their tokens, and which of them are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rope_profiler_hf.architectures import RopeError
from rope_profiler_hf.prompts import Prompt, encode, token_spans
from rope_profiler_hf.selection import choose_tokens

LONGEST_WINDOW = 1 << 24


@dataclass(frozen=True)
class CaptureSettings:
    """What is stored. queries, keys: tokens per example; full_coverage: all keys up to the last query."""

    queries: int = 4
    keys: int = 16
    protocol: str = "p1"
    seed: int = 20260910
    full_coverage: bool = False
    dtype: str = "float16"
    layers: tuple[int, ...] | None = None


@dataclass
class Example:
    """One prompt, ready to run. tokens: its ids; query, key: the positions to store."""

    task: str
    index: int  # in its task
    id: str
    tokens: list[int]
    query: list[int]
    key: list[int]


def prepare(tokenizer, prompts: Iterable[Prompt], settings: CaptureSettings) -> list[Example]:
    """The prompts as token ids with the chosen positions, in the file's order."""
    counts: dict[str, int] = {}
    examples = []
    for prompt in prompts:
        tokens, offsets = encode(tokenizer, prompt)
        context, question = token_spans(prompt, offsets)
        query, key = choose_tokens(
            prompt.task,
            prompt.id,
            question,
            context,
            settings.queries,
            settings.keys,
            settings.protocol,
            settings.seed,
        )
        where = f"task {prompt.task!r}, id {prompt.id!r}"
        if not query:
            raise RopeError(f"{where}: no token to take as a query (its question has none)")
        if settings.full_coverage:
            key = list(range(query[-1] + 1))
        if not key:
            raise RopeError(f"{where}: no token to take as a key before token {query[0]}")
        if not 2 <= len(tokens) <= LONGEST_WINDOW:
            raise RopeError(f"{where}: {len(tokens)} tokens; a cache takes 2 to {LONGEST_WINDOW}")
        index = counts.setdefault(prompt.task, 0)
        counts[prompt.task] += 1
        examples.append(Example(prompt.task, index, prompt.id, tokens, query, key))
    if not examples:
        raise RopeError("no prompt to capture")
    return examples

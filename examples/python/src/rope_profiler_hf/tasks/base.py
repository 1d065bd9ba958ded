"""What every task has: a builder of one example of a given size, and how its pieces become a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rope_profiler_hf.filler import sentences
from rope_profiler_hf.tasks.draw import Draw


@dataclass(frozen=True)
class Example:
    """One example before it is put together.

    cue: the beginning of the answer, the end of a plain-text prompt; a chat prompt leaves it out.
    rule: name of the scoring rule (scoring.py) that `answers` are meant for.
    """

    intro: str
    context: str
    question: str
    cue: str
    answers: list[str]
    rule: str
    max_new_tokens: int


@dataclass(frozen=True)
class Task:
    """A kind of example.

    build(draw, size, items): the example whose context has `size` filler sentences and `items` of the task's own things
    (needles, pairs, lines, …). With items = 0, where `grows`, there is no filler and `size` counts the things.
    items: the number when none is given; smallest, most: its limits.
    """

    name: str
    family: str
    build: Callable[[Draw, int, int], Example]
    items: int
    smallest: int = 2
    most: int = 1000
    grows: bool = False


def filler(draw: Draw, count: int) -> list[str]:
    """`count` sentences that follow each other from a random place, from the start again after the last."""
    lines = sentences()
    start = draw.below(len(lines))
    return [lines[(start + i) % len(lines)] for i in range(count)]


def scattered(draw: Draw, things: Sequence[str], size: int) -> str:
    """The things in their order, at random depths of `size` filler sentences, as one text."""
    depths = sorted(draw.fraction() for _ in things)
    lines = filler(draw, size)
    for depth, thing in reversed(list(zip(depths, things, strict=True))):
        lines.insert(int(depth * (size + 1)), thing)
    return " ".join(lines)


def embedded(draw: Draw, block: str, size: int) -> str:
    """A block of several lines at a random depth of `size` filler sentences."""
    at = int(draw.fraction() * (size + 1))
    lines = filler(draw, size)
    parts = [" ".join(lines[:at]), block, " ".join(lines[at:])]
    return "\n\n".join(part for part in parts if part)

"""Needles in filler: one sentence among many that carries a number."""

from __future__ import annotations

from rope_profiler_hf.tasks.base import Example, Task, scattered
from rope_profiler_hf.tasks.draw import Draw
from rope_profiler_hf.tasks.words import CITIES

INTRO = (
    "Secret codes of cities are hidden in the following text. Remember them, you will be asked about them."
)


def _needle(city: str, code: str) -> str:
    return f"The secret code of {city} is {code}."


def _ask_one(context: str, city: str, code: str) -> Example:
    question = f"Question: What is the secret code of {city} in the text?"
    return Example(INTRO, context, question, f"Answer: The secret code of {city} is", [code], "number", 8)


def single(draw: Draw, size: int, items: int) -> Example:
    city, code = draw.choice(CITIES), draw.number()
    return _ask_one(scattered(draw, [_needle(city, code)], size), city, code)


def multikey(draw: Draw, size: int, items: int) -> Example:
    cities, codes = draw.sample(CITIES, items), draw.numbers(items)
    asked = draw.below(items)
    return _ask_one(scattered(draw, list(map(_needle, cities, codes)), size), cities[asked], codes[asked])


def multivalue(draw: Draw, size: int, items: int) -> Example:
    """`items` codes of one city, which are the answer, among as many codes of other cities."""
    city, *others = draw.sample(CITIES, items + 1)
    codes = draw.numbers(2 * items)
    needles = [_needle(name, code) for name, code in zip([city] * items + others, codes, strict=True)]
    context = scattered(draw, draw.shuffled(needles), size)
    question = f"Question: What are all {items} secret codes of {city} in the text?"
    cue = f"Answer: The secret codes of {city} are"
    return Example(INTRO, context, question, cue, codes[:items], "numbers", 8 * items)


TASKS = [
    Task("niah_single", "needle", single, items=1, smallest=1, most=1),
    Task("niah_multikey", "needle", multikey, items=4, most=len(CITIES)),
    Task("niah_multivalue", "needle", multivalue, items=2, most=10),
]

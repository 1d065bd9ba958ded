"""Lists and lines whose order matters: the nth item, the neighbour of an item, a line to copy, which event came first."""

from __future__ import annotations

from rope_profiler_hf.tasks.base import Example, Task, embedded, scattered
from rope_profiler_hf.tasks.draw import Draw
from rope_profiler_hf.tasks.words import DEEDS, NAMES, NOUNS


def index(draw: Draw, size: int, items: int) -> Example:
    count, size = (items, size) if items else (size, 0)
    words = draw.sample(NOUNS, count)
    asked = draw.below(count)
    block = "\n".join(f"Item {number}: {word}" for number, word in enumerate(words, start=1))
    question = f"Question: What is item {asked + 1} of the list?"
    cue = f"Answer: Item {asked + 1}:"
    intro = "There is a list of words in the following text."
    return Example(intro, embedded(draw, block, size), question, cue, [words[asked]], "word", 6)


def adjacent(draw: Draw, size: int, items: int) -> Example:
    count, size = (items, size) if items else (size, 0)
    words = draw.sample(NOUNS, count)
    asked = draw.below(count - 1)
    block = "List: " + ", ".join(words) + "."
    question = (
        f'Question: Which word comes right after "{words[asked]}" in the list? Repeat the list from there.'
    )
    cue = f"Answer: {words[asked]},"
    intro = "There is a list of words in the following text."
    return Example(intro, embedded(draw, block, size), question, cue, [words[asked + 1]], "word", 6)


def copy(draw: Draw, size: int, items: int) -> Example:
    count, size = (items, size) if items else (size, 0)
    labels = draw.numbers(count, digits=3)
    lines = [" ".join(draw.sample(NOUNS, 4)) for _ in labels]
    asked = draw.below(count)
    block = "\n".join(f"line {label}: {line}" for label, line in zip(labels, lines, strict=True))
    question = f"Question: What are the words of line {labels[asked]}? Copy the line."
    intro = "There are numbered lines of words in the following text."
    cue = f"Answer: line {labels[asked]}:"
    return Example(intro, embedded(draw, block, size), question, cue, [lines[asked]], "line", 16)


def events(draw: Draw, size: int, items: int) -> Example:
    """`items` people do something, one after the other in the order of the text; who came right after one of them?"""
    names, deeds = draw.sample(NAMES, items), draw.sample(DEEDS, items)
    told = [f"Next, {name} {deed}." for name, deed in zip(names, deeds, strict=True)]
    asked = draw.below(items - 1)
    question = f"Question: Who was the next to do something after {names[asked]}?"
    intro = "The following text tells what some people did, one after the other."
    cue = f"Answer: First {names[asked]} {deeds[asked]}. Next,"
    return Example(intro, scattered(draw, told, size), question, cue, [names[asked + 1]], "word", 6)


TASKS = [
    Task("list_index", "list", index, items=10, most=len(NOUNS), grows=True),
    Task("adjacent_item", "list", adjacent, items=12, most=len(NOUNS), grows=True),
    Task("line_copy", "copy", copy, items=8, most=200, grows=True),
    Task("event_order", "order", events, items=6, most=len(DEEDS)),
]

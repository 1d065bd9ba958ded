"""Facts of one form, one of which is asked for: JSON values, people's animals, chains of variables."""

from __future__ import annotations

import json

from rope_profiler_hf.tasks.base import Example, Task, embedded, scattered
from rope_profiler_hf.tasks.draw import Draw
from rope_profiler_hf.tasks.words import ANIMALS, CITIES, JOBS, NAMES, NOUNS


def key_value(draw: Draw, size: int, items: int) -> Example:
    count, size = (items, size) if items else (size, 0)
    keys, values = draw.sample(NOUNS, count), draw.numbers(count)
    asked = draw.below(count)
    block = json.dumps(dict(zip(keys, values, strict=True)), indent=0)
    question = f'Question: What is the value of the key "{keys[asked]}" in the JSON object?'
    cue = f'Answer: "{keys[asked]}": "'
    intro = "Extract the value of a key from the JSON object in the following text."
    return Example(intro, embedded(draw, block, size), question, cue, [values[asked]], "number", 8)


def people(draw: Draw, size: int, items: int) -> Example:
    """Who keeps which animal, among people of whom other things are said in the same form."""
    names, animals = draw.sample(NAMES, items), draw.sample(ANIMALS, items)
    facts = [
        f"{name} is a {draw.choice(JOBS)} from {draw.choice(CITIES)} and keeps a {animal}."
        for name, animal in zip(names, animals, strict=True)
    ]
    asked = draw.below(items)
    question = f"Question: Which animal does {names[asked]} keep?"
    intro = "Read the following text. It says of some people which animal they keep."
    cue = f"Answer: {names[asked]} keeps a"
    return Example(intro, scattered(draw, facts, size), question, cue, [animals[asked]], "word", 6)


HOPS = 1


def variables(draw: Draw, size: int, items: int) -> Example:
    """`items` chains: a variable is set to a number and another one to the first; the last of a chain is asked for."""
    letters = draw.sample(
        [a + b for a in "ABCDEFGHJKLMNPQRSTUVWXYZ" for b in "123456789"], items * (HOPS + 1)
    )
    numbers = draw.numbers(items)
    lines: list[tuple[float, str]] = []
    chains = [letters[i * (HOPS + 1) : (i + 1) * (HOPS + 1)] for i in range(items)]
    for chain, number in zip(chains, numbers, strict=True):
        order = sorted(draw.fraction() for _ in chain)
        for place, name, value in zip(order, chain, [number, *chain], strict=False):
            lines.append((place, f"Set {name} = {value}."))
    context = scattered(draw, [line for _, line in sorted(lines)], size)
    asked = draw.below(items)
    name = chains[asked][-1]
    question = f"Question: Which number does the variable {name} stand for?"
    intro = "Follow the variables that are set in the following text, to numbers or to other variables."
    cue = f"Answer: {name} = {chains[asked][-2]} and {chains[asked][-2]} ="
    return Example(intro, context, question, cue, [numbers[asked]], "number", 8)


TASKS = [
    Task("kv_lookup", "lookup", key_value, items=12, most=len(NOUNS), grows=True),
    Task("qa_distractor", "qa", people, items=6, most=len(ANIMALS)),
    Task("variable_tracking", "tracking", variables, items=3, smallest=1, most=100),
]

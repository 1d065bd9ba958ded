"""Prompts of a task at a given length: the largest size of the context that still fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rope_profiler_hf.prompts import Prompt
from rope_profiler_hf.tasks import TASKS
from rope_profiler_hf.tasks.base import Example, Task
from rope_profiler_hf.tasks.draw import Draw

Length = Callable[[Prompt], int]
LARGEST = 1 << 17
STOPS = {
    "number": ["\n", ".", '"'],
    "numbers": ["\n"],
    "word": ["\n", ".", ","],
    "line": ["\n"],
}  # where a plain-text answer ends, by scoring rule


def words(prompt: Prompt) -> int:
    """The length of a prompt where there is no tokenizer."""
    return len(prompt.content.split())


def tokens(tokenizer) -> Length:
    """The length in tokens, as the model gets them."""
    from rope_profiler_hf.prompts import encode

    return lambda prompt: len(encode(tokenizer, prompt)[0])


def assemble(task: str, example_id: str, example: Example, chat: bool) -> Prompt:
    """Intro, context and question (a plain text: the cue too) with blank lines between; the spans recorded."""
    end = example.question if chat else f"{example.question}\n{example.cue}"
    text = f"{example.intro}\n\n{example.context}\n\n{end}"
    start = len(example.intro) + 2
    prompt = Prompt(
        id=example_id,
        task=task,
        context=(start, start + len(example.context)),
        question=(len(text) - len(end), len(text)),
        answers=list(example.answers),
        meta={"score": example.rule, "max_new_tokens": example.max_new_tokens * (3 if chat else 1)},
    )
    if chat:
        prompt.messages = [{"role": "user", "content": text}]
    else:
        prompt.text = text
        prompt.meta["stop"] = STOPS[example.rule]
    return prompt


def make(
    kind: Task,
    name: str,
    example_id: str,
    target: int,
    length: Length,
    seed: int,
    items: int | None = None,
    chat: bool = False,
) -> Prompt:
    """One prompt of at most `target` long, short of it by less than one sentence or thing.

    The same arguments give the same prompt. items: None for the task's own number, 0 to grow with the length.
    Raises ValueError when even the smallest example is longer.
    """
    count = kind.items if items is None else items
    low = 0 if count else kind.smallest
    high = LARGEST if count else kind.most

    def build(size: int) -> Prompt:
        draw = Draw(f"{seed}\0{kind.name}\0{name}\0{example_id}\0{count}\0{target}")
        return assemble(name, example_id, kind.build(draw, size, count), chat)

    prompt = build(low)
    if length(prompt) > target:
        raise ValueError(f"task {name}: the smallest example has {length(prompt)}, more than {target}")
    step = 1
    while low + step <= high and length(found := build(low + step)) <= target:
        prompt, low, step = found, low + step, step * 2
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if length(found := build(middle)) <= target:
            prompt, low = found, middle
        else:
            high = middle - 1
    prompt.meta["length"] = length(prompt)
    return prompt


@dataclass(frozen=True)
class Setting:
    """A task at a length, or at lengths drawn from a range, with its number of things; `name` is the prompts' task."""

    name: str
    kind: Task
    low: int
    high: int
    items: int | None

    def prompts(self, examples: int, length: Length, seed: int, chat: bool = False) -> list[Prompt]:
        """Examples with the ids 0, 1, …; an example does not depend on how many there are."""
        found = []
        for i in range(examples):
            target = Draw(f"{seed}\0{self.name}\0{i}\0length").between(self.low, self.high)
            found.append(make(self.kind, self.name, str(i), target, length, seed, self.items, chat))
        return found


def parse_setting(text: str) -> Setting:
    """`[NAME=]TASK:LENGTH[:ITEMS]`, LENGTH a number or LOW-HIGH; ValueError in one line."""
    match = re.fullmatch(r"(?:([^=/\0-\x1f]+)=)?([a-z_]+):(\d{1,7})(?:-(\d{1,7}))?(?::(\d{1,6}))?", text)
    if match is None:
        raise ValueError(f"{text!r}: expected [NAME=]TASK:LENGTH[:ITEMS], LENGTH a number or LOW-HIGH")
    name, task, low, high, items = match.groups()
    if task not in TASKS:
        raise ValueError(f"{text!r}: no task {task!r}; there are {', '.join(TASKS)}")
    setting = Setting(
        name or task, TASKS[task], int(low), int(high or low), None if items is None else int(items)
    )
    if setting.low > setting.high:
        raise ValueError(f"{text!r}: {low} is more than {high}")
    _check_items(setting)
    return setting


def _check_items(setting: Setting) -> None:
    kind, items = setting.kind, setting.items
    if items is None:
        return
    if items == 0 and not kind.grows:
        raise ValueError(
            f"task {kind.name}: its number of things cannot grow with the length, give 1 or more"
        )
    if items != 0 and not kind.smallest <= items <= kind.most:
        raise ValueError(f"task {kind.name}: takes {kind.smallest} to {kind.most} things, not {items}")

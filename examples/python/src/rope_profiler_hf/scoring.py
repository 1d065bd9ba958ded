"""Scoring rules: what a model wrote against a prompt's answers, 1 or 0.

| rule | right when |
|---|---|
| number | the first whole number in the text is the answer |
| numbers | the first numbers of the text, as many as there are answers, are the answers in any order |
| word | the first word of the text is the answer (one of the answers) |
| line | the first line of the text is the answer (one of the answers) |
| contains | every answer occurs in the text as whole words |
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable

from rope_profiler_hf.prompts import Prompt, PromptError

_PUNCTUATION = re.escape(string.punctuation + "“”‘’«»…–—")
_ARTICLES = ("a", "an", "the")


def normalise(text: str) -> str:
    """NFKC, lower case, punctuation as blanks, blanks single."""
    text = unicodedata.normalize("NFKC", text).lower()
    return " ".join(re.sub(f"[{_PUNCTUATION}]", " ", text).split())


def first_line(text: str) -> str:
    """The first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _numbers(text: str) -> list[str]:
    """Whole numbers without leading zeros and thousands separators, in order."""
    joined = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return [digits.lstrip("0") or "0" for digits in re.findall(r"\d+", joined)]


def _number(text: str, answers: list[str]) -> bool:
    return _numbers(text)[:1] in ([answer] for answer in answers)


def _all_numbers(text: str, answers: list[str]) -> bool:
    return sorted(_numbers(text)[: len(answers)]) == sorted(answers)


def _word(text: str, answers: list[str]) -> bool:
    words = [word for word in normalise(first_line(text)).split() if word not in _ARTICLES]
    return words[:1] in ([normalise(answer)] for answer in answers)


def _line(text: str, answers: list[str]) -> bool:
    return normalise(first_line(text)) in map(normalise, answers)


def _contains(text: str, answers: list[str]) -> bool:
    padded = f" {normalise(text)} "
    return all(f" {normalise(answer)} " in padded for answer in answers)


RULES: dict[str, Callable[[str, list[str]], bool]] = {
    "number": _number,
    "numbers": _all_numbers,
    "word": _word,
    "line": _line,
    "contains": _contains,
}
DEFAULT_RULE = "line"


def rule_of(prompt: Prompt) -> str:
    """The name of the prompt's rule, `meta["score"]` or `line`; PromptError when it cannot be scored."""
    rule = prompt.meta.get("score", DEFAULT_RULE)
    where = f"task {prompt.task!r}, id {prompt.id!r}"
    if rule not in RULES:
        raise PromptError(f"{where}: no scoring rule {rule!r}; there are {', '.join(RULES)}")
    if not prompt.answers or not all(normalise(answer) for answer in prompt.answers):
        raise PromptError(f"{where}: no answers to score against")
    return rule


def score(prompt: Prompt, text: str) -> int:
    """1 when the text is right by the prompt's rule, else 0."""
    return int(RULES[rule_of(prompt)](text, prompt.answers))

"""Prompt files (JSON lines), their token ids, and the tokens inside the spans of context and question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Span = tuple[int, int]

KNOWN_KEYS = ("id", "task", "text", "messages", "context", "question", "answers", "meta")
DEFAULT_QUESTION_TOKENS = 32


class PromptError(ValueError):
    """A prompt that cannot be used; its text is one line."""


@dataclass
class Prompt:
    """One example of one task: plain `text`, or chat `messages` that the model's template renders.

    context, question: [start, end) in characters, in `text` or in the content of the last user message.
    answers: the right answer's parts or variants, read by the scoring rule that `meta["score"]` names (scoring.py).
    meta: everything else, `max_new_tokens` among it.
    """

    id: str
    task: str
    text: str | None = None
    messages: list | None = None
    context: Span | None = None
    question: Span | None = None
    answers: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """What the spans count in."""
        return self.text if self.messages is None else self.messages[_last_user(self.messages)]["content"]

    def to_json(self) -> str:
        """One line of a prompt file; what is None or empty is left out."""
        record = {key: getattr(self, key) for key in KNOWN_KEYS}
        return json.dumps(
            {key: value for key, value in record.items() if value not in (None, [], {})}, ensure_ascii=False
        )


def read_prompts(path: str | Path) -> Iterator[Prompt]:
    """The prompts of a JSON lines file in its order; blank lines are skipped. Raises PromptError with file and line."""
    seen: dict[tuple[str, str], int] = {}
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                prompt = _parse(line)
                first = seen.setdefault((prompt.task, prompt.id), number)
                if first != number:
                    raise PromptError(
                        f"task {prompt.task!r}, id {prompt.id!r} is there already, in line {first}"
                    )
            except PromptError as error:
                raise PromptError(f"{path}, line {number}: {error}") from None
            yield prompt
    if not seen:
        raise PromptError(f"{path}: no prompt in it")


def _parse(line: bytes) -> Prompt:
    try:
        record = json.loads(line.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PromptError(f"expected a JSON object in UTF-8: {error}".splitlines()[0]) from None
    if not isinstance(record, dict):
        raise PromptError(f"expected a JSON object, found {type(record).__name__}")
    meta = record.get("meta", {})
    if not isinstance(meta, dict):
        raise PromptError(f"meta: expected an object, found {type(meta).__name__}")
    prompt = Prompt(
        id=_name(record, "id"),
        task=_name(record, "task"),
        text=record.get("text"),
        messages=_messages(record.get("messages")),
        answers=_answers(record.get("answers", [])),
        meta=meta | {key: value for key, value in record.items() if key not in KNOWN_KEYS},
    )
    if (prompt.text is None) == (prompt.messages is None):
        raise PromptError("expected either text or messages")
    if prompt.text is not None and (not isinstance(prompt.text, str) or not prompt.text):
        raise PromptError("text: expected a text that is not empty")
    length = len(prompt.content)
    prompt.context = _span(record, "context", length)
    prompt.question = _span(record, "question", length)
    return prompt


def _name(record: dict, key: str) -> str:
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise PromptError(f"{key}: expected a text, found {value!r}")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise PromptError(f"{key}: control characters in {value!r}")
    if key == "task" and ("/" in value or value in (".", "..")):
        raise PromptError(f"task: {value!r} cannot name a group of a cache ('/', '.', '..')")
    return value


def _messages(value: Any) -> list | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise PromptError("messages: expected a list that is not empty")
    for message in value:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise PromptError("messages: expected objects with a role")
        if not isinstance(message.get("content"), str):
            raise PromptError(f"messages: expected a text as content of role {message['role']!r}")
    if not value[_last_user(value)]["content"].strip():
        raise PromptError("messages: the last user message is empty")
    return value


def _last_user(messages: list) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user":
            return index
    raise PromptError("messages: none has the role user")


def _answers(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(answer, str) for answer in value):
        raise PromptError("answers: expected a list of texts")
    return value


def _span(record: dict, key: str, length: int) -> Span | None:
    value = record.get(key)
    if value is None:
        return None
    whole = isinstance(value, list) and len(value) == 2 and all(type(end) is int for end in value)
    if not whole or not 0 <= value[0] < value[1] <= length:
        raise PromptError(f"{key}: expected [start, end) within {length} characters, found {str(value)[:60]}")
    return (value[0], value[1])


def encode(tokenizer, prompt: Prompt) -> tuple[list[int], list[Span]]:
    """(token ids, offsets) of the whole prompt as the model gets it, special tokens and chat template included.

    offsets[i] is the [start, end) of token i in the characters of `prompt.content`; tokens of the template before it
    have negative ones, tokens after it start at or past its end, and special tokens that the tokenizer adds are empty.
    """
    if prompt.messages is None:
        rendered, shift, special = prompt.text, 0, True
    else:
        rendered, shift = _render(tokenizer, prompt)
        special = False
    try:
        encoded = tokenizer(rendered, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    except NotImplementedError:
        raise PromptError(
            "this tokenizer gives no character offsets; a fast one (tokenizer.json) is needed"
        ) from None
    offsets = [
        (0, 0) if start == end else (start - shift, end - shift) for start, end in encoded["offset_mapping"]
    ]
    return list(encoded["input_ids"]), offsets


def _render(tokenizer, prompt: Prompt) -> tuple[str, int]:
    """(text of the conversation up to the model's turn, where the last user message's content starts in it)"""
    if not getattr(tokenizer, "chat_template", None):
        raise PromptError(
            f"task {prompt.task!r}, id {prompt.id!r} has messages, but the tokenizer has no chat template"
        )
    content = prompt.content
    last = _last_user(prompt.messages)

    def template(text: str) -> str:
        messages = [
            *prompt.messages[:last],
            {**prompt.messages[last], "content": text},
            *prompt.messages[last + 1 :],
        ]
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    rendered = template(content)
    marker = "\ue000content\ue000"
    at = template(marker).find(marker)
    for leading in {0, len(content) - len(content.lstrip())}:  # some templates trim
        if at >= 0 and rendered.startswith(content[leading:].rstrip(), at):
            return rendered, at - leading
    raise PromptError(f"task {prompt.task!r}, id {prompt.id!r}: the chat template changes the user's text")


def token_spans(prompt: Prompt, offsets: list[Span]) -> tuple[list[int], list[int]]:
    """(positions of the context's tokens, positions of the question's tokens), ascending and without a common one.

    A token belongs to a span when it shares a character with it; one that both share is the question's. Without a
    question: what follows the context, or the last 32 tokens of the content when there is no context either.
    Without a context: what precedes the question.
    """
    inside = [
        i for i, (start, end) in enumerate(offsets) if start < end and end > 0 and start < len(prompt.content)
    ]
    if prompt.question is not None:
        question = _overlap(inside, offsets, prompt.question)
    elif prompt.context is not None:
        question = [i for i in inside if offsets[i][0] >= prompt.context[1]]
    else:
        question = inside[-DEFAULT_QUESTION_TOKENS:]
    if prompt.context is not None:
        context = _overlap(inside, offsets, prompt.context)
    else:
        context = [i for i in inside if not question or i < question[0]]
    taken = set(question)
    return [i for i in context if i not in taken], question


def _overlap(inside: list[int], offsets: list[Span], span: Span) -> list[int]:
    return [i for i in inside if offsets[i][0] < span[1] and offsets[i][1] > span[0]]

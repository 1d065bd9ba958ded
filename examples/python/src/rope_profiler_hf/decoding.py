"""Greedy decoding of a batch of prompts, alike for batch 1 and for left-padded batches."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import nn


def cut(text: str, stops: Sequence[str]) -> str:
    """`text` up to the first of the stop texts that follows something not blank."""
    start = len(text) - len(text.lstrip())
    ends = [at for stop in stops if (at := text.find(stop, start)) >= 0]
    return text[: min(ends)] if ends else text


def end_tokens(model: nn.Module, tokenizer) -> set[int]:
    """The ids that end a generation: the model's own and the tokenizer's."""
    found: set[int] = set()
    for holder in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(holder, "eos_token_id", None)
        found.update(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return found


def _pad(prompts: Sequence[Sequence[int]], device) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask) [B, T], padded on the left with id 0, which the mask hides."""
    width = max(map(len, prompts))
    ids = torch.zeros((len(prompts), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


@torch.inference_mode()
def greedy(
    model: nn.Module,
    tokenizer,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    stops: Sequence[Sequence[str]],
) -> list[str]:
    """What the model writes after each prompt, taking the likeliest token each time (the lowest id of equals).

    limits: most new tokens per row; stops: texts that end a row (`cut`). Positions count from each row's own first
    token. The model's own sampling settings and penalties are not used.
    """
    ids, mask = _pad(prompts, model.device)
    ends = end_tokens(model, tokenizer)
    known = inspect.signature(model.forward).parameters
    last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
    cache_name = "cache" if "cache" in known else "past_key_values"  # by version of transformers
    made: list[list[int]] = [[] for _ in prompts]
    open_rows = {row for row, limit in enumerate(limits) if limit > 0}
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = None
    while open_rows:
        out = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{cache_name: cache},
            **last_only,
        )
        cache = out[cache_name]
        ids = out.logits[:, -1].argmax(-1, keepdim=True)
        for row in sorted(open_rows):
            token = int(ids[row])
            if token not in ends:
                made[row].append(token)
            if token in ends or len(made[row]) >= limits[row] or _stopped(tokenizer, made[row], stops[row]):
                open_rows.discard(row)
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
        positions = positions[:, -1:] + 1
    return [cut(_text(tokenizer, tokens), stop) for tokens, stop in zip(made, stops, strict=True)]


def _text(tokenizer, tokens: list[int]) -> str:
    return tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _stopped(tokenizer, tokens: list[int], stops: Sequence[str]) -> bool:
    if not stops:
        return False
    text = _text(tokenizer, tokens)
    return cut(text, stops) != text

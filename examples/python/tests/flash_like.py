"""An attention implementation with the habits of flash attention: no float32, its own handling of grouped
heads."""

from __future__ import annotations

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "half_precision_only"  # transformers takes a name with "flash" in it for the real one


def flash_like(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    if query.dtype == torch.float32:
        raise RuntimeError("flash attention takes float16 and bfloat16 only")
    if key.shape[1] != value.shape[1]:
        raise RuntimeError("as many key heads as value heads")
    group = query.shape[1] // key.shape[1]  # whatever the module says
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        scale=scaling,
        is_causal=attention_mask is None and query.shape[2] > 1,
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, flash_like)
AttentionMaskInterface.register(NAME, sdpa_mask)

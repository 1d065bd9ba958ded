"""How a layer rotates, the tables that it rotates with, and the frequencies that a model holds."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class LayerRotary:
    """How one layer rotates, as seen in a run."""

    layer: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int  # of q and k in the attention: the rotary lanes and the tail
    rotary_dim: int  # r
    layout: str  # "half" | "interleaved"
    reversed: bool  # angles negated
    owner: nn.Module  # holds the buffer of frequencies
    buffer: str  # its name there
    table_form: str  # how cos and sin hold the pairs: "half", "interleaved", "single"
    attention_factor: float
    scaling: float
    norm_after: float | None  # ε of a norm without weights between rotation and attention
    own_keys: bool  # False: it attends to another layer's keys
    shares_keys: bool  # so does another layer to its keys, or it to another's
    latent: bool  # multi-head latent attention: all heads share one rotary key
    rotary_at: int  # where the rotary lanes begin in q and k of the attention
    order: torch.Tensor  # [r]: lane j of rotated vectors holds content lane order[j]

    @property
    def pairs(self) -> int:
        return self.rotary_dim // 2

    def inv_freq(self) -> torch.Tensor:
        """[h], radians per token: what the last forward ran with."""
        return getattr(self.owner, self.buffer)

    @property
    def kind_prefix(self) -> str:
        """ "sliding_attention_" and the like where a module holds one grid per kind of layer, else "" ."""
        return self.buffer.removesuffix("inv_freq")

    def rope_type(self) -> str:
        types = getattr(self.owner, "rope_type", "default")
        return types[self.kind_prefix.removesuffix("_")] if isinstance(types, dict) else types

    def lanes(self, pairs: torch.Tensor) -> torch.Tensor:
        """[2·n]: the lanes of these pairs."""
        if self.layout == "half":
            return torch.cat((pairs, pairs + self.pairs))
        return torch.stack((2 * pairs, 2 * pairs + 1), dim=-1).flatten()


def expected_tables(
    frequencies: torch.Tensor, positions: torch.Tensor, factor: float, form: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, sin) [T, w] in float32, as transformers' rotary modules make them. frequencies [h], positions
    [T]."""
    angles = positions[:, None].float() * frequencies.float()
    if form == "half":
        angles = torch.cat((angles, angles), dim=-1)
    elif form == "interleaved":
        angles = angles.repeat_interleave(2, dim=-1)
    return angles.cos() * factor, angles.sin() * factor


def table_error(cos, sin, frequencies, positions, factor: float, form: str) -> float:
    """Largest difference of tables [T, w] from those expected; infinite where the widths differ."""
    want_cos, want_sin = expected_tables(frequencies.to(cos.device), positions.to(cos.device), factor, form)
    if want_cos.shape != cos.shape:
        return float("inf")
    return max((cos.float() - want_cos).abs().max().item(), (sin.float() - want_sin).abs().max().item())


def table_tolerance(dtype: torch.dtype, factor: float, reach: int) -> float:
    """Rounding of a table's element type, and of float32 angles up to position `reach`."""
    return factor * (torch.finfo(dtype).eps + 1e-5 + 2.0**-23 * reach)


def frequency_buffers(model: nn.Module) -> list[tuple[nn.Module, str, float]]:
    """(module, name of the buffer, attention factor A) of every set of frequencies that the model holds."""
    found = []
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name and buffer.dim() == 1:
                factor = getattr(module, name.removesuffix("inv_freq") + "attention_scaling", None)
                if factor is None:
                    factor = getattr(module, "attention_scaling", 1.0)
                found.append((module, name, float(factor)))
    return found


@contextmanager
def evaluating(model: nn.Module):
    """Eval mode and no gradients, both as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def reset_frequencies(model: nn.Module) -> None:
    """Put grids that follow the length of the run back to where a fresh model has them."""
    for module, name, _ in frequency_buffers(model):
        prefix = name.removesuffix("inv_freq")
        original = getattr(module, f"{prefix}original_inv_freq", None)
        limit = getattr(module, "original_max_seq_len", None)
        if original is None or limit is None:
            continue
        getattr(module, name).data = original.to(getattr(module, name).device, copy=True)
        for cached in (f"{prefix}max_seq_len_cached", "max_seq_len_cached"):
            if hasattr(module, cached):
                setattr(module, cached, limit)

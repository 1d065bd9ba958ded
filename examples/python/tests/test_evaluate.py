"""rope-evaluate on tiny random models: which records it writes, that batches change nothing, that it goes on."""

import csv
import json
import re

import pytest
import tiny_models
from test_plan_file import plan_of
from tiny_tokenizer import tiny_tokenizer

import rope_profiler_hf
from rope_profiler_hf.apply import apply_intervention
from rope_profiler_hf.capture import parser as capture_parser
from rope_profiler_hf.decoding import greedy
from rope_profiler_hf.evaluate import evaluate, main, plan_jobs, prepare
from rope_profiler_hf.evaluate import parser as evaluate_parser
from rope_profiler_hf.intervention import Intervention
from rope_profiler_hf.prompts import Prompt, PromptError, encode
from rope_profiler_hf.records import COLUMNS, read_records
from rope_profiler_hf.scoring import first_line, normalise

TOKENIZER = tiny_tokenizer(tiny_models.VOCABULARY + 200)


def model_of(name="llama"):
    """A tiny model with this tokenizer's vocabulary."""
    model = tiny_models.make(name)
    model.resize_token_embeddings(len(TOKENIZER), mean_resizing=False)
    return model


def prompts(count=5):
    made = []
    for i in range(count):
        text = "The value of the key amber is 4821. " * (1 + i % 3) + f"Number {i}, the key is"
        made.append(
            Prompt(
                str(i),
                "a",
                text=text,
                answers=["4821"],
                meta={"score": "number", "max_new_tokens": 5 + i % 2},
            )
        )
        made.append(
            Prompt(str(i), "b", text=text[::-1], answers=["fox"], meta={"score": "word", "max_new_tokens": 4})
        )
    return made


def high(prompt_length, layer):
    """A mask that grows with the prompt, as H(M) does."""
    return range(1 if prompt_length < 40 else 3)


def interventions(task):
    heads = [(1, 0), (1, 3), (2, 1)]
    return [
        Intervention(heads, "freeze", None, high, task=task, stage=5, candidate="NR"),
        Intervention(heads, "rescale", 3.0, high, task=task, stage=5, candidate="3"),
    ]


PLAN = [*interventions("a"), *interventions("b")[:1]]


def run(tmp_path, name="records.jsonl", batch=1, model=None, of=None, plan=PLAN, **settings):
    path = tmp_path / name
    jobs = plan_jobs(prepare(TOKENIZER, of or prompts()), plan)
    made = evaluate(model or model_of(), TOKENIZER, jobs, path, batch, **settings)
    return made, read_records(path)[0]


def test_every_task_gets_its_own_candidates(tmp_path):
    made, records = run(tmp_path)
    assert made == len(records) == 5 * 3 + 5 * 2
    found = {(r.task, r.candidate, r.stage) for r in records}
    assert found == {
        ("a", "baseline", None),
        ("a", "NR", 5),
        ("a", "3", 5),
        ("b", "baseline", None),
        ("b", "NR", 5),
    }
    assert len({r.key for r in records}) == len(records)
    assert all(len({r.text for r in records if (r.task, r.example_id) == ("a", i)}) > 1 for i in "01234")
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert all(("stage" in line) == (line["candidate"] != "baseline") for line in lines)


def test_texts_are_those_of_the_changed_model(tmp_path):
    _, records = run(tmp_path)
    model = model_of()
    for prompt in prompts(3):
        ids, _ = encode(TOKENIZER, prompt)
        for one in interventions(prompt.task):
            with apply_intervention(model, one, len(ids)):
                (text,) = greedy(model, TOKENIZER, [ids], [prompt.meta["max_new_tokens"]], [[]])
            found = [r for r in records if r.key == (prompt.task, prompt.id, one.candidate, 5)]
            assert [r.text for r in found] == ([] if (prompt.task, one.candidate) == ("b", "3") else [text])
            assert all(r.prompt_tokens == len(ids) for r in found)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_batches_change_nothing(tmp_path, name):
    model = model_of(name)
    _, one = run(tmp_path, "one.jsonl", 1, model)
    _, four = run(tmp_path, "four.jsonl", 4, model)
    assert len({r.prompt_tokens for r in one}) > 2
    assert one == four


def test_correct_is_scored(tmp_path):
    _, records = run(tmp_path, plan=[])
    answer = {(r.task, r.example_id): r.text for r in records}
    told = prompts()
    for prompt in told:
        prompt.answers, prompt.meta["score"] = [first_line(answer[prompt.task, prompt.id])], "line"
        if prompt.id in "13":
            prompt.answers = ["something else"]
    told = [prompt for prompt in told if normalise(prompt.answers[0])]
    _, records = run(tmp_path, "scored.jsonl", plan=[], of=told)
    assert {(r.example_id, r.correct) for r in records} == {("0", 1), ("1", 0), ("2", 1), ("3", 0), ("4", 1)}


@pytest.mark.parametrize("name", ["records.jsonl", "records.csv"])
def test_goes_on_after_an_interruption(tmp_path, name):
    model = model_of()
    made, whole = run(tmp_path, name, 2, model)
    data = (tmp_path / name).read_bytes()
    for keep in (0, 30, len(data) // 2, len(data) - 1):
        (tmp_path / name).write_bytes(data[:keep])
        left, records = run(tmp_path, name, 2, model)
        assert 0 < left <= made and sorted(map(repr, records)) == sorted(map(repr, whole))
    assert run(tmp_path, name, 2, model)[0] == 0
    assert run(tmp_path, name, 2, model, force=True)[0] == made


def test_records_of_another_run_are_refused(tmp_path):
    run(tmp_path)
    other = [*interventions("a")[:1], *interventions("b")]
    assert run(tmp_path, plan=other)[0] == 5  # more candidates: only those are run
    changed = [Intervention([(1, 0)], "freeze", None, high, task="a", stage=5, candidate="NR")]
    with pytest.raises(PromptError, match="candidate NR was made with another model"):
        run(tmp_path, plan=changed)
    with pytest.raises(PromptError, match="another model"):
        run(tmp_path, model=model_of("qwen3"))
    longer = prompts()
    longer[0].text += " x"
    with pytest.raises(PromptError, match="id '0', candidate baseline"):
        run(tmp_path, of=longer)


def test_csv_has_one_line_per_record(tmp_path):
    texts = run(tmp_path)[1]
    run(tmp_path, "records.csv")
    with open(tmp_path / "records.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS and len(rows) == len(texts)
    assert [row["candidate"] for row in rows] == [record.candidate for record in texts]
    assert {row["stage"] for row in rows if row["candidate"] == "baseline"} == {""}
    text = (tmp_path / "records.csv").read_text()
    assert text.count("\n") == len(rows) + 1 and not re.search(r"[\x00-\x09\x0b-\x1f]", text)


@pytest.mark.parametrize(
    "name, line", [("r.jsonl", '{"task": 1}'), ("r.jsonl", "nonsense"), ("r.csv", "a,b")]
)
def test_foreign_files_are_refused(tmp_path, name, line):
    (tmp_path / name).write_text(line + "\n")
    with pytest.raises(PromptError, match="line 1"):
        run(tmp_path, name)
    assert (tmp_path / name).read_text() == line + "\n"


@pytest.mark.parametrize(
    "meta, answers, message",
    [
        ({"max_new_tokens": 0}, ["x"], "max_new_tokens: expected a whole number"),
        ({"max_new_tokens": "5"}, ["x"], "max_new_tokens"),
        ({"stop": [3]}, ["x"], "stop: expected texts"),
        ({"score": "best"}, ["x"], "no scoring rule"),
        ({}, [], "no answers"),
    ],
)
def test_bad_prompts_are_refused_before_anything_runs(meta, answers, message):
    with pytest.raises(PromptError, match=message):
        prepare(TOKENIZER, [Prompt("1", "t", text="abc", answers=answers, meta=meta)])


def test_command_without_a_plan(tmp_path, capsys):
    model = model_of()
    model.save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    (tmp_path / "p.jsonl").write_text("".join(p.to_json() + "\n" for p in prompts()))
    base = [str(tmp_path / "model"), str(tmp_path / "p.jsonl"), "-o", str(tmp_path / "r.csv")]
    assert main([*base, "--tasks", "a", "--batch", "3"]) == 0
    assert main(base) == 0
    assert "5 records are there, 5 to make" in capsys.readouterr().err
    records, _ = read_records(tmp_path / "r.csv")
    again = run(tmp_path, "direct.csv", 1, model, plan=[])[1]
    assert {r.key: r.text for r in records} == {r.key: r.text for r in again}
    assert main([*base, "--tasks", "zz"]) == 3 and "no task matches" in capsys.readouterr().err
    assert main([*base[:2], "-o", str(tmp_path / "r.txt")]) == 3
    assert main([*base, "--no-baseline"]) == 3


@pytest.fixture
def command(tmp_path):
    """Arguments of rope-evaluate with a tiny model and a plan made for it, and the plan as it may be changed."""
    model = model_of()
    model.save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    (tmp_path / "p.jsonl").write_text("".join(p.to_json() + "\n" for p in prompts(2)))
    plan = plan_of(model, {20: [0, 1]})
    plan["model"]["name"] = "model"
    plan["tasks"][0]["task"] = "b"  # not the first task that is run
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    names = [
        tmp_path / "model",
        tmp_path / "p.jsonl",
        "--plan",
        tmp_path / "plan.json",
        "-o",
        tmp_path / "r.jsonl",
    ]
    return [str(name) for name in names], plan


def test_a_plan_for_another_name_is_refused_before_anything_runs(tmp_path, command, capsys):
    arguments, plan = command
    plan["model"]["name"] = "another"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert main(arguments) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "made for model 'another', this one is 'model'; use --any-model" in line and "check_name" not in line
    )
    assert not (tmp_path / "r.jsonl").exists()
    assert main([*arguments, "--any-model"]) == 0
    assert capsys.readouterr().err.endswith(f"wrote {tmp_path / 'r.jsonl'}\n")
    assert {r.candidate for r in read_records(tmp_path / "r.jsonl")[0] if r.task == "b"} > {"baseline"}


def test_a_plan_for_other_frequencies_is_refused_before_anything_runs(tmp_path, command, capsys):
    arguments, plan = command
    assert main(arguments) == 0
    before = (tmp_path / "r.jsonl").read_bytes()
    entry = plan["model"]["frequencies"][0]
    entry["inv_freq"] = [0.9 * value for value in entry["inv_freq"]]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    capsys.readouterr()
    assert main([*arguments, "--force", "--any-model"]) == 3
    assert "other frequencies" in capsys.readouterr().err
    assert (tmp_path / "r.jsonl").read_bytes() == before


@pytest.mark.parametrize("parser", [evaluate_parser, capture_parser])
def test_help_states_version_and_defaults(parser, capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--version"])
    assert ended.value.code == 0 and rope_profiler_hf.__version__ in capsys.readouterr().out
    text = " ".join(parser().format_help().replace("[", "(default: ").replace("]", ")").split())
    assert all(f"(default: {value})" in text for value in ("float32", "cpu", "what transformers chooses"))

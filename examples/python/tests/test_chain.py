"""The loop of tools/loop on a tiny random model: prompts, capture, profile, plan with preview, evaluation, outcome."""

import csv
import json

import tiny_models
from program import run
from tiny_tokenizer import tiny_tokenizer

from rope_profiler_hf.agreement import main as agreement
from rope_profiler_hf.capture import main as capture
from rope_profiler_hf.evaluate import main as evaluate
from rope_profiler_hf.records import read_records
from rope_profiler_hf.tasks.cli import main as tasks


def test_loop(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, tokenizer = tiny_models.make("llama"), tiny_tokenizer()
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.config.max_position_embeddings = 4096
    model.config.rope_parameters["rope_theta"] = (
        1e5  # so that a pair stays outside of H(M) when the model is read
    )
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")

    settings = ["niah_single:350", "kv_lookup:300-400:3", "line_copy:350:2"]
    assert tasks([*settings, "--examples", "3", "--tokenizer", "model", "-o", "prompts.jsonl"]) == 0
    assert capture(["model", "prompts.jsonl", "-o", "cache.h5"]) == 0
    run("profile", "cache.h5", "-o", "profile.h5", "--quiet")
    direction = ("--direction", "semantic")  # the ranking of random scores may give none
    run(
        "plan",
        "profile.h5",
        "--preview",
        "cache.h5",
        "--heads",
        "top:0.3",
        "-o",
        "plan.json",
        "--resamples",
        "50",
        *direction,
    )
    plan = json.loads((tmp_path / "plan.json").read_text())
    planned = [(task["task"], one["id"]) for task in plan["tasks"] for one in task["candidates"]]
    assert len(planned) == 9

    assert (
        evaluate(["model", "prompts.jsonl", "--plan", "plan.json", "-o", "records.csv", "--batch", "4"]) == 0
    )
    records, _ = read_records(tmp_path / "records.csv")
    assert len(records) == 3 * (3 + 9)
    found = {(record.task, record.candidate) for record in records if record.candidate != "baseline"}
    assert found == set(planned)

    # A random model answers nothing right: give some examples the marks of a plan that works for one task.
    lines = (tmp_path / "records.csv").read_text().splitlines()
    first = plan["tasks"][0]
    rows = list(csv.DictReader(lines))
    for row in rows:
        row["correct"] = int(
            row["task"] == first["task"] and row["candidate"] == first["candidates"][1]["id"]
        )
    with open("marked.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    run("outcome", "marked.csv", "--plan", "plan.json", "-o", "outcome.json")
    outcome = {task["task"]: task for task in json.loads((tmp_path / "outcome.json").read_text())["tasks"]}
    best = outcome[first["task"]]
    assert (best["matched"], best["best_candidate"], best["best_change"]) == (
        3,
        first["candidates"][1]["id"],
        1,
    )
    assert [task["improved"] for task in outcome.values()].count(True) == 1

    preview = run("export", "plan.json", "--table", "preview", "--format", "csv")
    (tmp_path / "preview.csv").write_text(preview)
    capsys.readouterr()
    assert agreement(["preview.csv", "records.csv", "--draws", "20"]) == 0
    assert "| semantic_score | 9 |" in capsys.readouterr().out

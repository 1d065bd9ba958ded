"""Plans and adapter files: read, refused, and the same change from every form."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import safetensors.numpy
import torch

import program
import tiny_models
from rope_profiler_hf.apply import apply_intervention
from rope_profiler_hf.architectures import adapter_of
from rope_profiler_hf.capture import capture
from rope_profiler_hf.describe import describe
from rope_profiler_hf.intervention import Intervention, InterventionError
from rope_profiler_hf.plan_file import candidates, read_adapter, read_plan
from test_capture import prompts
from tiny_tokenizer import tiny_tokenizer

LENGTH = 20
HEADS = [[0, 3], [1, 1], [1, 2]]
STEPS = [{"length": 4, "pairs": 1}, {"length": 12, "pairs": 2}, {"length": 40, "pairs": 3}]


def plan_of(model, listed: dict[int, list[int]] | None = None) -> dict:
    """A plan in the form of the program, for the heads above."""
    found = describe(model)
    grids: dict[tuple, list[int]] = {}
    for number, layer in found.items():
        grids.setdefault(tuple(layer.inv_freq().double().tolist()), []).append(number)
    return {
        "schema": "rope-profiler/plan-1",
        "tool_version": "0.5",
        "model": {
            "name": "tiny",
            "num_layers": 3,
            "rope_layout": found[0].layout,
            "frequencies": [
                {
                    "layers": layers,
                    "heads": None,
                    "rope_type": "default",
                    "window": None,
                    "inv_freq": list(grid),
                    "steps": STEPS,
                }
                for grid, layers in grids.items()
            ],
        },
        "split": {"name": "intervention", "C": 0.05, "epsilon": 0.1},
        "profile_digest": "0",
        "tasks": [
            {
                "task": "needle",
                "direction": "semantic",
                "w_s": 1.0,
                "stage": 5,
                "heads": copy.deepcopy(HEADS),
                "candidates": [
                    {"id": "NR", "operation": "freeze", "alpha": None},
                    {"id": "0.5", "operation": "rescale", "alpha": 0.5},
                ],
                "prompts": [
                    {
                        "length": length,
                        "layers": [
                            {
                                "layer": layer,
                                "heads": heads,
                                "pairs": pairs,
                                "inv_freq": [
                                    0.0 if n in pairs else w
                                    for n, w in enumerate(found[layer].inv_freq().double().tolist())
                                ],
                            }
                            for layer, heads in ((0, [3]), (1, [1, 2]))
                        ],
                    }
                    for length, pairs in (listed or {}).items()
                ],
            }
        ],
        "warnings": [],
    }


def adapter_of_plan(plan: dict, candidate: int, prompt_length: int | None) -> dict:
    task = plan["tasks"][0]
    return {
        "schema": "rope-profiler/adapter-1",
        "tool_version": "0.5",
        "model": plan["model"],
        "split": plan["split"],
        "task": "needle",
        "stage": 5,
        "heads": task["heads"],
        "candidate": task["candidates"][candidate],
        "prompts": task["prompts"],
        "prompt_length": prompt_length,
    }


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def changed_logits(model, change: Intervention, length: int = LENGTH) -> torch.Tensor:
    with torch.no_grad(), apply_intervention(model, change, length):
        return model(tiny_models.tokens(1, length)).logits


def test_pairs_are_the_listed_ones_else_those_of_the_steps(tmp_path):
    model = tiny_models.make("llama")
    freeze, rescale = read_plan(write(tmp_path / "plan.json", plan_of(model, {LENGTH: [0, 3]})))
    assert (freeze.candidate, rescale.candidate) == ("NR", "0.5")
    assert (freeze.task, freeze.stage, freeze.operation, rescale.alpha) == ("needle", 5, "freeze", 0.5)
    assert freeze.high_pairs(LENGTH, 1, 2) == (0, 3)
    assert [freeze.high_pairs(length, 1, 2) for length in (3, 4, 11, 12, 39, 40, 9999)] == [
        (),
        (0,),
        (0,),
        (0, 1),
        (0, 1),
        (0, 1, 2),
        (0, 1, 2),
    ]


def test_steps_go_by_falling_frequency_and_stop_at_the_window(tmp_path):
    plan = plan_of(tiny_models.make("llama"))
    entry = plan["model"]["frequencies"][0]
    entry["inv_freq"], entry["window"] = [0.1, 0.0, 0.5, 0.1], 12
    entry["steps"] = [{"length": 2, "pairs": 2}, {"length": 10, "pairs": 3}, {"length": 13, "pairs": 4}]
    freeze = read_plan(write(tmp_path / "plan.json", plan))[0]
    assert freeze.high_pairs(9, 0, 3) == (0, 2)
    assert freeze.high_pairs(1000, 0, 3) == (0, 2, 3)
    entry["window"] = None
    freeze = read_plan(write(tmp_path / "plan.json", plan))[0]
    assert freeze.high_pairs(1000, 0, 3) == (0, 2, 3)  # a pair that does not rotate never


def test_every_form_makes_the_same_change(tmp_path):
    """plan.json, adapter json, safetensors, npz and direct construction, for freeze and rescale: bit-equal
    logits."""
    model = tiny_models.make("gemma3")
    plan = plan_of(model, {LENGTH: [0, 2]})
    write(tmp_path / "plan.json", plan)
    for index, (identifier, given) in enumerate(
        (("NR", dict(operation="freeze")), ("0.5", dict(operation="rescale", alpha=0.5)))
    ):
        forms = [
            Intervention(HEADS, pairs=[0, 2], **given),
            candidates(tmp_path / "plan.json", "needle")[index],
            read_adapter(write(tmp_path / "a.json", adapter_of_plan(plan, index, None))),
            read_adapter(write(tmp_path / "b.json", adapter_of_plan(plan, index, LENGTH))),
        ]
        arrays = {}
        for layer, heads in ((0, [3]), (1, [1, 2])):
            scale = np.ones((4, 4), np.float32)
            frequency = np.tile(describe(model)[layer].inv_freq().numpy(), (4, 1)).astype(np.float32)
            for head in heads:
                if identifier == "NR":
                    frequency[head, [0, 2]] = 0
                else:
                    scale[head, [0, 2]] = 0.5
            arrays[f"layer.{layer}.query_scale"], arrays[f"layer.{layer}.frequency"] = scale, frequency
        metadata = {"prompt_length": str(LENGTH), "task": "needle", "candidate": identifier, "model": "tiny"}
        safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors", metadata)
        np.savez(
            tmp_path / "a.npz", **arrays, metadata=np.array(json.dumps(metadata | {"prompt_length": LENGTH}))
        )
        forms += [read_adapter(tmp_path / "a.safetensors"), read_adapter(tmp_path / "a.npz")]
        assert [form.candidate for form in forms] == [None] + [identifier] * 5
        logits = [changed_logits(model, form) for form in forms]
        plain = model(tiny_models.tokens(1, LENGTH)).logits
        assert not torch.equal(logits[0], plain)
        for other in logits[1:]:
            assert torch.equal(logits[0], other)
        for fixed in forms[3:]:
            with pytest.raises(InterventionError, match="holds for prompts of 20"):
                changed_logits(model, fixed, LENGTH + 1)


def test_grids_that_follow_the_length_need_listed_lengths(tmp_path):
    model = tiny_models.make("longrope")
    plan = plan_of(model, {LENGTH: [0, 1]})
    entry = plan["model"]["frequencies"][0]
    entry.update(
        rope_type="longrope", steps=None, inv_freq=[{"window": LENGTH, "inv_freq": entry["inv_freq"]}]
    )
    freeze = read_plan(write(tmp_path / "plan.json", plan))[0]
    changed_logits(model, freeze)
    with pytest.raises(
        InterventionError, match=r"longrope frequencies follow .* only listed lengths .*\(20\)"
    ):
        changed_logits(model, freeze, 21)
    entry["inv_freq"][0]["inv_freq"] = [0.9 * value for value in entry["inv_freq"][0]["inv_freq"]]
    with pytest.raises(InterventionError, match="other frequencies"):
        changed_logits(model, read_plan(write(tmp_path / "plan.json", plan))[0])


def test_another_model_is_refused(tmp_path):
    plan = plan_of(tiny_models.make("llama"), {LENGTH: [0, 1]})
    freeze = read_plan(write(tmp_path / "plan.json", plan))[0]
    with pytest.raises(InterventionError, match="other frequencies"):
        changed_logits(tiny_models.make("llama3"), freeze)
    with pytest.raises(InterventionError, match="layout half"):
        changed_logits(tiny_models.make("cohere"), freeze)
    with pytest.raises(InterventionError, match="8"):
        changed_logits(tiny_models.make("qwen3"), freeze)
    model = tiny_models.make("llama")
    model.rope_profiler_name = "another"
    with pytest.raises(InterventionError, match="made for model 'tiny', this one is 'another'"):
        changed_logits(model, freeze)
    with apply_intervention(model, freeze, LENGTH, check_name=False):
        pass
    with_shapes = copy.deepcopy(plan)
    with_shapes["model"]["layers"] = [{"layer": 1, "query_heads": 8}]
    with pytest.raises(InterventionError, match="8 query heads"):
        changed_logits(tiny_models.make("llama"), read_plan(write(tmp_path / "p.json", with_shapes))[0])


def _set(*path_and_value):
    *path, value = path_and_value

    def change(plan):
        for key in path[:-1]:
            plan = plan[key]
        plan[path[-1]] = value

    return change


FREQUENCIES = ("model", "frequencies", 0)
TASK = ("tasks", 0)
HOSTILE = {
    "schema": (_set("schema", "rope-profiler/plan-2"), "schema: expected rope-profiler/plan-1"),
    "no schema": (lambda plan: plan.pop("schema"), "schema is missing"),
    "alpha missing": (_set(*TASK, "candidates", 1, "alpha", None), "alpha with rescale"),
    "alpha text": (_set(*TASK, "candidates", 1, "alpha", "0.5"), "expected a number"),
    "alpha huge": (_set(*TASK, "candidates", 1, "alpha", 10**400), "finite number"),
    "alpha of freeze": (_set(*TASK, "candidates", 0, "alpha", 0.5), "null with freeze"),
    "operation": (_set(*TASK, "candidates", 0, "operation", "delete"), "rescale or freeze"),
    "layer": (_set(*TASK, "heads", 0, [3, 0]), "the model has 3 layers"),
    "huge layer": (_set(*TASK, "heads", 0, [10**12, 0]), "whole number from 0"),
    "negative head": (_set(*TASK, "heads", 0, [1, -1]), "whole number from 0"),
    "head true": (_set(*TASK, "heads", 0, [1, True]), "whole number from 0"),
    "three numbers": (_set(*TASK, "heads", 0, [1, 1, 1]), r"expected \[layer, head\]"),
    "head twice": (_set(*TASK, "heads", 0, [1, 1]), "a head is there twice"),
    "heads": (_set(*TASK, "heads", {"a": 1}), "expected a list"),
    "pair": (_set(*TASK, "prompts", 0, "layers", 0, "pairs", [4]), "whole number from 0 to 3"),
    "length": (_set(*TASK, "prompts", 0, "length", 1 << 30), "whole number from 2"),
    "frequency": (_set(*FREQUENCIES, "inv_freq", [1, 1, 1, 4]), "frequency from 0 to pi"),
    "no frequencies": (_set(*FREQUENCIES, "inv_freq", []), "1 to 512 numbers"),
    "steps": (
        _set(*FREQUENCIES, "steps", [{"length": 4, "pairs": 1}, {"length": 4, "pairs": 2}]),
        "lengths must rise",
    ),
    "too many pairs": (_set(*FREQUENCIES, "steps", [{"length": 4, "pairs": 5}]), "whole number from 0 to 4"),
    "layout": (_set("model", "rope_layout", "quarter"), "half or interleaved"),
    "layers": (_set("model", "num_layers", 10**30), "whole number from 1"),
    "tasks": (_set("tasks", None), "expected a list"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_plans_are_refused_in_one_line(case, tmp_path):
    plan = plan_of(tiny_models.make("llama"), {LENGTH: [0, 1]})
    change, words = HOSTILE[case]
    change(plan)
    path = write(tmp_path / "plan.json", plan)
    with pytest.raises(InterventionError, match=words) as caught:
        read_plan(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text", ['{"schema": NaN}', "[", "", "[1]", '{"schema": "x", "schema": "y"}', "[" * 100000, '"\\ud800']
)
def test_files_that_are_no_plans(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InterventionError) as caught:
        read_plan(path)
    assert "\n" not in str(caught.value)


def test_nan_strengths_are_refused(tmp_path):
    plan = plan_of(tiny_models.make("llama"))
    text = json.dumps(plan).replace('"alpha": 0.5', '"alpha": NaN')
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InterventionError, match="NaN is no number"):
        read_plan(tmp_path / "plan.json")


GOOD = {"layer.1.query_scale": np.ones((4, 4), np.float32), "layer.1.frequency": np.ones((4, 4), np.float32)}
ARRAYS = {
    "NaN": ({"layer.1.query_scale": np.full((4, 4), math.nan, np.float32)}, "finite float32"),
    "float64": ({"layer.1.query_scale": np.ones((4, 4))}, "finite float32"),
    "one axis": ({"layer.1.query_scale": np.ones(4, np.float32)}, "two dimensions"),
    "shapes differ": ({"layer.1.query_scale": np.ones((4, 3), np.float32)}, "of one shape"),
    "name": ({"layer.x.query_scale": np.ones((4, 4), np.float32)}, "unknown array"),
    "other": ({"weights": np.ones((4, 4), np.float32)}, "unknown array"),
    "alone": ({"layer.2.frequency": np.ones((4, 4), np.float32)}, "expected query_scale and frequency"),
}


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("case", ARRAYS)
def test_hostile_arrays_are_refused(case, kind, tmp_path):
    extra, words = ARRAYS[case]
    path, metadata = tmp_path / f"a.{kind}", {"prompt_length": "20"}
    if kind == "npz":
        np.savez(path, **(GOOD | extra), metadata=np.array(json.dumps(metadata)))
    else:
        safetensors.numpy.save_file(GOOD | extra, path, metadata)
    with pytest.raises(InterventionError, match=words):
        read_adapter(path)


def test_arrays_for_another_model_are_refused(tmp_path):
    model = tiny_models.make("llama")
    right = np.tile(describe(model)[1].inv_freq().numpy(), (4, 1))
    for name, change, words in (
        ("heads", lambda s, f: (s[:3], f[:3]), "has 4 heads with 4 pairs"),
        ("grid", lambda s, f: (s, f * np.float32(1.001)), "other frequencies"),
    ):
        scale, frequency = change(np.ones((4, 4), np.float32), right)
        path = tmp_path / f"{name}.safetensors"
        arrays = {"layer.1.query_scale": scale.copy(), "layer.1.frequency": frequency.copy()}
        safetensors.numpy.save_file(arrays, path, {"prompt_length": "20"})
        with pytest.raises(InterventionError, match=words):
            changed_logits(model, read_adapter(path))
    for name in ("x.npz", "x.safetensors"):
        (tmp_path / name).write_bytes(b"PK nothing of the kind")
        with pytest.raises(InterventionError, match="not a"):
            read_adapter(tmp_path / name)
    np.savez(tmp_path / "pickled.npz", **GOOD, metadata=np.array([{}], dtype=object))
    with pytest.raises(InterventionError, match="not an npz file"):
        read_adapter(tmp_path / "pickled.npz")
    with pytest.raises(InterventionError, match="expected a .json"):
        read_adapter(tmp_path / "plan.txt")


def test_unknown_tasks_are_named(tmp_path):
    path = write(tmp_path / "plan.json", plan_of(tiny_models.make("llama")))
    assert [one.candidate for one in candidates(path, "needle", stage=5)] == ["NR", "0.5"]
    with pytest.raises(InterventionError, match="task 'x': no candidate in the plan; it has needle"):
        candidates(path, "x")
    with pytest.raises(InterventionError, match="no candidate"):
        candidates(path, "needle", stage=10)


@pytest.mark.parametrize("name", ["llama", "gemma3", "longrope"])
def test_the_programs_own_plan_is_applied(name, tmp_path):
    """capture → profile → plan → apply, and H(M) of the plan's rule is theory §5's for every length."""
    model = tiny_models.make(name)
    cache, profile = tmp_path / "c.h5", tmp_path / "p.h5"
    capture(model, tiny_tokenizer(), [*prompts(2, "needle"), *prompts(3, "list")], cache, name="tiny")
    program.run("profile", cache, "-o", profile, "-q")
    known = []
    for direction in ("semantic", "positional"):
        path = tmp_path / f"{direction}.json"
        program.run("plan", profile, "-o", path, "--direction", direction, "-q")
        known += read_plan(path)
    assert {one.operation for one in known} == {"freeze", "rescale"}
    assert {one.task for one in known} == {"needle", "list"}
    for change in known:
        for layer, head in change.heads:
            found = describe(model)[layer]
            omega = found.inv_freq().double().numpy()
            base = 10000.0 if name == "gemma3" and layer != 1 else 1e6 if name == "gemma3" else 500.0
            gamma = 2 * 0.05 / ((1 - base ** (-1 / found.pairs)) * 0.1)
            lengths = sorted(change.listed)
            for length in lengths if name == "longrope" else [*lengths, 2, 3, 5, 9, 33, 100, 1000, 50000]:
                capped = min(length, 8) if name == "gemma3" and layer != 1 else length
                want = tuple(np.flatnonzero(omega * capped >= gamma))
                assert change.high_pairs(length, layer, head) == want
        assert lengths
        plain = model(tiny_models.tokens(1, lengths[0])).logits
        assert not torch.equal(changed_logits(model, change, lengths[0]), plain)


@pytest.mark.parametrize("name", ["llama", "gemma3", "cohere"])
def test_the_programs_own_adapters_are_applied(name, tmp_path):
    """Every form of `rope-profiler apply` makes the change of the plan's candidate, and so do the weights of
    --fold."""
    model = tiny_models.make(name)
    cache, profile, plan = tmp_path / "c.h5", tmp_path / "p.h5", tmp_path / "plan.json"
    capture(model, tiny_tokenizer(), prompts(2), cache, name="tiny")
    program.run("profile", cache, "-o", profile, "-q")
    options = ("--direction", "semantic", "--heads", "0.1,1.0,1.2,2.3")
    program.run("plan", profile, "-o", plan, *options, "-q")
    for change in candidates(plan, "needle"):
        length = min(change.listed)
        want = changed_logits(model, change, length)
        assert not torch.equal(want, model(tiny_models.tokens(1, length)).logits)
        given = ("--task", "needle", "--candidate", change.candidate)
        for form in ("json", "safetensors", "npz"):
            path = tmp_path / f"{change.candidate}.{form}"
            program.run("apply", plan, *given, "--prompt-length", length, "-o", path, "-q")
            adapter = read_adapter(path)
            assert (adapter.task, adapter.candidate, adapter.model_name) == (
                "needle",
                change.candidate,
                "tiny",
            )
            assert torch.equal(changed_logits(model, adapter, length), want)
        if change.operation == "rescale" and name == "llama":  # the others normalise queries, or may
            path = tmp_path / f"{change.candidate}-fold.safetensors"
            program.run("apply", plan, *given, "--prompt-length", length, "--fold", "-o", path, "-q")
            with pytest.raises(InterventionError, match="factors on weights"):
                read_adapter(path)
            folded = tiny_models.make(name)
            for key, rows in safetensors.numpy.load_file(path).items():
                projection = adapter_of(folded).attention_layers(folded)[int(key.split(".")[1])].q_proj
                with torch.no_grad():
                    projection.weight.mul_(torch.from_numpy(rows)[:, None])
                    if projection.bias is not None:
                        projection.bias.mul_(torch.from_numpy(rows))
            with torch.no_grad():
                have = folded(tiny_models.tokens(1, length)).logits
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)

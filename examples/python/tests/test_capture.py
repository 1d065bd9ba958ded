"""rope-capture on tiny random models: what is in the file, what is refused, what an interruption costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import transformers

import flash_like
import program
import tiny_models
from rope_profiler_hf import capture as capture_module
from rope_profiler_hf import self_check
from rope_profiler_hf.architectures import Adapter, RopeError, adapter_of, register
from rope_profiler_hf.cache_file import partial_path
from rope_profiler_hf.capture import capture
from rope_profiler_hf.describe import _described, describe
from rope_profiler_hf.examples import CaptureSettings
from rope_profiler_hf.prompts import Prompt, encode, token_spans
from rope_profiler_hf.selection import choose_tokens
from tiny_tokenizer import tiny_tokenizer

WORDS = "the quick brown fox jumps over a lazy dog near some river bank every morning".split()


def prompt(number: int, task: str = "needle", words: int = 12) -> Prompt:
    context = " ".join(WORDS[(number * 7 + i) % len(WORDS)] for i in range(words))
    text = context + " What is the value? The value is"
    return Prompt(str(number), task, text, None, (0, len(context)), (len(context), len(text)))


def prompts(count: int = 3, task: str = "needle") -> list[Prompt]:
    return [prompt(number, task, 10 + 3 * number) for number in range(count)]


def read(path: Path, task: str = "needle") -> dict:
    with h5py.File(path) as file:
        group = {name: data[()] for name, data in file[f"tasks/{task}"].items()}
        model = dict(file["model"].attrs)
        inv_freq = file["model/inv_freq"][()] if "inv_freq" in file["model"] else None
        return {
            **group,
            "model": model,
            "inv_freq": inv_freq,
            "coverage": file[f"tasks/{task}"].attrs["key_coverage"],
        }


def widen(stored: np.ndarray) -> np.ndarray:
    """float16, or bfloat16 bits, as float64"""
    if stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


@pytest.mark.parametrize("name", list(tiny_models.SPECS))
def test_stored_vectors_are_what_enters_the_rotation(name, tmp_path):
    """Against q_proj and k_proj (and their norms) evaluated directly, for the models that have them apart."""
    model, tokenizer = tiny_models.make(name), tiny_tokenizer()
    path = capture(model, tokenizer, prompts(), tmp_path / "c.h5", name="tiny")
    made = read(path)
    found = describe(model)
    first = found[min(found)]
    assert list(made["layer"]) == list(found)
    assert made["model"]["num_layers"] == model.config.num_hidden_layers and made["model"]["name"] == "tiny"
    assert made["model"]["rope_layout"] == ("interleaved" if name in ("cohere", "glm") else "half")
    assert json.loads(made["model"]["config"])["model_type"] == model.config.model_type
    assert made["model"]["attention_scale"] == first.scaling
    if name in ("dynamic", "longrope"):
        assert made["inv_freq"] is None
    else:
        assert made["inv_freq"].shape == (
            (len(found), first.pairs) if name in ("gemma3", "gemma3n") else (first.pairs,)
        )
    for example, one in enumerate(prompts()):
        tokens, offsets = encode(tokenizer, one)
        context, question = token_spans(one, offsets)
        query, key = choose_tokens(one.task, one.id, question, context)
        assert made["window"][example] == len(tokens)
        assert made["example_id"][example].decode() == one.id
        assert list(made["query_position"][example]) == query
        assert list(made["key_position"][example]) == key + [-1] * (made["key"].shape[3] - len(key))
        if name not in ("phi3", "longrope", "gpt_neox"):  # their q, k and v come from one layer
            want = projected(model, min(found), tokens, {"query": query, "key": key})
            for axis, vectors in want.items():
                stored = widen(made[axis][example, 0])[:, : vectors.shape[1]]
                np.testing.assert_allclose(stored, vectors, rtol=1e-3, atol=1e-4)


def projected(
    model, number: int, tokens: list[int], positions: dict[str, list[int]]
) -> dict[str, np.ndarray]:
    """ "query" and "key" → [H, n, D] of a layer, by its projections and norms alone."""
    attention = adapter_of(model).attention_layers(model)[number]
    inputs = []

    def keep(_, args, kwargs):
        inputs.append(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])

    handle = attention.register_forward_pre_hook(keep, with_kwargs=True)
    found = {}
    with torch.no_grad():
        model(torch.tensor([tokens]))
        handle.remove()
        for axis, chosen in positions.items():
            vectors = getattr(attention, f"{axis[0]}_proj")(inputs[0][0, chosen])
            norm = getattr(attention, f"{axis[0]}_norm", None)
            if adapter_of(model).norm_after_rotation(model) is not None:
                norm = None
            flat = norm is not None and norm.weight.numel() == vectors.shape[-1]
            vectors = norm(vectors) if flat else vectors
            vectors = vectors.reshape(len(chosen), -1, attention.head_dim)
            vectors = norm(vectors) if norm is not None and not flat else vectors
            found[axis] = vectors.transpose(0, 1).double().numpy()
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "longrope", "nanochat", "glm"])
def test_the_program_reads_the_file_and_scores_it_as_numpy_does(name, dtype, tmp_path):
    model = tiny_models.make(name)
    path = capture(
        model,
        tiny_tokenizer(),
        [*prompts(3, "needle"), *prompts(2, "list")],
        tmp_path / "c.h5",
        name="tiny",
        settings=CaptureSettings(dtype=dtype),
    )
    program.run("profile", path, "-o", tmp_path / "p.h5", "--heads", "1.2", "-q")
    table = program.run("export", tmp_path / "p.h5", "--table", "examples", "--format", "jsonl")
    rows = [json.loads(line) for line in table.splitlines()]
    rows = [row for row in rows if row["task"] == "needle" and (row["layer"], row["head"]) == (1, 2)]
    assert len(rows) == 3
    for row in rows:
        want = positional_score(model, read(path), int(row["example_id"]), row["window"])
        assert row["positional_score"] == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("name", [*tiny_models.SPECS, "deepseek_v3", "deepseek_yarn", "minicpm3"])
def test_the_program_understands_the_config_as_the_model_does(name, tmp_path):
    """Frequencies, factor A, scale and rotating layers, which the program takes from the config alone."""
    model = tiny_models.make(name)
    path = capture(model, tiny_tokenizer(), prompts(1), tmp_path / "c.h5", name="tiny")
    with h5py.File(path, "r+") as file:
        del file["model"].attrs["attention_scale"]
    seen = program.run_json("inspect", path, "--json")["files"][0]
    assert seen["passed"] and all(check["passed"] for check in seen["checks"])
    stored = {entry["layer"]: entry for entry in seen["layers"] if entry["stored"]}
    assert list(stored) == list(describe(model))
    for number, layer in describe(model).items():
        one = stored[number]
        assert one["attention_factor"] == pytest.approx(layer.attention_factor, rel=1e-6)
        assert one["logit_scale"] == pytest.approx(layer.scaling, rel=1e-6)
        assert one["rotary_dim"] == layer.rotary_dim
        grid = one["inv_freq"][0]["inv_freq"] if isinstance(one["inv_freq"][0], dict) else one["inv_freq"]
        np.testing.assert_allclose(grid, capture_module.example_frequencies(layer), rtol=1e-6)


def positional_score(model, made: dict, example: int, window: int) -> float:
    """Mean over used pairs of mean |S(m+1) − S(m)| / U (theory §4), head 2 of layer 1, by direct
    evaluation."""
    layer = describe(model)[1]
    omega = capture_module.example_frequencies(layer)
    if layer.rope_type() == "longrope":
        assert made["window"][example] <= 32
        base = 500.0 ** (-np.arange(4) / 4)
        omega = base / np.array(tiny_models.SHORT)
    query = widen(made["query"][example, 1, 2])
    key = widen(made["key"][example, 1, 2 // (layer.num_query_heads // layer.num_kv_heads)])
    h = layer.pairs
    a, b = (
        (slice(0, h), slice(h, 2 * h)) if layer.layout == "half" else (slice(0, 2 * h, 2), slice(1, 2 * h, 2))
    )
    if layer.norm_after is not None:
        query, key = self_check.rms_normalised(query, layer.norm_after), self_check.rms_normalised(
            key, layer.norm_after
        )
    sign = -1 if layer.reversed else 1
    scores = []
    for q in query[made["query_position"][example] >= 0]:
        for k in key[made["key_position"][example] >= 0]:
            z = (q[a] + 1j * q[b]) * np.conj(k[a] + 1j * k[b])
            s = (z[None, :] * np.exp(sign * 1j * np.arange(window)[:, None] * omega)).real.sum(axis=1)
            scores.append(np.abs(np.diff(s)).mean() / np.linalg.norm(z))
    return float(np.mean(scores))


def test_full_coverage_stores_every_key_up_to_the_last_query(tmp_path):
    model = tiny_models.make("llama")
    settings = CaptureSettings(full_coverage=True, queries=2)
    made = read(capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5", settings=settings))
    assert made["coverage"] == "full"
    for example in range(3):
        last = made["query_position"][example].max()
        used = made["key_position"][example][made["key_position"][example] >= 0]
        assert list(used) == list(range(last + 1))
        assert np.all(np.linalg.norm(widen(made["key"][example][:, :, : last + 1]), axis=-1) > 0)
        assert not made["key"][example][:, :, last + 1 :].any()
    seen = program.run_json("inspect", tmp_path / "c.h5", "--json")["files"][0]
    assert seen["passed"] and seen["tasks"][0]["key_coverage"] == "full"
    settings = CaptureSettings(queries=2)
    sampled = read(capture(model, tiny_tokenizer(), prompts(), tmp_path / "s.h5", settings=settings))
    for example in range(3):
        for slot, position in enumerate(sampled["key_position"][example]):
            if position >= 0:
                assert np.array_equal(
                    sampled["key"][example][:, :, slot], made["key"][example][:, :, position]
                )


def test_chosen_layers_only(tmp_path):
    model = tiny_models.make("gemma3")
    whole = read(capture(model, tiny_tokenizer(), prompts(), tmp_path / "a.h5"))
    some = read(
        capture(
            model, tiny_tokenizer(), prompts(), tmp_path / "b.h5", settings=CaptureSettings(layers=(0, 2))
        )
    )
    assert list(some["layer"]) == [0, 2] and some["inv_freq"].ndim == 1
    assert np.array_equal(some["query"], whole["query"][:, [0, 2]])
    with pytest.raises(RopeError, match="layer 7 does not rotate"):
        capture(
            model, tiny_tokenizer(), prompts(), tmp_path / "d.h5", settings=CaptureSettings(layers=(0, 7))
        )


def test_layers_of_two_shapes_are_two_files(tmp_path):
    """Gemma 4: wide and narrow heads, and layers that have no keys of their own, which are left out."""
    model = tiny_models.make("gemma4")
    with pytest.raises(RopeError, match="different shapes .*: layers 0; .*: layers 1"):
        capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5")
    with pytest.raises(RopeError, match="layer 2 does not rotate, has no keys of its own"):
        capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5", settings=CaptureSettings(layers=(2,)))
    files = []
    for layer in (0, 1):
        files.append(tmp_path / f"{layer}.h5")
        settings = CaptureSettings(layers=(layer,))
        capture(model, tiny_tokenizer(), prompts(), files[-1], name="tiny", settings=settings)
    assert [read(file)["model"]["head_dim"] for file in files] == [8, 16]
    for file in program.run_json("inspect", *files, "--json")["files"]:
        assert file["passed"]


@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_grids_that_follow_the_length_are_checked_in_every_run(name, tmp_path, monkeypatch):
    """A long example first must not leave its grid to a short one after it; a wrong grid is refused."""
    model = tiny_models.make(name)
    lengths = [60, 6, 40]
    mixed = [prompt(number, words=words) for number, words in enumerate(lengths)]
    made = read(capture(model, tiny_tokenizer(), mixed, tmp_path / "a.h5"))
    assert made["window"][1] <= 32 < made["window"][2] < made["window"][0]
    for number in range(3):
        single = read(
            capture(tiny_models.make(name), tiny_tokenizer(), [mixed[number]], tmp_path / f"{number}.h5")
        )
        slots = single["key"].shape[3]
        assert np.array_equal(single["query"][0], made["query"][number])
        assert np.array_equal(single["key"][0], made["key"][number][:, :, :slots])
    right = capture_module.config_grid
    monkeypatch.setattr(capture_module, "config_grid", lambda *given: right(*given) * (1 + 3e-5))
    with pytest.raises(RopeError, match="frequencies for .* tokens are not those of the config"):
        capture(model, tiny_tokenizer(), mixed, tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


def test_the_self_check_refuses_a_model_that_does_more_than_rotate(tmp_path):
    """nanochat normalises after the rotation; without its adapter that is not known."""
    from rope_profiler_hf import architectures

    known = architectures._ADAPTERS["nanochat"]
    model = tiny_models.make("nanochat")
    try:
        register("nanochat", Adapter())
        _described.pop(model, None)
        with pytest.raises(RopeError, match="do not give the model's attention logits"):
            capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5")
    finally:
        register("nanochat", known)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["llama", "yarn", "gemma2", "longrope"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_self_check_sees_small_errors(name, dtype):
    """Passing leaves room, and frequencies that are off by 2 % are beyond the tolerance."""
    model = tiny_models.make(name)
    layers = describe(model)
    tokens = list(range(3, 33))
    share = self_check.check_example(model, layers, tokens, [28, 29], [1, 5, 9, 13], dtype)
    assert 0 < share < 0.9
    right = self_check.example_frequencies
    try:
        self_check.example_frequencies = lambda layer: right(layer) * 1.02
        with pytest.raises(RopeError, match="attention logits"):
            self_check.check_example(model, layers, tokens, [28, 29], [1, 5, 9, 13], dtype)
    finally:
        self_check.example_frequencies = right


def test_a_bfloat16_model_is_checked_in_float32_and_left_as_it_was(tmp_path):
    model = tiny_models.make("qwen3", dtype=torch.bfloat16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5")
    after = model.state_dict()
    assert all(
        torch.equal(after[name], value) and after[name].dtype == value.dtype for name, value in before.items()
    )
    model = tiny_models.make("qwen3", flash_like.NAME, torch.bfloat16)  # takes no float32
    capture(model, tiny_tokenizer(), prompts(), tmp_path / "f.h5")
    assert model.config._attn_implementation == flash_like.NAME
    assert np.array_equal(read(tmp_path / "f.h5")["query"][:, 0], read(tmp_path / "c.h5")["query"][:, 0])
    model = tiny_models.make("qwen3").to(torch.bfloat16)  # its inv_freq too
    with pytest.raises(RopeError, match="inv_freq is torch.bfloat16"):
        capture(model, tiny_tokenizer(), prompts(), tmp_path / "d.h5")


FOREIGN = {
    "GPTJConfig": (
        dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=400),
        "takes no q, k, cos, sin",
    ),
    "JetMoeConfig": (
        tiny_models.COMMON | dict(num_experts_per_tok=2, num_local_experts=4, kv_channels=8),
        "2 key heads are rotated and 4 attended to",
    ),
    "BloomConfig": (dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=400), "no attention module calls"),
    "HunYuanDenseV1Config": (tiny_models.COMMON | dict(head_dim=8), "attention logits"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_models_that_are_not_understood_are_refused_in_one_line(name, tmp_path):
    """Among them hunyuan, whose learned norm after the rotation no score S(m) describes."""
    given, words = FOREIGN[name]
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, name)(**given))
    tiny_models.add_noise(model)
    with pytest.raises(RopeError, match=words) as caught:
        capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5")
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_values_beyond_float16_are_refused(tmp_path):
    model = tiny_models.make("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.q_proj.weight.mul_(1e6)
        model.model.layers[1].self_attn.k_proj.weight.mul_(1e-6)
    with pytest.raises(RopeError, match="layer 1: values beyond 65504: use --dtype bfloat16"):
        capture(model, tiny_tokenizer(), prompts(), tmp_path / "c.h5")
    assert not (tmp_path / "c.h5").exists()
    capture(model, tiny_tokenizer(), prompts(), tmp_path / "d.h5", settings=CaptureSettings(dtype="bfloat16"))


def test_outputs_are_kept_and_prompts_without_tokens_are_named(tmp_path):
    model, path = tiny_models.make("llama"), tmp_path / "c.h5"
    path.write_bytes(b"mine")
    with pytest.raises(RopeError, match="exists; use --force"):
        capture(model, tiny_tokenizer(), prompts(), path)
    assert path.read_bytes() == b"mine"
    capture(model, tiny_tokenizer(), prompts(), path, force=True)
    assert read(path)["query"].shape[0] == 3
    assert sorted(tmp_path.iterdir()) == [path]
    empty = Prompt("9", "needle", "one two three", None, (10, 13), (0, 3))
    with pytest.raises(RopeError, match="task 'needle', id '9': no token to take as a key"):
        capture(model, tiny_tokenizer(), [prompt(0), empty], tmp_path / "d.h5")
    with pytest.raises(RopeError, match="no prompt"):
        capture(model, tiny_tokenizer(), [], tmp_path / "d.h5")


KILLED = """
import os, signal, sys
from rope_profiler_hf import capture, cache_file
write, count = cache_file.CacheWriter.write, 0
def dying(self, *given):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, *given)
cache_file.CacheWriter.write = dying
sys.exit(capture.main(sys.argv[1:]))
"""


def test_kill_costs_one_example_and_resuming_gives_the_same_bytes(tmp_path, monkeypatch, capsys):
    folder, lines = tmp_path / "tiny-model", tmp_path / "prompts.jsonl"
    tiny_models.make("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    lines.write_text("".join(one.to_json() + "\n" for one in prompts(4)))
    whole, cut = tmp_path / "whole.h5", tmp_path / "cut.h5"
    arguments = [str(folder), str(lines), "-o"]
    per_example = 2 * 3  # an axis of a layer per write
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(at=2 * per_example + 3), *arguments, str(cut)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(capture_module.__file__).parents[1])},
    )
    assert done.returncode == -9, done.stderr
    assert not cut.exists()
    partial = partial_path(cut)
    with h5py.File(partial) as file:  # a whole HDF5 file at any moment
        stored = file["tasks/needle/query"][()]
    assert stored[0].any() and stored[1].any() and not stored[3].any()
    run, runs = capture_module.run, []
    monkeypatch.setattr(capture_module, "run", lambda *given: (runs.append(len(given[1])), run(*given)))
    assert capture_module.main([*arguments, str(cut)]) == 0
    assert capsys.readouterr().err.endswith(f"wrote {cut}\n")
    assert len(runs) == 2
    assert capture_module.main([*arguments, str(whole)]) == 0
    assert cut.read_bytes() == whole.read_bytes()
    assert read(cut)["model"]["name"] == "tiny-model"
    assert {path.name for path in tmp_path.iterdir()} == {"tiny-model", "prompts.jsonl", "whole.h5", "cut.h5"}
    assert capture_module.main([*arguments, str(cut)]) == 3
    assert "exists; use --force" in capsys.readouterr().err


def test_another_capture_does_not_take_up_the_rest(tmp_path, monkeypatch):
    model, path = tiny_models.make("llama"), tmp_path / "c.h5"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(capture_module, "store_example", stop)
        with pytest.raises(KeyboardInterrupt):
            capture(model, tiny_tokenizer(), prompts(), path)
    with pytest.raises(RopeError, match="was begun with another model, prompts or settings"):
        capture(model, tiny_tokenizer(), prompts(2), path)
    with pytest.raises(RopeError, match="was begun with another"):
        capture(tiny_models.make("llama3"), tiny_tokenizer(), prompts(), path)
    capture(model, tiny_tokenizer(), prompts(2), path, force=True)
    assert read(path)["query"].shape[0] == 2


def test_two_captures_do_not_write_one_file(tmp_path, monkeypatch):
    model, path = tiny_models.make("llama"), tmp_path / "c.h5"
    store, refused = capture_module.store_example, []

    def again(*given):
        monkeypatch.setattr(capture_module, "store_example", store)
        for force in (False, True):
            with pytest.raises(RopeError, match="another capture is writing it"):
                capture(model, tiny_tokenizer(), prompts(), path, force=force)
            refused.append(force)
        store(*given)

    monkeypatch.setattr(capture_module, "store_example", again)
    capture(model, tiny_tokenizer(), prompts(), path)
    assert refused == [False, True]
    assert widen(read(path)["query"]).any(axis=(1, 2, 3, 4)).all()


def test_fewer_tokens_than_asked_for(tmp_path):
    model = tiny_models.make("llama")
    text = "one two three four five six?"
    few = Prompt("0", "needle", text, None, (0, 24), (27, 28))
    made = read(capture(model, tiny_tokenizer(), [few, prompt(1)], tmp_path / "c.h5"))
    assert list(made["query_position"][0] >= 0) == [True, False, False, False]
    assert made["query"][0, :, :, 0].any() and not made["query"][0, :, :, 1:].any()
    assert program.run_json("inspect", tmp_path / "c.h5", "--json")["files"][0]["passed"]

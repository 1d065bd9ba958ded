"""apply_adarope: λ(L) on the queries of single heads, in prefill, decoding, padded batches and windows."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import h5py
import numpy as np
import pytest
import torch

import program
import tiny_models
from rope_profiler_hf.adarope import AdaRope, HeadScale, apply_adarope, read_adarope
from rope_profiler_hf.apply import apply_intervention
from rope_profiler_hf.architectures import adapter_of
from rope_profiler_hf.capture import capture
from rope_profiler_hf.describe import describe
from rope_profiler_hf.examples import CaptureSettings
from rope_profiler_hf.intervention import Intervention, InterventionError
from rope_profiler_hf.prompts import Prompt
from rope_profiler_hf.tap import Tap

SOME = ["llama", "qwen3", "mistral", "gemma2", "gemma3", "phi3", "olmo2", "gpt_oss", "glm", "smollm3"]
SOME += ["longrope", "dynamic"]
LENGTH = 20


def touched(model) -> int:
    layers = list(describe(model))
    return layers[len(layers) // 2]


def scales(model, **changes) -> AdaRope:
    layer = touched(model)
    one = dict(tau=0.8, gamma=0.9, reference_length=6.0) | changes
    return AdaRope((HeadScale(layer, 1, **one), HeadScale(layer, 2, 1.1, -0.5, 3.0)))


def seen(model, ids, change=None, **inputs) -> dict[int, dict]:
    """Layer → q, k, output and weights of its attention."""
    found: dict[int, dict] = {}

    def on_attention(layer, call):
        result = call.run()
        found[layer] = dict(q=call.q.clone(), k=call.k.clone(), output=result[0].clone())
        found[layer]["window"] = call.options.get("sliding_window")
        return result

    inside = apply_adarope(model, change) if change else nullcontext()
    with torch.no_grad(), Tap(model, lambda _, call: call.run(), on_attention), inside:
        adapter_of(model).decoder(model)(input_ids=ids, use_cache=False, **inputs)
    return found


def greedy(model, ids, steps: int, mask=None, **options):
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids) if mask is None else mask,
        max_new_tokens=steps,
        min_new_tokens=steps,
        do_sample=False,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
        **options,
    )


@pytest.mark.parametrize("name", [*tiny_models.SPECS, "deepseek_v3", "minicpm3", "gemma4"])
def test_queries_are_scaled_by_the_formula_at_their_own_length(name):
    model = tiny_models.make(name)
    number = touched(model)
    ids = tiny_models.tokens(2, LENGTH)
    change = scales(model)
    before, after = seen(model, ids)[number], seen(model, ids, change)[number]
    want = before["q"].double()
    for scale in change.heads:
        for token in range(LENGTH):
            keys = min(token + 1, before["window"] or LENGTH)
            grown = math.log(1 + max(keys, scale.reference_length) / scale.reference_length)
            want[:, scale.head, token] *= grown**scale.gamma / scale.tau
    torch.testing.assert_close(after["q"].double(), want, rtol=1e-6, atol=1e-7)
    assert torch.equal(after["k"], before["k"])
    others = [head for head in range(want.shape[1]) if head not in (1, 2)]
    assert torch.equal(after["q"][:, others], before["q"][:, others])
    assert torch.equal(after["output"][:, :, others], before["output"][:, :, others])
    assert not torch.equal(after["output"][:, :, [1, 2]], before["output"][:, :, [1, 2]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SOME)
def test_a_scale_of_one_changes_no_bit(name, dtype):
    model = tiny_models.make(name, dtype=dtype)
    ids = tiny_models.tokens(2, LENGTH)
    heads = [(layer, head) for layer in describe(model) for head in range(4)]
    one = AdaRope(tuple(HeadScale(*place, 1.0, 0.0, 5.0) for place in heads))
    with torch.no_grad():
        before = model(ids).logits
        with apply_adarope(model, one):
            assert torch.equal(model(ids).logits, before)
        with apply_adarope(model, scales(model)):
            assert not torch.equal(model(ids).logits, before)
        assert torch.equal(model(ids).logits, before)
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", SOME)
def test_a_growing_cache_equals_full_recomputation(name, attention):
    if attention == "sdpa" and name in ("gemma2", "gpt_oss"):
        pytest.skip("softcap and sinks run in eager only")
    model = tiny_models.make(name, attention)
    ids = tiny_models.tokens(1, LENGTH, seed=3)
    with apply_adarope(model, scales(model)):
        made = greedy(model, ids, 8)
        with torch.no_grad():
            full = model(made.sequences[:, :-1], use_cache=False).logits[:, LENGTH - 1 :]
    torch.testing.assert_close(torch.stack(made.logits, dim=1), full, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "phi"])
def test_static_caches(name):
    model = tiny_models.make(name, "sdpa")
    ids = tiny_models.tokens(1, LENGTH, seed=4)
    with apply_adarope(model, scales(model)):
        dynamic = greedy(model, ids, 5)
        static = greedy(model, ids, 5, cache_implementation="static", disable_compile=True)
    torch.testing.assert_close(torch.stack(static.logits), torch.stack(dynamic.logits), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt_oss"])
def test_left_padded_rows_equal_batch_one(name):
    model = tiny_models.make(name)
    rows = [tiny_models.tokens(1, length, seed=length) for length in (20, 13, 17)]
    ids = torch.cat([torch.nn.functional.pad(row, (20 - row.shape[1], 0)) for row in rows])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(row), (20 - row.shape[1], 0)) for row in rows])
    with apply_adarope(model, scales(model)):
        together = greedy(model, ids, 5, mask)
        for row, alone in enumerate(rows):
            have = torch.stack(together.logits)[:, row]
            want = torch.stack(greedy(model, alone, 5).logits)[:, 0]
            torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-3)


def test_a_padding_mask_counts_where_no_positions_are_given():
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(1, LENGTH)
    mask = torch.ones_like(ids)
    mask[:, :4] = 0
    number, change = touched(model), scales(model)
    before = seen(model, ids, attention_mask=mask)[number]["q"][0, 1].double()
    after = seen(model, ids, change, attention_mask=mask)[number]["q"][0, 1].double()
    for token in range(4, LENGTH):
        want = before[token] * change.heads[0].at(token - 3)
        torch.testing.assert_close(after[token], want, rtol=1e-6, atol=1e-7)


def test_beams_and_batches_keep_their_lengths():
    model = tiny_models.make("llama")
    rows = [tiny_models.tokens(1, length, seed=length) for length in (20, 9)]
    ids = torch.cat([torch.nn.functional.pad(row, (20 - row.shape[1], 0)) for row in rows])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(row), (20 - row.shape[1], 0)) for row in rows])
    with apply_adarope(model, scales(model)):
        together = greedy(model, ids, 4, mask, num_beams=3)
        for row, alone in enumerate(rows):
            single = greedy(model, alone, 4, num_beams=3)
            assert torch.equal(together.sequences[row, 20:], single.sequences[0, alone.shape[1] :])


def test_it_nests_with_an_intervention():
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(1, LENGTH)
    freeze = Intervention([(touched(model), 1)], "freeze", pairs=[0])
    with torch.no_grad():
        with apply_adarope(model, scales(model)), apply_intervention(model, freeze, LENGTH):
            one = model(ids).logits
        with apply_intervention(model, freeze, LENGTH), apply_adarope(model, scales(model)):
            other = model(ids).logits
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def document(model, **changes) -> dict:
    number = touched(model)
    layer = describe(model)[number]
    xi = np.log(layer.inv_freq().double().numpy()).tolist()
    head = dict(layer=number, head=1, tau=0.8, gamma=0.9, reference_length=6.0, residual=0.1, reason=None)
    head |= dict(lengths=[6, 12, 24], nope_scale=[1.0, 1.1, 1.2], xi=xi) | {"lambda": [1.0, 1.2, None]}
    other = head | dict(head=2, tau=None, gamma=None, residual=None, reason="no scale up to 1e4", xi=xi)
    head |= changes
    made = dict(format="rope-profiler/adarope", format_version=1, tool_version="x", settings={}, inputs=[])
    return made | dict(warnings=[], model=dict(name="", type="llama", num_layers=3), heads=[head, other])


def written(tmp_path, value) -> str:
    path = tmp_path / "adarope.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def test_a_file_is_read_and_installed(tmp_path):
    model = tiny_models.make("llama")
    read = read_adarope(written(tmp_path, document(model)))
    assert [(scale.layer, scale.head) for scale in read.heads] == [(touched(model), 1)]
    assert read.heads[0].at(24) == pytest.approx(math.log(5) ** 0.9 / 0.8)
    assert read.heads[0].at(2) == read.heads[0].at(6) == pytest.approx(math.log(2) ** 0.9 / 0.8)
    assert read.skipped == (((touched(model), 2), "no scale up to 1e4"),)
    ids = tiny_models.tokens(1, LENGTH)
    number = touched(model)
    assert not torch.equal(seen(model, ids, read)[number]["q"], seen(model, ids)[number]["q"])


@pytest.mark.parametrize(
    "change, expected",
    [
        (dict(tau=0), "tau"),
        (dict(tau=-1.0), "tau"),
        (dict(tau="1"), "number"),
        (dict(tau=None), "reason"),
        (dict(gamma=None), "reason"),
        (dict(reason="why"), "reason"),
        (dict(gamma=1e9), "scale"),
        (dict(tau=1e-9), "scale"),
        (dict(reference_length=0), "reference_length"),
        (dict(reference_length=None), "number"),
        (dict(layer=3), "layer"),
        (dict(layer=-1), "layer"),
        (dict(head=1.5), "head"),
        (dict(head=True), "head"),
        (dict(head=2), "twice"),
        (dict(xi=[]), "xi"),
        (dict(xi=[2.0, 0, 0, 0]), "xi[0]"),
        (dict(xi="x"), "xi"),
        (dict(lengths=[1, "2"]), "lengths"),
        ({"lambda": [1.0]}, "lambda"),
        ({"lambda": [0.0, 1.0, 1.0]}, "lambda[0]"),
    ],
)
def test_bad_heads_are_refused_with_their_place(tmp_path, change, expected):
    model = tiny_models.make("llama")
    value = document(model, **change)
    if change == dict(head=2):
        value["heads"][1] = value["heads"][0]
    path = written(tmp_path, value)
    with pytest.raises(InterventionError) as caught:
        read_adarope(path)
    text = str(caught.value)
    assert text.startswith(path) and expected in text and "\n" not in text


@pytest.mark.parametrize(
    "change, expected",
    [
        (dict(format="rope-profiler/plan"), "format"),
        (dict(format_version=2), "format_version"),
        (dict(heads=None), "no fit in it"),
        (dict(model=None), "no fit in it"),
        (dict(model=dict(name="x", num_layers=0)), "num_layers"),
        (dict(heads={}), "a list"),
        (dict(heads=[7]), "heads[0]"),
    ],
)
def test_bad_files_are_refused(tmp_path, change, expected):
    path = written(tmp_path, document(tiny_models.make("llama")) | change)
    with pytest.raises(InterventionError) as caught:
        read_adarope(path)
    assert str(caught.value).startswith(path) and expected in str(caught.value)
    for text in ('{"format": NaN}', "[]", "{", '{"a": 1, "a": 2}'):
        with pytest.raises(InterventionError):
            read_adarope(written(tmp_path, text))


def test_scales_of_another_model_are_refused(tmp_path):
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(1, 4)

    def refused(read: AdaRope, expected: str, **options):
        with pytest.raises(InterventionError, match=expected), apply_adarope(model, read, **options):
            model(ids)

    number = touched(model)
    good = read_adarope(written(tmp_path, document(model))).heads[0]
    refused(AdaRope(()), "no head")
    refused(AdaRope((good,), num_layers=4), "4 layers")
    refused(AdaRope((HeadScale(7, 0, 1.0, 1.0, 5.0),)), "layer 7")
    refused(AdaRope((HeadScale(number, 4, 1.0, 1.0, 5.0),)), "4 heads")
    shifted = tuple(xi + 1e-3 for xi in good.xi)
    refused(AdaRope((HeadScale(number, 1, 1.0, 1.0, 5.0, shifted),)), "other frequencies")
    refused(AdaRope((HeadScale(number, 1, 1.0, 1.0, 5.0, good.xi[:-1]),)), "rotary pairs")
    refused(AdaRope((HeadScale(number, 1, 1.0, 1.0, 5.0, (None, *good.xi[1:])),)), "other frequencies")
    model.rope_profiler_name = "this"
    refused(AdaRope((good,), "that"), "'that'")
    with apply_adarope(model, AdaRope((good,), "that"), check_name=False):
        model(ids)
    with pytest.raises(InterventionError, match="twice"):
        AdaRope((good, good))


# On a real model: a capture of every key, the program's fit, and the model's own attention with it.

REAL_LAYER = 9


@pytest.fixture(scope="module")
def fitted(smollm2, tmp_path_factory):
    """(path of adarope.json, token ids [1, T], query positions) of one prompt."""
    model, tokenizer = smollm2
    folder = tmp_path_factory.mktemp("adarope")
    said = (f"The value of key {i * 7 % 31} is {100 + 13 * i}, and {i} comes next." for i in range(20))
    text = " ".join(said)
    asked = Prompt("0", "kv", text, context=(0, len(text)), question=(0, len(text)))
    settings = CaptureSettings(queries=8, full_coverage=True, layers=(REAL_LAYER,))
    cache = capture(model, tokenizer, [asked], folder / "cache.h5", settings=settings)
    with h5py.File(cache) as file:
        queries = file["tasks/kv/query_position"][0].tolist()
    program.run("adarope", cache, "-o", folder / "adarope.json")
    return folder / "adarope.json", tokenizer(text, return_tensors="pt").input_ids, queries


def row_logits(model, ids, change=None) -> torch.Tensor:
    """[Hq, T, T] float64 of the layer, keys after the query -inf."""
    found = {}

    def on_attention(layer, call):
        k = call.k.repeat_interleave(call.q.shape[1] // call.k.shape[1], dim=1)
        found[layer] = call.scaling * (call.q[0].double() @ k[0].double().transpose(1, 2))
        return call.run()

    inside = apply_adarope(model, change) if change else nullcontext()
    with torch.no_grad(), Tap(model, lambda _, call: call.run(), on_attention, {REAL_LAYER}), inside:
        model(ids, use_cache=False, logits_to_keep=1)
    later = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
    return found[REAL_LAYER].masked_fill(later, -math.inf)


def log_lengths(logits: torch.Tensor) -> torch.Tensor:
    """ln E_2 of every row."""
    return -torch.softmax(logits, dim=-1).square().sum(dim=-1).log()


def test_real_model_a_scale_of_one_changes_nothing(smollm2):
    model, tokenizer = smollm2
    ids = tokenizer("The code of Oslo is 4821. The code of Oslo is", return_tensors="pt").input_ids
    one = AdaRope(tuple(HeadScale(layer, head, 1.0, 0.0, 10.0) for layer in range(30) for head in range(9)))
    with torch.no_grad():
        before = model(ids).logits
        with apply_adarope(model, one):
            assert torch.equal(model(ids).logits, before)
            made = greedy(model, ids, 4)
    assert torch.equal(made.sequences, greedy(model, ids, 4).sequences)


def test_real_model_the_installed_fit_moves_the_effective_length_as_predicted(smollm2, fitted):
    model, _ = smollm2
    path, ids, queries = fitted
    read = read_adarope(path)
    assert len(read.heads) + len(read.skipped) == 9 and len(read.heads) >= 5
    plain = row_logits(model, ids)
    changed = log_lengths(row_logits(model, ids, read))
    before = log_lengths(plain)
    moved = 0.0
    for scale in read.heads:
        for position in queries:
            want = log_lengths(plain[scale.head, position] * scale.at(position + 1))
            assert changed[scale.head, position].item() == pytest.approx(want.item(), abs=2e-4)
            moved = max(moved, abs(want.item() - before[scale.head, position].item()))
    assert moved > 0.05


def test_real_model_the_scale_that_was_found_holds_the_effective_length(smollm2, fitted):
    """A curve through lambda(L) of one length, tau = (ln 2)^gamma: there, E_2 is what it is at L_ref."""
    model, _ = smollm2
    path, ids, queries = fitted
    heads = json.loads(path.read_text())["heads"]
    plain = log_lengths(row_logits(model, ids))
    for index in (3, len(queries) - 1):
        curves = []
        for head in heads:
            length, scale, reference = head["lengths"][index], head["lambda"][index], head["reference_length"]
            assert (length, reference) == (queries[index] + 1, queries[0] + 1)
            gamma = math.log(scale) / math.log(math.log(1 + length / reference) / math.log(2))
            curves.append(HeadScale(REAL_LAYER, head["head"], math.log(2) ** gamma, gamma, reference))
        held = log_lengths(row_logits(model, ids, AdaRope(tuple(curves))))
        for curve in curves:
            wanted = plain[curve.head, queries[0]].item()
            assert held[curve.head, queries[0]].item() == pytest.approx(wanted, abs=1e-5)
            assert held[curve.head, queries[index]].item() == pytest.approx(wanted, abs=0.02)
        differences = plain[:, queries[index]] - plain[:, queries[0]]
        assert differences.abs().max() > 0.5  # without the scale it is not held

"""apply_intervention on tiny random models: what the changed model computes, and what it leaves alone."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch

import flash_like
import tiny_models
from rope_profiler_hf.apply import apply_intervention
from rope_profiler_hf.architectures import adapter_of
from rope_profiler_hf.describe import describe
from rope_profiler_hf.intervention import Intervention, InterventionError
from rope_profiler_hf.self_check import rms_normalised
from rope_profiler_hf.tap import Tap

ALL = list(tiny_models.SPECS)
SOME = ["llama", "qwen3", "mistral", "gemma2", "gemma3", "phi3", "olmo2", "gpt_oss", "glm"]
LENGTH = 20


def touched(model) -> int:
    """A layer in the middle that rotates."""
    layers = list(describe(model))
    return layers[len(layers) // 2]


def make(model, operation: str, alpha: float | None = None, pairs=(0, 1), heads=(1, 2)) -> Intervention:
    layer = touched(model)
    pairs = [pair for pair in pairs if pair < describe(model)[layer].pairs]
    return Intervention([(layer, head) for head in heads], operation, alpha, pairs)


KINDS = {"freeze": dict(operation="freeze"), "rescale": dict(operation="rescale", alpha=0.3)}


def seen(model, ids, change=None) -> dict[int, dict[str, torch.Tensor]]:
    """Layer → content q and k [B, H, T, D] before the rotation, and logits [B, Hq, T, S] from what the
    attention got."""
    found: dict[int, dict] = {}

    def on_rotary(layer, call):
        parts = found.setdefault(layer, {})
        parts.update({name: x.clone() for name, x in (("q", call.q), ("k", call.k)) if x is not None})
        return call.run()

    def on_attention(layer, call):
        k = call.k.repeat_interleave(call.q.shape[1] // call.k.shape[1], dim=1)
        if layer not in found:  # does not rotate
            return call.run()
        found[layer]["whole"] = (call.q.clone(), call.k.clone())
        found[layer]["logits"] = call.scaling * (call.q.double() @ k.double().transpose(2, 3))
        result = call.run()
        found[layer]["output"], found[layer]["weights"] = result[0].clone(), result[1]
        return result

    inside = apply_intervention(model, change, ids.shape[1]) if change else nullcontext()
    with torch.no_grad(), Tap(model, on_rotary, on_attention), inside:  # the tap sees what the change makes
        adapter_of(model).decoder(model)(input_ids=ids, use_cache=False)
    return found


def direct_scores(layer, content, tail, pairs, operation, alpha) -> np.ndarray:
    """S(m) of theory §1 with changed z or ω for one head, all (query, key): numpy, float64, pair by pair."""
    q, k = (x.double().numpy() for x in content)
    omega = layer.inv_freq().double().numpy().copy()
    strength = np.ones(layer.pairs)
    for pair in pairs:
        if operation == "freeze":
            omega[pair] = 0
        else:
            strength[pair] = alpha
    distance = np.arange(len(q))[:, None] - np.arange(len(k))[None, :]
    if layer.reversed:
        distance = -distance
    total = np.zeros(distance.shape)
    for n in range(layer.pairs):
        a, b = (n, n + layer.pairs) if layer.layout == "half" else (2 * n, 2 * n + 1)
        z = (q[:, a] + 1j * q[:, b])[:, None] * (k[:, a] - 1j * k[:, b])[None, :]
        total += (strength[n] * z * np.exp(1j * omega[n] * distance)).real
    total *= layer.attention_factor**2
    return layer.scaling * (total + tail)


LATENT = ["deepseek_v3", "deepseek_yarn", "minicpm3"]


@pytest.mark.parametrize("name, kind", [*product(ALL, KINDS), *((name, "rescale") for name in LATENT)])
def test_logits_are_those_of_the_changed_scores(name, kind):
    model = tiny_models.make(name)
    ids = tiny_models.tokens(1, LENGTH)
    change = make(model, **KINDS[kind])
    number = touched(model)
    layer = describe(model)[number]
    before = seen(model, ids)
    after = seen(model, ids, change)
    chosen = {head for _, head in change.heads}
    group = layer.num_query_heads // layer.num_kv_heads
    at, r = layer.rotary_at, layer.rotary_dim
    tail_lanes = [lane for lane in range(layer.head_dim) if not at <= lane < at + r]
    q, k = after[number]["q"][0], after[number]["k"][0]
    k = k.expand(layer.num_kv_heads, -1, -1)  # latent attention has one for all
    if layer.norm_after is not None:
        q, k = (torch.from_numpy(rms_normalised(x.double().numpy(), layer.norm_after)) for x in (q, k))
    q = q * torch.from_numpy(adapter_of(model).query_temperature(model, np.arange(LENGTH)))[:, None]
    whole_q, whole_k = (x[0].double().numpy() for x in before[number]["whole"])
    causal = np.tril(np.ones((LENGTH, LENGTH), dtype=bool))
    for head in range(layer.num_query_heads):
        tail = whole_q[head][:, tail_lanes] @ whole_k[head // group][:, tail_lanes].T
        pairs = change.pairs if head in chosen else ()
        want = direct_scores(layer, (q[head], k[head // group]), tail, pairs, change.operation, change.alpha)
        have = after[number]["logits"][0, head].numpy()
        np.testing.assert_allclose(have[causal], want[causal], rtol=2e-5, atol=2e-5 * np.abs(want).max())
        if head in chosen:
            assert np.abs(have - before[number]["logits"][0, head].numpy())[causal].max() > 1e-2


@pytest.mark.parametrize("name", ALL)
def test_the_weights_that_eager_reports_are_the_softmax_of_these_logits(name):
    """Closes the gap between what enters the attention and what the attention does with it."""
    model = tiny_models.make(name)
    number = touched(model)
    layer = describe(model)[number]
    change = make(model, "rescale", 2.0)
    after = seen(model, tiny_models.tokens(1, LENGTH), change)[number]
    cap = getattr(model.config, "attn_logit_softcapping", None)
    logits = after["logits"][0]
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    weights = after["weights"][0].double()
    row, keys = LENGTH - 1, slice(LENGTH - 6, LENGTH)  # inside every window
    for head in range(layer.num_query_heads):
        want = torch.softmax(logits[head, row, keys], dim=-1)
        have = weights[head, row, keys] / weights[head, row, keys].sum()
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_what_is_not_selected_stays_bit_equal(name, kind):
    """Layers before the first touched one, and unselected heads of a touched layer that gets the same
    input."""
    model = tiny_models.make(name)
    ids = tiny_models.tokens(2, LENGTH)
    change = make(model, **KINDS[kind])
    number = touched(model)
    before = seen(model, ids)
    after = seen(model, ids, change)
    earlier = [layer for layer in before if layer < number]
    assert earlier
    for layer in earlier:
        assert torch.equal(before[layer]["output"], after[layer]["output"])
    chosen = [head for _, head in change.heads]
    others = [head for head in range(before[number]["q"].shape[1]) if head not in chosen]
    assert others
    assert torch.equal(before[number]["q"], after[number]["q"])
    assert torch.equal(before[number]["output"][:, :, others], after[number]["output"][:, :, others])
    assert torch.equal(before[number]["weights"][:, others], after[number]["weights"][:, others])
    for head in chosen:
        assert not torch.equal(before[number]["output"][:, :, head], after[number]["output"][:, :, head])


@pytest.mark.parametrize("name", ALL)
def test_leaving_the_block_leaves_the_model_as_it_was(name):
    model = tiny_models.make(name)
    ids = tiny_models.tokens(1, LENGTH)
    kind = "freeze"

    def state():
        attributes = [(m, {k: v for k, v in vars(m).items() if k != "_buffers"}) for m in model.modules()]
        return [
            {k: v for k, v in values.items() if isinstance(v, (int, float, str))} for _, values in attributes
        ]

    with torch.no_grad():
        before = model(ids).logits
        attributes = state()
        with apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            changed = model(ids).logits
        assert not torch.equal(before, changed)
        assert torch.equal(before, model(ids).logits)
        assert state() == attributes
        with pytest.raises(ZeroDivisionError), apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            model(ids)
            raise ZeroDivisionError
        assert torch.equal(before, model(ids).logits)
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in SOME if name not in ("gemma2", "gpt_oss")])
def test_sdpa_and_eager_agree(name, kind):
    ids = tiny_models.tokens(2, LENGTH)
    logits = []
    for attention in ("eager", "sdpa"):
        model = tiny_models.make(name, attention)
        with torch.no_grad(), apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            logits.append(model(ids).logits)
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
def test_an_implementation_like_flash_attention_agrees(name, kind):
    ids = tiny_models.tokens(1, LENGTH)
    logits = []
    for attention in ("sdpa", flash_like.NAME):
        model = tiny_models.make(name, attention, torch.bfloat16)
        with torch.no_grad(), apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            logits.append(model(ids).logits)
            if attention == flash_like.NAME:
                made = greedy(model, ids, 4)
                full = model(made.sequences[:, :-1], use_cache=False).logits[:, LENGTH - 1 :]
                have = torch.stack(made.logits, 1).float()
                torch.testing.assert_close(have, full.float(), rtol=0.05, atol=0.3)
    assert torch.equal(logits[0], logits[1])


def greedy(model, ids, steps: int, mask=None, **options) -> torch.Tensor:
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


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOME + ["smollm3", "phi", "nanochat", "longrope"])
def test_cached_decoding_equals_full_recomputation(name, kind, attention):
    if attention == "sdpa" and name in ("gemma2", "gpt_oss"):
        pytest.skip("softcap and sinks run in eager only")
    model = tiny_models.make(name, attention)
    ids = tiny_models.tokens(1, LENGTH, seed=3)
    with apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
        made = greedy(model, ids, 8)
        with torch.no_grad():
            full = model(made.sequences[:, :-1], use_cache=False).logits[:, LENGTH - 1 :]
    cached = torch.stack(made.logits, dim=1)
    torch.testing.assert_close(cached, full, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "phi"])
def test_static_caches(name, kind):
    model = tiny_models.make(name, "sdpa")
    ids = tiny_models.tokens(1, LENGTH, seed=4)
    with apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
        dynamic = greedy(model, ids, 5)
        static = greedy(model, ids, 5, cache_implementation="static", disable_compile=True)
    torch.testing.assert_close(torch.stack(static.logits), torch.stack(dynamic.logits), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOME)
def test_left_padded_rows_equal_batch_one(name, kind):
    """Rows of different lengths have masks of their own."""
    model = tiny_models.make(name)
    lengths = [20, 13, 17]
    rows = [tiny_models.tokens(1, length, seed=length) for length in lengths]
    number = touched(model)
    top = describe(model)[number].pairs
    change = Intervention(
        [(number, 1), (number, 2)],
        **KINDS[kind],
        pairs=lambda length, _: [pair for pair in range(top) if pair < (3 if length > 15 else 1)],
    )
    alone = []
    for row, length in zip(rows, lengths):
        with apply_intervention(model, change, length):
            alone.append(greedy(model, row, 5))
    longest = max(lengths)
    ids = torch.cat([torch.nn.functional.pad(row, (longest - row.shape[1], 0)) for row in rows])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(r), (longest - r.shape[1], 0)) for r in rows])
    with apply_intervention(model, change, lengths):
        together = greedy(model, ids, 5, mask)
    for row in range(len(rows)):
        have = torch.stack(together.logits)[:, row]
        torch.testing.assert_close(have, torch.stack(alone[row].logits)[:, 0], rtol=1e-3, atol=1e-3)
        assert torch.equal(together.sequences[row, longest:], alone[row].sequences[0, lengths[row] :])
    if kind == "rescale":
        return
    with apply_intervention(model, change, longest):  # one mask for all is another model
        assert not torch.equal(torch.stack(greedy(model, ids, 5, mask).logits), torch.stack(together.logits))


@pytest.mark.parametrize("kind", KINDS)
def test_beams_keep_the_mask_of_their_row(kind):
    model = tiny_models.make("llama")
    change = Intervention([(1, 1)], **KINDS[kind], pairs=lambda length, _: [0, 1, 2] if length > 15 else [0])
    lengths = [20, 13]
    rows = [tiny_models.tokens(1, length, seed=length) for length in lengths]
    ids = torch.cat([torch.nn.functional.pad(row, (20 - row.shape[1], 0)) for row in rows])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(r), (20 - r.shape[1], 0)) for r in rows])
    with apply_intervention(model, change, lengths):
        together = greedy(model, ids, 4, mask, num_beams=3)
    for row, length in enumerate(lengths):
        with apply_intervention(model, change, length):
            alone = greedy(model, rows[row], 4, num_beams=3)
        assert torch.equal(together.sequences[row, 20:], alone.sequences[0, length:])


def test_rescale_does_not_grow_the_cache_and_freeze_grows_touched_keys_only():
    model = tiny_models.make("llama", "sdpa")
    ids = tiny_models.tokens(1, LENGTH)
    shapes = {}
    for kind in KINDS:
        with torch.no_grad(), apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            layers = model(ids, use_cache=True)["past_key_values"].layers
            shapes[kind] = [(layer.keys.shape[1], layer.values.shape[1]) for layer in layers]
    assert shapes == {"rescale": [(2, 2)] * 3, "freeze": [(2, 2), (4, 2), (2, 2)]}


def test_keys_shared_between_layers_can_be_rescaled_but_not_frozen():
    model = tiny_models.make("gemma4")
    found = describe(model)
    assert [layer.own_keys for layer in found.values()] == [True, True, False, False]
    assert [layer.head_dim for layer in found.values()] == [8, 16, 8, 16]
    ids = tiny_models.tokens(1, LENGTH)
    for number in found:
        change = Intervention([(number, 1)], "rescale", 0.5, [0])
        before, after = ({}, {})
        for kept, inside in ((before, nullcontext()), (after, apply_intervention(model, change, LENGTH))):

            def on_attention(layer, call, kept=kept):
                kept[layer] = call.q.clone()
                return call.run()

            with torch.no_grad(), Tap(model, lambda _, call: call.run(), on_attention), inside:
                model(ids)
        lanes = found[number].lanes(torch.tensor([0]))
        torch.testing.assert_close(after[number][:, 1][..., lanes], 0.5 * before[number][:, 1][..., lanes])
        assert torch.equal(after[number][:, 0], before[number][:, 0])
        with pytest.raises(InterventionError, match="shares its keys with another layer"):
            with apply_intervention(model, Intervention([(number, 1)], "freeze", pairs=[0]), LENGTH):
                pass


@pytest.mark.parametrize("name", LATENT)
def test_latent_attention_can_be_rescaled_but_not_frozen(name):
    model = tiny_models.make(name)
    assert all(layer.latent and layer.rotary_at == 12 for layer in describe(model).values())
    with apply_intervention(model, make(model, "rescale", 0.3), LENGTH):
        made = greedy(model, tiny_models.tokens(1, LENGTH), 5)
        with torch.no_grad():
            full = model(made.sequences[:, :-1], use_cache=False).logits[:, LENGTH - 1 :]
    torch.testing.assert_close(torch.stack(made.logits, dim=1), full, rtol=1e-3, atol=1e-3)
    with pytest.raises(InterventionError, match="share one rotary key"):
        with apply_intervention(model, make(model, "freeze"), LENGTH):
            pass


def test_other_models_of_the_same_class_are_not_touched():
    model, other = tiny_models.make("llama"), tiny_models.make("llama")
    ids = tiny_models.tokens(1, LENGTH)
    with torch.no_grad():
        before = other(ids).logits
        with apply_intervention(model, make(model, "freeze"), LENGTH):
            assert torch.equal(before, other(ids).logits)
            assert not torch.equal(before, model(ids).logits)


def test_two_interventions_at_once():
    """Freezing pair 0 and rescaling pair 1 of one head, nested either way, are one change."""
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(1, LENGTH)
    freeze, rescale = Intervention([(1, 2)], "freeze", pairs=[0]), Intervention([(1, 2)], "rescale", 0.5, [1])
    results = []
    for outer, inner in ((freeze, rescale), (rescale, freeze)):
        with (
            torch.no_grad(),
            apply_intervention(model, outer, LENGTH),
            apply_intervention(model, inner, LENGTH),
        ):
            results.append(model(ids).logits)
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-6)
    with torch.no_grad(), apply_intervention(model, freeze, LENGTH):
        assert not torch.equal(results[0], model(ids).logits)


def test_alpha_one_and_no_pairs_change_nothing():
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(1, LENGTH)
    with torch.no_grad():
        before = model(ids).logits
        for change in (make(model, "rescale", 1.0), make(model, "freeze", pairs=())):
            with apply_intervention(model, change, LENGTH):
                assert torch.equal(before, model(ids).logits)


def test_prompt_lengths_of_other_kinds():
    model = tiny_models.make("llama")
    ids = tiny_models.tokens(2, LENGTH)
    change = Intervention([(1, 1)], "freeze", pairs=lambda length, _: range(length // 10))
    with torch.no_grad():
        results = []
        for length in (
            LENGTH,
            np.int64(LENGTH),
            torch.tensor(LENGTH),
            [LENGTH] * 2,
            torch.tensor([LENGTH] * 2),
        ):
            with apply_intervention(model, change, length):
                results.append(model(ids).logits)
    assert all(torch.equal(results[0], other) for other in results[1:])
    for wrong in (20.0, "20", [20.5], [], 1, 0):
        with pytest.raises((InterventionError, TypeError)):
            with apply_intervention(model, change, wrong):
                pass


def test_a_bfloat16_model_keeps_its_type():
    model = tiny_models.make("gemma3", dtype=torch.bfloat16)
    ids = tiny_models.tokens(1, LENGTH)
    for kind in KINDS:
        with torch.no_grad(), apply_intervention(model, make(model, **KINDS[kind]), LENGTH):
            assert model(ids).logits.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "given, words",
    [
        (dict(heads=[(9, 0)], operation="freeze", pairs=[0]), "layer 9"),
        (dict(heads=[(1, 4)], operation="freeze", pairs=[0]), "has 4 heads"),
        (dict(heads=[(1, 0)], operation="freeze", pairs=[4]), "pair 4"),
        (dict(heads=[(1, 0)], operation="rescale", alpha=float("nan"), pairs=[0]), "finite alpha"),
        (dict(heads=[(1, 0)], operation="rescale", pairs=[0]), "finite alpha"),
        (dict(heads=[(1, 0)], operation="turn", pairs=[0]), "operation"),
    ],
)
def test_impossible_interventions_are_refused(given, words):
    model = tiny_models.make("llama")
    with pytest.raises(InterventionError, match=words):
        with apply_intervention(model, Intervention(**given), LENGTH):
            pass


def test_a_batch_that_does_not_fit_the_lengths_is_refused():
    model = tiny_models.make("llama")
    change = Intervention([(1, 1)], "rescale", 0.5, lambda length, _: [0] if length > 15 else [1])
    with pytest.raises(InterventionError, match="3 rows for 2 prompt lengths"), torch.no_grad():
        with apply_intervention(model, change, [20, 13]):
            model(tiny_models.tokens(3, LENGTH))

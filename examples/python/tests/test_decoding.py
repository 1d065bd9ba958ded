import pytest
import tiny_models
import torch
from tiny_tokenizer import tiny_tokenizer

from rope_profiler_hf.decoding import cut, greedy


def test_cut():
    assert cut("\n\n 4821.\nmore", ["\n"]) == "\n\n 4821."
    assert cut(" a, b. c", [".", ","]) == " a"
    assert cut("abc", []) == "abc" and cut("", ["\n"]) == ""


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
def test_is_what_generate_does(name):
    model = tiny_models.make(name)
    tokenizer = tiny_tokenizer()
    torch.manual_seed(3)
    ids = torch.randint(5, tiny_models.VOCABULARY, (1, 23))
    model.generation_config.eos_token_id = None
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=9,
        eos_token_id=[],
        pad_token_id=0,
    )
    ends = {model.config.get_text_config().eos_token_id, tokenizer.eos_token_id}
    wanted = []
    for token in made[0, 23:].tolist():
        if token in ends:
            break
        wanted.append(token)
    (text,) = greedy(model, tokenizer, ids.tolist(), [9], [[]])
    assert text == tokenizer.decode(wanted, skip_special_tokens=True)


def test_limits_and_stops_of_each_row():
    model, tokenizer = tiny_models.make("llama"), tiny_tokenizer()
    torch.manual_seed(4)
    rows = [torch.randint(5, tiny_models.VOCABULARY, (length,)).tolist() for length in (9, 17, 17)]
    long = greedy(model, tokenizer, rows, [12, 12, 12], [[], [], []])
    stop = next(letter for letter in long[1].strip()[1:] if not letter.isspace())
    short = greedy(model, tokenizer, rows, [3, 12, 0], [[], [stop], []])
    assert long[0].startswith(short[0]) and len(short[0]) < len(long[0])
    assert short[1] == cut(long[1], [stop]) != long[1] and short[2] == ""

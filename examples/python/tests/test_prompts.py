import json

import pytest
from tiny_tokenizer import TEMPLATE, TRIMMING_TEMPLATE, tiny_tokenizer

from rope_profiler_hf.prompts import Prompt, PromptError, encode, read_prompts, token_spans

CONTENT = "  The value of the key amber is 4821. Café, naïve — 雪.\n\nWhat is the value of the key?"
CONTEXT = (2, CONTENT.index("\n\n"))
QUESTION = (CONTENT.index("What"), len(CONTENT))


def write(tmp_path, *lines):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8"
    )
    return path


def test_reads_what_it_writes(tmp_path):
    first = Prompt(
        "a", "needle", text="one two three", context=(0, 7), question=(8, 13), answers=["x"], meta={"keys": 3}
    )
    second = Prompt("a", "lookup", messages=[{"role": "user", "content": "ü?"}])
    path = tmp_path / "prompts.jsonl"
    path.write_text(first.to_json() + "\n\n" + second.to_json() + "\n", encoding="utf-8")
    assert list(read_prompts(path)) == [first, second]


def test_other_keys_are_kept(tmp_path):
    (prompt,) = read_prompts(write(tmp_path, {"id": 7, "task": "t", "text": "abc", "source": "mine"}))
    assert prompt.id == "7" and prompt.meta == {"source": "mine"}


@pytest.mark.parametrize(
    "line, text",
    [
        ("{", "expected a JSON object"),
        ("[1]", "found list"),
        ({"task": "t", "text": "x"}, "id: expected a text, found None"),
        ({"id": "", "task": "t", "text": "x"}, "id: expected a text"),
        ({"id": "1", "task": "a/b", "text": "x"}, "cannot name a group"),
        ({"id": "1\n2", "task": "t", "text": "x"}, "control characters"),
        ({"id": "1", "task": "t"}, "either text or messages"),
        (
            {"id": "1", "task": "t", "text": "x", "messages": [{"role": "user", "content": "x"}]},
            "either text or messages",
        ),
        ({"id": "1", "task": "t", "text": 5}, "text: expected"),
        ({"id": "1", "task": "t", "messages": []}, "messages: expected a list"),
        (
            {"id": "1", "task": "t", "messages": [{"role": "system", "content": "x"}]},
            "none has the role user",
        ),
        (
            {"id": "1", "task": "t", "messages": [{"role": "user", "content": [1]}]},
            "expected a text as content",
        ),
        (
            {"id": "1", "task": "t", "text": "abc", "context": [0, 4]},
            "context: expected [start, end) within 3",
        ),
        ({"id": "1", "task": "t", "text": "abc", "question": [2, 2]}, "question: expected"),
        ({"id": "1", "task": "t", "text": "abc", "question": [0, True]}, "question: expected"),
        ({"id": "1", "task": "t", "text": "abc", "answers": "abc"}, "answers: expected a list"),
        ({"id": "1", "task": "t", "text": "abc", "meta": 3}, "meta: expected an object"),
        ({"id": "ok", "task": "t", "text": "abc"}, "is there already, in line 1"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, text):
    path = write(tmp_path, {"id": "ok", "task": "t", "text": "abc"}, line)
    with pytest.raises(PromptError) as caught:
        list(read_prompts(path))
    assert str(caught.value).startswith(f"{path}, line 2: ") and text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_not_utf8_and_empty(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"id": "1", "task": "t", "text": "caf\xe9"}')
    with pytest.raises(PromptError, match="line 1"):
        list(read_prompts(path))
    with pytest.raises(PromptError, match="no prompt"):
        list(read_prompts(write(tmp_path, "")))


@pytest.mark.parametrize("template", [None, TEMPLATE, TRIMMING_TEMPLATE])
def test_offsets_are_those_of_the_content(template):
    tokenizer = tiny_tokenizer(template=template or TEMPLATE)
    prompt = Prompt("1", "t", context=CONTEXT, question=QUESTION)
    if template is None:
        prompt.text = CONTENT
    else:
        prompt.messages = [
            {"role": "user", "content": CONTENT.strip()},  # the same text earlier must not confuse it
            {"role": "assistant", "content": "4821"},
            {"role": "user", "content": CONTENT},
        ]
    ids, offsets = encode(tokenizer, prompt)
    assert len(ids) == len(offsets)
    context, question = token_spans(prompt, offsets)
    for positions, span in ((context, CONTEXT), (question, QUESTION)):
        start, end = offsets[positions[0]][0], offsets[positions[-1]][1]
        assert positions == list(range(positions[0], positions[-1] + 1))
        assert start <= span[0] and end >= span[1] and span[0] - start <= 1 and end == span[1]
        assert tokenizer.decode([ids[i] for i in positions]) == CONTENT[start:end]
    assert context[-1] < question[0]


def test_chat_ids_are_those_of_the_template():
    tokenizer = tiny_tokenizer()
    prompt = Prompt(
        "1", "t", messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "a b"}]
    )
    ids, offsets = encode(tokenizer, prompt)
    rendered = "<|system|>\nS<|end|>\n<|user|>\na b<|end|>\n<|assistant|>\n"
    assert ids == tokenizer(rendered, add_special_tokens=False)["input_ids"]
    context, question = token_spans(prompt, offsets)
    assert context == [] and tokenizer.decode([ids[i] for i in question]) == "a b"


def test_default_spans():
    text = " ".join(f"word{i}" for i in range(60))
    tokenizer = tiny_tokenizer()
    prompt = Prompt("1", "t", text=text)
    ids, offsets = encode(tokenizer, prompt)
    context, question = token_spans(prompt, offsets)
    assert question == list(range(len(ids) - 32, len(ids))) and context == list(range(len(ids) - 32))
    prompt.context = (0, 100)
    context, question = token_spans(prompt, offsets)
    assert offsets[question[0]][0] >= 100 and question[-1] == len(ids) - 1
    assert context and context[-1] < question[0] and offsets[context[-1]][1] >= 100


def test_template_that_changes_the_text_is_refused():
    tokenizer = tiny_tokenizer(template=TEMPLATE.replace("message['content']", "message['content'] | upper"))
    with pytest.raises(PromptError, match="changes the user's text"):
        encode(tokenizer, Prompt("1", "t", messages=[{"role": "user", "content": "abc"}]))
    with pytest.raises(PromptError, match="no chat template"):
        encode(tiny_tokenizer(template=None), Prompt("1", "t", messages=[{"role": "user", "content": "abc"}]))

"""The choice of tokens: the same as the program's."""

from __future__ import annotations

import hashlib
import json
import random

import program
from rope_profiler_hf.selection import choose_tokens, token_digest


def test_the_digest_is_of_the_documented_text():
    text = b"p1\x00niah/7\x00query\x00123\x0020260910"
    assert token_digest("p1", "niah", "7", "query", 123, 20260910) == hashlib.sha256(text).hexdigest()


def test_choice_by_hand():
    order = sorted(range(50), key=lambda p: token_digest("p1", "t", "e", "query", p, 20260910))
    query, key = choose_tokens("t", "e", range(50), range(200), queries=3, keys=5)
    assert query == sorted(order[:3])
    assert len(key) == min(5, query[0]) and all(position < query[0] for position in key)
    pair = [token_digest("p1", "t", "e", "pair", p, 20260910) for p in key]
    assert pair == sorted(pair)
    assert choose_tokens("t", "e", [], [1, 2]) == ([], [])
    assert choose_tokens("t", "e", [3, 3, 3], [1, 1, 5]) == ([3], [1])


def test_the_program_chooses_the_same_tokens(tmp_path):
    generator = random.Random(5)
    examples = []
    for number in range(40):
        length = generator.randint(3, 300)
        examples.append(
            {
                "example_id": generator.choice(["", "ä ", "a/b ", "x-"]) + str(number),
                "task": generator.choice(["niah", "täsk two", "q.1"]),
                "query": generator.sample(range(length), generator.randint(1, min(length, 12))),
                "key": generator.sample(range(length), generator.randint(1, length)),
            }
        )
    lines = tmp_path / "tokens.jsonl"
    lines.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    for options in ({}, {"queries": 2, "keys": 7, "protocol": "q", "seed": 9}):
        given = [text for name, value in options.items() for text in (f"--{name}", value)]
        answer = program.run("sample", lines, "-o", "-", *given).splitlines()
        assert len(answer) == len(examples)
        for line, example in zip(map(json.loads, answer), examples):
            own = choose_tokens(
                example["task"], example["example_id"], example["query"], example["key"], **options
            )
            assert (line["query_position"], line["key_position"]) == own

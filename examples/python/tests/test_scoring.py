import pytest

from rope_profiler_hf.prompts import Prompt, PromptError
from rope_profiler_hf.scoring import normalise, score


@pytest.mark.parametrize(
    "rule, answers, text, right",
    [
        ("number", ["4821"], " 4821.", 1),
        ("number", ["4821"], "It is 4,821", 1),
        ("number", ["4821"], "the code is 4821, not 17", 1),
        ("number", ["4821"], "17 or 4821", 0),
        ("number", ["4821"], "48215", 0),
        ("number", ["4821"], "", 0),
        ("number", ["4821", "5"], "5", 1),
        ("numbers", ["12", "34"], "34 and 12.", 1),
        ("numbers", ["12", "34"], "12, 12, 34", 0),
        ("numbers", ["12", "34"], "12", 0),
        ("word", ["apple"], ' "Apple", I think', 1),
        ("word", ["apple"], "\n\nan apple.\nno", 1),
        ("word", ["apple"], "pineapple", 0),
        ("word", ["apple"], "pear apple", 0),
        ("word", ["apple"], "", 0),
        ("line", ["red fox hill"], " Red  fox, hill.\nmore", 1),
        ("line", ["red fox hill"], "red fox hill lake", 0),
        ("line", ["red fox hill"], "red fox", 0),
        ("contains", ["Paris", "Rome"], "from Rome to Paris!", 1),
        ("contains", ["Paris", "Rome"], "from Rome to Parisian", 0),
    ],
)
def test_rules(rule, answers, text, right):
    assert score(Prompt("1", "t", text="x", answers=answers, meta={"score": rule}), text) == right


def test_line_is_the_default_rule():
    assert score(Prompt("1", "t", text="x", answers=["Yes"]), "yes.\nno") == 1
    assert score(Prompt("1", "t", text="x", answers=["Yes"]), "no\nyes") == 0


def test_normalise():
    assert normalise("  “Ｆｏｘ”—\thill ") == "fox hill"


@pytest.mark.parametrize("answers, rule", [([], "line"), (["..."], "line"), (["x"], "nothing")])
def test_what_cannot_be_scored_is_refused(answers, rule):
    with pytest.raises(PromptError, match="task 't', id '1'"):
        score(Prompt("1", "t", text="x", answers=answers, meta={"score": rule}), "x")

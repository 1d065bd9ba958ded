"""The package's README: its Python runs as it stands, in the order of the page, and what it says of the tasks holds."""

import re
from pathlib import Path

import h5py
import program
import pytest

from rope_profiler_hf.tasks import TASKS

README = (program.REPOSITORY / "examples/python/README.md").read_text(encoding="utf-8")
SHIPPED = program.REPOSITORY / "examples/data/smollm2.h5"
SHIPPED_FULL = SHIPPED.with_name("smollm2_full.h5")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_python_of_the_page(smollm2, tmp_path, monkeypatch, capsys):
    def load_model(path):
        assert path == "smollm2"
        return smollm2  # loaded once for all tests

    monkeypatch.setattr("rope_profiler_hf.loading.load_model", load_model)
    monkeypatch.chdir(tmp_path)
    (prompt,) = blocks("json")
    Path("prompts.jsonl").write_text(prompt, encoding="utf-8")
    made = re.findall(r"^    rope-profiler ((?:profile|plan) .*)$", README.split("## Apply")[1], re.MULTILINE)
    assert len(made) >= 2
    for line in made[:2]:
        program.run(*line.replace("examples/data/smollm2.h5", str(SHIPPED)).split())
    (fit,) = re.findall(r"^    rope-profiler (adarope .*)$", README, re.MULTILINE)
    program.run(*fit.replace("examples/data/smollm2_full.h5", str(SHIPPED_FULL)).split())
    found = blocks("python")
    assert len(found) == 4
    names: dict = {}
    for block in found:
        exec(compile(block, "README.md", "exec"), names)
    with h5py.File("cache.h5") as file:
        assert list(file["tasks"]) == ["needle"]
    printed = capsys.readouterr().out.splitlines()
    texts = dict(line.split(" ", 1) for line in printed)
    assert list(texts) == ["NR", "0", "0.5", "adarope"] and len(set(texts.values())) > 1


@pytest.mark.parametrize("name", sorted(TASKS))
def test_tasks_of_the_page(name):
    assert f"\n| `{name}` |" in README
    growing = re.search(r"without it\. ([^.]*?) take ITEMS = 0", README)[1]
    assert (f"`{name}`" in growing) == TASKS[name].grows

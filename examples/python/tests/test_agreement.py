import csv

import pytest

from rope_profiler_hf.agreement import SCORES, agree, average_ranks, main, measured_changes, spearman
from rope_profiler_hf.records import Record, RecordFile


def record(task, example, candidate, correct):
    stage = None if candidate == "baseline" else 5
    return Record(task, example, candidate, stage, correct, "", 10, "0")


def test_ranks_and_spearman():
    assert average_ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]
    assert spearman([1, 2, 3, 4], [10, 20, 30, 35]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(
        1 - 6 * 4 / (5 * 24)
    )  # no ties: 1 − 6Σd²/(n(n²−1))
    assert spearman([1, 1, 1], [1, 2, 3]) is None and spearman([1, 2], [1, 2]) is None


def test_measured_changes_are_paired():
    records = [record("t", "0", "baseline", 1), record("t", "1", "baseline", 0), record("t", "0", "NR", 0)]
    records += [record("t", "1", "NR", 1), record("t", "2", "NR", 1), record("t", "1", "0.5", 1)]
    assert measured_changes(records) == {(5, "t", "NR"): 0.0, (5, "t", "0.5"): 1.0}


def test_agreement_within_tasks():
    predicted = {
        (5, task, name): 10 * t + c for t, task in enumerate("abcd") for c, name in enumerate(["0", "1", "2"])
    }
    order = {
        cell: -10 * (value // 10) + value % 10 for cell, value in predicted.items()
    }  # tasks the other way round
    found = agree("x", predicted, order, draws=2000)
    assert found.cells == 12 and found.rho < 0 and found.rho_within == pytest.approx(1)
    assert found.p_within < 0.01  # 6^4 orders, two of them as far
    constant = agree("x", predicted, {cell: 0.0 for cell in predicted}, draws=10)
    assert (constant.rho, constant.rho_within, constant.p_within) == (None, None, None)
    assert agree("x", predicted, {}).cells == 0


def test_p_is_large_without_a_relation():
    predicted = {(5, f"t{t}", str(c)): float(c) for t in range(6) for c in range(3)}
    measured = {
        cell: float((int(cell[1][1:]) + int(cell[2])) % 3) for cell in predicted
    }  # every order equally often
    found = agree("x", predicted, measured, draws=500)
    assert abs(found.rho_within) < 0.2 and found.p_within > 0.3


def test_command(tmp_path, capsys):
    with RecordFile(tmp_path / "r.jsonl") as file:
        for task in "ab":
            file.add(record(task, str(i), "baseline", i % 2) for i in range(4))
            for count, name in enumerate(["NR", "0", "0.5"]):
                file.add(record(task, str(i), name, int(i <= count)) for i in range(4))
    columns = [column for score in SCORES for column in (score, f"{score}_change")]
    with open(tmp_path / "p.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["stage", "task", "candidate", *columns])
        writer.writeheader()
        for task in "ab":
            for value, name in enumerate(["baseline", "NR", "0", "0.5", "1"]):
                row = {column: value / 10 for column in columns}
                row["norm_share_change"] = ""
                writer.writerow({"stage": 5, "task": task, "candidate": name, **row})
    assert main([str(tmp_path / "p.csv"), str(tmp_path / "r.jsonl"), "--draws", "50"]) == 0
    out = capsys.readouterr().out
    assert "| semantic_score | 6 | 1.000 | 1.000 |" in out and "| norm_share | 0 | – | – | – |" in out
    (tmp_path / "p.csv").write_text("task\n")
    assert main([str(tmp_path / "p.csv"), str(tmp_path / "r.jsonl")]) == 3
    assert "no column candidate" in capsys.readouterr().err

"""The records file of rope-evaluate: one line per generation, as rope-profiler outcome reads it.

JSON lines or CSV by the file's ending. Every record is one line, so that an interrupted run can be taken up after its last
whole line; in CSV the control characters and backslashes of the text are therefore written as \\xNN.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO

from rope_profiler_hf.prompts import PromptError


@dataclass(frozen=True)
class Record:
    """One generation and whether it was right.

    stage: 5 or 10, None for the baseline, which serves every stage. prompt_tokens: the prompt's length M.
    run: digest of all that the text depends on (evaluate.py); a record of another run is never taken for this one's.
    """

    task: str
    example_id: str
    candidate: str
    stage: int | None
    correct: int
    text: str
    prompt_tokens: int
    run: str

    @property
    def key(self) -> tuple[str, str, str, int | None]:
        return (self.task, self.example_id, self.candidate, self.stage)


COLUMNS = [field.name for field in fields(Record)]


def is_csv(path: Path) -> bool:
    """True for .csv, false for .jsonl and .ndjson; PromptError for other endings."""
    if path.suffix not in (".csv", ".jsonl", ".ndjson"):
        raise PromptError(f"{path}: expected a name that ends in .jsonl or .csv")
    return path.suffix == ".csv"


def _csv_line(values: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue()


def _line(record: Record, as_csv: bool) -> str:
    values = asdict(record)
    if as_csv:
        values["text"] = re.sub(r"[\x00-\x1f\\\x7f]", lambda found: f"\\x{ord(found[0]):02x}", record.text)
        return _csv_line(values.values())
    return (
        json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=True)
        + "\n"
    )


def _parse(path: Path, number: int, line: str, as_csv: bool) -> Record:
    try:
        if as_csv:
            values = dict(zip(COLUMNS, next(csv.reader([line], strict=True)), strict=True))
            values["stage"] = int(values["stage"]) if values["stage"] else None
            values["correct"], values["prompt_tokens"] = int(values["correct"]), int(values["prompt_tokens"])
        else:
            values = {"stage": None, **json.loads(line)}
        return Record(**values)
    except (ValueError, TypeError, csv.Error, StopIteration):
        raise PromptError(f"{path}, line {number}: not a record of rope-evaluate") from None


def read_records(path: Path) -> tuple[list[Record], int]:
    """(the records of the whole lines, the number of bytes they take). A last line without its end is left out."""
    as_csv = is_csv(path)
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    try:
        lines = whole.decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError:
        raise PromptError(f"{path}: not UTF-8") from None
    if as_csv and lines and lines[0] != ",".join(COLUMNS):
        raise PromptError(f"{path}, line 1: expected the header {','.join(COLUMNS)}")
    first = 1 if as_csv else 0
    return [_parse(path, i + 1, lines[i], as_csv) for i in range(first, len(lines))], len(whole)


class RecordFile:
    """Appends records, each on disk before the next batch starts."""

    def __init__(self, path: Path, force: bool = False) -> None:
        """Opens `path` to go on after its whole records, or anew with `force`."""
        self._csv = is_csv(path)
        self.known: list[Record] = []
        size = 0
        if path.exists() and not force:
            self.known, size = read_records(path)
        self._file: IO[bytes] = open(path, "r+b" if size else "wb")
        self._file.truncate(size)
        self._file.seek(size)
        if self._csv and size == 0:
            self._file.write(_csv_line(COLUMNS).encode())

    def add(self, records: Iterable[Record]) -> None:
        self._file.write("".join(_line(record, self._csv) for record in records).encode("utf-8"))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

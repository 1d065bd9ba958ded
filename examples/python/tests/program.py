"""The built program rope-profiler, for tests that hold both sides together."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@cache
def rope_profiler() -> str:
    """Path of the program: $ROPE_PROFILER, else the newest of the repository's builds; skips the test without
    one."""
    given = os.environ.get("ROPE_PROFILER")
    if given:
        if not os.access(given, os.X_OK):
            pytest.fail(f"ROPE_PROFILER={given}: not a program")
        return given
    built = [path for path in REPOSITORY.glob("build/*/src/cli/rope-profiler") if os.access(path, os.X_OK)]
    if not built:
        pytest.skip(
            "NOT TESTED against the program: no build/*/src/cli/rope-profiler, and ROPE_PROFILER is not set"
        )
    return str(max(built, key=lambda path: path.stat().st_mtime))


def run(*arguments: object) -> str:
    """Standard output of the program; a failure fails the test with what it said."""
    done = subprocess.run(
        [rope_profiler(), *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_json(*arguments: object) -> dict:
    return json.loads(run(*arguments))

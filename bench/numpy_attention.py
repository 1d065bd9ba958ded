#!/usr/bin/env python3
"""What NumPy needs for the attention rows of one head: float64 products of 64 queries with all keys at or before
them, E_1, E_2 and E_inf of every row. One thread unless OPENBLAS_NUM_THREADS says otherwise. Answers
rope_attention_bench's questions, one JSON line each; the turning of the vectors is not counted.
"""

import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402  (the thread count is read on import)

ROWS = 64


def lengths(query, key, position):
    """[3, queries]: ln E_1, ln E_2, ln E_inf."""
    result = np.empty((3, len(query)))
    for first in range(0, len(query), ROWS):
        rows = slice(first, first + ROWS)
        s = query[rows] @ key[:, : position[rows][-1] + 1]
        s[np.arange(s.shape[1]) > position[rows][:, None]] = -np.inf
        s -= s.max(axis=1, keepdims=True)
        e = np.exp(s)
        total = e.sum(axis=1)
        s[np.isneginf(s)] = 0
        result[0, rows] = np.log(total) - np.einsum("ij,ij->i", s, e) / total
        result[1, rows] = 2 * np.log(total) - np.log(np.einsum("ij,ij->i", e, e))
        result[2, rows] = np.log(total)
    return result


def main():
    for line in sys.stdin:
        q = json.loads(line)
        random = np.random.default_rng(1)
        query = random.uniform(-3, 3, (q["queries"], q["dim"])) / np.sqrt(q["dim"])
        key = random.uniform(-3, 3, (q["dim"], q["keys"]))
        position = np.arange(1, q["queries"] + 1) * q["keys"] // q["queries"] - 1
        start = time.process_time()
        found = lengths(query, key, position)
        print(json.dumps({"ns": (time.process_time() - start) * 1e9, "mean": found[1].mean()}), flush=True)


if __name__ == "__main__":
    main()

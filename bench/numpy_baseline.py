#!/usr/bin/env python3
"""NumPy's best effort at what rope_bench times as "mean + max + E_2": float32, one matrix product per chunk of pairs
and distances, every other step in place. Prints nanoseconds per pair-distance, one thread unless OPENBLAS_NUM_THREADS
says otherwise. On AVX-512 machines with an old OpenBLAS set OPENBLAS_CORETYPE=SkylakeX, else the product runs at a
quarter of its speed and flatters whatever is compared with it.

usage: numpy_baseline.py [--h 64] [--window 8192] [--pairs 480] [--repeats 5]
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402  (the thread count is read on import)

PAIRS, DISTANCES = 32, 4096  # chunk: fits the second-level cache


def table(omega, window):
    """cos and -sin of m omega, [2h, window], so that [Re z, Im z] @ table = S."""
    angle = np.outer(omega, np.arange(window, dtype=np.float64))
    return np.concatenate([np.cos(angle), -np.sin(angle)]).astype(np.float32)


def sweep(z, phases, scores, steps):
    """Mean and largest |S(m+1) - S(m)| and E_2 of each row of z."""
    count, window = z.shape[0], phases.shape[1]
    mean, largest, length = (np.zeros(count) for _ in range(3))
    for first in range(0, count, PAIRS):
        rows = slice(first, min(first + PAIRS, count))
        n = rows.stop - rows.start
        top = np.full(n, -np.inf, np.float32)
        weight, square, total = np.zeros(n), np.zeros(n), np.zeros(n)
        big = np.zeros(n, np.float32)
        for start in range(0, window, DISTANCES):
            stop = min(start + DISTANCES + 1, window)  # one distance is shared by two chunks
            s = scores[:n, : stop - start]
            d = steps[:n, : stop - start - 1]
            np.matmul(z[rows], phases[:, start:stop], out=s)
            np.subtract(s[:, 1:], s[:, :-1], out=d)
            np.abs(d, out=d)
            total += d.sum(axis=1, dtype=np.float32)
            np.maximum(big, d.max(axis=1), out=big)
            own = s if stop == window else s[:, :-1]
            new = np.maximum(top, own.max(axis=1))
            scale = np.exp(top - new)
            top = new
            own -= top[:, None]
            np.exp(own, out=own)
            weight = weight * scale + own.sum(axis=1)
            square = square * scale * scale + np.einsum("ij,ij->i", own, own)
        mean[rows] = total / (window - 1)
        largest[rows] = big
        length[rows] = weight * weight / square
    return mean, largest, length


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--h", type=int, default=64)
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=480)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    omega = 1e6 ** (-np.arange(args.h) / args.h)
    z = np.random.default_rng(1).uniform(-1, 1, (args.pairs, 2 * args.h)).astype(np.float32)
    phases = table(omega, args.window)
    scores = np.empty((PAIRS, DISTANCES + 1), np.float32)
    steps = np.empty((PAIRS, DISTANCES), np.float32)
    best = np.inf
    for _ in range(args.repeats):
        start = time.perf_counter()
        sweep(z, phases, scores, steps)
        best = min(best, time.perf_counter() - start)
    ns = best * 1e9 / (args.pairs * args.window)
    print(f"numpy {np.__version__}, h={args.h}, M={args.window}: {ns:.2f} ns per pair-distance (table not counted)")


if __name__ == "__main__":
    main()

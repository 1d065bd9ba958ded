#!/usr/bin/env python3
"""What NumPy needs for the work that rope_bench times: float32, one matrix product per chunk of pairs and distances,
every other step in place; moments as x^T C x in float64. One thread unless OPENBLAS_NUM_THREADS says otherwise.

Two forms of the sweep. `standard`: chunks of 32 pairs x 4096 distances, running maximum, sums by NumPy's own
reductions. `tuned`: what was fastest in trials on the machines at hand: 64 x 4096, scores taken relative to S(0) in
place of the running maximum (checked for overflow afterwards), sums as products with a vector of ones.

OpenBLAS chooses its kernels when it is loaded; OPENBLAS_CORETYPE (SkylakeX, Haswell, ...) overrides it. On AVX-512
machines old versions choose slow ones and flatter whatever is compared with them.

usage: numpy_baseline.py [--form standard|tuned] [--h 64] [--window 8192] [--pairs 480] [--repeats 5]
       numpy_baseline.py --serve [--form ...]       answers rope_bench's questions, one JSON line each
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402  (the thread count is read on import)

DISTANCES = 4096


def phase_table(omega, window):
    """The table below, cut into chunks."""
    table = whole_table(omega, window)
    return [np.ascontiguousarray(part) for part in cut(table, window)]


def whole_table(omega, window):
    """cos and -sin of m omega, [2h, window], so that [Re z, Im z] @ table = S."""
    angle = np.outer(omega, np.arange(window, dtype=np.float64))
    return np.concatenate([np.cos(angle), -np.sin(angle)]).astype(np.float32)


def cut(table, window):
    """The first `window` columns in chunks of DISTANCES, each with the first distance of the next chunk."""
    return [table[:, s : min(s + DISTANCES + 1, window)] for s in range(0, window - 1, DISTANCES)]


class Sweep:
    """Mean and largest |S(m+1) - S(m)|, E_2 and #{S < 0} of each row of z [pairs, 2h], as far as asked for."""

    def __init__(self, form, mean=True, largest=True, length=True, reversals=False, rows=None):
        self.tuned = form == "tuned"
        self.rows = rows or (64 if self.tuned else 32)
        self.mean, self.largest, self.length, self.reversals = mean, largest, length, reversals
        self.scores = self.steps = np.empty(0, np.float32)
        self.ones = np.ones(DISTANCES + 1, np.float32)

    def sum(self, values):
        return values @ self.ones[: values.shape[1]] if self.tuned else values.sum(axis=1, dtype=np.float32)

    def __call__(self, z, chunks, window):
        result = {name: np.zeros(len(z)) for name in ("mean", "max", "length", "reversals")}
        for first in range(0, len(z), self.rows):
            rows = slice(first, min(first + self.rows, len(z)))
            self.block(z[rows], chunks, window, {name: values[rows] for name, values in result.items()}, self.tuned)
        return result

    def block(self, z, chunks, window, result, from_zero):
        n = len(z)
        top = z[:, : z.shape[1] // 2].sum(axis=1) if from_zero else np.full(n, -np.inf, np.float32)
        weight, square = np.zeros(n), np.zeros(n)
        for index, table in enumerate(chunks):
            columns = table.shape[1]
            if self.scores.size < n * columns:
                self.scores, self.steps = np.empty((2, n * columns), np.float32)
            s = self.scores[: n * columns].reshape(n, columns)
            np.matmul(z, table, out=s)
            if self.mean or self.largest:
                d = self.steps[: n * (columns - 1)].reshape(n, columns - 1)
                np.subtract(s[:, 1:], s[:, :-1], out=d)
                np.abs(d, out=d)
                if self.mean:
                    result["mean"] += self.sum(d)
                if self.largest:
                    np.maximum(result["max"], d.max(axis=1), out=result["max"])
            own = s if index == len(chunks) - 1 else s[:, :-1]
            if self.reversals:
                result["reversals"] += np.count_nonzero(own < 0, axis=1)
            if not self.length:
                continue
            if not from_zero:
                new = np.maximum(top, own.max(axis=1))
                scale = np.exp(top - new)
                weight *= scale
                square *= scale * scale
                top = new
            own -= top[:, None]
            np.exp(own, out=own)
            weight += self.sum(own)
            square += np.einsum("ij,ij->i", own, own)
        if self.length and from_zero and not np.isfinite(square).all():
            result["mean"][:] = 0
            result["reversals"][:] = 0
            return self.block(z, chunks, window, result, False)
        result["mean"] /= window - 1
        if self.length:
            result["length"][:] = weight * weight / square


def covariance(omega, window):
    """Mean g and covariance C of (cos m w, -sin m w) over m = 0 ... window-1."""

    def kernel(angle):
        half = 0.5 * angle
        near = np.abs(np.sin(half)) < 1e-300
        ratio = np.where(near, 1.0, np.sin(window * half) / (window * np.where(near, 1.0, np.sin(half))))
        return ratio * np.exp(1j * (window - 1) * half)

    k = kernel(omega)
    g = np.concatenate([k.real, -k.imag])
    minus, plus = kernel(omega[:, None] - omega), kernel(omega[:, None] + omega)
    cc, ss = 0.5 * (minus + plus).real, 0.5 * (minus - plus).real
    sc = 0.5 * (plus + minus).imag  # sin(m w_n) cos(m w_l)
    second = np.block([[cc, -sc.T], [-sc, ss]])
    return g, second - np.outer(g, g)


def moments(x, g, c):
    return x @ g, np.einsum("ij,ij->i", x @ c, x)


class Server:
    def __init__(self, form):
        self.form, self.key, self.chunks = form, None, None

    def sweep(self, q):
        key = (q["h"], q["window"], q["pairs"])
        fresh = key != self.key
        if fresh:
            omega = 1e6 ** (-np.arange(q["h"]) / q["h"])
            self.key, self.chunks = key, phase_table(omega, q["window"])
            self.z = np.random.default_rng(1).uniform(-1, 1, (q["pairs"], 2 * q["h"])).astype(np.float32)
        run = Sweep(self.form, q["mean"], q["max"], q["length"], q["reversals"])
        run(self.z[:64], self.chunks, q["window"])  # warms up
        start = time.process_time()
        run(self.z, self.chunks, q["window"])
        return {"ns": (time.process_time() - start) * 1e9 / (q["pairs"] * q["window"])}

    def moments(self, q):
        omega = 1e6 ** (-np.arange(q["h"]) / q["h"])
        g, c = covariance(omega, q["window"])
        x = np.random.default_rng(1).uniform(-1, 1, (q["pairs"], 2 * q["h"]))
        start = time.process_time()
        moments(x, g, c)
        return {"ns": (time.process_time() - start) * 1e9 / q["pairs"]}

    def check(self, q):
        omega = np.array(q["omega"])
        z = np.concatenate([np.reshape(q[part], (-1, len(omega))) for part in ("re", "im")], axis=1)
        found = Sweep(self.form)(z.astype(np.float32), phase_table(omega, q["window"]), q["window"])
        return {name: found[name].tolist() for name in ("mean", "max", "length")}

    def serve(self):
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps(getattr(self, question["work"])(question)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--form", choices=("standard", "tuned"), default="standard")
    parser.add_argument("--h", type=int, default=64)
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--pairs", type=int, default=480)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    server = Server(args.form)
    if args.serve:
        return server.serve()
    question = dict(h=args.h, window=args.window, pairs=args.pairs, mean=True, max=True, length=True, reversals=False)
    best = min(server.sweep(question)["ns"] for _ in range(args.repeats))
    print(f"NumPy {np.__version__}, {args.form}, h={args.h}, M={args.window}: {best:.2f} ns per pair-distance, table not counted")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The scores of `rope-profiler profile CACHE --heads all` by NumPy, as fast as NumPy does them: heads of equal frequencies
and window in batches, the sweep as float32 matrix products in chunks with every other step in place, moments as
x^T C x in float64. Reads caches as they are stored (float16, bfloat16, float32, float64), layout "half", pre-rotation
vectors, heads that rotate as a whole; sliding windows by layer.

usage: numpy_profile.py CACHE.h5 [--jobs 1] [--out scores.npz] [--check PROFILE.h5] [--tasks NAME ...]

--check compares with a profile of the tool and prints the largest relative difference of every score. The last line
is JSON: seconds (reading, scoring and writing; not the start of Python) and the differences.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import h5py  # noqa: E402
import numpy as np  # noqa: E402

from numpy_baseline import Sweep, covariance, cut, whole_table  # noqa: E402

try:
    from scipy.special import erfc
except ImportError:

    def erfc(x):
        return np.fromiter(map(math.erfc, x.ravel().tolist()), float, x.size).reshape(x.shape)


SCORES = (
    "semantic_score positional_score response_max norm_share effective_length_virtual usage_cov usage_centroid "
    "usage_norm_cov usage_norm_centroid frequency_mass"
).split()
PAIRS_AT_ONCE = 2304  # pairs of a batch of layers: their coefficients stay in the second-level cache
SCORES_AT_ONCE = 64 * 4096  # of one chunk of the sweep
TIE = 64 * 2.0**-52


class Layers:
    """Layers that share frequencies and window cap."""

    def __init__(self, slots, omega, base, cap):
        self.slots, self.omega, self.cap, h = slots, omega, cap, len(omega)
        rho = base ** (-1 / h) if base else (omega.min() / omega.max()) ** (1 / (h - 1))
        self.gamma = 2 * 0.06 / ((1 - rho) * 0.1)  # the split `operational`
        self.table = np.empty((2 * h, 0), np.float32)

    def chunks(self, window):
        if self.table.shape[1] < window:
            self.table = whole_table(self.omega, max(window, 4096))
        return cut(self.table, window)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def layer_groups(model, layers):
    """Frequencies, bases and windows of the stored layers, and the softmax scale."""
    d = int(model.attrs["head_dim"])
    if text(model.attrs["rope_layout"]) != "half" or text(model.attrs["query_rotation"]) != "pre":
        sys.exit("numpy_profile: only half layout and pre-rotation queries")
    if text(model.attrs["key_rotation"]) != "pre":
        sys.exit("numpy_profile: only pre-rotation keys")
    if "config" not in model.attrs:
        omega = model["inv_freq"][:].astype(np.float64)
        return [Layers(list(range(len(layers))), omega, None, 0)], d**-0.5
    config = json.loads(text(model.attrs["config"]))
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"]}
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    groups = {}
    for slot, layer in enumerate(layers):
        groups.setdefault(kinds[layer], []).append(slot)
    result = []
    for kind, slots in groups.items():
        parameters = rope.get(kind, rope)
        if parameters.get("rope_type", "default") != "default":
            sys.exit("numpy_profile: only the rope type default")
        base = float(parameters["rope_theta"])
        cap = config.get("sliding_window") if kind == "sliding_attention" else 0
        result.append(Layers(slots, base ** (-np.arange(d // 2) / (d // 2)), base, cap or 0))
    return result, (config.get("query_pre_attn_scalar") or d) ** -0.5


def widen(stored, bfloat16):
    if bfloat16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32 if stored.dtype.itemsize <= 4 else np.float64)


def products(q, k, out):
    """Q conj(K) of q [l, kv, group, nq, d] and k [l, kv, nk, d] into out [l, kv, group, nq, nk, d]: real parts, then
    imaginary parts."""
    h = q.shape[-1] // 2
    qa, qb = q[..., None, :h], q[..., None, h:]
    ka, kb = k[:, :, None, None, :, :h], k[:, :, None, None, :, h:]
    re, im = out[..., :h], out[..., h:]
    np.multiply(qa, ka, out=re)
    re += qb * kb
    np.multiply(qb, ka, out=im)
    im -= qa * kb
    return out


def variation(u):
    return u.std(axis=1) / u.mean(axis=1)


def centroid(u, omega):
    return u @ np.log(omega) / u.sum(axis=1)


class Scorer:
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.groups = {}

    def layers_of(self, name):
        if name not in self.groups:
            task = self.file["tasks"][name]
            layers = task["layer"][:] if "layer" in task else range(task["query"].shape[1])
            self.groups[name] = layer_groups(self.file["model"], list(layers))
        return self.groups[name]

    def example(self, name, row):
        """{score: [layers * heads]} and usage [layers * heads, h] of one example."""
        task = self.file["tasks"][name]
        groups, scale = self.layers_of(name)
        query, key = task["query"], task["key"]
        q = widen(query[row], query.attrs.get("dtype") is not None)
        k = widen(key[row], key.attrs.get("dtype") is not None)
        kept = [np.flatnonzero(task[side][row] >= 0) for side in ("query_position", "key_position")]
        two = np.arange(key.shape[3] // 2 * 2).reshape(-1, 2)
        two = np.searchsorted(kept[1], two[np.isin(two, kept[1]).all(axis=1)])
        if len(kept[0]) < q.shape[2]:
            q = q[:, :, kept[0]]
        if len(kept[1]) < k.shape[2]:
            k = k[:, :, kept[1]]
        distance = task["query_position"][row][kept[0]][:, None] - task["key_position"][row][kept[1]]
        q *= scale
        q = q.reshape(q.shape[0], k.shape[1], q.shape[1] // k.shape[1], *q.shape[2:])
        heads = q.shape[1] * q.shape[2]
        result = {score: np.full((q.shape[0], heads), np.nan) for score in SCORES}
        window = int(task["window"][row])
        step = max(1, PAIRS_AT_ONCE // (heads * distance.size))
        for layers in groups:
            own = min(window, layers.cap) if layers.cap else window
            angle = distance.reshape(-1, 1) * layers.omega
            phase = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
            form = covariance(layers.omega, own)
            for first in range(0, len(layers.slots), step):
                slots = layers.slots[first : first + step]
                if slots[-1] - slots[0] == len(slots) - 1:
                    slots = slice(slots[0], slots[-1] + 1)  # views, no copies
                values = self.pairs(q[slots], k[slots], layers, own, phase)
                values["semantic_score"] = self.semantic(q[slots], k[slots], two, form)
                for score, column in values.items():
                    result[score][slots] = column.reshape(-1, heads)
        return {score: table.ravel() for score, table in result.items()}

    def pairs(self, q, k, layers, window, phase):
        omega, h = layers.omega, len(layers.omega)
        per_head = q.shape[3] * k.shape[2]
        z = np.empty((*q.shape[:4], k.shape[2], 2 * h), np.float32)
        z = products(q, k, z).reshape(-1, 2 * h)
        re, im = z[:, :h], z[:, h:]
        size = re * re
        other = im * im
        size += other
        both = np.stack([np.ones(h), window * omega >= layers.gamma], axis=1).astype(np.float32)
        norm, high = np.sqrt(size @ both).astype(np.float64).T
        valid = norm > 0
        count = valid.reshape(-1, per_head).sum(axis=1)
        inverse = 1 / np.where(valid, norm, 1)

        def mean(values):
            return (values * valid).reshape(-1, per_head).sum(axis=1) / count

        np.sqrt(size, out=size)
        both = np.stack([omega, np.ones(h)], axis=1).astype(np.float32)
        mass, total = (size @ both).astype(np.float64).T
        usage_norm = size.reshape(-1, per_head, h).sum(axis=1).astype(np.float64) / count[:, None]
        # |Re(z e^{i m omega})| at the pairs' own distances
        shape = (-1, per_head, h)
        turned = np.multiply(re.reshape(shape), phase[0], out=size.reshape(shape))
        turned -= np.multiply(im.reshape(shape), phase[1], out=other.reshape(shape))
        np.abs(turned, out=turned)
        usage = turned.sum(axis=1).astype(np.float64) / count[:, None]
        rows = max(32, min(512, SCORES_AT_ONCE // window // 16 * 16))
        swept = Sweep("tuned", rows=rows)(z, layers.chunks(window), window)
        return {
            "norm_share": mean(high * inverse),
            "frequency_mass": mean(mass / np.where(valid, total, 1)),
            "positional_score": mean(swept["mean"] * inverse),
            "response_max": mean(swept["max"] * inverse),
            "effective_length_virtual": mean(swept["length"]),
            "usage_cov": variation(usage),
            "usage_centroid": centroid(usage, omega),
            "usage_norm_cov": variation(usage_norm),
            "usage_norm_centroid": centroid(usage_norm, omega),
        }

    @staticmethod
    def semantic(q, k, two, form):
        between = k[:, :, two[:, 0]].astype(np.float64)
        between -= k[:, :, two[:, 1]]
        x = np.empty((*q.shape[:4], len(two), q.shape[-1]))
        x = products(q.astype(np.float64), between, x).reshape(-1, q.shape[-1])
        h = x.shape[1] // 2
        at_zero = x[:, :h].sum(axis=1)
        tie = np.abs(at_zero) <= TIE * 4 * np.abs(x).sum(axis=1)  # a bound first: ties are rare
        if tie.any():
            tie[tie] = np.abs(at_zero[tie]) <= TIE * np.hypot(x[tie, :h], x[tie, h:]).sum(axis=1)
        g, c = form
        mean = x @ g
        variance = np.einsum("ij,ij->i", x @ c, x)
        mean *= np.sign(at_zero)
        deviation = np.sqrt(np.maximum(variance, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            reversal = 0.5 * erfc(mean / deviation * math.sqrt(0.5))
        valid = ~tie
        per_head = (-1, q.shape[3] * len(two))
        reversal = np.where(valid, reversal, 0).reshape(per_head).sum(axis=1)
        return 1 - reversal / valid.reshape(per_head).sum(axis=1)


def work(arguments):
    path, parts = arguments
    scorer = Scorer(path)
    return [(name, row, scorer.example(name, row)) for name, row in parts]


def score(path, tasks, jobs):
    """{task: {score: [examples, layers * heads]}}"""
    with h5py.File(path, "r") as file:
        names = [name for name in file["tasks"] if not tasks or name in tasks]
        parts = [(name, row) for name in names for row in range(file["tasks"][name]["query"].shape[0])]
    if jobs == 1:
        done = work((path, parts))
    else:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            pieces = [(path, parts[i :: 4 * jobs]) for i in range(4 * jobs)]
            done = [item for piece in pool.imap_unordered(work, pieces) for item in piece]
    result = {}
    for name, row, values in sorted(done, key=lambda item: item[:2]):
        for key, column in values.items():
            result.setdefault(name, {}).setdefault(key, []).append(column)
    return {name: {key: np.array(rows) for key, rows in columns.items()} for name, columns in result.items()}


def compare(path, result, profile):
    """Largest relative difference of each score; rows are matched by example_id."""
    worst = {score: 0.0 for score in SCORES}
    with h5py.File(path, "r") as cache, h5py.File(profile, "r") as file:
        for name, columns in result.items():
            ids = [text(i) for i in cache["tasks"][name]["example_id"][:]] if "example_id" in cache["tasks"][name] else \
                [str(i) for i in range(len(columns[SCORES[0]]))]
            task = file["tasks"][name]
            place = {text(i): row for row, i in enumerate(task["example_id"][:])}
            rows = [place[i] for i in ids]
            for score in SCORES:
                expected = task[score][:][rows]
                difference = np.abs(columns[score] - expected) / np.maximum(np.abs(expected), 1e-12)
                if not np.array_equal(np.isnan(columns[score]), np.isnan(expected)):
                    worst[score] = float("inf")
                worst[score] = max(worst[score], float(np.nanmax(difference)))
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cache")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--check")
    parser.add_argument("--tasks", nargs="*")
    args = parser.parse_args()
    start, used = time.perf_counter(), sum(os.times()[:4])
    result = score(args.cache, args.tasks, args.jobs)
    if args.out:
        np.savez(args.out, **{f"{name}/{key}": table for name, columns in result.items() for key, table in columns.items()})
    report = {"seconds": time.perf_counter() - start, "cpu_seconds": sum(os.times()[:4]) - used, "numpy": np.__version__}
    if args.check:
        report["differences"] = compare(args.cache, result, args.check)
        for name, value in report["differences"].items():
            print(f"{name:26} {value:.1e}")
    print(json.dumps(report))
    if args.check and not max(report["differences"].values()) <= 1e-4:
        sys.exit("numpy_profile: the scores differ by more than 1e-4")


if __name__ == "__main__":
    main()

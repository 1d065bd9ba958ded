#!/usr/bin/env python3
"""The sweep of numpy_baseline.py by PyTorch on the CPU: float32, chunks of 64 pairs x 4096 distances, logsumexp. Answers
rope_bench's questions, one JSON line each; one thread.

usage: torch_baseline.py --serve
"""

import json
import sys
import time

import torch

from numpy_baseline import cut

ROWS = 64


def chunks_of(omega, window):
    angle = torch.outer(omega, torch.arange(window, dtype=torch.float64))
    return [part.contiguous() for part in cut(torch.cat([angle.cos(), -angle.sin()]).float(), window)]


def sweep(z, chunks, window, mean=True, largest=True, length=True, reversals=False):
    result = {name: torch.zeros(len(z), dtype=torch.float64) for name in ("mean", "max", "length", "reversals")}
    for first in range(0, len(z), ROWS):
        block = z[first : first + ROWS]
        rows = slice(first, first + len(block))
        sums, squares = [], []
        for index, table in enumerate(chunks):
            s = block @ table
            if mean or largest:
                d = torch.diff(s, dim=1).abs_()
                result["mean"][rows] += d.sum(dim=1)
                if largest:
                    result["max"][rows] = torch.maximum(result["max"][rows], d.amax(dim=1).double())
            own = s if index == len(chunks) - 1 else s[:, :-1]
            if reversals:
                result["reversals"][rows] += (own < 0).sum(dim=1)
            if length:
                sums.append(torch.logsumexp(own, dim=1))
                squares.append(torch.logsumexp(own.mul_(2), dim=1))
        if length:
            total = [torch.logsumexp(torch.stack(parts).double(), dim=0) for parts in (sums, squares)]
            result["length"][rows] = torch.exp(2 * total[0] - total[1])
    result["mean"] /= window - 1
    return result


class Server:
    key = chunks = z = None

    def sweep(self, q):
        key = (q["h"], q["window"], q["pairs"])
        if key != self.key:
            omega = 1e6 ** (-torch.arange(q["h"], dtype=torch.float64) / q["h"])
            self.key, self.chunks = key, chunks_of(omega, q["window"])
            self.z = torch.rand(q["pairs"], 2 * q["h"], generator=torch.Generator().manual_seed(1)) * 2 - 1
        wanted = q["mean"], q["max"], q["length"], q["reversals"]
        sweep(self.z[:ROWS], self.chunks, q["window"], *wanted)  # warms up
        start = time.process_time()
        sweep(self.z, self.chunks, q["window"], *wanted)
        return {"ns": (time.process_time() - start) * 1e9 / (q["pairs"] * q["window"])}

    def check(self, q):
        omega = torch.tensor(q["omega"], dtype=torch.float64)
        z = torch.cat([torch.tensor(q[part]).reshape(-1, len(omega)) for part in ("re", "im")], dim=1).float()
        found = sweep(z, chunks_of(omega, q["window"]), q["window"])
        return {name: found[name].tolist() for name in ("mean", "max", "length")}


def main():
    torch.set_num_threads(1)
    server = Server()
    with torch.no_grad():
        for line in sys.stdin:
            question = json.loads(line)
            answer = getattr(server, question["work"], lambda _: {"ns": None})(question)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs every benchmark and writes one JSON record a line: rope_bench with its baselines, rope_read_bench, and the whole
of `profile` against numpy_profile.py. tools/bench calls it; report.py makes the page of it.

usage: measure.py --build build/bench [--quick] [--python PYTHON ...] --out results.jsonl
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent


class Run:
    def __init__(self, args):
        self.quick = args.quick
        self.tool = str(pathlib.Path(args.build) / "src/cli/rope-profiler")
        self.bench = pathlib.Path(args.build) / "bench"
        self.out = open(args.out, "w")
        self.scratch = tempfile.TemporaryDirectory(prefix="rope-bench-")
        self.threads = len(os.sched_getaffinity(0))
        self.standard = self.tuned = self.torch = None  # (python, OPENBLAS_CORETYPE)

    def record(self, **values):
        self.out.write(json.dumps(values) + "\n")
        self.out.flush()

    def take_over(self, path):
        for line in open(path):
            self.record(**json.loads(line))

    def file(self, name):
        return os.path.join(self.scratch.name, name)


def say(text):
    print(text, flush=True)


def environment(core=None, threads=1):
    env = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    env.pop("OPENBLAS_CORETYPE", None)
    if core:
        env["OPENBLAS_CORETYPE"] = core
    return env


def used(command, env=None, cores=None):
    """Wall and processor seconds and the largest resident memory of a command that must succeed; and its output."""
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, preexec_fn=pin)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode != 0:
        sys.exit(f"measure: {' '.join(command)} failed:\n{text}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak_bytes": 1024 * usage.ru_maxrss}, text


def sample(command, cores=None):
    return used(command, cores=cores)[0]


def best(samples):
    return {key: min(sample[key] for sample in samples) for key in samples[0]}


# ---- which Python, which kernels of OpenBLAS ----------------------------------------------------------------------

def can_import(python, modules):
    return subprocess.run([python, "-c", f"import {modules}"], capture_output=True).returncode == 0


def choose_numpy(run, given):
    """The standard form runs as its users would find it; the tuned one with whatever is fastest here."""
    pythons = []
    for python in [*given, "/usr/bin/python3", sys.executable]:
        if python not in pythons and os.path.exists(python) and can_import(python, "numpy, h5py"):
            pythons.append(python)
    for python in [*given, "/usr/bin/python3", sys.executable]:
        if os.path.exists(python) and can_import(python, "torch, numpy"):
            run.torch = python
            break
    flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    avx512, amd = "avx512f" in flags, "AuthenticAMD" in flags
    cores = [None] + (["SkylakeX"] if avx512 else []) + (["Haswell"] if "avx2" in flags else []) + (["Zen"] if amd else [])
    trials = []
    for python in pythons:
        for core in cores:
            command = [python, str(HERE / "numpy_baseline.py"), "--form", "tuned", "--repeats", "3" if run.quick else "9"]
            line = used(command, environment(core))[1].strip().splitlines()[-1]
            trials.append((float(line.split(": ")[1].split()[0]), python, core, line.split(",")[0]))
            say(f"  {line.split(':')[0]}, OPENBLAS_CORETYPE={core or 'not set'}: {trials[-1][0]:.2f} ns")
    if not trials:
        say("  no NumPy with h5py: its rows are left out")
        run.record(kind="numpy", found=False)
        return
    run.standard = (pythons[0], "SkylakeX" if avx512 else None)
    run.tuned = min(trials)[1:3]
    names = {python: name for _, python, _, name in trials}
    run.record(kind="numpy", found=True, standard=[names[pythons[0]], run.standard[1]],
               tuned=[names[run.tuned[0]], run.tuned[1]],
               trials=[{"version": name, "core": core, "ns": ns} for ns, _, core, name in trials])


# ---- parts --------------------------------------------------------------------------------------------------------

def sweeps(run):
    command = [str(run.bench / "rope_bench"), "--json", run.file("sweeps.jsonl")] + ["--quick"] * run.quick
    core = run.tuned[1] if run.tuned else None

    def baseline(name, python, core, script):
        setting = f"OPENBLAS_CORETYPE={core}" if core else "-u OPENBLAS_CORETYPE"
        return ["--baseline", f"{name}=env {setting} '{python}' '{HERE / script.split()[0]}' {script.partition(' ')[2]}"]

    if run.standard:
        command += baseline("NumPy", *run.standard, "numpy_baseline.py --serve")
        command += baseline("NumPy tuned", *run.tuned, "numpy_baseline.py --serve --form tuned")
    if run.torch:
        command += baseline("PyTorch", run.torch, core, "torch_baseline.py --serve")
    # Idle baselines still take a core now and then, so what is measured by the clock runs without them.
    parts = "sweeps targets growth grids sizes moments memory".split()
    for command in (command + ["--parts", *parts], command[:3] + ["--quick"] * run.quick + ["--parts", "threads"]):
        process = subprocess.Popen(command, env=environment(core), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            say("  " + line.rstrip())
        if process.wait() != 0:
            sys.exit("measure: rope_bench failed")
        run.take_over(run.file("sweeps.jsonl"))


def reading(run):
    command = [str(run.bench / "rope_read_bench"), "--json", run.file("read.jsonl")] + ["--quick"] * run.quick
    say(used(command)[1].rstrip())
    run.take_over(run.file("read.jsonl"))


def profile_command(run, cache, threads, *more):
    return [run.tool, "profile", cache, "--heads", "all", "--threads", str(threads), "-q", "-o", run.file("p.h5"),
            "--force", *more]


def last_core(run):
    return {max(os.sched_getaffinity(0))}


def whole_profile(run):
    shared = ROOT.parent / "shared/data/smollm2.h5"
    cache = shared if shared.exists() else ROOT / "examples/data/smollm2.h5"
    tasks = ["kv_lookup", "niah_single"] if run.quick else []
    ours = [word for task in tasks for word in ("--tasks", task)]
    theirs = ["--tasks", *tasks] if tasks else []
    name = "/".join(cache.parts[-3:])
    for threads in sorted({1, run.threads}):
        cores = last_core(run) if threads == 1 else None
        samples = {"rope-profiler": []}
        setups = {}
        if run.standard:
            setups["NumPy"] = run.standard
            if run.tuned != run.standard:
                setups["NumPy tuned"] = run.tuned
        differences = None
        for _ in range(1 if run.quick else 3):
            for _ in range(3):
                samples["rope-profiler"].append(sample(profile_command(run, str(cache), threads, *ours), cores))
            for who, (python, core) in setups.items():
                command = [python, str(HERE / "numpy_profile.py"), str(cache), "--jobs", str(threads), "--out",
                           run.file("s.npz"), "--check", run.file("p.h5"), *theirs]
                _, output = used(command, environment(core), cores)
                answer = json.loads(output.strip().splitlines()[-1])
                differences = answer["differences"]
                samples.setdefault(who, []).append({"wall": answer["seconds"], "cpu": answer["cpu_seconds"]})
        phases = min((timed_profile(profile_command(run, str(cache), threads, *ours), cores)["phases"] for _ in range(3)),
                     key=lambda taken: taken["cpu"])
        run.record(kind="phases", cache=name, threads=threads, phases=phases)
        for who, runs in samples.items():
            run.record(kind="profile", cache=name, tasks=len(tasks), who=who, threads=threads, **best(runs),
                       differences=differences if who != "rope-profiler" else None)
            say(f"  {who}, {threads} threads: {best(runs)['wall']:.3f} s")


def synth(run, name, **options):
    path = run.file(name)
    words = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]
    sample([run.tool, "synth", "-q", "-o", path, "--force", "--head-dim", "128", "--queries", "4", "--keys", "16", *words])
    return path


def sweep_share(run):
    """The part of a profile that is the sweep: its processor time against time of day x threads."""
    for window, examples in ((8192, 12), (32768, 4)):
        for compress in ("none", "gzip"):
            cache = synth(run, "share.h5", tasks=2, examples=examples // 2 if run.quick else examples, windows=window,
                          layers=8, query_heads=32, kv_heads=8, compress=compress)
            for threads in sorted({1, run.threads}):
                for digest in ("full",) if run.quick or compress == "gzip" else ("full", "none"):
                    share_row(run, cache, window, compress, threads, digest)


def share_row(run, cache, window, compress, threads, digest):
    cores = last_core(run) if threads == 1 else None
    command = profile_command(run, cache, threads, "--digest", digest)
    samples = [timed_profile(command, cores) for _ in range(2 if run.quick else 4)]
    fastest = min(samples, key=lambda taken: taken["wall"])
    share = fastest["phases"]["sweep"] / (threads * fastest["wall"])
    run.record(kind="share", window=window, compress=compress, threads=threads, digest=digest, share=share,
               bytes=os.path.getsize(cache), **fastest)
    say(f"  M {window}, {compress}, {threads} threads, digest {digest}: {fastest['wall']:.3f} s, {100 * share:.0f} % swept")


def timed_profile(command, cores):
    """A run with the processor seconds of its phases, as --verbose tells them."""
    taken, output = used([word for word in command if word != "-q"] + ["--verbose"], cores=cores)
    words = output.split("timing:")[1].split("\n")[0].split()
    taken["phases"] = {name: float(value) for name, value in (word.split("=") for word in words)}
    return taken


def growth_of_profile(run):
    """Processor time of a profile against heads and examples."""
    sizes = (4, 8, 16, 32) if not run.quick else (4, 16)
    fixed = dict(tasks=1, windows=16384, layers=4, query_heads=8, kv_heads=4, examples=8)
    for what in ("heads", "examples"):
        costs = []
        for size in sizes:
            changed = {"query_heads": size} if what == "heads" else {"examples": size}
            cache = synth(run, "growth.h5", **{**fixed, **changed})
            costs.append(best([sample(profile_command(run, cache, 1)) for _ in range(2 if run.quick else 5)]))
        x = [math.log(size) for size in sizes]
        y = [math.log(cost["cpu"]) for cost in costs]
        mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
        exponent = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
        scale = 4 if what == "heads" else 1
        run.record(kind="growth", **{"with": what}, sizes=[scale * size for size in sizes],
                   ns=[1e9 * cost["cpu"] for cost in costs], exponent=exponent,
                   peak_bytes=[cost["peak_bytes"] for cost in costs])
        say(f"  {what}: exponent {exponent:.3f}")


def machine_record(run, start, load):
    def output(*command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        return done.stdout.strip() if done.returncode == 0 else ""
    run.record(kind="run", date=start.strftime("%Y-%m-%d %H:%M UTC"), quick=run.quick, threads=run.threads,
               seconds=(datetime.datetime.now(datetime.timezone.utc) - start).total_seconds(),
               load_before=load, load_after=os.getloadavg()[0], commit=output("git", "rev-parse", "--short=10", "HEAD"),
               changed=bool(output("git", "status", "--porcelain", "--untracked-files=no", "src", "bench")),
               compiler=(output("c++", "--version").splitlines() or [""])[0], kernel=platform.release(),
               version=output(run.tool, "--version"),
               torch=output(run.torch, "-c", "import torch; print(torch.__version__)") if run.torch else "")


PARTS = {"sweeps": sweeps, "reading": reading, "profile": whole_profile, "share": sweep_share, "growth": growth_of_profile}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--parts", nargs="*", choices=list(PARTS))
    args = parser.parse_args()
    run = Run(args)
    start, load = datetime.datetime.now(datetime.timezone.utc), os.getloadavg()[0]
    say("Python, NumPy and kernels of OpenBLAS")
    choose_numpy(run, args.python)
    for name, part in PARTS.items():
        if args.parts and name not in args.parts:
            continue
        say(name)
        part(run)
    machine_record(run, start, load)


if __name__ == "__main__":
    main()

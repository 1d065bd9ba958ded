#!/usr/bin/env python3
"""Makes docs/benchmarks.md of what measure.py wrote. usage: report.py results.jsonl > docs/benchmarks.md"""

import json
import sys

TOGETHER = "mean+max+E_2"


class Results:
    def __init__(self, path):
        self.records = [json.loads(line) for line in open(path)]

    def all(self, kind, **wanted):
        return [r for r in self.records if r["kind"] == kind and all(r.get(k) == v for k, v in wanted.items())]

    def one(self, kind, **wanted):
        found = self.all(kind, **wanted)
        return found[-1] if found else None


def table(heading, rows):
    if not rows:
        return "Not measured.\n"
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def times(value):
    return "-" if value is None else f"{value:.0f}×" if value >= 100 else f"{value:.1f}×"


def megabytes(value):
    return f"{value * 1e-6:.1f} MB"


def ratio(record, baseline):
    other = record.get("baselines", {}).get(baseline)
    return None if other is None else other / record["ns"]


# ---- the goals ----------------------------------------------------------------------------------------------------

def judged(goal, least, aim, value, shown, note="", smaller=False):
    if value is None:
        return [goal, least[1], aim[1], "not measured" + (f": {note}" if note else ""), "-"]
    enough = (lambda bound: value <= bound) if smaller else (lambda bound: value >= bound)
    verdict = "aim" if enough(aim[0]) else "yes" if enough(least[0]) else "**no**"
    return [goal, least[1], aim[1], shown + (f"; {note}" if note else ""), verdict]


def at_least(value, unit="×"):
    return value, f"{value:g}{unit}"


def profile_ratio(r, threads):
    ours = r.one("profile", who="rope-profiler", threads=threads)
    others = [p for p in r.all("profile", threads=threads) if p["who"] != "rope-profiler"]
    if not ours or not others:
        return None, None, None
    clock = "cpu" if threads == 1 else "wall"
    return min(p[clock] for p in others) / ours[clock], ours[clock], min(p[clock] for p in others)


def goals(r):
    sweeps = r.all("sweep", outputs=TOGETHER, h=64)
    machine = r.one("machine")
    numpy_missing = "" if r.one("numpy", found=True) else "no NumPy"

    def worst(baseline):
        ratios = [ratio(s, baseline) for s in sweeps if ratio(s, baseline)]
        return min(ratios) if ratios else None

    def spread(baseline):
        ratios = [ratio(s, baseline) for s in sweeps if ratio(s, baseline)]
        return f"{times(min(ratios))} to {times(max(ratios))}" if ratios else ""

    tuned = f"against the tuned form {spread('NumPy tuned')}" if worst("NumPy tuned") else numpy_missing
    rows = [
        judged("mean, max and E_2, h = 64, M ≥ 8192, one thread, against NumPy (chunked, in place)", at_least(10),
               at_least(13), worst("NumPy"), spread("NumPy"), tuned),
        judged("against the `sincosf` double loop", at_least(1000), at_least(1250), worst("sincosf"), spread("sincosf")),
        judged("against OpenBLAS full S and vectorised passes", at_least(4.5), at_least(5.5), worst("OpenBLAS"),
               spread("OpenBLAS"), "" if worst("OpenBLAS") else "no OpenBLAS"),
    ]
    shares = [s["limit_share"] for s in sweeps if "limit_share" in s]
    for name, least in (("Intel AVX-512", 0.80), ("AMD Zen 4", 0.75)):
        here = machine and name in machine["limit"]
        rows.append(judged(f"share of the limit on {name}", (least, f"{least:.2f}"), (0.92, "0.92"),
                           min(shares) if here and shares else None,
                           f"{min(shares):.2f} to {max(shares):.2f}" if here and shares else "",
                           "" if here else "another machine"))
    two = r.one("threads", threads=2)
    rows.append(judged("two threads against one", at_least(1.85), at_least(1.95), two and two["speedup"],
                       f"{two['speedup']:.2f}×" if two else "", "" if two else "one core"))
    for threads in sorted({p["threads"] for p in r.all("profile")}):
        value, ours, theirs = profile_ratio(r, threads)
        cache = r.one("profile")["cache"]
        part = " (2 tasks)" if r.one("profile")["tasks"] else ""
        rows.append(judged(f"whole `profile --heads all` of {cache}{part}, {threads} thread{'s' * (threads > 1)}, against NumPy",
                           at_least(8), at_least(15), value,
                           f"{times(value)} ({theirs:.2f} s / {ours:.2f} s)" if value else "", numpy_missing))
    memory = [m["bytes"] for m in r.all("memory")]
    rows.append(judged("working memory of the sweep beyond buffers", (64e6, "64 MB"), (16e6, "16 MB"),
                       max(memory) if memory else None, megabytes(max(memory)) if memory else "", smaller=True))
    raw = [x["raw"] for x in r.all("read") if not any(w in x["storage"] for w in ("gzip", "lzf"))]
    rows.append(judged("reading float16 from page cache, uncompressed", at_least(2, " GB/s"), at_least(4, " GB/s"),
                       min(raw) if raw else None, f"{min(raw):.1f} to {max(raw):.1f} GB/s by layout" if raw else ""))
    return rows + run_goals(r)


def run_goals(r):
    rows = []
    shares = r.all("share", compress="none")
    if shares:
        low = min(shares, key=lambda s: s["share"])
        rows.append(judged("part of an uncompressed `profile` that is the sweep, M ≥ 8192", (0.85, "85 %"), (0.9, "90 %"),
                           low["share"], f"{100 * low['share']:.0f} to {100 * max(s['share'] for s in shares):.0f} %"))
    pairs = [(s["wall"] / p["wall"]) for s in r.all("share", compress="gzip") for p in shares
             if s["window"] >= 32768 and all(s[k] == p[k] for k in ("window", "threads", "digest")) and s["threads"] > 1]
    if pairs:
        rows.append(judged("gzip input hidden behind compute, M ≥ 32768: time against uncompressed, all threads",
                           (1.05, "1.05"), (1.02, "1.02"), max(pairs), f"{max(pairs):.2f}", smaller=True))
    return rows


# ---- the page -----------------------------------------------------------------------------------------------------

def machine_lines(r):
    run, machine, peaks, numpy = r.one("run"), r.one("machine"), r.one("peaks"), r.one("numpy")
    lines = []
    if run:
        changed = " with changes" if run["changed"] else ""
        lines.append(f"- {run['date']}, commit {run['commit']}{changed}, {run['version']}, {run['compiler']}; "
                     f"{'quick run' if run['quick'] else 'full run'} of {run['seconds']:.0f} s; load of the machine "
                     f"{run['load_before']:.1f} before, {run['load_after']:.1f} after")
        if max(run["load_before"] - 0.5, run["load_after"] - run["threads"]) > 0.5:
            lines.append("- **The machine was busy with other work**: times of day, and so all that is said of several threads "
                         "and of shares of a profile, say little; processor times and ratios of one thread hold better")
    if machine:
        peak = peaks or machine
        lines.append(f"- {machine['processor']} ({machine['vendor']} family {machine['family']} model {machine['model']}), "
                     f"{run['threads'] if run else '?'} cores, SIMD target {machine['simd']}")
        lines.append(f"- multiply-add peak of one thread, measured in this run: float32 {peak['peak32']:.1f} G/s, float64 "
                     f"{peak['peak64']:.1f} G/s")
        if machine["limit_operations"]:
            lines.append(f"- limit for {TOGETHER} at h = 64: {machine['limit']}, {machine['limit_operations']:.1f} operations per "
                         f"pair-distance, here {machine['limit_operations'] / peak['peak32']:.3f} ns")
        else:
            lines.append("- no limit of the sweep is known for this kind of machine and target")
        if machine["openblas"]:
            lines.append(f"- {machine['openblas']}")
    if numpy and numpy["found"]:
        core = lambda pair: f"{pair[0]}, OPENBLAS_CORETYPE {pair[1] or 'not set'}"
        lines.append(f"- NumPy: {core(numpy['standard'])}; tuned form: {core(numpy['tuned'])}, the fastest of "
                     + ", ".join(f"{t['ns']:.2f} ({t['version'].removeprefix('NumPy ')}, {t['core'] or 'not set'})"
                                 for t in numpy["trials"]) + " ns")
    if run:
        lines.append(f"- PyTorch: {run['torch'] or 'not installed'}")
    return "\n".join(lines) + "\n"


def sweep_table(r):
    sweeps = r.all("sweep")
    names = []
    for s in sweeps:
        names += [name for name in s.get("baselines", {}) if name not in names]
    rows = []
    for s in sweeps:
        share = f"{100 * s['limit_share']:.0f} %" if "limit_share" in s else "-"
        rows.append([s["outputs"], s["h"], s["window"], f"{s['ns']:.3f}", share, f"{100 * s['nominal_share']:.0f} %"]
                    + [times(ratio(s, name)) for name in names])
    return table(["outputs", "h", "M", "ns", "of limit", "2h nominal"] + names, rows)


def moments_table(r):
    rows = [[m["h"], m["window"], f"{m['ns']:.0f}", f"{100 * m['share']:.0f} %", f"{m['build_us']:.0f}", m["rank"],
             times(ratio(m, "NumPy")), times(ratio(m, "NumPy tuned"))] for m in r.all("moments")]
    return table(["h", "M", "ns per margin", "of float64 peak", "set-up, µs", "rank", "NumPy", "NumPy tuned"], rows)


def growth_table(r):
    def listed(g):
        return ", ".join(f"{size:g}: {ns * 1e-6:.3g}" for size, ns in zip(g["sizes"], g["ns"]))
    return table(["with", "size: ms", "exponent"],
                 [[g["with"], listed(g), f"{g['exponent']:.3f}"] for g in r.all("growth")])


def profile_table(r):
    rows = []
    for p in r.all("profile"):
        worst = max(p["differences"].values()) if p["differences"] else None
        rows.append([p["who"], p["threads"], f"{p['wall']:.2f}", f"{p['cpu']:.2f}",
                     megabytes(p["peak_bytes"]) if "peak_bytes" in p else "-", f"{worst:.0e}" if worst else "-"])
    return table(["by", "threads", "seconds", "processor seconds", "resident", "largest difference"], rows)


PHASES = "sweep coefficients moments usage reading plans writing digests other".split()


def phase_cells(phases):
    return [f"{100 * phases.get(name, 0) / phases['cpu']:.0f} %" for name in PHASES]


def phases_table(r):
    return table(["threads", "processor seconds"] + PHASES,
                 [[p["threads"], f"{p['phases']['cpu']:.2f}"] + phase_cells(p["phases"]) for p in r.all("phases")])


def share_table(r):
    rows = [[s["window"], s["compress"], s["threads"], s["digest"], f"{s['wall']:.2f}", f"{100 * s['share']:.0f} %",
             f"{s['cpu']:.2f}"] + phase_cells(s["phases"]) for s in r.all("share")]
    return table(["M", "filter", "threads", "digest", "seconds", "swept", "processor seconds"] + PHASES, rows)


PAGE = """# Benchmarks

Made by `tools/bench` (how: [bench/README.md](../bench/README.md)); the numbers hold for this machine and run only.

{machine}
## Goals

{goals}
"NumPy" is the form that the goal was set with: chunks of 32 pairs x 4096 distances, in place, SkylakeX kernels on AVX-512
machines. "NumPy tuned" is the fastest that we could make of it on this machine: 64 x 4096, no running maximum, sums as
products, and the kernels of OpenBLAS and the version of NumPy that are fastest here. The whole profile is compared with the
faster of the two.

## The sweep

Nanoseconds per pair and distance, one thread, processor time, best of several alternated runs, 480 pairs of U about 6.5, base 10⁶;
tables and plans are not counted on either side. "Of limit": see above. "2h nominal": 2h multiply-adds per distance, as a plain
matrix product spends them, against the float32 peak; a compressed sweep needs fewer and can pass 100 %. The last columns: how
many times slower the others are. Reversals, softcap and aliasing have no counterpart in some.

{sweeps}
Lower instruction sets (`ROPE_PROFILER_SIMD`), h = 64, M = 8192, {together}:

{targets}
Threads, h = 64, M = 32768, 1920 pairs, time of day:

{threads}
Few pairs in a batch, M = 32768, nanoseconds per pair-distance: {few}.

Other grids, h = 64, M = 32768, and the set-up of a first plan of a grid and of one for another window:

{grids}
Short windows, 960 pairs, nanoseconds by M:

{short}
Large scores, M = 8192, nanoseconds by U (root mean square over the pairs): where float32 could not keep 1e-5, float64 is used.

{sizes}
Memory beyond inputs and outputs, plan included:

{memory}
The whole `profile`, resident with program and libraries, by number of examples (32 heads): {resident}.

## Moments

Mean and variance over the window, float64, one thread, 4096 margins. Share: h x rank multiply-adds, of which triangular factors
skip a part: it can pass 100 %.

{moments}
## How the cost grows

Cost ~ size^exponent, fitted in logarithms. M, pairs and threads: the sweep alone. Heads and examples: processor time of the whole
`profile`, its start included, M = 16384, one thread.

{growth}
## Reading

GB per second of one core, from page cache, float16, [6, 24, 24, 128, 128].

{reading}
## The whole profile

`profile --heads all`, everything that it computes by default, start, digests and output included, against
`bench/numpy_profile.py` ({cache}; NumPy's start not counted). One thread: pinned to one core, and judged by processor time.
The last column compares the scores of the two, relative.

{profile}
Where the processor time of the tool goes:

{phases}
Made caches of 256 heads (h = 64, 64 pairs each), all heads, read from page cache. "Swept": processor time of the sweep against
time of day x threads, start and end of the program included; the last columns are parts of the processor time.

{share}"""


def page(r):
    targets = [[t["target"], f"{t['ns']:.3f}", f"{t['peak32']:.1f}", f"{100 * t['nominal_share']:.0f} %"]
               for t in r.all("target")]
    memory = [[m["window"], m["pairs"], m["threads"], megabytes(m["bytes"])] for m in r.all("memory")]
    reading = [[x["storage"], *(f"{x[k]:.2f}" for k in ("raw", "converted", "one_in_20"))] for x in r.all("read")]
    threads = [[f"{t['threads']:g}", f"{t['ns'] * 1e-6:.2f}", f"{t['speedup']:.3f}×"] for t in r.all("threads")]
    cache = r.one("profile")
    tasks = f", {cache['tasks']} of its tasks" if cache and cache["tasks"] else ""
    return PAGE.format(
        machine=machine_lines(r), together=TOGETHER, sweeps=sweep_table(r), moments=moments_table(r),
        goals=table(["goal", "at least", "aim", "measured", "reached"], goals(r)),
        targets=table(["target", "ns", "float32 peak, G/s", "2h nominal"], targets),
        threads=table(["threads", "ms", "against one"], threads),
        few=", ".join(f"{f['pairs']}: {f['ns']:.3f}" for f in r.all("few_pairs")) or "not measured",
        grids=table(["grid", "ns", "first plan, ms", "next, ms"],
                    [[g["grid"], f"{g['ns']:.3f}", f"{g['plan_ms']:.2f}", f"{max(0, g['next_plan_ms']):.2f}"] for g in r.all("grid")]),
        short=table(["h", *(f"M {m}" for m in (r.one("short") or {}).get("windows", []))],
                    [[s["h"], *(f"{ns:.3f}" for ns in s["ns"])] for s in r.all("short")]),
        sizes=table(["h", *(f"U {u:g}" for u in (r.one("sizes") or {}).get("norms", []))],
                    [[s["h"], *(f"{ns:.3f}" for ns in s["ns"])] for s in r.all("sizes")]),
        resident=", ".join(f"{size:g}: {megabytes(peak)}" for g in r.all("growth", **{"with": "examples"})
                           for size, peak in zip(g["sizes"], g["peak_bytes"])) or "not measured",
        memory=table(["M", "pairs", "threads", "memory"], memory), growth=growth_table(r),
        reading=table(["stored", "raw", "converted to float64", "one head in 20"], reading),
        cache=(cache["cache"] + tasks) if cache else "not measured", profile=profile_table(r), phases=phases_table(r), share=share_table(r))


if __name__ == "__main__":
    print(page(Results(sys.argv[1])), end="")

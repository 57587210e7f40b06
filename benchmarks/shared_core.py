"""Latency beside the peers by the state of the host: core alone, and core shared with another thread.

    python benchmarks/shared_core.py MODEL.onnx... [--seconds 30] [--peers onnxruntime openvino] [--core N]

One thread, whole runs in turns. On most clouds a core is half of a physical one, whose decoder and caches the other
half uses at times: then everything is slower, and not all engines by as much. What tells the states apart is a loop of
the interpreter, which never leaves the nearest cache: it takes about twice as long on a shared core. It is timed before
and after every run, and a run counts only if both agree.
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import sys
import time
from pathlib import Path

import engines
import models
import numpy as np
import run

STATES = ("alone", "shared")
LOOP = 8000
ALONE, SHARED = 1.3, 1.55  # of the fastest loop: at most, at least

Times = dict[str, list[float]]


def loop_seconds() -> float:
    """Time a loop of the interpreter."""
    begin, total = time.perf_counter(), 0
    for i in range(LOOP):
        total += i
    return time.perf_counter() - begin


def state_of(before: float, after: float, fastest: float) -> str | None:
    """Say in which state a run between two loops was; None if they disagree."""
    if max(before, after) <= ALONE * fastest:
        return "alone"
    return "shared" if min(before, after) >= SHARED * fastest else None


def measure(case: models.Case, peers: list[str], seconds: float, fastest: float) -> dict[str, Times]:
    """Milliseconds of runs, by engine and state; a peer that refuses the model is named and left out."""
    inputs = case.inputs(np.random.default_rng(1))
    model = case.model.SerializeToString()
    runs: dict[str, engines.Run] = {"ours": engines.Ours(model, 1)}
    for name in peers:
        try:
            runs[name] = engines.PEERS[name](model, 1)
        except Exception as error:  # What peers throw is of no common type.
            print(f"{case.model.graph.name}: {name}: {type(error).__name__}: {str(error).strip()}", file=sys.stderr)
    times: dict[str, Times] = {name: collections.defaultdict(list) for name in runs}
    for each in runs.values():
        each(inputs)
        each(inputs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, each in runs.items():
            before, begin = loop_seconds(), time.perf_counter()
            each(inputs)
            milliseconds = (time.perf_counter() - begin) * 1e3
            if state := state_of(before, loop_seconds(), fastest):
                times[name][state].append(milliseconds)
    return times


def line_of(name: str, columns: list[str], times: dict[str, Times], ratios: dict[str, list[float]]) -> str:
    """Write a row: medians and, where every engine that runs has three runs or more, the best peer's over ours."""
    cells = [name]
    for state in STATES:
        medians = {e: statistics.median(t[state]) for e, t in times.items() if len(t[state]) >= 3}
        cells += [f"{medians[e]:.2f}" if e in medians else "-" for e in columns]
        if len(medians) < len(times) or len(times) == 1:
            cells.append("-")
            continue
        ratios[state].append(min(ms for e, ms in medians.items() if e != "ours") / medians["ours"])
        cells.append(f"{ratios[state][-1]:.2f}")
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=30, help="for each model")
    parser.add_argument("--peers", nargs="*", choices=engines.installed(), default=engines.installed())
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to run on")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.core})
    fastest = min(loop_seconds() for _ in range(3000))
    names = ["ours", *arguments.peers]
    columns = [f"{state}: {name} ms" if name == "ours" else name for state in STATES for name in [*names, "ratio"]]
    print("| model | " + " | ".join(columns) + " |\n|---" + "|---:" * len(columns) + "|", flush=True)
    ratios: dict[str, list[float]] = {state: [] for state in STATES}
    for path in arguments.models:
        times = measure(run.file_case(path, {}), arguments.peers, arguments.seconds, fastest)
        print(line_of(path.stem, names, times, ratios), flush=True)
    for state, values in ratios.items():
        if values:
            print(f"{state}: geometric mean {run.geometric_mean(values):.2f}, least {min(values):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Sums of the fastest time of every step, ours beside onnxruntime's: for hosts whose speed changes within a run.

    python benchmarks/steps.py MODEL.onnx... [--threads 1] [--rounds 10] [--top 0]

A step is fast as soon as the host leaves a core alone for as long as the step takes, a whole run only if it does so
for the whole run. What lies between steps counts for neither engine.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import engines
import models
import numpy as np
import run

PER_ROUND = 4


def fastest(profile: Path) -> dict[str, tuple[str, float]]:
    """Operator and fastest time in ms of every node that onnxruntime's profile has."""
    times: dict[str, tuple[str, float]] = {}
    for event in json.loads(profile.read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            known = times.get(event["name"], ("", math.inf))[1]
            times[event["name"]] = (event["args"]["op_name"], min(known, event["dur"] / 1e3))
    return times


def faster(known: list[Any], rows: list[Any]) -> list[Any]:
    """Of two benches of one plan, the faster row of each step."""
    if not known:
        return rows
    return [min(pair, key=lambda row: row.nanoseconds) for pair in zip(known, rows, strict=True)]


def by_kind(times: list[tuple[str, float]], top: int) -> str:
    """Say which kinds take most, and how long."""
    sums: dict[str, float] = collections.defaultdict(float)
    for kind, milliseconds in times:
        sums[kind] += milliseconds
    longest = sorted(sums.items(), key=lambda entry: -entry[1])[:top]
    return ", ".join(f"{kind} {milliseconds:.2f}" for kind, milliseconds in longest)


def compare(name: str, case: models.Case, threads: int, rounds: int, top: int) -> float:
    """Print a line for a model and, with `top`, what takes most in either engine; return theirs over ours."""
    inputs = case.inputs(np.random.default_rng(1))
    model = case.model.SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = engines.Ours(model, threads), engines.OnnxRuntime(model, threads, f"{folder}/profile")
        ours(inputs)
        best: list[Any] = []
        for _ in range(rounds):
            for _ in range(PER_ROUND):
                theirs(inputs)
            best = faster(best, list(ours.executor.bench(repeats=PER_ROUND, quiet=True)))
        nodes = list(fastest(Path(theirs.session.end_profiling())).values())
    steps = [(row.kernel, row.nanoseconds / 1e6) for row in best]
    our_ms, their_ms = sum(time for _, time in steps), sum(time for _, time in nodes)
    print(f"{name:34} {our_ms:9.2f} {their_ms:12.2f} {their_ms / our_ms:6.2f}", flush=True)
    if top:
        print(f"    ours: {by_kind(steps, top)}\n    onnxruntime: {by_kind(nodes, top)}", flush=True)
    return their_ms / our_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--top", type=int, default=0, help="kinds of kernels to list")
    arguments = parser.parse_args()
    print(f"{'model':34} {'ours ms':>9} {'onnxruntime':>12} {'ratio':>6}")
    ratios = [
        compare(path.stem, run.file_case(path, {}), arguments.threads, arguments.rounds, arguments.top)
        for path in arguments.models
    ]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios: {mean:.2f}, {sum(ratio >= 1.05 for ratio in ratios)} of {len(ratios)} ≥ 1.05")
    return 0


if __name__ == "__main__":
    sys.exit(main())

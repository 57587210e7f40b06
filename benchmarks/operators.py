"""Single operators beside onnxruntime, in turns: which are slower, and whether the outputs agree.

    python benchmarks/operators.py [--only TEXT ...] [--threads 1] [--rounds 5] [--burst 0.02] [--below 1.0]
                                   [--json FILE] [--baseline FILE] [--random COUNT [--others] [--seed 0]]

Every row is a model of one node in a size that networks have, called from Python as users call it. A round times both
engines for `--burst` seconds, one after the other; the least time of a call counts, because neighbours of a shared
machine only ever slow it down. A ratio is onnxruntime's time over ours: above 1, refactor_graph is faster. Rows are
printed as they are measured and, at the end, sorted by ratio. `--random` times operators of random sizes instead.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import engines
import models
import numpy as np
import operator_cases
import operator_language_cases
import operator_movement_cases
import operator_numeric_cases
import operator_random_cases
import operator_random_other_cases
import run

# f32 sums of thousands of terms in another order; integers and moved elements agree to the last bit.
TOLERANCE = 1e-3
# Of an earlier ratio: calls of microseconds differ by more from run to run than whole models do.
KEPT = 0.75
OWN_FAMILIES = [operator_cases.pools, operator_cases.convolutions, operator_cases.reductions]
FAMILIES = [
    *OWN_FAMILIES,
    *operator_movement_cases.FAMILIES,
    *operator_numeric_cases.FAMILIES,
    *operator_language_cases.FAMILIES,
]


@dataclass(frozen=True)
class Row:
    """Least microseconds of a call, and the largest relative difference of the outputs."""

    name: str
    ours: float
    theirs: float
    error: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def line(self) -> str:
        wrong = f"  outputs differ: {self.error:.1e}" if self.error > TOLERANCE else ""
        return f"{self.name:48} {self.ours:10.1f} {self.theirs:10.1f} {self.ratio:7.2f}{wrong}"


def least(call: Callable[[], object], seconds: float) -> float:
    """Least time of a call in µs."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def measure(name: str, case: models.Case, threads: int, rounds: int, seconds: float) -> Row:
    inputs, model = case.inputs(np.random.default_rng(1)), case.model.SerializeToString()
    ours, theirs = engines.Ours(model, threads), engines.OnnxRuntime(model, threads)
    row = Row(name, math.inf, math.inf, run.largest_error(ours(inputs), theirs(inputs)))
    for _ in range(rounds):
        theirs_now, ours_now = least(lambda: theirs(inputs), seconds), least(lambda: ours(inputs), seconds)
        row = Row(name, min(row.ours, ours_now), min(row.theirs, theirs_now), row.error)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], metavar="TEXT", help="rows whose names contain one of these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.02, help="seconds an engine and a round")
    parser.add_argument("--below", type=float, default=1.0, help="list the rows below this ratio at the end")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--baseline", type=Path, help="earlier results: flag ratios that fell by over 25 %%")
    parser.add_argument(
        "--random", type=int, default=0, metavar="COUNT", help="so many operators of random sizes instead"
    )
    parser.add_argument("--others", action="store_true", help="of bytes, halves, sequences and equations")
    parser.add_argument("--seed", type=int, default=0, help="of the random operators")
    arguments = parser.parse_args()
    baseline = json.loads(arguments.baseline.read_text()) if arguments.baseline else {}
    rows: list[Row] = []
    failed: list[str] = []
    print(f"{'operator':48} {'ours µs':>10} {'theirs µs':>10} {'ratio':>7}")
    usual = (pair for family in FAMILIES for pair in family())
    draws = (operator_random_other_cases if arguments.others else operator_random_cases).DRAWS
    cases = operator_random_cases.cases(arguments.seed, arguments.random, draws) if arguments.random else usual
    for name, make in cases:
        if not any(text in name for text in arguments.only):
            continue
        try:
            rows.append(measure(name, make(), arguments.threads, arguments.rounds, arguments.burst))
        except Exception as error:  # What engines throw is of no common type.
            failed.append(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:150]}")
            continue
        print(rows[-1].line(), flush=True)
    slower = sorted((row for row in rows if row.ratio < arguments.below), key=lambda row: row.ratio)
    print(f"\n{len(rows)} operators, below {arguments.below:g}: {len(slower)}")
    for row in slower:
        print(row.line())
    if rows:
        print(f"geometric mean of the ratios: {statistics.geometric_mean(row.ratio for row in rows):.2f}")
    results = {row.name: {"ours": row.ours, "theirs": row.theirs, "ratio": row.ratio} for row in rows}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    fallen = run.slower_than(baseline, results, KEPT)
    for line in fallen:
        print("slower than the baseline:", line)
    for line in failed:
        print("not run:", line)
    return 1 if failed or fallen or any(row.error > TOLERANCE for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

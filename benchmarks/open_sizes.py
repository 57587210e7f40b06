"""What sizes that stay open until the run cost: a model's steps beside those of the same model with sizes given.

    python benchmarks/open_sizes.py MODEL.onnx ... --sizes NAME=SIZE,... [--threads 1] [--rounds 8] [--top 4]

Passes and choices of layouts know less of open sizes: what they miss shows here. Sums of the fastest time of every
step, in turns, in one process; symbols that --sizes does not name are 1. Behind each model: the operators that take
longer, or shorter, with open sizes.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from refactor_graph.onnx import make_compiler
from run import file_case
from steps import faster


def by_type(rows: list[Any]) -> collections.Counter[str]:
    """Microseconds of each operator."""
    sums: collections.Counter[str] = collections.Counter()
    for row in rows:
        sums[row.type] += row.nanoseconds / 1e3
    return sums


def compare(model: Path, sizes: dict[str, int], threads: int, rounds: int, top: int) -> float:
    """Print a line for a model; return its time with open sizes over that with given ones."""
    executors = []
    for given in (False, True):
        compiler = make_compiler(str(model))
        symbols = {str(size) for port in compiler.inputs for size in port.shape if not isinstance(size, int)}
        for symbol in symbols if given else ():
            if symbol.isidentifier():
                compiler.substitute(symbol, sizes.get(symbol, 1))
        executors.append(compiler.compile("cpu", num_threads=threads))
    inputs = file_case(model, sizes).inputs(np.random.default_rng(0))
    best: list[list[Any]] = [[], []]
    for executor in executors:
        executor(inputs)
    for turn in range(rounds):
        for i in (turn % 2, 1 - turn % 2):
            best[i] = faster(best[i], list(executors[i].bench(repeats=2, quiet=True)))
    sums = [by_type(rows) for rows in best]
    open_us, given_us = (sum(times.values()) for times in sums)
    more = {name: sums[0][name] - sums[1][name] for name in {**sums[0], **sums[1]}}
    worst = sorted(more.items(), key=lambda entry: -abs(entry[1]))[:top]
    print(
        f"{model.stem:30} {len(best[0]):5} {open_us / 1e3:10.4g} {len(best[1]):6} {given_us / 1e3:10.4g} "
        f"{open_us / given_us:6.3f}  {', '.join(f'{name} {us:+.0f} us' for name, us in worst)}",
        flush=True,
    )
    return open_us / given_us


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--sizes", default="", metavar="NAME=SIZE,...", help="of symbols of the inputs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--top", type=int, default=4, help="operators to list")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in arguments.sizes.split(",") if pair)}
    print(f"{'model':30} {'steps':>5} {'open ms':>10} {'steps':>6} {'given ms':>10} {'ratio':>6}")
    ratios = [compare(path, sizes, arguments.threads, arguments.rounds, arguments.top) for path in arguments.models]
    print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

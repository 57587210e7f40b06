"""Times models beside other engines, in turns, in one process.

    python benchmarks/run.py [MODEL.onnx | built-in name ...] [--engines onnxruntime,openvino] [--threads 1,2]
                             [--rounds 9] [--precision bf16] [--json FILE] [--plot FILE.svg] [--baseline FILE]

Without models: the built-in ones. A ratio is the time of the best peer over ours: above 1, refactor_graph is faster.
Each round times all engines for `--burst` seconds, one after the other; the best median of a round counts for each,
because neighbours of a shared machine only ever slow it down. The share of peak is the operations of the model (a
multiply-add counts two, Winograd counts what it replaces, so more than 100 % is possible) over what the cores reach on
registers alone, f32 or int8 by what most of the operations are. The error is the largest difference from the first peer
over the largest magnitude; those of the other peers are in the JSON file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import engines
import models
import numpy as np
import onnx
import refactor_graph
from refactor_graph import _core
from refactor_graph.onnx import make_compiler

NUMPY_TYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "u8": "u1", "i32": "i4", "i64": "i8", "bool": "?"}
Row = dict[str, float]
Results = dict[str, Row]


def file_case(path: Path, sizes: dict[str, int]) -> models.Case:
    """Make a case of a file: symbols without a size become 1, integers are 0 or 1, which any table has."""

    def inputs(random: np.random.Generator) -> models.Inputs:
        result = {}
        for port in make_compiler(str(path)).inputs:
            shape = [size if isinstance(size, int) else sizes.get(str(size), 1) for size in port.shape]
            dtype = np.dtype(NUMPY_TYPES[port.dtype])
            floating = np.issubdtype(dtype, np.floating)
            values = random.standard_normal(shape) if floating else random.integers(0, 2, shape)
            result[port.name] = values.astype(dtype)
        return result

    return models.Case(onnx.load(path), inputs)


def burst(run: Callable[[], object], seconds: float) -> float:
    """Median time of a call in ms."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def largest_error(actual: engines.Outputs, expected: engines.Outputs) -> float:
    """Largest difference over the largest magnitude, over all outputs of numbers; infinite if shapes differ."""
    if any(a.shape != e.shape for a, e in zip(actual, expected, strict=True)):
        return math.inf
    errors = [
        float(np.abs(a.astype(np.float64) - e).max() / (np.abs(e.astype(np.float64)).max() + 1e-30))
        for a, e in zip(actual, expected, strict=True)
        if e.size and e.dtype.kind in "biuf"
    ]
    return max(errors, default=0.0)


def share_of_peak(executor: engines.Ours, milliseconds: float, peak: tuple[float, float, float]) -> float:
    """Of f32 or int8, by what most operations are."""
    rows = executor.rows()
    integers = sum(row.operations for row in rows if row.kernel.split(":", 1)[0].startswith("integer"))
    total = sum(row.operations for row in rows)
    limit = peak[1] if 2 * integers > total else peak[0]
    return total / (milliseconds * 1e-3) / limit if limit else 0.0


def compare(
    case: models.Case, names: list[str], threads: int, rounds: int, seconds: float, precision: str = "default"
) -> Row:
    inputs = case.inputs(np.random.default_rng(1))
    model = case.model.SerializeToString()
    ours = engines.Ours(model, threads, precision)
    runs: dict[str, engines.Run] = {"refactor_graph": ours}
    row: Row = {}
    expected: engines.Outputs | None = None
    for name in names:
        try:
            runs[name] = engines.PEERS[name](model, threads)
            actual = [np.array(output) for output in runs[name](inputs)]
        except Exception as error:
            runs.pop(name, None)
            print(f"{name} does not run it: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        if expected is None:
            expected = actual
            row["relative_error"] = largest_error(ours(inputs), expected)
        else:
            row[f"{name}_error"] = largest_error(actual, expected)
    best = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], burst(lambda run=run: run(inputs), seconds))
            time.sleep(0.02)
    row |= {f"{name}_ms": value for name, value in best.items()}
    peers = [value for name, value in best.items() if name != "refactor_graph"]
    row["ratio"] = min(peers) / best["refactor_graph"] if peers else math.nan
    row["share_of_peak"] = share_of_peak(ours, best["refactor_graph"], _core.measure_peak(threads))
    return row


def line_of(name: str, threads: int, row: Row, peers: list[str]) -> str:
    times = " ".join(f"{row.get(f'{peer}_ms', math.nan):12.3f}" for peer in peers)
    error = f"{row['relative_error']:.1e}" if "relative_error" in row else "-"
    share = f"{100 * row['share_of_peak']:.0f} %"
    return f"{name:28} {threads:7d} {row['refactor_graph_ms']:10.3f} {times} {row['ratio']:6.2f} {share:>6}  {error}"


def geometric_mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.exp(statistics.fmean(map(math.log, known))) if known else math.nan


def plot(results: Results, path: Path) -> None:
    """Bars of the ratios, one for each model and number of threads."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    keys = list(results)[::-1]
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.25 * len(keys)))
    axes.barh([key.replace("|", ", threads: ") for key in keys], [results[key]["ratio"] for key in keys])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("time of the best other engine / time of refactor_graph")
    axes.set_xscale("log")
    figure.tight_layout()
    figure.savefig(path)


def slower_than(baseline: Results, results: Results, kept: float = 0.93) -> list[str]:
    """Ratios that fell below `kept` times what they were: by default by more than repeated runs differ by."""
    return [
        f"{key}: {baseline[key]['ratio']:.2f} before, {row['ratio']:.2f} now"
        for key, row in results.items()
        if key in baseline and row["ratio"] < kept * baseline[key]["ratio"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(models.CASES))
    parser.add_argument("--engines", default=",".join(engines.installed()), help="peers: " + ", ".join(engines.PEERS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--burst", type=float, default=0.2, help="seconds an engine and a round")
    parser.add_argument(
        "--precision", default="default", help="ours alone; with bf16 the peer openvino_bf16 rounds as well"
    )
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="size of a symbol, otherwise 1")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--plot", type=Path, help="write a picture of the ratios here (SVG)")
    parser.add_argument("--baseline", type=Path, help="earlier results: flag ratios that fell by over 7 %%")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (text.rsplit("=", 1) for text in arguments.dim)}
    peers = [name for name in arguments.engines.split(",") if name]
    if unknown := [name for name in peers if name not in engines.PEERS]:
        parser.error(f"unknown peers {', '.join(unknown)}, expected some of: {', '.join(engines.PEERS)}")
    available = len(os.sched_getaffinity(0))
    baseline = json.loads(arguments.baseline.read_text()) if arguments.baseline else {}
    results: Results = {}
    failed: list[str] = []
    print(f"{'model':28} threads    ours ms {' '.join(f'{peer:>12}' for peer in peers)}  ratio   peak  error")
    for threads in (t for t in map(int, arguments.threads.split(",")) if t <= available):
        for model in arguments.models:
            case = models.CASES[model]() if model in models.CASES else file_case(Path(model), sizes)
            name = Path(model).stem
            try:
                row = compare(case, peers, threads, arguments.rounds, arguments.burst, arguments.precision)
            except refactor_graph.Error as error:
                failed.append(f"{name}: {error}")
                continue
            results[f"{name}|{threads}"] = row
            print(line_of(name, threads, row, peers), flush=True)
    print(f"geometric mean of the ratios: {geometric_mean([row['ratio'] for row in results.values()]):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    if arguments.plot:
        plot(results, arguments.plot)
    slower = slower_than(baseline, results)
    for line in slower:
        print("slower than the baseline:", line)
    for line in failed:
        print("not run:", line)
    return 1 if slower or failed else 0


if __name__ == "__main__":
    sys.exit(main())

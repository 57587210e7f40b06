"""Times models beside onnxruntime, in turns, in one process.

    python benchmarks/run.py [MODEL.onnx | built-in name ...] [--threads 1,2] [--rounds 9] [--json FILE]

Without models: the built-in ones. Ratios above 1 mean that refactor_graph is faster. Each round times both engines
for `--burst` seconds, one after the other; the best median of a round counts for each, because neighbours of a shared
machine only ever slow it down.
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

import models
import numpy as np
import onnx
import onnxruntime
from refactor_graph.onnx import make_compiler

Run = Callable[[], object]
NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def peer_session(model: bytes | str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def file_case(path: Path) -> models.Case:
    """Make a case of a file: symbolic sizes become 1, integers are 0 or 1, which any table has."""

    def inputs(random: np.random.Generator) -> models.Inputs:
        result = {}
        for port in peer_session(path.read_bytes(), 1).get_inputs():
            shape = [size if isinstance(size, int) else 1 for size in port.shape]
            dtype = NUMPY_TYPES[port.type]
            floating = np.issubdtype(dtype, np.floating)
            values = random.standard_normal(shape) if floating else random.integers(0, 2, shape)
            result[port.name] = values.astype(dtype)
        return result

    return models.Case(onnx.load(path), inputs)


def burst(run: Run, seconds: float) -> float:
    """Median time of a call in ms."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def compare(case: models.Case, threads: int, rounds: int, seconds: float) -> dict[str, float]:
    inputs = case.inputs(np.random.default_rng(1))
    model = case.model.SerializeToString()
    session = peer_session(model, threads)
    executor = make_compiler(model).compile("cpu", num_threads=threads)
    expected, actual = session.run(None, inputs), list(executor(inputs).values())
    error = max(float(np.abs(a - e).max() / (np.abs(e).max() + 1e-30)) for a, e in zip(actual, expected, strict=True))
    ours, peer = math.inf, math.inf
    for _ in range(rounds):
        ours = min(ours, burst(lambda: executor(inputs), seconds))
        peer = min(peer, burst(lambda: session.run(None, inputs), seconds))
        time.sleep(0.05)
    return {"ours_ms": ours, "onnxruntime_ms": peer, "ratio": peer / ours, "relative_error": error}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(models.CASES))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--burst", type=float, default=0.2, help="seconds an engine and a round")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--baseline", type=Path, help="earlier results: flag ratios that fell by over 7 %%")
    arguments = parser.parse_args()
    available = len(os.sched_getaffinity(0))
    baseline = json.loads(arguments.baseline.read_text()) if arguments.baseline else {}
    results, slower = {}, []
    print(f"{'model':28} threads  ours ms  onnxruntime ms  ratio  error")
    for threads in (t for t in map(int, arguments.threads.split(",")) if t <= available):
        for name in arguments.models:
            case = models.CASES[name]() if name in models.CASES else file_case(Path(name))
            row = compare(case, threads, arguments.rounds, arguments.burst)
            key = f"{Path(name).stem}|{threads}"
            results[key] = row
            print(
                f"{Path(name).stem:28} {threads:7d} {row['ours_ms']:8.3f} {row['onnxruntime_ms']:15.3f} "
                f"{row['ratio']:6.2f}  {row['relative_error']:.1e}",
                flush=True,
            )
            if key in baseline and row["ratio"] < 0.93 * baseline[key]["ratio"]:
                slower.append(f"{key}: {baseline[key]['ratio']:.2f} before, {row['ratio']:.2f} now")
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in results.values()))
    print(f"geometric mean of the ratios: {mean:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    for line in slower:
        print("slower than the baseline:", line)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

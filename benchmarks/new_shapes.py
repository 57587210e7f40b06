"""What a shape never seen before costs: its first run less a later one.

    python benchmarks/new_shapes.py [--shapes 20]
    python benchmarks/new_shapes.py MODEL.onnx --sizes NAME=SIZE,... NAME=SIZE,... [...] [--threads 1]

Without a model: a transformer encoder with a symbolic sequence length, one thread, per step of its plan. Of a model
with open sizes: each of the sizes given, one after the other, beside onnxruntime and OpenVINO (those that are
installed), and the memory that packed weights take in the end. The first sizes are left out: they pack the weights.
Hosts that give memory slowly disturb single figures: run it more than once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import engines
import models
import numpy as np
from refactor_graph.onnx import make_compiler
from run import file_case


def seconds(run: engines.Run, inputs: engines.Inputs) -> float:
    """Time of a call."""
    start = time.perf_counter()
    run(inputs)
    return time.perf_counter() - start


def plan_an_encoder(shapes: int) -> None:
    """Print the planning time of a step."""
    case = models.encoder("S", layers=12)
    executor = make_compiler(case.model).compile("cpu", num_threads=1)
    random = np.random.default_rng(0)
    extra_us, nodes = [], 0
    for length in range(16, 16 + shapes + 1):
        inputs = {"x": random.standard_normal((1, length, 384)).astype(np.float32)}
        first = seconds(executor, inputs)
        extra_us.append((first - seconds(executor, inputs)) * 1e6)
        nodes = len(executor.bench(quiet=True, repeats=1))
    fresh = statistics.median(extra_us[1:])
    print(f"{nodes} steps, {shapes} new shapes: {fresh:.0f} us more each, {fresh / nodes:.2f} us a step")


def compare(model: Path, sizes: list[str], threads: int) -> None:
    """Print a line for each of the sizes but the first, in each engine."""
    random = np.random.default_rng(0)
    sets = [{name: int(size) for name, size in (pair.split("=") for pair in text.split(","))} for text in sizes]
    inputs = [file_case(model, named).inputs(random) for named in sets]
    content = model.read_bytes()
    installed = {name: engines.PEERS[name] for name in engines.installed()}
    print(f"{'ms: first, later':40}" + "".join(f"{name:>24}" for name in ["refactor_graph", *installed]))
    runs = [engines.Ours(content, threads), *(build(content, threads) for build in installed.values())]
    first = [[seconds(run, values) * 1e3 for values in inputs] for run in runs]
    later = [[min(seconds(run, values) for _ in range(4)) * 1e3 for values in inputs] for run in runs]
    for i, text in enumerate(sizes[1:], 1):
        print(f"{text:40}" + "".join(f"{a[i]:14.1f}{b[i]:10.1f}" for a, b in zip(first, later, strict=True)))
    extra = [sum(a[1:]) - sum(b[1:]) for a, b in zip(first, later, strict=True)]
    print(f"{'more, in all':40}" + "".join(f"{total:14.1f}{'':10}" for total in extra))
    packed = runs[0].executor.memory()["packed_weights"]
    print(f"packed weights of refactor_graph: {packed / 1e6:.1f} MB, of a file of {len(content) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--sizes", nargs="+", default=[], metavar="NAME=SIZE,...", help="of symbols; two sets at least")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=20, help="of the encoder")
    arguments = parser.parse_args()
    if not arguments.model:
        plan_an_encoder(arguments.shapes)
    elif len(arguments.sizes) < 2:
        parser.error("a model needs --sizes of two sets at least")
    else:
        compare(arguments.model, arguments.sizes, arguments.threads)


if __name__ == "__main__":
    main()

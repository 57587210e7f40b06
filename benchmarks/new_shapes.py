"""What a shape never seen before costs: its first run less its second.

    python benchmarks/new_shapes.py [--shapes 20]

Uses a transformer encoder with a symbolic sequence length. The first shape packs the weights and is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time

import models
import numpy as np
from refactor_graph.onnx import make_compiler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=20)
    arguments = parser.parse_args()
    case = models.encoder("S", layers=12)
    executor = make_compiler(case.model).compile("cpu", num_threads=1)
    random = np.random.default_rng(0)
    extra_us, nodes = [], 0
    for length in range(16, 16 + arguments.shapes + 1):
        inputs = {"x": random.standard_normal((1, length, 384)).astype(np.float32)}
        start = time.perf_counter()
        executor(inputs)
        middle = time.perf_counter()
        executor(inputs)
        extra_us.append((2 * middle - start - time.perf_counter()) * 1e6)
        nodes = len(executor.bench(quiet=True, repeats=1))
    fresh = statistics.median(extra_us[1:])
    print(f"{nodes} steps, {arguments.shapes} new shapes: {fresh:.0f} us more each, {fresh / nodes:.2f} us a step")


if __name__ == "__main__":
    main()

"""What a shape never seen before costs: planning time per node, and the time of a repeated shape.

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
    plan_us, nodes = [], 0
    for length in range(16, 16 + arguments.shapes + 1):
        executor.set_input(0, random.standard_normal((1, length, 384)).astype(np.float32))
        start = time.perf_counter()
        executor.plan()
        plan_us.append((time.perf_counter() - start) * 1e6)
        executor.run()
        nodes = len(executor.bench(print_table=False))
    fresh = statistics.median(plan_us[1:])
    print(f"{nodes} nodes, {arguments.shapes} new shapes: {fresh:.0f} us a plan, {fresh / nodes:.2f} us a node")


if __name__ == "__main__":
    main()

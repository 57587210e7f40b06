"""Compares the planned memory for intermediate tensors with its lower bound.

    python benchmarks/memory.py [MODEL.onnx | built-in name ...]

The lower bound is the largest sum of tensors that are alive at one step: no placement needs less. `held` is what each
allocator keeps after a run. Without models: the built-in ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import models
import numpy as np
from refactor_graph.executor import ALLOCATORS
from refactor_graph.onnx import make_compiler
from run import file_case

MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[name for name in models.CASES if "100" not in name])
    arguments = parser.parse_args()
    held = "".join(f"{name:>10}" for name in ALLOCATORS)
    print(f"{'MiB':28}{'bound':>10}{'planned':>10}{'ratio':>8}   held: {held}")
    for name in arguments.models:
        case = models.CASES[name]() if name in models.CASES else file_case(Path(name))
        inputs = case.inputs(np.random.default_rng(0))
        compiler = make_compiler(case.model)
        columns = []
        for allocator in ALLOCATORS:
            executor = compiler.compile("cpu", allocator, num_threads=1)
            executor(inputs)
            memory = executor.memory()
            columns.append(f"{memory['held'] / MIB:10.2f}")
        bound, planned = memory["lower_bound"], memory["planned"]
        ratio = planned / bound if bound else 1.0
        print(f"{Path(name).stem:28}{bound / MIB:10.2f}{planned / MIB:10.2f}{ratio:8.3f}         {''.join(columns)}")


if __name__ == "__main__":
    main()

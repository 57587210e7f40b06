"""Times models in PyTorch: eager, compiled by inductor, and compiled by the backend of this project.

    python benchmarks/torch_backend.py [MODEL ...] [--threads 1,2] [--rounds 7] [--burst 0.3] [--without inductor]

All in one process, taking turns; what counts is the median of the quietest burst. Inductor runs twice: as it is, and
"frozen", with weights as constants. `call` is one product of one row, so its time is what a call costs. "compile" is
the first call, "error" the largest difference from eager mode over the largest magnitude. Inductor needs a C++
compiler; without one its reason is told.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from refactor_graph.torch_backend import compile_fx
from torch import nn
from torch_models import BUILT_IN, plain

Run = Callable[..., object]
MODELS = {"call": plain(lambda: nn.Linear(16, 16), 16), **BUILT_IN}
# Name, backend, and whether inductor may take weights as constants, as ours does (it does not see it when they change).
ENGINES = (("ours", compile_fx, False), ("inductor", "inductor", False), ("frozen", "inductor", True))


def burst(run: Run, arguments: tuple[torch.Tensor, ...], seconds: float) -> float:
    """Median of the calls of one burst, in microseconds."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run(*arguments)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def error(found: object, wanted: object) -> float:
    """Largest difference over the largest magnitude, of all outputs."""
    pairs = zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(wanted), strict=True)
    return max(((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item() for a, b in pairs)


def measure(name: str, threads: int, options: argparse.Namespace) -> None:
    """Print a row."""
    torch.compiler.reset()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    case = MODELS[name](1)
    model, arguments = case.module, case.arguments
    wanted = model(*arguments)
    runs: dict[str, Run] = {"eager": model}
    compiling, errors = {}, {}
    for engine, backend, freezing in ENGINES:
        if engine in options.without.split(","):
            continue
        run = compiled(model, backend)
        start = time.perf_counter()
        try:
            with torch._inductor.config.patch(freezing=freezing):
                found = run(*arguments)
        except Exception as reason:
            print(f"{name}: {engine}: {str(reason).splitlines()[0]}", file=sys.stderr)
            continue
        compiling[engine], errors[engine], runs[engine] = time.perf_counter() - start, error(found, wanted), run
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(options.rounds):
        for engine, run in runs.items():
            best[engine] = min(best[engine], burst(run, arguments, options.burst))
    times = "".join(f"{engine} {best[engine]:.1f}, " for engine in runs)
    seconds = ", ".join(f"{engine} {value:.1f}" for engine, value in compiling.items())
    differences = ", ".join(f"{engine} {value:.0e}" for engine, value in errors.items())
    print(f"{name}, {threads} threads: {times}µs; compile: {seconds} s; error: {differences}", flush=True)


def compiled(model: nn.Module, backend: object) -> Run:
    """Compile with code of its own for each backend: Dynamo keeps what it compiles with the code of a function."""

    def run(*arguments: torch.Tensor) -> object:
        return model(*arguments)

    run.__code__ = run.__code__.replace()
    return torch.compile(run, backend=backend)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"some of: {', '.join(MODELS)}; all if none")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.3, help="seconds")
    parser.add_argument("--without", default="", help="engines to leave out")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}, expected some of: {', '.join(MODELS)}")
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        for threads in map(int, options.threads.split(",")):
            for name in options.models or MODELS:
                measure(name, threads, options)


if __name__ == "__main__":
    main()

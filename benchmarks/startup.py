"""What comes before the second run, beside the peers: the time from a file to its first outputs, and the memory.

    python benchmarks/startup.py MODEL.onnx ... [--threads 1] [--rounds 2] [--sizes NAME=SIZE,...] [--saved]

Every figure is of a process of its own that has imported the engine: loading, compiling and the first run, the least of
the rounds, which the engines take in turns; the growth of resident memory at its peak, by then. With `--saved` also
those of models that an earlier process compiled and kept: by `Executor.save`, and in OpenVINO's cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engines
import numpy as np
from run import file_case


class Saved:
    """refactor_graph, of a file that `Executor.save` wrote."""

    def __init__(self, model: str, threads: int) -> None:
        import refactor_graph

        self.executor = refactor_graph.load(kept(model, "saved"), num_threads=threads)

    def __call__(self, inputs: engines.Inputs) -> engines.Outputs:
        return list(self.executor(inputs).values())


class CachedOpenVino(engines.OpenVino):
    """OpenVINO, with a cache that has the model."""

    def __init__(self, model: str, threads: int) -> None:
        super().__init__(model, threads, str(kept(model, "cached")))


BUILD = {"refactor_graph": engines.Ours, "saved": Saved, **engines.PEERS, "cached": CachedOpenVino}
MODULE = {"saved": "refactor_graph", "cached": "openvino"}
"""What the engines import that are not called as they."""
FOLDER = "RG_KEPT_MODELS"
"""Environment variable: where an earlier process kept its compiled models."""


def kept(model: str, kind: str) -> Path:
    """File or folder of a compiled model."""
    return Path(os.environ[FOLDER]) / f"{Path(model).stem}.{kind}"


def keep(model: str, threads: int, feeds: Path) -> None:
    """Compile a model, run it, and keep what was compiled."""
    ours = engines.Ours(model, threads)
    ours(dict(np.load(feeds)))
    ours.executor.save(kept(model, "saved"))
    if "openvino" in engines.installed():
        CachedOpenVino(model, threads)


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def serve(engine: str, model: str, threads: int, feeds: Path) -> None:
    """Be the process that is measured."""
    inputs = dict(np.load(feeds))
    if engine != "refactor_graph":
        __import__(MODULE.get(engine, engine))
    before, start = peak_mb(), time.perf_counter()
    run = BUILD[engine](model, threads)
    compiled = time.perf_counter()
    run(inputs)
    print(json.dumps([compiled - start, time.perf_counter() - start, peak_mb() - before]))


def measure(engine: str, model: str, threads: int, feeds: Path) -> list[float] | None:
    """Return seconds to compile, seconds to the first outputs and MB, or nothing if the engine fails."""
    command = [sys.executable, __file__, "--serve", engine, model, "--threads", str(threads), "--feeds", str(feeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def compare(model: str, names: list[str], arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return the least figures of every engine that runs the model."""
    sizes = dict(pair.split("=") for pair in arguments.sizes.split(",") if pair)
    inputs = file_case(Path(model), {name: int(size) for name, size in sizes.items()}).inputs(np.random.default_rng(0))
    least: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        np.savez(feeds, **inputs)
        os.environ[FOLDER] = folder
        if arguments.saved:
            command = [sys.executable, __file__, "--keep", model, "--threads", str(arguments.threads)]
            subprocess.run([*command, "--feeds", str(feeds)], check=True)
        for _ in range(arguments.rounds):
            for name in names:
                row = measure(name, model, arguments.threads, feeds)
                if row:
                    least[name] = [min(pair) for pair in zip(row, least.get(name, row), strict=True)]
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", default="", help="of symbols, which are 1 otherwise")
    parser.add_argument("--saved", action="store_true", help="also load what was compiled before")
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", metavar="ENGINE", help=argparse.SUPPRESS)
    parser.add_argument("--feeds", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.models[0], arguments.threads, arguments.feeds)
        return
    if arguments.keep:
        keep(arguments.models[0], arguments.threads, arguments.feeds)
        return
    peers = engines.installed()
    names = ["refactor_graph", *peers]
    if arguments.saved:
        names += ["saved", *(["cached"] if "openvino" in peers else [])]
    print(f"{'s to the first outputs | MB':40}" + "".join(f"{name:>22}" for name in names) + f"{'ours / least':>18}")
    ratios = []
    for model in arguments.models:
        rows = compare(model, names, arguments)
        text = "".join(f"{rows[n][1]:12.3f} |{rows[n][2]:8.0f}" if n in rows else f"{'fails':>22}" for n in names)
        ours, others = rows.get("refactor_graph"), [rows[name] for name in peers if name in rows]
        if ours and others:
            ratios.append([ours[i] / min(other[i] for other in others) for i in (1, 2)])
            text += f"{ratios[-1][0]:10.2f} |{ratios[-1][1]:6.2f}"
        print(f"{Path(model).stem:40}{text}", flush=True)
    if ratios:
        means = [math.exp(sum(math.log(ratio[i]) for ratio in ratios) / len(ratios)) for i in (0, 1)]
        worst = [max(ratio[i] for ratio in ratios) for i in (0, 1)]
        print(
            f"{len(ratios)} models: time {means[0]:.2f} (most {worst[0]:.2f}), memory {means[1]:.2f} ({worst[1]:.2f})"
        )


if __name__ == "__main__":
    main()

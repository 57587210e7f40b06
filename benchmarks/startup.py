"""What comes before the second run, beside the peers: the time from a file to its first outputs, and the memory.

    python benchmarks/startup.py MODEL.onnx ... [--threads 1] [--rounds 2] [--sizes NAME=SIZE,...]

Every figure is of a process of its own that has imported the engine: loading, compiling and the first run, the least of
the rounds, which the engines take in turns; the growth of resident memory at its peak, by then.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engines
import numpy as np
from run import file_case

BUILD = {"refactor_graph": engines.Ours, **engines.PEERS}


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def serve(engine: str, model: str, threads: int, feeds: Path) -> None:
    """Be the process that is measured."""
    inputs = dict(np.load(feeds))
    if engine != "refactor_graph":
        __import__(engine)
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
    parser.add_argument("--serve", metavar="ENGINE", help=argparse.SUPPRESS)
    parser.add_argument("--feeds", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.models[0], arguments.threads, arguments.feeds)
        return
    names = ["refactor_graph", *engines.installed()]
    print(f"{'s to the first outputs | MB':40}" + "".join(f"{name:>22}" for name in names) + f"{'ours / least':>18}")
    ratios = []
    for model in arguments.models:
        rows = compare(model, names, arguments)
        text = "".join(f"{rows[n][1]:12.3f} |{rows[n][2]:8.0f}" if n in rows else f"{'fails':>22}" for n in names)
        ours, peers = rows.get("refactor_graph"), [rows[name] for name in names[1:] if name in rows]
        if ours and peers:
            ratios.append([ours[i] / min(peer[i] for peer in peers) for i in (1, 2)])
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

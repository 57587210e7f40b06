"""Times models on a GPU beside PyTorch: eager, compiled with max-autotune, and eager as a CUDA graph.

    python benchmarks/cuda.py [MODEL ...] [--zoo SCRIPT] [--batch 1,32] [--precision f32,tf32,f16,bf16] [--json FILE]

Without models: all of the zoo, or the built-in ones; what has no PyTorch source runs alone. The engines take turns;
what counts is the median over the rounds of times that events on the GPU take of a burst of calls. Errors are those of
the outputs against PyTorch in f32 (onnxruntime, where that has none), in units of each output's largest magnitude.
Models run in another process (`cuda_worker.py`): one that fails, hangs or loses the GPU is told with its reason, and
the others go on in a new one. Compiling with max-autotune takes a minute a model, so it comes after a first row of all.
The JSON file is written anew after every model, with the steps that take longest. Without a GPU nothing is
measured, and the reason is told.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from cuda_worker import DONE

ENGINES = ("refactor_graph", "eager", "graphed", "compiled")
WORKER = Path(__file__).with_name("cuda_worker.py")
# Seconds of one worker: with engines that start at once, and with one that tunes itself.
PLAIN_SECONDS, COMPILED_SECONDS = 90, 100


class Stage(NamedTuple):
    """A model with a batch, of which one process measures all precisions."""

    model: str
    batch: int
    precisions: tuple[str, ...]
    engines: tuple[str, ...]

    def names(self) -> list[str]:
        return [f"{self.model}|{self.batch}|{precision}" for precision in self.precisions]


def missing(host: bool) -> str:
    """Why nothing can be measured, or nothing."""
    try:
        import torch
    except ImportError as error:
        return f"PyTorch is missing: {error}"
    if host:
        return ""
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no GPU"
    try:
        from refactor_graph import DeviceError, find_device

        find_device("nvidia", 0)
    except ImportError as error:
        return str(error)
    except DeviceError as error:
        return str(error)
    return ""


def stages_of(models: list[str], options: argparse.Namespace) -> list[Stage]:
    """Return the processes in order: what matters most first, in case time runs out."""
    batches = [int(batch) for batch in options.batch.split(",")]
    first, *others = options.precision.split(",")
    without = set(options.without.split(","))
    quick = tuple(name for name in ("eager", "graphed") if name not in without)
    stages = [Stage(model, batch, (first,), quick) for batch in batches for model in models]
    if others:
        stages += [Stage(model, batches[0], tuple(others), quick) for model in models]
    if "compiled" not in without:
        # The first model of every batch comes first, so that there is a ratio of each.
        stages += [Stage(model, batch, (first,), (*quick, "compiled")) for model in models for batch in batches]
    if others:
        stages += [Stage(model, batch, tuple(others), quick) for batch in batches[1:] for model in models]
    return stages


def text_of(key: str, row: dict[str, Any]) -> str:
    cells = [f"{row[name]:9.3f}" if name in row else f"{'-':>9}" for name in ENGINES]
    text = f"{key:36}{''.join(cells)}"
    peers = [row[name] for name in ("compiled", "graphed", "eager") if name in row]
    if "refactor_graph" in row:
        ratio = f"{peers[0] / row['refactor_graph']:7.2f}" if peers else f"{'-':>7}"
        text += f" {ratio} {row['error']:9.1e}"
    if "tokens_per_second" in row:
        text += f"  {row['tokens_per_second']:.0f} tokens/s, {100 * row['share_of_bandwidth']:.0f} % of bandwidth"
    for name, reason in row.get("failed", {}).items():
        text += f"\n  {name} failed: {reason}"
    return text


def mean_of(results: dict[str, Any], peer: str, batch: int, precision: str) -> str:
    rows = [
        row
        for key, row in results.items()
        if key.endswith(f"|{batch}|{precision}") and peer in row and "refactor_graph" in row
    ]
    if not rows:
        return "-"
    return f"{math.exp(statistics.fmean(math.log(row[peer] / row['refactor_graph']) for row in rows)):.2f}"


class Worker:
    """The process that measures; a new one where the last has ended."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def measure(self, spec: dict[str, Any], rows: Path, seconds: float) -> str:
        """Return why it ended early, if it did."""
        if self.process and self.process.poll() is not None:
            self.end()
        if self.process is None:
            command = [sys.executable, "-W", "ignore", str(WORKER)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        assert self.process.stdin
        self.process.stdin.write(json.dumps(spec) + "\n")
        self.process.stdin.flush()
        ends = time.time() + seconds
        while DONE not in rows.read_text().splitlines():
            status = self.process.poll()
            if status is None and time.time() < ends:
                time.sleep(0.05)
                continue
            self.end()
            return (
                f"the process was ended after {seconds:.0f} s"
                if status is None
                else f"the process ended with status {status}"
            )
        return ""

    def end(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


class Bench:
    """The rows so far, and the processes that make more of them."""

    def __init__(self, options: argparse.Namespace, device: dict[str, str]) -> None:
        self.options, self.device = options, device
        self.rows: dict[str, dict[str, Any]] = {}
        self.left: list[str] = []
        self.worker = Worker()
        self.ends = options.started + 60 * options.minutes

    def run(self, stage: Stage, seconds: float) -> None:
        """Run a worker, and another one for what is left if it ends early."""
        while stage.precisions:
            begun, reason = self.run_once(stage, min(seconds, self.ends - time.time()))
            for precision, row in begun.items():
                self.take(f"{stage.model}|{stage.batch}|{precision}", row, reason if precision == [*begun][-1] else "")
            if not reason:
                return
            if not begun:
                print(f"{stage.model}|{stage.batch}: {reason}", flush=True)
                self.rows.setdefault(stage.names()[0], {}).setdefault("failed", {})["worker"] = reason
                return
            stage = stage._replace(precisions=tuple(p for p in stage.precisions if p not in begun))

    def run_once(self, stage: Stage, seconds: float) -> tuple[dict[str, dict[str, Any]], str]:
        """Return the rows by precision, and why the process ended early, if it did."""
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows"
            rows.touch()
            spec = {**stage._asdict(), "rows": str(rows), "zoo": str(self.options.zoo or ""), "host": self.options.host}
            spec |= {"rounds": self.options.rounds, "seconds": self.options.seconds, "tune": self.options.tune}
            reason = self.worker.measure(spec, rows, seconds)
            lines = rows.read_text().splitlines()
        begun: dict[str, dict[str, Any]] = {}
        for line in lines:
            if line != DONE:
                item = json.loads(line)
                begun[item["precision"]] = item["row"]
        return begun, reason

    def take(self, key: str, row: dict[str, Any], reason: str) -> None:
        """Merge a row into what is known: a run with more engines replaces the times, not what failed before."""
        if reason:
            row["failed"]["worker"] = reason
        known = self.rows.get(key, {})
        failed = {**known.get("failed", {}), **row["failed"]}
        self.rows[key] = {**known, **row, "failed": failed} if "refactor_graph" in row else {**row, **known}
        self.rows[key]["failed"] = failed
        print(text_of(key, self.rows[key]), flush=True)
        self.save()

    def save(self) -> None:
        self.options.json.parent.mkdir(parents=True, exist_ok=True)
        self.options.json.write_text(json.dumps({**self.device, "rows": self.rows, "left": self.left}, indent=1))

    def summary(self) -> None:
        for batch in map(int, self.options.batch.split(",")):
            for precision in self.options.precision.split(","):
                means = ", ".join(f"{peer} {mean_of(self.rows, peer, batch, precision)}" for peer in ENGINES[1:])
                print(f"geometric mean of the ratios, batch {batch}, {precision}: {means}")
        if self.left:
            print(f"no time was left for {len(self.left)}: {', '.join(self.left)}")
        print(f"rows are in {self.options.json}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--zoo", type=Path, help="script with more models, see torch_models.zoo_cases")
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--precision", default="f16,f32,tf32,bf16", help="also fp8; the first one comes first")
    parser.add_argument("--tune", default="none", help="of ours: none, quick or cached")
    parser.add_argument("--without", default="", help="engines to leave out: eager, graphed, compiled")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a burst")
    parser.add_argument("--minutes", type=float, default=9.5, help="end after so many, with what there is by then")
    parser.add_argument("--started", type=float, default=time.time(), help="when they began, in seconds since 1970")
    parser.add_argument("--json", type=Path, default=Path("log/bench_cuda.json"))
    parser.add_argument("--host", action="store_true", help="try the script out on the CPU")
    options = parser.parse_args()
    if reason := missing(options.host):
        print(f"nothing is measured: {reason}")
        return 0
    import torch
    import torch_models

    cases = torch_models.zoo_cases(options.zoo) if options.zoo else torch_models.BUILT_IN
    if unknown := sorted(set(options.models) - set(cases)):
        parser.error(f"unknown models {', '.join(unknown)}, expected some of: {', '.join(cases)}")
    name = "the host" if options.host else torch.cuda.get_device_name()
    print(f"{name}, PyTorch {torch.__version__}; ms\n{'model|batch|precision':36}", end="")
    print("".join(f"{engine[:8]:>9}" for engine in ENGINES) + "   ratio     error", flush=True)
    bench = Bench(options, {"device": name, "torch": torch.__version__})
    for stage in stages_of([model for model in cases if not options.models or model in options.models], options):
        if time.time() > bench.ends - 10:
            bench.left += [key for key in stage.names() if key not in bench.rows or "compiled" in stage.engines]
            continue
        bench.run(stage, COMPILED_SECONDS if "compiled" in stage.engines else PLAIN_SECONDS)
    bench.worker.end()
    bench.save()
    bench.summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())

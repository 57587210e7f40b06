"""Measures models on a GPU for `cuda.py`, in a process of its own: what ends it ends nothing else.

    python benchmarks/cuda_worker.py <<< '{"model": ..., "batch": 1, "precisions": ["f16"], "engines": ["eager"], ...}'

For every line of its input it appends lines of JSON to the file `rows` whenever something is known: that a measurement
begins, and the times so far; last `DONE`.
"""

from __future__ import annotations

import copy
import faulthandler
import gc
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
DONE = "null"
# Nominal bytes a second, by the name of the card; for others a copy is timed.
BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.04e12, "L40": 0.864e12}
# What PyTorch computes in where we are asked for another type: it has no f8 for a whole model.
TORCH_TYPES = {"f16": "float16", "bf16": "bfloat16", "fp8": "bfloat16"}


class Gpu:
    """What is measured with on a GPU."""

    target, device = ("cuda",), "cuda"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.name = torch.cuda.get_device_name()
        self.stream = torch.cuda.Stream()

    def bandwidth(self) -> float:
        for name, value in BANDWIDTH.items():
            if name in self.name:
                return value
        source = self.torch.empty(1 << 30, dtype=self.torch.uint8, device="cuda")
        target = self.torch.empty_like(source)
        return 2 * source.numel() / (self.milliseconds(lambda: target.copy_(source), 0.2) / 1e3)

    def milliseconds(self, run: Run, seconds: float) -> float:
        """Time of a call within a burst of about so many seconds."""
        with self.torch.cuda.stream(self.stream):
            run()
            once = self.burst(run, 1)
            return self.burst(run, max(3, min(10000, int(seconds * 1e3 / max(once, 1e-3)))))

    def burst(self, run: Run, calls: int) -> float:
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(calls):
            run()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / calls

    def graphed(self, run: Run) -> Run:
        with self.torch.cuda.stream(self.stream):
            for _ in range(3):
                run()
        self.stream.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            self.output = run()
        return graph.replay

    def wait(self) -> None:
        self.torch.cuda.synchronize()


class Host(Gpu):
    """The same on the CPU, to try this script out."""

    target, device = ("cpu",), "cpu"

    def __init__(self) -> None:
        import torch

        self.torch, self.name, self.stream = torch, "the host", None

    def bandwidth(self) -> float:
        return math.nan

    def milliseconds(self, run: Run, seconds: float) -> float:
        run()
        return self.burst(run, 3)

    def burst(self, run: Run, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) * 1e3 / calls

    def graphed(self, run: Run) -> Run:
        raise RuntimeError("there are no graphs on the host")

    def wait(self) -> None:
        pass


def onnx_of(case: Any, folder: Path) -> Path:
    """Return the case as a file with fixed sizes."""
    import torch

    if case.onnx:
        return Path(case.onnx)
    path = folder / "model.onnx"
    with torch.no_grad():
        torch.onnx.export(
            case.module, case.arguments, str(path), input_names=list(case.names), opset_version=17, dynamo=False
        )
    return path


def our_engine(gpu: Gpu, path: Path, precision: str, tune: str, arguments: dict[str, Any]) -> tuple[Any, Run]:
    """Make an executor whose inputs lie on the GPU, and a call of it."""
    from refactor_graph.onnx import make_compiler

    compiler = make_compiler(path)
    try:
        executor = compiler.compile(gpu.target, precision=precision, tune=tune)
    except Exception as error:
        if gpu.device == "cpu":
            raise
        print(f"  on the GPU alone: {first_line(error)}; with the host:", flush=True)
        executor = compiler.compile([*gpu.target, "cpu"], precision=precision, tune=tune)
    for port in executor.inputs:
        executor.set_input_blob(port.name, arguments[port.name])
    stream = gpu.stream.cuda_stream if gpu.stream is not None else None
    return executor, lambda: executor.run(stream=stream)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def torch_call(gpu: Gpu, case: Any, precision: str) -> tuple[Any, list[Any], Run]:
    """Return a copy of the module in the type of the precision, its arguments and a call."""
    torch = gpu.torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    kind = getattr(torch, TORCH_TYPES.get(precision, "float32"))
    module = copy.deepcopy(case.module).to(gpu.device, kind)
    arguments = [a.to(gpu.device, kind if a.is_floating_point() else a.dtype) for a in case.arguments]

    def call() -> Any:
        with torch.no_grad():
            return module(*arguments)

    return module, arguments, call


def compiled(torch: Any, module: Any, arguments: list[Any]) -> Run:
    torch._dynamo.reset()
    fast = torch.compile(module, mode="max-autotune")

    def run() -> Any:
        with torch.no_grad():
            return fast(*arguments)

    for _ in range(3):
        run()
    return run


def peers_of(gpu: Gpu, case: Any, precision: str, names: list[str], failed: dict[str, str]) -> dict[str, Run]:
    """Return the peers that start; the others go to `failed`."""
    module, arguments, eager = torch_call(gpu, case, precision)
    makers: dict[str, Callable[[], Run]] = {
        "eager": lambda: eager,
        "graphed": lambda: gpu.graphed(eager),
        "compiled": lambda: compiled(gpu.torch, module, arguments),
    }
    engines: dict[str, Run] = {}
    for name in names:
        try:
            engines[name] = makers[name]()
            engines[name]()
            gpu.wait()
        except Exception as error:
            engines.pop(name, None)
            failed[name] = first_line(error)
    return engines


def reference(gpu: Gpu, case: Any) -> list[Any]:
    """Return the outputs of PyTorch in f32, or of onnxruntime on the CPU for a file alone."""
    if case.module is None:
        import onnxruntime

        session = onnxruntime.InferenceSession(case.onnx, providers=["CPUExecutionProvider"])
        return session.run(None, {name: a.numpy() for name, a in zip(case.names, case.arguments, strict=True)})
    _, _, plain = torch_call(gpu, case, "f32")
    outputs = plain()
    return [t.float().cpu().numpy() for t in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]


def steps_of(executor: Any, count: int = 40) -> list[tuple[float, str, str, str]]:
    """Return milliseconds, node, kernel and shapes of the steps that take longest, as the device times them."""
    rows = sorted(executor.bench(sync=False, repeats=5, quiet=True), key=lambda row: -row.nanoseconds)
    return [(row.nanoseconds / 1e6, row.node, row.kernel, row.shape) for row in rows[:count]]


def worst_error(actual: list[Any], wanted: list[Any]) -> float:
    import numpy as np

    worst = 0.0
    for a, w in zip(actual, wanted, strict=True):
        scale = float(np.abs(w).max()) or 1.0
        error = float(np.abs(a.astype(np.float64) - w).max(initial=0)) / scale
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


class Worker:
    """One model with one batch."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        import torch
        import torch_models

        torch.manual_seed(0)
        self.spec = spec
        self.gpu = Host() if spec["host"] else Gpu()
        cases = torch_models.zoo_cases(Path(spec["zoo"])) if spec["zoo"] else torch_models.BUILT_IN
        self.case = cases[spec["model"]](spec["batch"])
        self.path = onnx_of(self.case, folder)
        self.wanted = reference(self.gpu, self.case)
        self.arguments = {
            name: a.to(self.gpu.device).contiguous()
            for name, a in zip(self.case.names, self.case.arguments, strict=True)
        }

    def note(self, precision: str, row: dict[str, Any]) -> None:
        with Path(self.spec["rows"]).open("a") as file:
            file.write(json.dumps({"precision": precision, "row": row}) + "\n")

    def measure(self, precision: str) -> None:
        """Note what is known of this precision, ever more of it."""
        row: dict[str, Any] = {"failed": {}}
        self.note(precision, row | {"failed": {"refactor_graph": "was the last thing begun"}})
        gpu = self.gpu
        try:
            executor, run = our_engine(gpu, self.path, precision, self.spec["tune"], self.arguments)
            for _ in range(3):
                run()
            gpu.wait()
            row["error"] = worst_error([executor.get_output(port.name) for port in executor.outputs], self.wanted)
            row["refactor_graph"] = gpu.milliseconds(run, self.spec["seconds"])
        except Exception as error:
            row["failed"]["refactor_graph"] = first_line(error)
            self.note(precision, row)
            return
        self.note(precision, row)
        engines = peers_of(gpu, self.case, precision, self.spec["engines"], row["failed"]) if self.case.module else {}
        engines = {"refactor_graph": run, **engines}
        times: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(self.spec["rounds"]):
            for name, call in engines.items():
                times[name].append(gpu.milliseconds(call, self.spec["seconds"]))
        row |= {name: statistics.median(values) for name, values in times.items()}
        row |= self.decoding(precision, row["refactor_graph"] / 1e3)
        self.note(precision, row)
        self.note(precision, row | {"steps": steps_of(executor)})

    def decoding(self, precision: str, seconds: float) -> dict[str, float]:
        """Tokens a second and the share of the memory's bandwidth of a model that makes tokens."""
        if not self.case.tokens:
            return {}
        size = {"f16": 2, "bf16": 2}.get(precision, 4)
        read = sum(p.numel() for p in self.case.module.parameters()) + sum(
            a.numel() for a in self.case.arguments if a.is_floating_point()
        )
        return {
            "tokens_per_second": self.case.tokens / seconds,
            "share_of_bandwidth": read * size / seconds / self.gpu.bandwidth(),
        }


def run(spec: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            worker = Worker(spec, Path(folder))
        except LookupError as error:
            print(f"  {error}", flush=True)
            return
        for precision in spec["precisions"]:
            worker.measure(precision)
            worker.gpu.wait()  # raises if the device is lost to this process, which then ends
            gc.collect()


def main() -> int:
    faulthandler.enable()
    for line in sys.stdin:
        spec = json.loads(line)
        run(spec)
        gc.collect()
        with Path(spec["rows"]).open("a") as file:
            file.write(DONE + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

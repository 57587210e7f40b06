"""Times models on a GPU beside PyTorch: eager, compiled with max-autotune, and eager as a CUDA graph.

    python benchmarks/cuda.py [MODEL ...] [--zoo SCRIPT] [--batch 1,32] [--precision f32,tf32,f16,bf16] [--json FILE]

Without models: all of the zoo that have a PyTorch source, or the built-in ones. The engines take turns; what counts is
the median over the rounds of times that events on the GPU take of a burst of calls. Errors are those of the outputs
against PyTorch in f32, in units of each output's largest magnitude. Without a GPU nothing is measured, and the reason
is told.
"""

from __future__ import annotations

import argparse
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
ENGINES = ("refactor_graph", "eager", "graphed", "compiled")
# Nominal bytes a second, by the name of the card; for others a copy is timed.
BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.04e12, "L40": 0.864e12}


def missing() -> str:
    """Why nothing can be measured, or nothing."""
    try:
        import torch
    except ImportError as error:
        return f"PyTorch is missing: {error}"
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


def our_engine(gpu: Gpu, path: Path, precision: str, arguments: dict[str, Any]) -> tuple[Run, Callable[[], list[Any]]]:
    """Make a call of our executor on inputs that lie on the GPU, and a function for its outputs."""
    from refactor_graph.onnx import make_compiler

    compiler = make_compiler(path)
    try:
        executor = compiler.compile(gpu.target, precision=precision)
    except Exception as error:
        if gpu.device == "cpu":
            raise
        print(f"  on the GPU alone: {str(error).splitlines()[0]}; with the host:", flush=True)
        executor = compiler.compile([*gpu.target, "cpu"], precision=precision)
    for port in executor.inputs:
        executor.set_input_blob(port.name, arguments[port.name])
    stream = gpu.stream.cuda_stream if gpu.stream is not None else None
    outputs = [port.name for port in executor.outputs]
    return lambda: executor.run(stream=stream), lambda: [executor.get_output(name) for name in outputs]


def torch_engines(gpu: Gpu, case: Any, precision: str, skip: set[str]) -> dict[str, Run]:
    torch = gpu.torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    module = case.module.to(gpu.device, kind)
    arguments = [a.to(gpu.device, kind if a.is_floating_point() else a.dtype) for a in case.arguments]

    def eager() -> Any:
        with torch.no_grad():
            return module(*arguments)

    engines: dict[str, Run] = {"eager": eager}
    makers: dict[str, Callable[[], Run]] = {
        "graphed": lambda: gpu.graphed(eager),
        "compiled": lambda: compiled(torch, module, arguments),
    }
    for name, make in makers.items():
        if name in skip:
            continue
        try:
            engines[name] = make()
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
            gpu.wait()
    return engines


def compiled(torch: Any, module: Any, arguments: list[Any]) -> Run:
    fast = torch.compile(module, mode="max-autotune")

    def run() -> Any:
        with torch.no_grad():
            return fast(*arguments)

    for _ in range(3):
        run()
    return run


def worst_error(actual: list[Any], wanted: list[Any]) -> float:
    import numpy as np

    worst = 0.0
    for a, w in zip(actual, wanted, strict=True):
        scale = float(np.abs(w).max()) or 1.0
        worst = max(worst, float(np.abs(a.astype(np.float64) - w).max()) / scale)
    return worst


def measure(gpu: Gpu, case: Any, precision: str, options: argparse.Namespace, path: Path) -> dict[str, Any]:
    torch = gpu.torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        plain = case.module.to(gpu.device, torch.float32)(*(a.to(gpu.device) for a in case.arguments))
    wanted = [t.float().cpu().numpy() for t in (plain if isinstance(plain, (tuple, list)) else [plain])]
    arguments = {name: a.to(gpu.device).contiguous() for name, a in zip(case.names, case.arguments, strict=True)}
    run, outputs = our_engine(gpu, path, precision, arguments)
    for _ in range(3):
        run()
    row: dict[str, Any] = {"error": worst_error(outputs(), wanted)}
    engines = {"refactor_graph": run, **torch_engines(gpu, case, precision, set(options.without.split(",")))}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(options.rounds):
        for name, call in engines.items():
            times[name].append(gpu.milliseconds(call, options.seconds))
    row |= {name: statistics.median(values) for name, values in times.items()}
    if case.tokens:
        size = {"f16": 2, "bf16": 2}.get(precision, 4)
        read = sum(p.numel() for p in case.module.parameters()) + sum(
            a.numel() for a in case.arguments if a.is_floating_point()
        )
        seconds = row["refactor_graph"] / 1e3
        row["tokens_per_second"] = case.tokens / seconds
        row["share_of_bandwidth"] = read * size / seconds / gpu.bandwidth()
    return row


def text_of(key: str, row: dict[str, Any]) -> str:
    cells = [f"{row[name]:9.3f}" if name in row else f"{'-':>9}" for name in ENGINES]
    best = row.get("compiled") or row.get("graphed") or row["eager"]
    text = f"{key:36}{''.join(cells)} {best / row['refactor_graph']:7.2f} {row['error']:9.1e}"
    if "tokens_per_second" in row:
        text += f"  {row['tokens_per_second']:.0f} tokens/s, {100 * row['share_of_bandwidth']:.0f} % of bandwidth"
    return text


def mean_of(results: dict[str, Any], peer: str, batch: int, precision: str) -> str:
    rows = [row for key, row in results.items() if key.endswith(f"|{batch}|{precision}") and peer in row]
    if not rows:
        return "-"
    return f"{math.exp(statistics.fmean(math.log(row[peer] / row['refactor_graph']) for row in rows)):.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--zoo", type=Path, help="script with more models, see torch_models.zoo_cases")
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--precision", default="f16,f32,tf32,bf16")
    parser.add_argument("--without", default="", help="engines to leave out: graphed, compiled")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a burst")
    parser.add_argument("--minutes", type=float, default=9, help="begin nothing after so many")
    parser.add_argument("--json", type=Path, default=Path("log/bench_cuda.json"))
    parser.add_argument("--host", action="store_true", help="try the script out on the CPU")
    options = parser.parse_args()
    if not options.host and (reason := missing()):
        print(f"nothing is measured: {reason}")
        return 0
    import torch
    import torch_models

    started, gpu, results, left = time.monotonic(), Host() if options.host else Gpu(), {}, []
    cases = torch_models.zoo_cases(options.zoo) if options.zoo else torch_models.BUILT_IN
    print(f"{gpu.name}, PyTorch {torch.__version__}; ms\n{'model|batch|precision':36}", end="")
    print("".join(f"{name[:8]:>9}" for name in ENGINES) + "   ratio     error")
    plan = [(b, p, n) for b in options.batch.split(",") for p in options.precision.split(",") for n in cases]
    for batch, precision, name in plan:
        if options.models and name not in options.models:
            continue
        key = f"{name}|{batch}|{precision}"
        if time.monotonic() - started > 60 * options.minutes:
            left.append(key)
            continue
        torch.manual_seed(0)
        try:
            with tempfile.TemporaryDirectory() as folder:
                case = cases[name](int(batch))
                results[key] = measure(gpu, case, precision, options, onnx_of(case, Path(folder)))
            print(text_of(key, results[key]), flush=True)
        except LookupError as error:
            print(f"{key:36} {error}", flush=True)
        except Exception as error:
            print(f"{key:36} failed: {type(error).__name__}: {error}", flush=True)
            results.pop(key, None)
        gc.collect()
    for batch in map(int, options.batch.split(",")):
        for precision in options.precision.split(","):
            means = ", ".join(f"{peer} {mean_of(results, peer, batch, precision)}" for peer in ENGINES[1:])
            print(f"geometric mean of the ratios, batch {batch}, {precision}: {means}")
    if left:
        print(f"no time was left for {len(left)}: {', '.join(left)}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"device": gpu.name, "torch": torch.__version__, "rows": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

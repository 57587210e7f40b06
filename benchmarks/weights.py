"""Times a model with weights stored in fewer bytes, beside other engines with f32 and with their own small weights.

    python benchmarks/weights.py MODEL.onnx [--threads 1,2] [--rounds 5] [--burst 0.3] [--dim NAME=N] [--quantized]

Engines take turns in one process; the best median of a round counts for each. `error` is the largest difference from
onnxruntime in f32 over the largest magnitude of each output; "with int8 rows" is accuracy level 4 of MatMulNBits, or
`precision="int8"`. OpenVINO's int8 is there if `nncf` is installed. With `--quantized` the model's weights are
quantised alone already (`quantize.py --kinds weights`), and what differs is whether rows are, too; f32 are those that
onnxruntime and OpenVINO are told not to round.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from engines import OnnxRuntime
from refactor_graph.onnx import make_compiler
from run import burst

Arrays = list[np.ndarray]
Engine = tuple[Callable[[], object], Callable[[], Arrays]]
"""A call to time, and one that returns the outputs."""


class Bench:
    """A model with fixed sizes, its inputs, and a folder for what engines make of it."""

    def __init__(self, path: Path, sizes: dict[str, int], folder: Path, threads: int, quantized: bool) -> None:
        self.path, self.folder, self.threads, self.quantized = path, folder, threads, quantized
        random = np.random.default_rng(1)
        self.inputs: dict[str, np.ndarray] = {}
        for port in make_compiler(path).inputs:
            shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in port.shape]
            floating = "float" in port.dtype or port.dtype.startswith("f")
            self.inputs[port.name] = (
                random.standard_normal(shape).astype(np.float32) if floating else random.integers(0, 2, shape)
            )

    def ours(self, weights: str, precision: str = "default") -> Engine:
        compiler = make_compiler(self.path)
        executor = compiler.compile("cpu", num_threads=self.threads, weights=weights, precision=precision)
        return lambda: executor(self.inputs), lambda: list(executor(self.inputs).values())

    def onnxruntime(self, path: Path, level: int = 0) -> Engine:
        entries = {"session.qdq_matmulnbits_accuracy_level": str(level)}
        engine = OnnxRuntime(path.read_bytes(), self.threads, entries=entries)
        return lambda: engine(self.inputs), lambda: list(engine(self.inputs))

    def onnxruntime_int8(self) -> Engine:
        from onnxruntime.quantization import quantize_dynamic

        target = self.folder / "dynamic.onnx"
        if not target.exists():
            quantize_dynamic(self.path, target, per_channel=True)
        return self.onnxruntime(target)

    def four_bits(self, level: int) -> Path:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        target = self.folder / f"nbits{level}.onnx"
        if not target.exists():
            quantizer = MatMulNBitsQuantizer(
                onnx.load(self.path), block_size=32, is_symmetric=True, accuracy_level=level
            )
            quantizer.process()
            quantizer.model.save_model_to_file(str(target))
        return target

    def openvino(self, weights: str, rows: str = "f32") -> Engine:
        import openvino

        core = openvino.Core()
        model: Any = core.read_model(self.path)
        if weights == "f16":
            target = self.folder / "f16.xml"
            openvino.save_model(model, target, compress_to_fp16=True)
            model = core.read_model(target)
        elif weights == "int8":
            import nncf

            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
        model.reshape({i: list(self.inputs[next(iter(set(i.names) & set(self.inputs)))].shape) for i in model.inputs})
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1}
        if self.quantized and rows == "f32":
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
        compiled = core.compile_model(model, "CPU", options | {"INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        feed = {i: self.inputs[next(iter(set(i.names) & set(self.inputs)))] for i in compiled.inputs}

        def call() -> Any:
            return request.infer(feed, share_inputs=True, share_outputs=True)

        return call, lambda: [np.array(value) for value in call().values()]

    def engines(self) -> dict[str, Callable[[], Engine]]:
        if self.quantized:
            return {
                "onnxruntime f32": lambda: self.onnxruntime(self.path),
                "openvino f32": lambda: self.openvino("f32"),
                "refactor_graph f32": lambda: self.ours("default"),
                "onnxruntime with int8 rows": lambda: self.onnxruntime(self.path, 4),
                "openvino with int8 rows": lambda: self.openvino("f32", "int8"),
                "refactor_graph with int8 rows": lambda: self.ours("default", "int8"),
            }
        return {
            "onnxruntime f32": lambda: self.onnxruntime(self.path),
            "openvino f32": lambda: self.openvino("f32"),
            "refactor_graph f32": lambda: self.ours("f32"),
            "refactor_graph f16": lambda: self.ours("f16"),
            "refactor_graph bf16": lambda: self.ours("bf16"),
            "refactor_graph int8": lambda: self.ours("int8"),
            "refactor_graph int8 with int8 rows": lambda: self.ours("default", "int8"),
            "refactor_graph int4": lambda: self.ours("int4"),
            "refactor_graph int4 with int8 rows": lambda: self.ours("int4", "int8"),
            "onnxruntime int8": self.onnxruntime_int8,
            "onnxruntime int4": lambda: self.onnxruntime(self.four_bits(0)),
            "onnxruntime int4 with int8 rows": lambda: self.onnxruntime(self.four_bits(4)),
            "openvino f16": lambda: self.openvino("f16"),
            "openvino int8": lambda: self.openvino("int8"),
        }


def difference(actual: Arrays, wanted: Arrays) -> float:
    return max(
        float(np.abs(a.astype(float) - w).max() / (np.abs(w).max() + 1e-30))
        for a, w in zip(actual, wanted, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.3)
    parser.add_argument("--engines", default="", help="comma-separated, all by default")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="size of a symbol, 1 by default")
    parser.add_argument("--quantized", action="store_true", help="the weights are quantised alone already")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (text.split("=") for text in arguments.dim)}
    for threads in map(int, arguments.threads.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(arguments.model, sizes, Path(folder), threads, arguments.quantized)
            wanted = bench.onnxruntime(bench.path)[1]()
            made: dict[str, tuple[Engine, float]] = {}
            for name, make in bench.engines().items():
                if arguments.engines and name not in arguments.engines.split(","):
                    continue
                try:
                    engine = make()
                    made[name] = engine, difference(engine[1](), wanted)
                except Exception as error:
                    print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            times = dict.fromkeys(made, math.inf)
            for _ in range(arguments.rounds):
                for name, (engine, _) in made.items():
                    times[name] = min(times[name], burst(engine[0], arguments.burst))
                    time.sleep(0.06)
            peers = [ms for name, ms in times.items() if name.endswith("f32") and "refactor" not in name]
            best = min(peers, default=math.nan)
            print(f"{arguments.model.stem}, {threads} thread(s)   [ratio: best other engine in f32 over this]")
            for name, ms in times.items():
                print(f"  {name:34}{ms:10.3f} ms{best / ms:8.2f}   error {made[name][1]:.2g}")


if __name__ == "__main__":
    main()

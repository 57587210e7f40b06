"""The engines that benchmarks compare: built of a model and a number of threads, called with inputs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from refactor_graph.onnx import make_compiler

Inputs = Mapping[str, np.ndarray]
Outputs = list[np.ndarray]
Run = Callable[[Inputs], Outputs]


class Ours:
    """refactor_graph."""

    def __init__(self, model: bytes, threads: int, precision: str = "default") -> None:
        self.executor = make_compiler(model).compile("cpu", num_threads=threads, precision=precision)

    def __call__(self, inputs: Inputs) -> Outputs:
        return list(self.executor(inputs).values())

    def rows(self) -> Any:
        """Time of every step; needs a run before."""
        return self.executor.bench(repeats=1, quiet=True)


class OnnxRuntime:
    """onnxruntime's CPU provider; with `profile`, the beginning of a file's name, it times every node.

    `entries` are those of the session's configuration.
    """

    def __init__(
        self, model: bytes, threads: int, profile: str | None = None, entries: dict[str, str] | None = None
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        for name, value in (entries or {}).items():
            options.add_session_config_entry(name, value)
        if profile:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def __call__(self, inputs: Inputs) -> Outputs:
        return self.session.run(None, dict(inputs))


class OpenVino:
    """OpenVINO's CPU plugin, for latency; `cache`: a folder for compiled models."""

    def __init__(self, model: bytes | str, threads: int, cache: str | None = None, precision: str = "f32") -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": precision,
            "NUM_STREAMS": 1,
        }
        core = openvino.Core()
        if cache:
            # Only a path is looked up without reading the model.
            compiled = core.compile_model(model, "CPU", settings | {"CACHE_DIR": cache})
        else:
            compiled = core.compile_model(core.read_model(model), "CPU", settings)
        self.known = {name for port in compiled.inputs for name in port.get_names()}
        self.request = compiled.create_infer_request()
        self.count = len(self.request.model_outputs)

    def __call__(self, inputs: Inputs) -> Outputs:
        # Inputs that nothing reads are none of the compiled model's.
        read = {name: array for name, array in inputs.items() if name in self.known}
        self.request.infer(read, share_inputs=True, share_outputs=True)
        return [self.request.get_output_tensor(i).data for i in range(self.count)]


def openvino_bf16(model: bytes, threads: int) -> OpenVino:
    """OpenVINO with tensors and products of bf16, its default where a processor has them."""
    return OpenVino(model, threads, precision="bf16")


PEERS: dict[str, Callable[[bytes, int], Run]] = {
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "openvino_bf16": openvino_bf16,
}


def installed() -> list[str]:
    """Return the peers of f32 that can be imported here."""
    return [name for name in ("onnxruntime", "openvino") if importlib.util.find_spec(name)]

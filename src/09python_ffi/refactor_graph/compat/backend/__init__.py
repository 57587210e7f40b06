"""onnxruntime.backend: the ONNX backend API."""

from refactor_graph.backend import is_compatible, prepare, supports_device
from refactor_graph.backend import run_model as run

__all__ = ["is_compatible", "prepare", "run", "supports_device"]

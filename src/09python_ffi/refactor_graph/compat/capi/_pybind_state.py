"""Another name of `onnxruntime_pybind11_state` that code imports."""

from refactor_graph.compat.capi.onnxruntime_pybind11_state import *  # noqa: F403

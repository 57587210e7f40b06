"""onnxruntime's interface over this library: code written for onnxruntime runs unchanged.

>>> import refactor_graph.compat as onnxruntime
>>> session = onnxruntime.InferenceSession("model.onnx")  # doctest: +SKIP
>>> outputs = session.run(None, {"input": array})  # doctest: +SKIP

For code that imports onnxruntime itself, call :func:`install` before it does. The pure Python parts of an installed
onnxruntime (`onnxruntime.quantization`, `onnxruntime.transformers`, `onnxruntime.tools`) stay importable then, and use
this interface, too.

Values are in host memory. Unlike onnxruntime, a session that is asked for CUDA alone never runs on the CPU instead: it
raises. Messages and types of exceptions follow onnxruntime 1.31 (https://onnxruntime.ai/docs/api/python).
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from refactor_graph.compat._binding import IOBinding
from refactor_graph.compat._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    ModelMetadata,
    NodeArg,
    OrtAllocatorType,
    OrtArenaCfg,
    OrtMemType,
    RunOptions,
    SessionOptions,
)
from refactor_graph.compat._providers import get_all_providers, get_available_providers, get_device
from refactor_graph.compat._session import InferenceSession
from refactor_graph.compat._values import OrtDevice, OrtMemoryInfo, OrtValue, OrtValueVector, copy_tensors

SessionIOBinding = IOBinding

__version__ = "1.31.1"
"""Version of onnxruntime whose interface this is: code compares it."""

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "OrtValueVector",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "copy_tensors",
    "create_and_register_allocator",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]


def get_version_string() -> str:
    """Return the version of onnxruntime whose interface this is."""
    return __version__


def get_build_info() -> str:
    """Return what is behind the interface."""
    from refactor_graph._core import __version__ as version

    return f"refactor_graph {version}"


def set_default_logger_severity(severity: int) -> None:
    """Do nothing but check: the library logs nothing by itself."""
    if not 0 <= severity <= 4:
        raise RuntimeError(f"Invalid logging severity. Expected 0 to 4, got {severity}")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing: the library logs nothing by itself."""


def set_seed(seed: int) -> None:
    """Do nothing: no operator draws numbers without a seed of its own."""


def enable_telemetry_events() -> None:
    """Do nothing: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Do nothing: there is no telemetry."""


def create_and_register_allocator(memory: OrtMemoryInfo, arena: OrtArenaCfg | None = None) -> None:
    """Do nothing: memory is planned for each program, and shared by none."""


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Do nothing: threads belong to sessions."""


def get_ep_devices() -> list[Any]:
    """Return no devices of plug-in providers: there are none."""
    return []


def has_collective_ops() -> bool:
    """Return whether a run may span processes through this interface."""
    return False


def preload_dlls(*_: Any, **__: Any) -> None:
    """Do nothing: libraries are found by themselves."""


def install() -> None:
    """Make `import onnxruntime` mean this module, in this process.

    Raises
    ------
    RuntimeError
        If onnxruntime itself has been imported already.
    """
    found = sys.modules.get("onnxruntime")
    if found is not None and found is not sys.modules[__name__]:
        raise RuntimeError("onnxruntime has been imported already: call install() before anything imports it")
    sys.modules["onnxruntime"] = sys.modules[__name__]


def _add_python_parts() -> None:
    """Let the modules of an installed onnxruntime that are not here be found under this package."""
    try:
        found = importlib.util.find_spec("onnxruntime")
    except ValueError:  # replaced in sys.modules by something without a specification
        return
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        if folder not in __path__:
            __path__.append(folder)


_add_python_parts()

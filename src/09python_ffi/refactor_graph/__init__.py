"""RefactorGraph: compiles trained models into fast executors for CPUs and NVIDIA GPUs.

Start at :func:`refactor_graph.onnx.make_compiler`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from refactor_graph._core import CancellationToken, Device, Port, __version__, find_device
from refactor_graph._errors import (
    Cancelled,
    DeviceError,
    Error,
    InternalError,
    InvalidInput,
    InvalidModel,
    OutOfMemory,
    Unsupported,
)
from refactor_graph.executor import Executor

if TYPE_CHECKING:
    from refactor_graph._check import Operand, Problem
    from refactor_graph._operators import SupportedOp, supported_ops
    from refactor_graph.onnx import check

__all__ = [
    "CancellationToken",
    "Cancelled",
    "Device",
    "DeviceError",
    "Error",
    "Executor",
    "InternalError",
    "InvalidInput",
    "InvalidModel",
    "Operand",
    "OutOfMemory",
    "Port",
    "Problem",
    "SupportedOp",
    "Unsupported",
    "__version__",
    "check",
    "find_device",
    "supported_ops",
]

# These need the onnx package, which takes longer to import than all else.
_LATE = {
    "Operand": "refactor_graph._check",
    "Problem": "refactor_graph._check",
    "SupportedOp": "refactor_graph._operators",
    "check": "refactor_graph.onnx",
    "supported_ops": "refactor_graph._operators",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)

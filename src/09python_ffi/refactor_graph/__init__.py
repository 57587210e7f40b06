"""RefactorGraph: compiles trained models into fast executors for CPUs and NVIDIA GPUs.

Start at :func:`refactor_graph.onnx.make_compiler`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from refactor_graph._core import (
    CancellationToken,
    Device,
    DeviceArray,
    Port,
    __version__,
    current_stream,
    find_device,
    pass_names,
)
from refactor_graph._custom import (
    CustomOp,
    Dim,
    LibraryOp,
    TensorType,
    custom_op,
    get_include,
    load_library,
    register_library,
    register_op,
    unregister_op,
)
from refactor_graph._errors import (
    Cancelled,
    DeviceError,
    Error,
    InternalError,
    InvalidInput,
    InvalidModel,
    OperatorError,
    OutOfMemory,
    Unsupported,
)
from refactor_graph.executor import Executor

if TYPE_CHECKING:
    from refactor_graph._check import Operand, Problem
    from refactor_graph._operators import SupportedOp, supported_ops
    from refactor_graph._saved import load
    from refactor_graph.onnx import check

__all__ = [
    "CancellationToken",
    "Cancelled",
    "CustomOp",
    "Device",
    "DeviceArray",
    "DeviceError",
    "Dim",
    "Error",
    "Executor",
    "InternalError",
    "InvalidInput",
    "InvalidModel",
    "LibraryOp",
    "Operand",
    "OperatorError",
    "OutOfMemory",
    "Port",
    "Problem",
    "SupportedOp",
    "TensorType",
    "Unsupported",
    "__version__",
    "check",
    "current_stream",
    "custom_op",
    "find_device",
    "get_include",
    "load",
    "load_library",
    "pass_names",
    "register_library",
    "register_op",
    "supported_ops",
    "unregister_op",
]

# Most of these need the onnx package, which takes longer to import than all else.
_LATE = {
    "Operand": "refactor_graph._check",
    "Problem": "refactor_graph._check",
    "SupportedOp": "refactor_graph._operators",
    "check": "refactor_graph.onnx",
    "load": "refactor_graph._saved",
    "supported_ops": "refactor_graph._operators",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)

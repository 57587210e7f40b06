"""RefactorGraph: compiles trained models into fast executors for CPUs and NVIDIA GPUs.

Start at :func:`refactor_graph.onnx.make_compiler`.
"""

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
    "OutOfMemory",
    "Port",
    "Unsupported",
    "__version__",
    "find_device",
]

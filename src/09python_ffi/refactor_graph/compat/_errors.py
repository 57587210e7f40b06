"""onnxruntime's exceptions, and how ours become them."""

# ruff: noqa: N818 (the names are onnxruntime's)
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import ClassVar

from refactor_graph._errors import (
    DeviceError,
    Error,
    InvalidInput,
    InvalidModel,
    OutOfMemory,
    Unsupported,
)


class OnnxRuntimeError(Error):
    """Root of the exceptions that carry a status code of onnxruntime; `str` has its form."""

    code: ClassVar[int]
    """Number of the status."""
    status: ClassVar[str]
    """Name of the status, as messages write it."""

    def __init__(self, message: str) -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.status} : {message}")


class Fail(OnnxRuntimeError):
    """Something without a status of its own."""

    code, status = 1, "FAIL"


class InvalidArgument(OnnxRuntimeError):
    """An input, an output name or an option is wrong."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(OnnxRuntimeError):
    """The model is not there."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(OnnxRuntimeError):
    """There is no model."""

    code, status = 4, "NO_MODEL"


class EngineError(OnnxRuntimeError):
    """The engine failed."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(OnnxRuntimeError):
    """A run failed."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(OnnxRuntimeError):
    """The bytes are no ONNX model."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(OnnxRuntimeError):
    """A model is loaded already."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(OnnxRuntimeError):  # noqa: A001
    """The model is legal but something in it, or in what was asked for, is not supported."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(OnnxRuntimeError):
    """The model breaks its specification."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(OnnxRuntimeError):
    """A device is missing or failed."""

    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(OnnxRuntimeError):
    """Loading was cancelled."""

    code, status = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(OnnxRuntimeError):
    """The model has to be compiled first."""

    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(OnnxRuntimeError):
    """Something that was named does not exist."""

    code, status = 14, "NOT_FOUND"


_CLASSES: tuple[tuple[type[Error], type[OnnxRuntimeError]], ...] = (
    (InvalidModel, InvalidGraph),
    (InvalidInput, InvalidArgument),
    (Unsupported, NotImplemented),
    (OutOfMemory, RuntimeException),
    (DeviceError, EPFail),
    (Error, Fail),
)


def translation(error: Error) -> OnnxRuntimeError:
    """Return onnxruntime's exception for one of the library."""
    if isinstance(error, OnnxRuntimeError):
        return error
    found = next(theirs for ours, theirs in _CLASSES if isinstance(error, ours))
    return found(str(error))


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise onnxruntime's exception where the library raises its own, which becomes the cause."""
    try:
        yield
    except OnnxRuntimeError:
        raise
    except Error as error:
        raise translation(error) from error

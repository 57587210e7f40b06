"""onnxruntime's values: OrtValue, OrtDevice, OrtMemoryInfo."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from refactor_graph.compat import _errors
from refactor_graph.compat._errors import Fail
from refactor_graph.compat._options import OrtAllocatorType, OrtMemType
from refactor_graph.compat._types import code_of_array, element_name, numpy_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "npu": 3}
"""Numbers of onnxruntime's kinds of devices."""

_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Element types of which more than one share a byte in ONNX; numpy keeps one a byte."""


class OrtDevice:
    """A kind of device and its number."""

    def __init__(self, device_type: int = 0, memory_type: int = 0, device_id: int = 0) -> None:
        self._fields = device_type, memory_type, device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Return a device by name: "cpu" or "cuda"."""
        del vendor_id
        name = ort_device_name.lower()
        if name not in _DEVICE_TYPES:
            raise Fail(f"Unsupported device type: {ort_device_name}")
        return OrtDevice(_DEVICE_TYPES[name], 0, device_id)

    @staticmethod
    def cpu() -> int:
        """Return the number of the kind."""
        return 0

    @staticmethod
    def cuda() -> int:
        """Return the number of the kind."""
        return 1

    @staticmethod
    def default_memory() -> int:
        """Return the number of ordinary memory."""
        return 0

    def device_type(self) -> int:
        """Return the number of its kind."""
        return self._fields[0]

    def device_id(self) -> int:
        """Return its number among the devices of its kind."""
        return self._fields[2]

    def device_vendor_id(self) -> int:
        """Return the number of its maker; 0: none in particular."""
        return 0

    def device_mem_type(self) -> int:
        """Return the number of its kind of memory."""
        return self._fields[1]


@dataclass(frozen=True)
class OrtMemoryInfo:
    """Where memory comes from; accepted for compatibility."""

    name: str = "Cpu"
    allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    device_id: int = 0
    mem_type: OrtMemType = OrtMemType.DEFAULT


def require_host(device_type: str, what: str) -> None:
    """Raise `NotImplemented` unless the device is the host: values of this module live in host memory."""
    if device_type.lower() != "cpu":
        raise _errors.NotImplemented(
            f"{what} in memory of {device_type!r}: values of this interface are in host memory"
        )


def view_memory(address: int, element_type: Any, shape: Sequence[int]) -> NDArray[Any]:
    """Return an array over memory of the caller, who keeps it alive.

    Parameters
    ----------
    address
        Of the first element; may be 0 if there are no elements.
    element_type
        A numpy type or a code of `TensorProto.DataType`.
    shape
        Sizes.
    """
    dtype = numpy_type(element_type)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(tuple(shape), dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), np.uint8).view(dtype).reshape(tuple(shape))


class OrtValue:
    """A tensor, a sequence of tensors, or an optional without a value.

    Made by the class methods and by runs. A value made from an array shares its memory.
    """

    _value: Any

    def __init__(self, value: Any) -> None:
        self._value = value._value if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: NDArray[Any], /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Make a tensor over an array."""
        del device_id, vendor_id
        require_host(device_type, "a tensor")
        if not isinstance(numpy_obj, np.ndarray):
            raise RuntimeError("Creation of OrtValues is currently only supported from numpy arrays")
        return cls(np.ascontiguousarray(numpy_obj) if numpy_obj.ndim else numpy_obj)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: NDArray[Any], /, onnx_element_type: int) -> OrtValue:
        """Make a tensor over an array whose bits are elements of another type of the same size."""
        return cls(data.view(numpy_type(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """Make a tensor of undefined content; `element_type` is a numpy type or a code of `TensorProto.DataType`."""
        del device_id, vendor_id, memory_info
        require_host(device_type, "a tensor")
        return cls(np.zeros(tuple(shape), numpy_type(element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Make a tensor over that of another library."""
        return cls(np.from_dlpack(data))

    def _tensor(self) -> NDArray[Any]:
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError(f"the value is no tensor: {self.data_type()}")
        return self._value

    def has_value(self) -> bool:
        """Return whether it is anything but an empty optional."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Return whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Return whether it is a sparse tensor; none is."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Return whether it is a sequence."""
        return isinstance(self._value, list)

    def numpy(self) -> Any:
        """Return the tensor as an array over the same memory, or the sequence as a list."""
        return self._value

    def shape(self) -> list[int]:
        """Return the sizes."""
        return list(self._tensor().shape)

    def element_type(self) -> int:
        """Return the code of its element type."""
        return code_of_array(self._tensor())

    def data_type(self) -> str:
        """Return the text of its type."""
        if self.is_tensor():
            return f"tensor({element_name(self.element_type())})"
        if self.is_tensor_sequence():
            return f"seq({OrtValue(self._value[0]).data_type() if self._value else 'tensor(float)'})"
        return f"optional({type(self._value).__name__})"

    def device_name(self) -> str:
        """Return the name of the kind of device that holds it."""
        return "cpu"

    def tensor_size_in_bytes(self) -> int:
        """Return its bytes as ONNX stores it."""
        bits = _BITS.get(self.element_type())
        array = self._tensor()
        return (array.size * bits + 7) // 8 if bits else array.nbytes

    def data_ptr(self) -> int:
        """Return the address of its first element."""
        if self.element_type() in _BITS:
            raise _errors.NotImplemented(f"an address of {self.data_type()}: numpy does not pack its elements")
        return int(self._tensor().ctypes.data)

    def update_inplace(self, data: NDArray[Any] | OrtValue) -> None:
        """Overwrite the tensor by one of the same shape and type."""
        source = data._tensor() if isinstance(data, OrtValue) else data
        if not isinstance(source, np.ndarray):
            raise TypeError(f"data must be a numpy.ndarray or an OrtValue, got {type(source).__name__}")
        target = self._tensor()
        if source.shape != target.shape or source.dtype != target.dtype:
            raise Fail(f"the value is {target.dtype}{target.shape}, the update {source.dtype}{source.shape}")
        np.copyto(target, source)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is None:
            return np.asarray(self._tensor(), dtype)
        return np.array(self._tensor(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


class OrtValueVector(list[OrtValue]):
    """A list of values."""

    def push_back(self, value: OrtValue | NDArray[Any]) -> None:
        """Append a value, or an array as one."""
        self.append(value if isinstance(value, OrtValue) else OrtValue(value))

    def shapes(self) -> list[list[int]]:
        """Return the sizes of each."""
        return [value.shape() for value in self]

    def dtypes(self) -> list[Any]:
        """Return numpy's type of each."""
        return [value.numpy().dtype for value in self]


def copy_tensors(sources: Sequence[OrtValue], targets: Sequence[OrtValue], stream: Any = None) -> None:
    """Overwrite each target by its source."""
    del stream
    for source, target in zip(sources, targets, strict=True):
        target.update_inplace(source)


def _texts(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of texts; what is none is written as Python writes it."""
    if array.dtype.kind in "UST":
        return array.astype(object)
    if array.dtype.kind != "O" or all(isinstance(item, str | bytes) for item in array.flat):
        return array
    texts = [item if isinstance(item, str | bytes) else str(item) for item in array.flat]
    return np.array(texts, object).reshape(array.shape)


def plain(value: Any, code: int, name: str) -> Any:
    """Return what the executor takes for `value`.

    Parameters
    ----------
    value
        A value of a feed: an OrtValue, an array or an object with `__array__` or `__dlpack__`, a number, nested lists,
        a dict for a map.
    code
        Code of the element type that the model wants, or 0: lists stay sequences.
    name
        Of the input, for messages.
    """
    if isinstance(value, OrtValue):
        value = value._value
    if code == TensorProto.STRING and isinstance(value, np.ndarray):
        return _texts(value)
    if value is None or isinstance(value, np.ndarray) or (isinstance(value, list | dict) and not code):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, list | tuple):
        return _texts(np.array(value, object)) if code == TensorProto.STRING else np.array(value, numpy_type(code))
    if hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
        return np.asarray(value)
    raise RuntimeError(f"Unable to handle object of type {type(value)} for input {name}")

"""Tensors of PyTorch to what an executor takes, and back, without copies where memory order allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

try:
    from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw, has_guarding_hint
except ImportError as error:
    raise ImportError(f"the torch.compile backend needs torch 2.13 or later, this is {torch.__version__}") from error

from refactor_graph._errors import Unsupported

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]

_contiguous: Reader = Tensor.contiguous
_numpy: Reader = Tensor.numpy

_EXTENSIONS = {
    torch.bfloat16: (torch.uint16, ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E4M3FNUZ),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz, TensorProto.FLOAT8E5M2FNUZ),
}
"""Types that numpy does not have: one of the same size that both have, numpy's extension, and ONNX's number."""

_PLAIN = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.float16: TensorProto.FLOAT16,
    torch.bool: TensorProto.BOOL,
    torch.int8: TensorProto.INT8,
    torch.int16: TensorProto.INT16,
    torch.int32: TensorProto.INT32,
    torch.int64: TensorProto.INT64,
    torch.uint8: TensorProto.UINT8,
    torch.uint16: TensorProto.UINT16,
    torch.uint32: TensorProto.UINT32,
    torch.uint64: TensorProto.UINT64,
}


def onnx_type(dtype: torch.dtype) -> int:
    """ONNX's number of a type.

    Raises
    ------
    Unsupported
        If ONNX has no such type.
    """
    if dtype in _EXTENSIONS:
        return int(_EXTENSIONS[dtype][2])
    if dtype not in _PLAIN:
        raise Unsupported(f"tensors of {dtype} are not supported")
    return int(_PLAIN[dtype])


def to_numpy(tensor: Tensor) -> Any:
    """Return a tensor of the host as an array that shares its memory, unless it is a conjugate or negative view."""
    if tensor.dtype in _EXTENSIONS:
        bits, dtype, _ = _EXTENSIONS[tensor.dtype]
        return tensor.detach().view(bits).numpy().view(dtype)
    return tensor.numpy(force=True)


def content(tensor: Tensor) -> memoryview:
    """Bytes of a weight in row-major order, shared where it lies so, copied otherwise; they outlive the tensor."""
    array = to_numpy(tensor.detach().cpu().contiguous())
    return memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")


def device_of(examples: Sequence[Any]) -> str:
    """Name of the device that the tensors among `examples` are on; numbers in tensors of the host may go anywhere.

    Raises
    ------
    Unsupported
        If they are on several, or on one that there is no target for.
    """
    tensors = [example for example in examples if isinstance(example, Tensor)]
    places = sorted({str(tensor.device) for tensor in tensors if tensor.dim() or tensor.device.type != "cpu"})
    if len(places) > 1 or (places and places[0].partition(":")[0] not in ("cpu", "cuda")):
        raise Unsupported(f"tensors of the graph are on {', '.join(places)}, expected one: cpu or cuda")
    return places[0] if places else "cpu"


def reader_for(example: Any) -> Reader:
    """How arguments like `example` become inputs of an executor.

    What only depends on the kind of tensor is decided here: Dynamo compiles anew for another one.
    """
    if isinstance(example, torch.SymInt | int) and not isinstance(example, bool):
        return np.int64
    if not isinstance(example, Tensor):
        return np.float32 if isinstance(example, torch.SymFloat | float) else np.bool_
    if example.device.type != "cpu":
        return _contiguous
    if example.dtype in _EXTENSIONS or example.requires_grad or example.is_conj() or example.is_neg():
        return to_numpy
    return _numpy


def writer_for(example: Any) -> Writer:
    """How outputs of an executor become tensors or numbers like `example`, in its memory order."""
    if not isinstance(example, Tensor):
        return _number_type(example)
    convert: Writer = torch.from_numpy
    if example.device.type != "cpu":
        convert = torch.from_dlpack
    elif example.dtype in _EXTENSIONS:
        bits = np.dtype(str(_EXTENSIONS[example.dtype][0]).removeprefix("torch."))
        dtype = example.dtype

        def convert(array: Any) -> Tensor:
            return torch.from_numpy(array.view(bits)).view(dtype)

    order = _memory_order(example)
    if order == list(range(len(order))):
        return convert
    back = [order.index(axis) for axis in range(len(order))]
    return lambda array: convert(array).permute(order).contiguous().permute(back)


def _number_type(example: Any) -> Writer:
    for kinds, number in (((bool, torch.SymBool), bool), ((int, torch.SymInt), int)):
        if isinstance(example, kinds):
            return number
    return float


def _memory_order(example: Tensor) -> list[int]:
    """Axes from the slowest to the fastest; as they are for tensors that do not fill their memory, as expanded ones."""
    order = list(range(example.dim()))
    if not all(has_guarding_hint(number) for number in (*example.shape, *example.stride())):
        return order
    sizes = [guarding_hint_or_throw(size) for size in example.shape]
    strides = [guarding_hint_or_throw(stride) for stride in example.stride()]

    def fills(axes: list[int]) -> bool:
        dense = 1
        for axis in reversed(axes):
            if sizes[axis] > 1 and strides[axis] != dense:
                return False
            dense *= sizes[axis]
        return True

    by_stride = sorted(order, key=lambda axis: -strides[axis])
    return by_stride if not fills(order) and fills(by_stride) else order

"""TensorProto and SparseTensorProto to (type, dims, bytes), with every length checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import SparseTensorProto, TensorProto

from refactor_graph._external import ExternalDataError, ExternalFiles

MAX_RANK = 64
"""More dimensions than any model uses; shapes of untrusted models stay small."""

MAX_SPARSE_BYTES = 2**31
"""Largest dense form of a sparse initializer: a few bytes of model must not become terabytes of memory."""

STRING = int(TensorProto.STRING)

_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2}
_TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
# Field that holds each type, and the numpy type of one entry as stored (ONNX: TensorProto.data_type). A complex number
# is two entries.
_STORAGE: dict[int, tuple[str, str]] = {
    1: ("float_data", "<f4"),
    14: ("float_data", "<f4"),
    7: ("int64_data", "<i8"),
    11: ("double_data", "<f8"),
    15: ("double_data", "<f8"),
    12: ("uint64_data", "<u4"),
    13: ("uint64_data", "<u8"),
    8: ("string_data", "O"),
    6: ("int32_data", "<i4"),
}
_STORAGE |= dict.fromkeys((4, 10, 16), ("int32_data", "<u2")) | {5: ("int32_data", "<i2"), 3: ("int32_data", "i1")}
_STORAGE |= dict.fromkeys((2, 9, *range(17, 27)), ("int32_data", "u1"))


class TensorError(Exception):
    """Why a tensor of a model cannot be used."""


class Tensor(NamedTuple):
    """A checked tensor.

    `data` has exactly the bytes that `dtype` and `dims` need, little-endian, sub-byte types packed low bits first.
    """

    dtype: int
    dims: tuple[int, ...]
    data: Any
    """A buffer, or a list of bytes for strings; borrowed from the model or a mapped file."""


def type_name(code: int) -> str:
    """ONNX's name of an element type, for messages."""
    return str(TensorProto.DataType.Name(code)).lower() if code in _BITS or code == STRING else f"type {code}"


def known_type(code: int) -> bool:
    """Whether `code` is an element type of ONNX (UNDEFINED is none)."""
    return code in _BITS or code == STRING


def element_count(dims: Sequence[int]) -> int:
    """Return the number of elements.

    Raises
    ------
    TensorError
        If a size is negative, or sizes or their product do not fit 63 bits.
    """
    if len(dims) > MAX_RANK:
        raise TensorError(f"it has {len(dims)} dimensions, at most {MAX_RANK} are possible")
    count, nonzero = 1, 1
    for size in dims:
        if size < 0:
            raise TensorError(f"dims {list(dims)} contain the negative size {size}")
        count *= size
        nonzero *= size or 1
    if nonzero >= 2**60:
        raise TensorError(f"dims {list(dims)} are too large: {nonzero} elements")
    return count


def storage_bytes(dtype: int, count: int) -> int:
    """Bytes of `count` elements of a type that is not STRING."""
    return (count * _BITS[dtype] + 7) // 8


def read_tensor(proto: TensorProto, files: ExternalFiles, raw: memoryview | None = None) -> Tensor:
    """Check `proto` and return it.

    Parameters
    ----------
    proto
        The tensor.
    files
        Where external data is read from.
    raw
        The bytes of `raw_data`, if they were left out of `proto`.

    Raises
    ------
    TensorError
        With the reason, if the tensor contradicts itself or its external data cannot be used.
    """
    dtype = proto.data_type
    if not known_type(dtype):
        raise TensorError(f"data_type {dtype} is not an element type")
    dims = tuple(proto.dims)
    count = element_count(dims)
    if proto.HasField("segment"):
        raise TensorError("it has a segment; tensors in segments are not part of a model")
    typed = [field for field in _TYPED_FIELDS if len(getattr(proto, field))]
    external = proto.data_location == TensorProto.EXTERNAL
    has_raw = raw is not None or proto.HasField("raw_data")
    fields = typed + (["raw_data"] if has_raw else [])
    if external:
        return _read_external(
            proto, files, dims, count, [name for name in fields if name != "raw_data" or proto.raw_data]
        )
    if len(proto.external_data):
        raise TensorError("it has external_data, but data_location is not EXTERNAL")
    if len(fields) > 1 and not (has_raw and not typed):
        raise TensorError(f"its data is in more than one field: {', '.join(fields)}")
    if has_raw:
        return _read_raw(dtype, dims, count, proto.raw_data if raw is None else raw)
    return _read_typed(proto, dims, count, typed[0] if typed else None)


def _read_external(
    proto: TensorProto, files: ExternalFiles, dims: tuple[int, ...], count: int, fields: list[str]
) -> Tensor:
    if proto.data_type == STRING:
        raise TensorError("strings cannot be external")
    if fields:
        raise TensorError(f"its data is external and in {', '.join(fields)}")
    try:
        return Tensor(proto.data_type, dims, files.read(proto, storage_bytes(proto.data_type, count)))
    except ExternalDataError as error:
        raise TensorError(str(error)) from None


def _read_raw(dtype: int, dims: tuple[int, ...], count: int, data: bytes | memoryview) -> Tensor:
    if dtype == STRING:
        raise TensorError("strings cannot be in raw_data")
    expected = storage_bytes(dtype, count)
    if len(data) != expected:
        raise TensorError(f"raw_data has {len(data)} bytes, but {type_name(dtype)}{list(dims)} needs {expected}")
    return Tensor(dtype, dims, data)


def _read_typed(proto: TensorProto, dims: tuple[int, ...], count: int, field: str | None) -> Tensor:
    dtype = proto.data_type
    expected_field, storage = _STORAGE[dtype]
    if field is not None and field != expected_field:
        raise TensorError(f"{type_name(dtype)} data belongs into {expected_field}, it is in {field}")
    entries = count
    if dtype in (14, 15):
        entries = 2 * count
    elif dtype != STRING and _BITS[dtype] < 8:
        entries = storage_bytes(dtype, count)
    values = getattr(proto, expected_field)
    if len(values) != entries:
        raise TensorError(
            f"{expected_field} has {len(values)} entries, but {type_name(dtype)}{list(dims)} needs {entries}"
        )
    if dtype == STRING:
        return Tensor(dtype, dims, list(values))
    wide = np.array(values, dtype=np.int64 if expected_field == "int32_data" else None)
    return Tensor(dtype, dims, wide.astype(storage).view(np.uint8) if entries else b"")


def read_sparse(proto: SparseTensorProto, files: ExternalFiles) -> Tensor:
    """Check a sparse tensor and return its dense form.

    Raises
    ------
    TensorError
        If it contradicts itself or its dense form would exceed `MAX_SPARSE_BYTES`.
    """
    dims = tuple(proto.dims)
    count = element_count(dims)
    values = read_tensor(proto.values, files)
    indices = read_tensor(proto.indices, files)
    if values.dtype == STRING or _BITS[values.dtype] < 8:
        raise TensorError(f"sparse tensors of {type_name(values.dtype)} are not possible")
    if indices.dtype != TensorProto.INT64:
        raise TensorError(f"its indices are {type_name(indices.dtype)}, expected int64")
    if len(values.dims) != 1:
        raise TensorError(f"its values have dims {list(values.dims)}, expected one dimension")
    number = values.dims[0]
    item = _BITS[values.dtype] // 8
    if count * item > MAX_SPARSE_BYTES:
        raise TensorError(
            f"its dense form {list(dims)} would need {count * item} bytes, at most {MAX_SPARSE_BYTES} are possible"
        )
    index: np.ndarray[Any, Any] = np.frombuffer(indices.data, dtype="<i8").reshape(indices.dims)
    if index.shape == (number, len(dims)):
        if number and (np.any(index < 0) or np.any(index >= np.array(dims))):
            raise TensorError(f"an index is outside dims {list(dims)}")
        index = np.ravel_multi_index(tuple(index.T), dims) if number else index.reshape(0)
    elif index.shape != (number,):
        raise TensorError(f"it has {number} values, but indices of shape {list(index.shape)}")
    if number and (index.min() < 0 or index.max() >= count):
        raise TensorError(f"an index is outside its {count} elements: {int(index.min())} to {int(index.max())}")
    if number and np.any(index[1:] <= index[:-1]):
        raise TensorError("its indices are not in ascending order without duplicates")
    dense = np.zeros((count, item), np.uint8)
    dense[index] = np.frombuffer(values.data, np.uint8).reshape(number, item)
    return Tensor(values.dtype, dims, dense.reshape(-1))


Reader = Callable[[TensorProto], Tensor]
"""`read_tensor` with the files of one model."""

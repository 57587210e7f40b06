"""The operator MurmurHash3 of com.microsoft: a hash of every element.

Source: Austin Appleby, MurmurHash3_x86_32 (public domain); onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactor_graph._custom import CustomOp, TensorType
from refactor_graph._errors import InvalidModel

Array = NDArray[Any]

_MASK = 0xFFFFFFFF
_TYPES = ("i32", "u32", "i64", "u64", "f32", "f64", "string")


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _scrambled(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _hash(data: bytes, seed: int) -> int:
    value, whole = seed & _MASK, len(data) & ~3
    for index in range(0, whole, 4):
        value ^= _scrambled(int.from_bytes(data[index : index + 4], "little"))
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & _MASK
    if len(data) > whole:
        value ^= _scrambled(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def _shape(x: TensorType, *, positive: int = 1, seed: int = 0) -> TensorType:
    del seed
    if x.dtype not in _TYPES:
        raise InvalidModel(f"input 0 is {x.dtype}, expected one of: {', '.join(_TYPES)}")
    return TensorType("u32" if positive else "i32", x.shape)


def _compute(x: Array, *, positive: int = 1, seed: int = 0) -> Array:
    if x.dtype == object:
        elements = [text.encode("utf-8", "surrogateescape") for text in x.ravel().tolist()]
    else:
        data, size = np.ascontiguousarray(x).tobytes(), x.dtype.itemsize
        elements = [data[index : index + size] for index in range(0, len(data), size)]
    hashes = np.array([_hash(element, seed) for element in elements], np.uint32)
    return hashes.view(np.uint32 if positive else np.int32).reshape(x.shape)


MURMUR_HASH = CustomOp("com.microsoft", "MurmurHash3", _compute, _shape)

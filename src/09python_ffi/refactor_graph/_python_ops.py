"""Operators that Python computes, because what they need is in its library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactor_graph._custom import CustomOp, TensorType
from refactor_graph._errors import InvalidModel
from refactor_graph._expressions import compiled
from refactor_graph._hashing import MURMUR_HASH
from refactor_graph._tokenizer import TOKENIZER

Array = NDArray[Any]


def _match_shape(x: TensorType, pattern: str = "") -> TensorType:
    if x.dtype != "string":
        raise InvalidModel(f"input 0 is {x.dtype}, expected string")
    compiled(pattern, "pattern")
    return TensorType("bool", x.shape)


def _match(x: Array, pattern: str = "") -> Array:
    match = compiled(pattern, "pattern").fullmatch
    found = (match(text) is not None for text in x.ravel().tolist())
    return np.fromiter(found, np.bool_, x.size).reshape(x.shape)


PYTHON_OPS = (CustomOp("", "RegexFullMatch", _match, _match_shape, (20, None)), MURMUR_HASH, TOKENIZER)

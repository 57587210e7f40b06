"""Operators of the standard that Python computes, because what they need is in its library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactor_graph._custom import CustomOp, TensorType
from refactor_graph._errors import InvalidModel

Array = NDArray[Any]


def _expression(pattern: str) -> re.Pattern[str]:
    r"""Return an RE2 pattern as one of `re`: classes are of ASCII, and the end of the text is called \Z, not \z."""
    text = re.sub(r"((?:^|[^\\])(?:\\\\)*)\\z", lambda found: f"{found[1]}\\Z", pattern)
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidModel(f"pattern {pattern!r} is no regular expression: {error}") from None


def _match_shape(x: TensorType, pattern: str = "") -> TensorType:
    if x.dtype != "string":
        raise InvalidModel(f"input 0 is {x.dtype}, expected string")
    _expression(pattern)
    return TensorType("bool", x.shape)


def _match(x: Array, pattern: str = "") -> Array:
    match = _expression(pattern).fullmatch
    found = (match(text) is not None for text in x.ravel().tolist())
    return np.fromiter(found, np.bool_, x.size).reshape(x.shape)


PYTHON_OPS = (CustomOp("", "RegexFullMatch", _match, _match_shape, (20, None)),)

"""The operator Tokenizer of com.microsoft: regular expressions cut text into pieces.

Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactor_graph._custom import CustomOp, TensorType
from refactor_graph._errors import InvalidModel
from refactor_graph._expressions import compiled

Array = NDArray[Any]
Cut = Callable[[str], Iterable[str]]
"""Returns the pieces of a text."""

_START, _END = "\x02", "\x03"
"""Put around the pieces of a text, before it is padded, if `mark` is set."""


def _separated(separators: Sequence[re.Pattern[str]], least: int) -> Cut:
    def pieces(text: str, separator: re.Pattern[str]) -> Iterator[str]:
        start = 0
        for found in separator.finditer(text):
            if found.end() > found.start():  # an empty match separates nothing
                yield text[start : found.start()]
                start = found.end()
        yield text[start:]

    def cut(text: str) -> list[str]:
        row = [text]
        for separator in separators:
            row = [piece for item in row for piece in pieces(item, separator) if len(piece) >= least]
        return row

    return cut


def _found(expression: re.Pattern[str], least: int) -> Cut:
    def cut(text: str) -> list[str]:
        return [match[0] for match in expression.finditer(text) if len(match[0]) >= least]

    return cut


def _cut_of(separators: Sequence[str], tokenexp: str, mincharnum: int) -> Cut:
    """Return what the attributes ask for; separators come before tokenexp, as in onnxruntime.

    Raises
    ------
    InvalidModel
        If they contradict each other or hold no regular expression.
    """
    least = max(mincharnum, 1)
    if not separators:
        if not tokenexp:
            raise InvalidModel("expected one of separators and tokenexp, got none")
        return _found(compiled(tokenexp, "tokenexp"), least)
    if list(separators) == [""]:
        if mincharnum > 1:
            raise InvalidModel(f"mincharnum is {mincharnum}, expected at most 1 where every character is a piece")
        return list
    if "" in separators:
        raise InvalidModel("an empty separator stands beside others")
    return _separated([compiled(item, "a separator") for item in separators], least)


def _shape(
    x: TensorType,
    *,
    mark: int = 0,
    mincharnum: int = 1,
    pad_value: str = "",
    separators: Sequence[str] = (),
    tokenexp: str = "",
) -> tuple[str, list[Any]]:
    del mark, pad_value
    if x.dtype != "string":
        raise InvalidModel(f"input 0 is {x.dtype}, expected string")
    if x.rank not in (1, 2):
        raise InvalidModel(f"input 0 has rank {x.rank}, expected 1 or 2")
    _cut_of(separators, tokenexp, mincharnum)
    return "string", [*x.shape, None]


def _tokenize(
    x: Array,
    *,
    mark: int = 0,
    mincharnum: int = 1,
    pad_value: str = "",
    separators: Sequence[str] = (),
    tokenexp: str = "",
) -> Array:
    cut = _cut_of(separators, tokenexp, mincharnum)
    rows = [list(cut(text)) for text in x.ravel().tolist()]
    width = max(map(len, rows), default=0)
    if width == 0:
        return np.empty((*x.shape, 0), object)
    first, last = ([_START], [_END]) if mark else ([], [])
    result = np.array([[*first, *row, *last, *[pad_value] * (width - len(row))] for row in rows], object)
    return result.reshape(*x.shape, result.shape[1])


TOKENIZER = CustomOp("com.microsoft", "Tokenizer", _tokenize, _shape)

"""Finds the weights in a serialized model without copying them.

The protobuf parser copies every byte string twice: into its own memory, and again whenever Python reads the field.
For the large `raw_data` of initializers this module notes only where it lies in the file, and gives the parser a
model without it. It understands just enough of the wire format to do so, checks every length, and declines (returns
None) whenever it meets anything unusual.

Source: https://protobuf.dev/programming-guides/encoding/ and onnx.proto (ModelProto.graph = 7, GraphProto.initializer
= 5, TensorProto.raw_data = 9).
"""

from __future__ import annotations

from typing import NamedTuple

_MODEL_GRAPH = 7 << 3 | 2
_GRAPH_INITIALIZER = 5 << 3 | 2
_TENSOR_RAW_DATA = 9 << 3 | 2
_SMALLEST = 4096
"""Bytes of raw_data from which leaving it out pays."""


class Stripped(NamedTuple):
    """A model without its large raw_data, and where that lies: index of the initializer → its bytes."""

    model: bytes
    raw: dict[int, memoryview]


class _UnusualError(Exception):
    pass


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 63:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _UnusualError


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: memoryview, at: int, end: int) -> list[tuple[int, int, int, int]]:
    """(tag, start of the field, start of its payload, end) of every field in data[at:end]."""
    out = []
    while at < end:
        start = at
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 2:
            length, at = _varint(data, at)
            payload, at = at, at + length
        elif kind == 0:
            payload, at = at, _varint(data, at)[1]
        elif kind == 1 or kind == 5:
            payload, at = at, at + (8 if kind == 1 else 4)
        else:
            raise _UnusualError
        if at > end:
            raise _UnusualError
        out.append((tag, start, payload, at))
    return out


def strip_weights(data: memoryview) -> Stripped | None:
    """Split a serialized ModelProto, or return None where the plain parser must do.

    Parameters
    ----------
    data
        The model; the returned views share its memory.
    """
    try:
        return _strip(data)
    except (_UnusualError, IndexError):
        return None


def _strip(data: memoryview) -> Stripped | None:
    model = _fields(data, 0, len(data))
    graphs = [field for field in model if field[0] == _MODEL_GRAPH]
    if len(graphs) != 1:
        return None
    _, graph_start, graph_at, graph_end = graphs[0]
    raw: dict[int, memoryview] = {}
    parts: list[bytes | memoryview] = []
    copied, index = graph_at, 0
    for tag, start, payload, end in _fields(data, graph_at, graph_end):
        if tag != _GRAPH_INITIALIZER:
            continue
        if end - payload >= _SMALLEST:
            fields = _fields(data, payload, end)
            large = [field for field in fields if field[0] == _TENSOR_RAW_DATA]
            if len(large) > 1:
                return None
            if large and large[0][3] - large[0][2] >= _SMALLEST:
                _, cut, content, content_end = large[0]
                raw[index] = data[content:content_end]
                rest = end - payload - (content_end - cut)
                parts += [data[copied:start], _encode(tag), _encode(rest), data[payload:cut], data[content_end:end]]
                copied = end
        index += 1
    if not raw:
        return None
    parts.append(data[copied:graph_end])
    graph = b"".join(parts)
    head, tail = data[:graph_start], data[graph_end:]
    return Stripped(b"".join([head, _encode(_MODEL_GRAPH), _encode(len(graph)), graph, tail]), raw)

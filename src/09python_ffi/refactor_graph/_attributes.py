"""AttributeProto to what the native builder takes, with the type tag checked against the fields that are set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, SparseTensorProto, TensorProto

from refactor_graph._declared import raw_type
from refactor_graph._errors import quote

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = range(1, 9)
SPARSE, TYPE = 11, 13
"""Kinds of attributes: the numbers of AttributeProto.AttributeType."""

_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs"}
_FIELDS |= {11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos"}
_VALUES = frozenset(_FIELDS.values())

RawAttribute = tuple[str, int, Any]
"""Name, kind and value: int, float, bytes, lists of them (long ones as the serialized attribute), a `Tensor`, or a
native graph builder."""

_LONG = 64
"""Elements of a list that take as long to hand over one by one as an attribute takes to serialize."""


class AttributeValueError(Exception):
    """Why an attribute cannot be used."""


def kind_name(kind: int) -> str:
    """ONNX's name of a kind, for messages."""
    return str(AttributeProto.AttributeType.Name(kind)).lower() if kind in _FIELDS else f"kind {kind}"


def checked_kind(proto: AttributeProto, ir_version: int) -> int:
    """Kind of `proto`.

    Raises
    ------
    AttributeValueError
        If its type tag is missing or contradicts the fields that are set.
    """
    kind = proto.type
    present = [field.name for field, _ in proto.ListFields() if field.name in _VALUES]
    if kind == 0 and ir_version < 2 and len(present) == 1:  # the tag exists since IR version 2
        return next(code for code, name in _FIELDS.items() if name == present[0])
    if kind not in _FIELDS:
        raise AttributeValueError("it has no type, or an unknown one")
    expected = _FIELDS[kind]
    for name in present:
        if name != expected:
            raise AttributeValueError(f"its type is {kind_name(kind)}, but its value is in the field '{name}'")
    # Writers of proto3 leave out numbers that are 0 and texts that are empty, never messages.
    if not present and kind in (TENSOR, GRAPH, SPARSE, TYPE):
        raise AttributeValueError(f"its type is {kind_name(kind)}, but it has no value")
    return kind


def _elements(proto: AttributeProto, values: Sequence[Any]) -> list[Any] | bytes:
    return list(values) if len(values) < _LONG else proto.SerializeToString()


def convert(
    proto: AttributeProto,
    kind: int,
    tensor: Callable[[TensorProto], Any],
    sparse: Callable[[SparseTensorProto], Any],
    graph: Callable[[GraphProto], Any],
) -> RawAttribute | None:
    """Return the attribute in the form of the native builder, or None for kinds that it does not take."""
    if kind == INT:
        return proto.name, kind, proto.i
    if kind == INTS:
        return proto.name, kind, _elements(proto, proto.ints)
    if kind == FLOAT:
        return proto.name, kind, proto.f
    if kind == STRING:
        return proto.name, kind, proto.s
    if kind == FLOATS:
        return proto.name, kind, _elements(proto, proto.floats)
    if kind == STRINGS:
        return proto.name, kind, _elements(proto, proto.strings)
    if kind == TENSOR:
        return proto.name, kind, tensor(proto.t)
    if kind == GRAPH:
        return proto.name, kind, graph(proto.g)
    if kind == SPARSE:
        return proto.name, TENSOR, sparse(proto.sparse_tensor)
    if kind == TYPE:
        return proto.name, kind, raw_type(proto.tp)
    return None


def duplicate_names(names: list[str]) -> list[str]:
    """Names that occur more than once, quoted, sorted."""
    return sorted({quote(name) for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []

"""TypeProto to what the native builder takes."""

from __future__ import annotations

from typing import Any

from onnx import TypeProto

Dims = list[int | str | None] | None
RawType = tuple[Any, ...]
"""(element type, dims) of a tensor; (type of the keys, None, kind, type of the elements) of anything else."""

_SEQUENCE, _OPTIONAL, _MAP = 1, 2, 3


class UnsupportedTypeError(Exception):
    """Says which type, with its article."""


def raw_dims(proto: TypeProto) -> Dims:
    """Sizes of a tensor type: numbers, names, None where unknown; None if not even the rank is known."""
    if not proto.tensor_type.HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in proto.tensor_type.shape.dim:
        kind = dim.WhichOneof("value")
        dims.append(dim.dim_value if kind == "dim_value" else (dim.dim_param or None) if kind == "dim_param" else None)
    return dims


def raw_type(proto: TypeProto) -> RawType:
    """Return the type in the form of the native builder; a missing one is a tensor of which nothing is known.

    Raises
    ------
    UnsupportedTypeError
        For sparse tensors and opaque types.
    """
    kind = proto.WhichOneof("value")
    if kind is None:
        return 0, None
    if kind == "tensor_type":
        return proto.tensor_type.elem_type, raw_dims(proto)
    if kind == "sequence_type":
        return 0, None, _SEQUENCE, raw_type(proto.sequence_type.elem_type)
    if kind == "optional_type":
        return 0, None, _OPTIONAL, raw_type(proto.optional_type.elem_type)
    if kind == "map_type":
        return proto.map_type.key_type, None, _MAP, raw_type(proto.map_type.value_type)
    if kind == "sparse_tensor_type":
        raise UnsupportedTypeError(
            "a sparse_tensor, which no operator of ONNX takes: declare a tensor, or keep the content in a sparse "
            "initializer or sparse_value of Constant"
        )
    raise UnsupportedTypeError(
        f"a {kind.removesuffix('_type')}; only tensors, sequences, optionals and maps are supported"
    )

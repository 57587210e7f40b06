"""Texts of types: onnxruntime writes "tensor(float)" where the library writes f32."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper

from refactor_graph._core import Port
from refactor_graph._types import code_of

_NAMES = {1: "float", 11: "double"}
"""Element types that onnxruntime calls otherwise than `TensorProto.DataType` in lower case."""


def element_name(code: int) -> str:
    """Onnxruntime's name of an element type."""
    return _NAMES.get(code) or str(TensorProto.DataType.Name(code)).lower()


def code_of_array(array: np.ndarray[Any, Any]) -> int:
    """Return the code of an array's element type; texts and objects are strings."""
    if array.dtype.kind in "OUST":
        return int(TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(array.dtype.newbyteorder("=")))


def code_of_port(port: Port) -> int:
    """Return the code of a port's element type; 0 if it is unknown."""
    return code_of(port.dtype)


def type_text(proto: TypeProto) -> str:
    """Return onnxruntime's text of a type, "" if the model does not say what it is.

    Parameters
    ----------
    proto
        A type: "tensor(float)", "sparse_tensor(float)", "seq(tensor(int64))", "optional(tensor(float))",
        "map(int64,tensor(float))".
    """
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        code = getattr(proto, kind).elem_type
        return f"{kind.removesuffix('_type')}({element_name(code)})" if code else ""
    if kind == "sequence_type":
        return f"seq({type_text(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_text(proto.optional_type.elem_type)})"
    if kind == "map_type":
        return f"map({element_name(proto.map_type.key_type)},{type_text(proto.map_type.value_type)})"
    return ""


def declared_shape(proto: TypeProto) -> list[int | str | None] | None:
    """Return the declared sizes of a tensor; None if not even the rank is declared."""
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        return declared_shape(proto.optional_type.elem_type)
    if kind not in ("tensor_type", "sparse_tensor_type") or not getattr(proto, kind).HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in getattr(proto, kind).shape.dim:
        if dim.WhichOneof("value") == "dim_value":
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)  # -1 stands for "unknown" in older models
        else:
            dims.append(dim.dim_param or None)
    return dims


def numpy_type(element_type: Any) -> np.dtype[Any]:
    """Numpy's type for a code of `TensorProto.DataType` or whatever `numpy.dtype` takes."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    dtype: np.dtype[Any] = np.dtype(element_type)
    return dtype

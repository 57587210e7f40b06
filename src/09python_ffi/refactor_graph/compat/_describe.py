"""Descriptions of a model in onnxruntime's words."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto, ValueInfoProto, numpy_helper

from refactor_graph._core import Port
from refactor_graph._functions import walk
from refactor_graph._load import LoadedModel
from refactor_graph._tensors import read_tensor
from refactor_graph.compat._errors import InvalidArgument
from refactor_graph.compat._options import ModelMetadata, NodeArg
from refactor_graph.compat._types import code_of_port, declared_shape, element_name, type_text
from refactor_graph.compat._values import OrtValue


def metadata_of(proto: ModelProto) -> ModelMetadata:
    """Return what a model says about itself."""
    return ModelMetadata(
        producer_name=proto.producer_name,
        graph_name=proto.graph.name,
        domain=proto.domain,
        description=proto.doc_string,
        graph_description=proto.graph.doc_string,
        version=proto.model_version,
        custom_metadata_map={item.key: item.value for item in proto.metadata_props},
    )


def inputs_of(proto: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that are no initializers."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    constants |= {tensor.values.name for tensor in proto.graph.sparse_initializer}
    return [port for port in proto.graph.input if port.name not in constants]


def denoted_symbols(proto: ModelProto, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of the inputs' symbols whose dimensions have a denotation among those of `sizes`."""
    found = {}
    for port in inputs_of(proto):
        for axis, dim in enumerate(port.type.tensor_type.shape.dim):
            if dim.denotation in sizes and dim.WhichOneof("value") != "dim_value":
                found[dim.dim_param or f"{port.name}.{axis}"] = sizes[dim.denotation]
    return found


def describe_inputs(proto: ModelProto, sizes: Mapping[str, int]) -> list[NodeArg]:
    """Describe the inputs as declared; symbols of `sizes` are replaced by their values."""
    result = []
    for port in inputs_of(proto):
        shape: list[int | str | None] = []
        for axis, dim in enumerate(declared_shape(port.type) or []):
            symbol = f"{port.name}.{axis}" if dim is None else dim
            shape.append(sizes.get(symbol, dim) if isinstance(symbol, str) else symbol)
        result.append(NodeArg(port.name, type_text(port.type), shape))
    return result


def describe_overridable(proto: ModelProto) -> list[NodeArg]:
    """Describe the initializers that are inputs, too; before version 4 of the format all had to be."""
    if proto.ir_version < 4:
        return []
    constants = {tensor.name for tensor in proto.graph.initializer}
    return [
        NodeArg(port.name, type_text(port.type), declared_shape(port.type) or [])
        for port in proto.graph.input
        if port.name in constants
    ]


def without_initializers(loaded: LoadedModel, names: Container[str]) -> LoadedModel:
    """Return the model with these initializers as inputs alone."""
    proto = ModelProto()
    proto.CopyFrom(loaded.proto)
    kept = [index for index, tensor in enumerate(loaded.proto.graph.initializer) if tensor.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(loaded.proto.graph.initializer[index] for index in kept)
    raw = {place: loaded.raw[index] for place, index in enumerate(kept) if index in loaded.raw}
    return replace(loaded, proto=proto, raw=raw)


def _symbols(ports: Iterable[ValueInfoProto]) -> set[str]:
    return {dim.dim_param for port in ports for dim in port.type.tensor_type.shape.dim if dim.dim_param}


def describe_outputs(proto: ModelProto, inferred: Iterable[Port]) -> list[NodeArg]:
    """Describe the outputs as inferred; where a size is no number, as declared."""
    symbols = _symbols([*proto.graph.input, *proto.graph.output])
    result = []
    for port, found in zip(proto.graph.output, inferred, strict=True):
        code = code_of_port(found)
        declared = declared_shape(port.type)
        shape: list[int | str | None] = list(declared or [])
        if found.shape is not None:
            same = declared is not None and len(declared) == len(found.shape)
            shape = []
            for axis, size in enumerate(found.shape):
                said = declared[axis] if same and declared is not None else None
                shape.append(size if isinstance(size, int) else said or (size if size in symbols else None))
        text = type_text(port.type) or (f"tensor({element_name(code)})" if code else "")
        result.append(NodeArg(port.name, text, shape))
    return result


_CONSTANT = frozenset(
    {
        *("sparse_value", "value", "value_float", "value_floats", "value_int", "value_ints", "value_string"),
        "value_strings",
    }
)
"""Attributes of Constant."""


def forgive(proto: ModelProto) -> None:
    """Remove what onnxruntime passes over: marks that tools leave on constants as attributes of their own."""
    for node in walk(proto.graph.node):
        if node.op_type != "Constant" or len(node.attribute) < 2 or node.domain not in ("", "ai.onnx"):
            continue
        known = [item for item in node.attribute if item.name in _CONSTANT]
        if len(known) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(known)


def save(loaded: LoadedModel, path: str) -> None:
    """Write the model into one file, external data of its initializers too."""
    proto = ModelProto()
    proto.CopyFrom(loaded.proto)
    for index, tensor in enumerate(proto.graph.initializer):
        if index in loaded.raw or len(tensor.external_data):
            tensor.raw_data = bytes(read_tensor(tensor, loaded.files, loaded.raw.get(index)).data)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    Path(path).write_bytes(proto.SerializeToString())


def replace_initializers(loaded: LoadedModel, values: Mapping[str, OrtValue]) -> None:
    """Put `values` in the place of the initializers of these names.

    Raises
    ------
    InvalidArgument
        If the model has no such initializer.
    """
    places = {tensor.name: index for index, tensor in enumerate(loaded.proto.graph.initializer)}
    for name, value in values.items():
        if name not in places:
            raise InvalidArgument(f"the model has no initializer {name!r} to replace")
        loaded.raw.pop(places[name], None)
        loaded.proto.graph.initializer[places[name]].CopyFrom(numpy_helper.from_array(value.numpy(), name))

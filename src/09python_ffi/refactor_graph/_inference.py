"""Types of tensors by the `onnx` package: only needed to expand operators whose function body depends on them."""

from __future__ import annotations

from onnx import ModelProto, TypeProto, helper, shape_inference

_SMALL = 1024
"""Bytes of an initializer whose values inference may need (shapes, axes); larger ones are given to it as types only."""


def operand_types(model: ModelProto) -> dict[str, TypeProto]:
    """Types by name, as far as they can be inferred; large weights are left out of the copy that is inferred.

    Parameters
    ----------
    model
        A model; it is not changed.
    """
    copy = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = copy.graph
    graph.name = "types"
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    weights = {tensor.name for tensor in model.graph.initializer}
    graph.input.extend(port for port in model.graph.input if port.name not in weights)
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= _SMALL and not len(tensor.external_data) and tensor.HasField("raw_data"):
            graph.initializer.append(tensor)
        else:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    try:
        graph = shape_inference.infer_shapes(copy).graph
    except Exception:  # whatever is wrong is reported by the import itself
        graph = copy.graph
    types = {}
    for info in (*graph.input, *graph.output, *graph.value_info):
        types[info.name] = info.type
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types

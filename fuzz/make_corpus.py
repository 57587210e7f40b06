"""Writes models with their inputs as inputs of the fuzz target `onnx` (see onnx_text.h).

Usage: python fuzz/make_corpus.py FOLDER [--data FOLDER] [--most BYTES]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, TensorProto, TypeProto, numpy_helper

SEPARATORS = frozenset(" ,;\n")


class Unwritable(Exception):  # noqa: N818 (it is no error)
    """The format cannot say it."""


def _word(text: str) -> str:
    if SEPARATORS & set(text):
        raise Unwritable(text)
    return text


def _list(items: list[str]) -> str:
    return ",".join(items) if items else "-"


def _values(tensor: TensorProto) -> str:
    """Return the first elements; a short period stands for more."""
    if tensor.data_type == TensorProto.STRING:
        return _list([_word(text.decode()) for text in tensor.string_data[:32]])
    array = numpy_helper.to_array(tensor).reshape(-1)[:64]
    if array.dtype.kind == "c":
        array = array.real
    if array.dtype.kind in "iub":
        return _list([str(int(value)) for value in array])
    return _list([f"{float(value):.4g}" for value in array.astype(np.float64)])


def _type(proto: TypeProto) -> tuple[str, str]:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return str(tensor.elem_type), "*"
        dims = [
            str(dim.dim_value) if dim.HasField("dim_value") else _word(dim.dim_param) or "?" for dim in tensor.shape.dim
        ]
        return str(tensor.elem_type), ",".join(dims) or "."
    if kind in ("sequence_type", "optional_type"):
        inner, shape = _type(getattr(proto, kind).elem_type)
        return f"{kind[:3]}:{inner}", shape
    if kind == "map_type":
        inner, shape = _type(proto.map_type.value_type)
        return f"map:{proto.map_type.key_type}:{inner}", shape
    return "0", "*"


class Writer:
    """The lines of one model."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.graphs = 0

    def attribute(self, item: AttributeProto) -> str:
        """Return `name=kind:value`; a sub-graph must have been written before."""
        kinds = AttributeProto
        if item.type == kinds.FLOAT:
            return f"f:{item.f:.6g}"
        if item.type == kinds.INT:
            return f"i:{item.i}"
        if item.type == kinds.STRING:
            return f"s:{_word(item.s.decode())}"
        if item.type == kinds.INTS:
            return "is:" + _list([str(i) for i in item.ints])
        if item.type == kinds.FLOATS:
            return "fs:" + _list([f"{f:.6g}" for f in item.floats])
        if item.type == kinds.STRINGS:
            return "ss:" + _list([_word(text.decode()) for text in item.strings])
        if item.type == kinds.TENSOR:
            dims = ",".join(str(size) for size in item.t.dims) or "."
            return f"t:{item.t.data_type};{dims};{_values(item.t)}"
        if item.type == kinds.TYPE_PROTO:
            return "tp:" + ";".join(_type(item.tp))
        raise Unwritable(item.name)

    def graph(self, graph: GraphProto) -> None:
        """Write a graph, its sub-graphs before the nodes that have them."""
        for port in graph.input:
            self.lines.append(f"input {_word(port.name)} {' '.join(_type(port.type))}")
        for tensor in graph.initializer:
            dims = ",".join(str(size) for size in tensor.dims) or "."
            self.lines.append(f"init {_word(tensor.name)} {tensor.data_type} {dims} {_values(tensor)}")
        for node in graph.node:
            attributes = []
            for item in node.attribute:
                if item.type == AttributeProto.GRAPH:
                    self.lines.append("graph")
                    self.graph(item.g)
                    self.lines.append("end")
                    attributes.append(f"{item.name}=g:{self.graphs}")
                    self.graphs += 1
                else:
                    attributes.append(f"{item.name}={self.attribute(item)}")
            kind = node.op_type + (f"@{node.domain}" if node.domain not in ("", "ai.onnx") else "")
            inputs, outputs = _list([_word(n) for n in node.input]), _list([_word(n) for n in node.output])
            self.lines.append(" ".join(["node", kind, inputs, outputs, *attributes]))
        for port in graph.output:
            self.lines.append(f"output {_word(port.name)} {' '.join(_type(port.type))}")


def write(model: onnx.ModelProto, feeds: list[TensorProto]) -> str:
    """Return a model and values of its inputs as text."""
    if model.functions:
        raise Unwritable("functions")
    writer = Writer()
    writer.lines.append(f"ir {model.ir_version}")
    for opset in model.opset_import:
        writer.lines.append(f"opset {opset.domain} {opset.version}" if opset.domain else f"opset {opset.version}")
    writer.graph(model.graph)
    for tensor in feeds:
        dims = ",".join(str(size) for size in tensor.dims) or "."
        writer.lines.append(f"feed {_word(tensor.name)} {tensor.data_type} {dims} {_values(tensor)}")
    return "\n".join(writer.lines) + "\n"


def main() -> int:
    """Write what fits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=2000, help="bytes of one input")
    parser.add_argument("--data", type=Path, default=Path(onnx.__file__).parent / "backend" / "test" / "data")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in sorted(options.data.rglob("model.onnx")):
        feeds = []
        model = onnx.load(path)
        for index, port in enumerate(model.graph.input):
            file = path.parent / "test_data_set_0" / f"input_{index}.pb"
            if port.type.HasField("tensor_type") and file.exists():
                feeds.append(onnx.load_tensor(file))
                feeds[-1].name = port.name
        try:
            text = write(model, feeds)
        except (Unwritable, UnicodeDecodeError):
            continue
        if len(text) <= options.most:
            (options.folder / path.parent.name).write_text(text)
            count += 1
    print(f"{count} inputs in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

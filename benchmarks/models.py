"""Small models that benchmarks build themselves, so that they need no downloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model and how to make its inputs."""

    model: onnx.ModelProto
    inputs: Callable[[np.random.Generator], Inputs]


class Graph:
    """Collects nodes and random weights of one model."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, shape: tuple[int, ...], scale: float) -> str:
        name = f"w{len(self.weights)}"
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def integers(self, values: list[int]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}_{len(self.nodes)}", **attributes))
        return name

    def conv(self, x: str, channels: int, out: int, kernel: int, stride: int = 1) -> str:
        weight = self.weight((out, channels, kernel, kernel), (2 / (channels * kernel * kernel)) ** 0.5)
        pads = [kernel // 2] * 4
        return self.node("Conv", x, weight, self.weight((out,), 0.1), strides=[stride, stride], pads=pads)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        product = self.node("MatMul", x, self.weight((inputs, outputs), inputs**-0.5))
        return self.node("Add", product, self.weight((outputs,), 0.1))

    def model(self, inputs: list[onnx.ValueInfoProto], output: str) -> onnx.ModelProto:
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "benchmark", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual_network(batch: int | str = 1) -> Case:
    """ResNet-18's convolutions with random weights; input x: [batch, 3, 224, 224]."""
    g = Graph()
    x = g.node("Relu", g.conv("x", 3, 64, 7, 2))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            main = g.node("Relu", g.conv(x, channels, width, 3, stride))
            main = g.conv(main, width, width, 3)
            short = x if stride == 1 and channels == width else g.conv(x, channels, width, 1, stride)
            x, channels = g.node("Relu", g.node("Add", main, short)), width
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    x = g.linear(x, 512, 1000)
    size = batch if isinstance(batch, int) else 1
    model = g.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])], x)
    return Case(model, lambda r: {"x": r.standard_normal((size, 3, 224, 224)).astype(np.float32)})


def encoder(sequence: int | str = 128, layers: int = 4, width: int = 384, heads: int = 6) -> Case:
    """Build transformer encoder layers; input x: [1, sequence, width]."""
    g = Graph()
    x, depth = "x", width // heads
    split, merge = g.integers([0, 0, heads, depth]), g.integers([0, 0, width])
    scale = g.weight((), 0.0)
    g.weights[-1].CopyFrom(numpy_helper.from_array(np.float32(depth**-0.5), scale))
    for _ in range(layers):
        q, k, v = (
            g.node("Transpose", g.node("Reshape", g.linear(x, width, width), split), perm=[0, 2, 1, 3])
            for _ in range(3)
        )
        scores = g.node("Mul", g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2])), scale)
        mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
        mixed = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), merge)
        x = g.node("Add", x, g.linear(mixed, width, width))
        x = g.node("LayerNormalization", x, g.weight((width,), 1.0), g.weight((width,), 0.1), axis=-1)
        hidden = g.node("Relu", g.linear(x, width, 4 * width))
        x = g.node("Add", x, g.linear(hidden, 4 * width, width))
        x = g.node("LayerNormalization", x, g.weight((width,), 1.0), g.weight((width,), 0.1), axis=-1)
    size = sequence if isinstance(sequence, int) else 128
    model = g.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, sequence, width])], x)
    return Case(model, lambda r: {"x": r.standard_normal((1, size, width)).astype(np.float32)})


def chain(op: str, length: int) -> Case:
    """`length` nodes on almost no data: what a node and a call cost. op: "Add" on [1] or "MatMul" on [1, 4]."""
    g = Graph()
    shape, x = ((1,), "x") if op == "Add" else ((4, 4), "x")
    for _ in range(length):
        x = g.node(op, x, g.weight(shape, 0.5))
    size = (1,) if op == "Add" else (1, 4)
    model = g.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, size)], x)
    return Case(model, lambda r: {"x": r.standard_normal(size).astype(np.float32)})


CASES: dict[str, Callable[[], Case]] = {
    "residual_network": residual_network,
    "encoder": encoder,
    "add1": lambda: chain("Add", 1),
    "add100": lambda: chain("Add", 100),
    "matmul1": lambda: chain("MatMul", 1),
    "matmul100": lambda: chain("MatMul", 100),
}

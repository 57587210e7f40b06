"""Graphs of Quantize and Dequantize nodes for tests, computed folded, unfolded, and literally by onnxruntime."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.quantization import BYTES, codes

UNFOLDED = ["-fold_quantization", "-channels_last_integers", "-move_quantization"]


def literally(proto, feeds):
    """Compute by onnxruntime, which then folds nothing either."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)


class Network:
    """A graph under construction; tensors are names, shapes come from a run by onnxruntime."""

    target = "cpu"
    opset = 17

    def __init__(self, seed, activations=BYTES[0]):
        """Start without nodes."""
        self.random = models.generator(seed)
        self.type = activations
        self.nodes, self.constants, self.inputs, self.count = [], [], [], 0

    def constant(self, array):
        """Add an initialiser."""
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{self.count}"))
        return f"c{self.count}"

    def node(self, op, *inputs, **attributes):
        """Add a node with one output."""
        self.count += 1
        self.nodes.append(helper.make_node(op, list(inputs), [f"t{self.count}"], f"n{self.count}", **attributes))
        return f"t{self.count}"

    def input(self, shape, symbols=None):
        """Add an input of normally distributed numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, shape, symbols or shape))
        return name

    def quantum(self, scale=None, zero=None):
        """Make constants for a scale and a zero point."""
        scale = self.random.uniform(0.02, 0.05) if scale is None else scale
        zero = codes(self.type, (), self.random) // 4 + (96 if self.type == BYTES[0] else 0) if zero is None else zero
        return self.constant(np.float32(scale)), self.constant(np.asarray(zero, self.type))

    def quantized(self, x, quantum=None):
        """Quantise and dequantise; returns both tensors."""
        quantum = quantum or self.quantum()
        q = self.node("QuantizeLinear", x, *quantum)
        return q, self.node("DequantizeLinear", q, *quantum)

    def fake(self, x, quantum=None):
        """Quantise and dequantise."""
        return self.quantized(x, quantum)[1]

    def weights(self, shape, axis=None, dtype=BYTES[1], zeros=False):
        """Add dequantised weights, with a scale for each index of `axis` or one."""
        many = () if axis is None else (shape[axis],)
        fan = max(1, int(np.prod(shape)) // shape[0])
        scale = (self.random.uniform(0.5, 1.5, many) / 60 / np.sqrt(fan)).astype("f")
        zero = codes(dtype, many, self.random) // 8 if zeros else np.full(many, 128 if dtype == BYTES[0] else 0, dtype)
        operands = [self.constant(codes(dtype, shape, self.random)), self.constant(scale), self.constant(zero)]
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", *operands, **attributes)

    def symmetric(self, shape, axis):
        """Add weights as `weights` does, without zero points."""
        scale = (self.random.uniform(0.5, 1.5, shape[axis]) / 300).astype("f")
        return self.node(
            "DequantizeLinear", self.constant(codes(BYTES[1], shape, self.random)), self.constant(scale), axis=axis
        )

    def bias(self, n):
        """Add a bias as onnxruntime quantises it: i32 with a small scale."""
        values = self.random.integers(-3000, 3000, n).astype(np.int32)
        return self.node("DequantizeLinear", self.constant(values), self.constant(np.float32(2**-12)))

    def check(self, outputs, steps=0.05, expected=(), passes=(), share=0.02):
        """Compare three ways, within `steps`, most elements exactly; returns the types of all nodes, and notes."""
        types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, sizes) for n, _, sizes in self.inputs]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "quantised", types, results, self.constants)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        proto.ir_version = 10
        feeds = {name: np.asarray(self.random.standard_normal(shape) * 2, np.float32) for name, shape, _ in self.inputs}
        folded = make_compiler(proto).compile(self.target, "default", list(passes), verify=True)
        plain = make_compiler(proto).compile(self.target, "default", UNFOLDED, verify=True)
        actual, unfolded = list(folded(feeds).values()), list(plain(feeds).values())
        for a, b, wanted in zip(actual, unfolded, literally(proto, feeds), strict=True):
            assert a.shape == b.shape == wanted.shape
            for other in (b, wanted):
                gap = np.abs(a.astype(np.float64) - other.astype(np.float64))
                assert gap.max(initial=0) <= steps, f"{(gap > steps).sum()} of {gap.size} differ by up to {gap.max()}"
                # Roundings of f32 meet a boundary between two quanta rarely.
                assert (gap > 1e-4).mean() <= share
        ops = [row.type for row in folded.bench()]
        for op in expected:
            assert op in ops, ops
        notes = [note for item in folded.program.passes for note in item.notes]
        return ops, notes

"""Small models for the tests, and the oracle that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
SEED = 20261121


def generator(offset: int = 0) -> np.random.Generator:
    """Random numbers with a fixed seed."""
    return np.random.default_rng(SEED + offset)


def value(name: str, shape: Sequence[int | str] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Declare a tensor."""
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name: str, array: Any) -> onnx.TensorProto:
    """Make an initializer."""
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = OPSET,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Make a model."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(constants))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    made.ir_version = 8
    return made


def mlp() -> onnx.ModelProto:
    """x[N, 8] → Gemm → Relu → Softmax → y[N, 5]."""
    random = generator()
    return model(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["g"], "gemm", transB=1),
            helper.make_node("Relu", ["g"], ["r"], "relu"),
            helper.make_node("Softmax", ["r"], ["y"], "softmax", axis=-1),
        ],
        [value("x", ["N", 8])],
        [value("y", ["N", 5])],
        [
            constant("w", random.standard_normal((5, 8), np.float32)),
            constant("b", random.standard_normal(5, np.float32)),
        ],
    )


def convolutions() -> onnx.ModelProto:
    """Make a residual network in small: convolutions, batch normalisation, pooling, a fully connected layer."""
    random = generator(1)

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c1", "s", "o", "m", "v"], ["n1"], "norm"),
        helper.make_node("Relu", ["n1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["a2"], "residual"),
        helper.make_node("Relu", ["a2"], ["r2"], "relu2"),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], "depthwise", group=24, pads=[1, 1, 1, 1]),
        helper.make_node("HardSwish", ["c3"], ["h3"], "hardswish"),
        helper.make_node("MaxPool", ["h3"], ["p3"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p3", "w4", "b4"], ["c4"], "pointwise"),
        helper.make_node("GlobalAveragePool", ["c4"], ["g4"], "gap"),
        helper.make_node("Flatten", ["g4"], ["f4"], "flatten"),
        helper.make_node("Gemm", ["f4", "w5", "b5"], ["y"], "fc", transB=1),
    ]
    constants = [
        constant("w1", weights(24, 3, 3, 3)),
        constant("w2", weights(24, 24, 3, 3)),
        constant("b2", weights(24)),
    ]
    constants += [
        constant("w3", weights(24, 1, 3, 3)),
        constant("w4", weights(40, 24, 1, 1)),
        constant("b4", weights(40)),
    ]
    constants += [constant("w5", weights(11, 40)), constant("b5", weights(11))]
    constants += [constant(name, random.uniform(0.5, 1.5, 24).astype(np.float32)) for name in "smv"]
    constants += [constant("o", weights(24))]
    return model(nodes, [value("x", ["N", 3, "H", "W"])], [value("y", ["N", 11])], constants)


def transformer(heads: int = 4, width: int = 32, vocabulary: int = 50, layers: int = 2) -> onnx.ModelProto:
    """Make a BERT in small: ids[B, S], mask[B, S] → y[B, S, width]; it computes shapes in the graph."""
    random = generator(2)
    size = width // heads
    constants: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, *shape: int) -> str:
        array = random.standard_normal(shape) / np.sqrt(shape[0])
        constants.append(constant(name, array.astype(np.float32)))
        return name

    def fixed(name: str, array: Any) -> str:
        constants.append(constant(name, array))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    one = fixed("one", np.array([1], np.int64))
    fixed("zero", np.array([0], np.int64))
    node("Shape", ["ids"], "shape")
    batch = node("Slice", ["shape", "zero", "one"], "batch")
    fixed("two", np.array([2], np.int64))
    length = node("Slice", ["shape", "one", "two"], "length")
    split = node("Concat", [batch, length, fixed("hs", np.array([heads, size], np.int64))], "split", axis=0)
    merge = node("Concat", [batch, length, fixed("wd", np.array([width], np.int64))], "merge", axis=0)
    unsqueezed = node("Unsqueeze", ["mask", fixed("axes", np.array([1, 2], np.int64))], "mask4")
    real = node("Cast", [unsqueezed], "mask_real", to=TensorProto.FLOAT)
    inverse = node("Sub", [fixed("f1", np.float32(1)), real], "inverse")
    bias = node("Mul", [inverse, fixed("low", np.float32(-1e4))], "bias")
    hidden = node("Gather", [weight("table", vocabulary, width), "ids"], "embedding")
    for layer in range(layers):
        p = f"l{layer}_"
        parts = []
        for part in "qkv":
            product = node("MatMul", [hidden, weight(f"{p}w{part}", width, width)], f"{p}{part}0")
            biased = node("Add", [product, weight(f"{p}b{part}", width)], f"{p}{part}1")
            shaped = node("Reshape", [biased, split], f"{p}{part}2")
            parts.append(node("Transpose", [shaped], f"{p}{part}", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
        scores = node("MatMul", parts[:2], f"{p}scores")
        scaled = node("Div", [scores, fixed(f"{p}scale", np.float32(np.sqrt(size)))], f"{p}scaled")
        masked = node("Add", [scaled, bias], f"{p}masked")
        weights = node("Softmax", [masked], f"{p}weights", axis=-1)
        context = node("MatMul", [weights, parts[2]], f"{p}context")
        moved = node("Transpose", [context], f"{p}moved", perm=[0, 2, 1, 3])
        joined = node("Reshape", [moved, merge], f"{p}joined")
        output = node("MatMul", [joined, weight(f"{p}wo", width, width)], f"{p}output")
        added = node("Add", [output, hidden], f"{p}added")
        scale, offset = weight(f"{p}g", width), weight(f"{p}o", width)
        normal = node("LayerNormalization", [added, scale, offset], f"{p}normal", axis=-1)
        wide = node("MatMul", [normal, weight(f"{p}w1", width, 2 * width)], f"{p}wide")
        divided = node("Div", [wide, fixed(f"{p}root", np.float32(np.sqrt(2)))], f"{p}divided")
        erf = node("Erf", [divided], f"{p}erf")
        plus = node("Add", [erf, "f1"], f"{p}plus")
        product = node("Mul", [wide, plus], f"{p}product")
        gelu = node("Mul", [product, fixed(f"{p}half", np.float32(0.5))], f"{p}gelu")
        narrow = node("MatMul", [gelu, weight(f"{p}w2", 2 * width, width)], f"{p}narrow")
        hidden = node("Add", [narrow, normal], "y" if layer == layers - 1 else f"{p}y")
    del one
    return model(
        nodes,
        [value("ids", ["B", "S"], TensorProto.INT64), value("mask", ["B", "S"], TensorProto.INT64)],
        [value("y", ["B", "S", width])],
        constants,
    )


def decoder(heads: int = 2, size: int = 8) -> onnx.ModelProto:
    """One attention layer with a cache: x[B, 1, W], past_k/past_v[B, heads, P, size] → y, k, v with P + 1 positions."""
    random = generator(3)
    width = heads * size
    constants = [
        constant(f"w{part}", (random.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32))
        for part in "qkvo"
    ]
    constants += [
        constant("split", np.array([0, 0, heads, size], np.int64)),
        constant("merge", np.array([0, 0, width], np.int64)),
    ]
    nodes = []
    for part in "qkv":
        nodes += [
            helper.make_node("MatMul", ["x", f"w{part}"], [f"{part}0"]),
            helper.make_node("Reshape", [f"{part}0", "split"], [f"{part}1"]),
            helper.make_node("Transpose", [f"{part}1"], [f"{part}2"], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        helper.make_node("Concat", ["past_k", "k2"], ["k"], axis=2),
        helper.make_node("Concat", ["past_v", "v2"], ["v"], axis=2),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q2", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["context"]),
        helper.make_node("Transpose", ["context"], ["moved"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["moved", "merge"], ["joined"]),
        helper.make_node("MatMul", ["joined", "wo"], ["projected"]),
        helper.make_node("Add", ["projected", "x"], ["y"]),
    ]
    past = ["B", heads, "P", size]
    return model(
        nodes,
        [value("x", ["B", 1, width]), value("past_k", past), value("past_v", past)],
        [value("y", ["B", 1, width]), value("k", ["B", heads, "P1", size]), value("v", ["B", heads, "P1", size])],
        constants,
    )


def chain(length: int, shape: Sequence[int] = (2, 3)) -> onnx.ModelProto:
    """Relu and Neg by turns."""
    nodes = [
        helper.make_node("Relu" if i % 2 else "Neg", [f"t{i}" if i else "x"], [f"t{i + 1}"], f"n{i}")
        for i in range(length)
    ]
    return model(nodes, [value("x", shape)], [value(f"t{length}", shape)])


def expected(proto: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    """Return the outputs by onnxruntime without its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def assert_close(actual: Any, wanted: Any, depth: int = 1024) -> None:
    """Compare f32 results: sums of `depth` terms of magnitude 1 in another order differ by sqrt(depth) · eps each.

    The factor 16 covers the layers that follow one another in the models here.
    """
    tolerance = 16 * np.sqrt(depth) * np.finfo(np.float32).eps
    assert actual.shape == wanted.shape
    assert actual.dtype == wanted.dtype
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)

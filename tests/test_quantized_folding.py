"""Graphs of Quantize and Dequantize nodes, folded into integer operators, against onnxruntime and unfolded graphs."""

import os

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.quantization import BYTES, PACKED, weights
from tests.quantized_network import Network

pytestmark = pytest.mark.skipif(
    os.environ.get("REFACTOR_GRAPH_ISA") == "scalar", reason="graphs are folded from AVX2 on only"
)


@pytest.fixture(autouse=True)
def device(target, monkeypatch):
    """Fold for each kind of device."""
    monkeypatch.setattr(Network, "target", target)


CONVOLUTIONS = {
    "3x3": ((2, 5, 13, 11), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "1x1": ((1, 33, 7, 9), (70, 33, 1, 1), {}),
    "1x1s2": ((1, 16, 9, 8), (24, 16, 1, 1), {"strides": [2, 2]}),
    "first": ((1, 3, 29, 31), (18, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    "depthwise": ((1, 37, 15, 12), (37, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 37}),
    "depthwise5": ((2, 96, 15, 12), (96, 1, 5, 5), {"pads": [2, 2, 1, 2], "strides": [2, 1], "group": 96}),
    "grouped": ((1, 12, 9, 10), (8, 6, 3, 2), {"dilations": [2, 1], "group": 2}),
    "narrow4": ((1, 32, 9, 10), (32, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 8}),
    "narrow16": ((1, 48, 7, 7), (48, 16, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2], "group": 3}),
    "1d": ((2, 6, 31), (9, 6, 4), {"pads": [2, 1]}),
    "3d": ((1, 4, 5, 6, 7), (6, 4, 2, 3, 3), {"pads": [0, 1, 1, 1, 1, 1]}),
}


@pytest.mark.parametrize("activations", BYTES, ids=str)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case, activations):
    x, w, attributes = CONVOLUTIONS[case]
    n = Network(700, activations)
    q = n.fake(n.input(x))
    y = n.node("Conv", q, n.weights(w, 0), n.bias(w[0]), **attributes)
    ops, notes = n.check([n.fake(n.node("Relu", y))], 0.051, ["IntegerConv"])
    assert "Conv" not in ops
    assert not notes


@pytest.mark.parametrize("activations", BYTES, ids=str)
@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("bytes_out", [True, False])
def test_leaky_convolutions(case, activations, bytes_out):
    """Slopes of negative numbers are taken by the sums of all but depthwise convolutions."""
    x, w, attributes = CONVOLUTIONS[case]
    n = Network(701, activations)
    q = n.fake(n.input(x))
    y = n.node("Conv", q, n.weights(w, 0), n.bias(w[0]), **attributes)
    y = n.node("LeakyRelu", y, alpha=0.1)
    ops, notes = n.check([n.fake(y) if bytes_out else y], 0.051, ["IntegerConv"])
    # The types of x and y change in others.
    assert ops.count("Elementwise") == 1 + bytes_out + case.startswith("depthwise")
    assert not notes


@pytest.mark.parametrize("order", ["residual", "twice", "negative"])
def test_what_a_slope_leaves(order):
    """What comes behind a slope is bounds, positive factors and a quantisation."""
    n = Network(702)
    q = n.fake(n.input((1, 16, 6, 7)))
    y = n.node("LeakyRelu", n.node("Conv", q, n.weights((16, 16, 1, 1), 0), n.bias(16)), alpha=0.2)
    if order == "residual":
        y = n.node("Add", y, q)
    elif order == "twice":
        y = n.node("LeakyRelu", y, alpha=0.5)
    else:
        y = n.node("Mul", y, n.constant(np.float32(-1.5)))
    ops, _ = n.check([n.fake(y)], 0.051, ["IntegerConv"])
    assert ops.count("Elementwise") == (2 if order == "residual" else 3)


@pytest.mark.parametrize("rows", [1, 33])
def test_leaky_products(rows):
    n = Network(703)
    y = n.node("MatMul", n.fake(n.input((rows, 48))), n.weights((48, 40), 1))
    y = n.node("LeakyRelu", n.node("Add", y, n.bias(40)), alpha=0.3)
    ops, _ = n.check([n.fake(n.node("Mul", y, n.constant(np.float32(0.7))))], 0.051, ["IntegerMatMul"])
    assert ops.count("Elementwise") == 2


TRANSPOSED = {
    "2x2s2": ((2, 6, 5, 7), (6, 9, 2, 2), {"strides": [2, 2]}),
    "4x4s2": ((1, 8, 6, 5), (8, 5, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "3x3s2": (
        (1, 7, 5, 6),
        (7, 4, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "3x3": ((1, 5, 6, 7), (5, 8, 3, 3), {"pads": [1, 0, 1, 2]}),
    "grouped": ((2, 24, 5, 4), (24, 3, 2, 4), {"strides": [1, 2], "group": 3, "pads": [0, 1, 1, 0]}),
    "wide pads": ((1, 4, 6, 5), (4, 3, 6, 4), {"strides": [2, 2], "pads": [3, 2, 4, 1]}),
    "dilated": ((1, 4, 5, 6), (4, 6, 2, 2), {"strides": [2, 1], "dilations": [1, 2]}),
    "same": ((1, 4, 5, 6), (4, 6, 3, 5), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    "output shape": ((1, 4, 5, 6), (4, 6, 4, 4), {"strides": [2, 2], "output_shape": [11, 13]}),
    "1d": ((2, 6, 9), (6, 5, 8), {"strides": [4], "pads": [2, 2]}),
    "3d": ((1, 4, 3, 4, 2), (4, 3, 2, 2, 3), {"strides": [2, 1, 2]}),
}


@pytest.mark.parametrize("activations", BYTES, ids=str)
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case, activations):
    x, w, attributes = TRANSPOSED[case]
    n = Network(720, activations)
    q = n.fake(n.input(x))
    channels = w[1] * attributes.get("group", 1)
    y = n.node("ConvTranspose", q, n.weights(w, 1), n.bias(channels), **attributes)
    ops, notes = n.check([n.fake(n.node("Relu", y))], 0.051)
    if n.target == "cpu":
        assert "IntegerConv" in ops
        assert "ConvTranspose" not in ops
        assert not notes


@pytest.mark.parametrize("axis", [None, 1], ids=["one", "channels"])
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_weights_of_transposed_convolutions(dtype, axis):
    n = Network(721)
    x, w = n.fake(n.input((1, 16, 4, 5))), n.weights((16, 3, 3, 3), axis, dtype, zeros=True)
    y = n.node("ConvTranspose", x, w, group=2, strides=[2, 2])
    # No quantisation behind it: f32 leaves the convolution.
    n.check([y], 1e-4, ["IntegerConv"] if n.target == "cpu" else [])


def test_upsampling_stays_bytes():
    """A level of a U-Net: bytes with the channels last from end to end."""
    n = Network(722)
    skip = n.fake(n.node("Conv", n.fake(n.input((1, 3, 12, 10))), n.weights((8, 3, 3, 3), 0), pads=[1, 1, 1, 1]))
    x = n.fake(n.node("Conv", skip, n.weights((16, 8, 2, 2), 0), strides=[2, 2]))
    quantum = n.quantum()
    x = n.fake(n.node("ConvTranspose", x, n.weights((16, 8, 2, 2), 1), n.bias(8), strides=[2, 2]), quantum)
    x = n.fake(n.node("Concat", x, n.fake(skip, quantum), axis=1), quantum)
    x = n.fake(n.node("Add", n.node("ConvTranspose", x, n.weights((16, 8, 3, 3), 1), pads=[1, 1, 1, 1]), skip))
    ops, notes = n.check([n.fake(n.node("Conv", x, n.weights((4, 8, 1, 1), 0)))], 0.051, ["IntegerConv"])
    if n.target == "cpu":
        assert ops.count("IntegerConv") == 5
        assert ops.count("Transpose") <= 3  # the phases, and where images come and leave
        assert not notes


def test_transposed_convolutions_of_open_sizes():
    n = Network(723)
    x = n.fake(n.input((2, 4, 5, 6), ["N", 4, "H", "W"]))
    y = n.fake(n.node("ConvTranspose", x, n.weights((4, 6, 4, 4), 1), strides=[2, 2], pads=[1, 1, 1, 1]))
    n.check([n.fake(n.node("Relu", y))], 0.051, ["IntegerConv"] if n.target == "cpu" else [])


@pytest.mark.parametrize("axis", [None, 0], ids=["one", "channels"])
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_weights(dtype, axis):
    n = Network(701)
    y = n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((6, 5, 3, 3), axis, dtype, zeros=True))
    # No quantisation behind it: f32 leaves the convolution.
    n.check([y], 1e-4, ["IntegerConv"])


@pytest.mark.parametrize("axis", [None, 0], ids=["one", "channels"])
@pytest.mark.parametrize("dtype", PACKED[:2], ids=str)
def test_weights_of_four_bits(dtype, axis):
    """They are bytes where activations are: integer kernels take them."""
    n = Network(739)
    n.opset = 21
    y = n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((6, 5, 3, 3), axis, dtype))
    y = n.fake(n.node("Relu", y))
    y = n.node("MatMul", y, n.weights((6, 7), None if axis is None else 1, dtype))
    _, notes = n.check([y], 0.1, ["IntegerConv", "IntegerMatMul"])
    assert not notes


def test_weights_without_zero_points():
    n = Network(713)
    y = n.fake(n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.symmetric((6, 5, 3, 3), 0)))
    _, notes = n.check([n.node("MatMul", y, n.symmetric((6, 4), 1))], 0.1, ["IntegerConv", "IntegerMatMul"])
    assert not notes


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("middle", [True, False])
@pytest.mark.parametrize("residual", BYTES, ids=str)
def test_residuals(residual, middle, last):
    n = Network(702)
    x = n.fake(n.input((1, 8, 11, 9)))
    y = n.node("Conv", x, n.weights((12, 8, 3, 3), 0), n.bias(12), pads=[1, 1, 1, 1])
    y = n.fake(y) if middle else y
    n.type = residual
    other = n.fake(n.input((1, 12, 11, 9)))
    y = n.node("Relu", n.node("Add", other, y))
    ops, _ = n.check([n.fake(y) if last else y], 0.051 if last or middle else 1e-4, ["IntegerConv"])
    assert ops.count("IntegerConv") == 1
    assert ops.count("Elementwise") <= 4


def test_blocks_stay_bytes():
    """Two residual blocks, pooling at both ends: bytes between all nodes, two transposes at most."""
    n = Network(703)
    x = n.fake(n.input((1, 3, 33, 31)))
    x = n.fake(n.node("Conv", x, n.weights((16, 3, 3, 3), 0), n.bias(16), pads=[1, 1, 1, 1]))
    x = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        y = n.fake(n.node("Relu", n.node("Conv", x, n.weights((32, 16, 1, 1), 0), n.bias(32))))
        y = n.node("Conv", y, n.weights((32, 1, 3, 3), 0), n.bias(32), group=32, pads=[1, 1, 1, 1])
        y = n.fake(n.node("Clip", y, n.constant(np.float32(0)), n.constant(np.float32(6))))
        y = n.fake(n.node("Conv", y, n.weights((16, 32, 1, 1), 0), n.bias(16)))
        x = n.fake(n.node("Add", y, x))
    x = n.fake(n.node("GlobalAveragePool", x))
    x = n.node("Gemm", n.node("Flatten", x), n.weights((10, 16), 0), n.bias(10), transB=1)
    # Rounding errors of early layers reach later ones as single quanta.
    ops, notes = n.check([n.fake(x)], 0.051, ["IntegerPool"])
    assert ops.count("IntegerConv") == 7
    assert ops.count("IntegerPool") == 2
    assert ops.count("IntegerMatMul") == 1
    assert ops.count("Transpose") <= 1
    assert not notes


@pytest.mark.parametrize("activations", BYTES, ids=str)
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_products(rows, activations):
    n = Network(704, activations)
    x = n.fake(n.input((2, rows, 37)))
    y = n.fake(n.node("MatMul", x, n.weights((37, 21), 1)))
    y = n.node("Add", y, n.constant(n.random.standard_normal(21).astype("f")))
    ops, notes = n.check([y], 0.051, ["IntegerMatMul"])
    assert ops.count("Elementwise") == 1
    assert not notes


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(transposed):
    n = Network(705)
    shape = (19, 45) if transposed else (45, 19)
    y = n.node(
        "Gemm", n.fake(n.input((5, 45))), n.weights(shape, 1 - transposed), n.bias(19), transB=transposed, alpha=0.5
    )
    n.check([n.fake(y)], 0.051, ["IntegerMatMul"])


def test_attention():
    """Heads are moved and scaled as bytes between products."""
    n = Network(706)
    x = n.fake(n.input((2, 9, 24)))
    heads = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = n.node(
            "Add",
            n.fake(n.node("MatMul", x, n.weights((24, 24)))),
            n.constant(n.random.standard_normal(24).astype("f")),
        )
        y = n.node("Reshape", y, n.constant(np.array([2, 9, 3, 8], np.int64)))
        y = n.node("Mul", n.node("Transpose", y, perm=order), n.constant(np.float32(0.6)))
        heads.append(n.fake(y))
    scores = n.fake(n.node("MatMul", heads[0], heads[1]), n.quantum(0.08, 128))
    weights = n.fake(n.node("Softmax", scores), n.quantum(1 / 255, 0))
    y = n.node("Transpose", n.fake(n.node("MatMul", weights, heads[2])), perm=[0, 2, 1, 3])
    y = n.node("Reshape", y, n.constant(np.array([2, 9, 24], np.int64)))
    ops, notes = n.check([n.fake(y, n.quantum(0.05))], 0.11, ["IntegerMatMul"], share=0.2)
    assert ops.count("IntegerMatMul") == 5
    assert not notes


@pytest.mark.parametrize("activations", BYTES, ids=str)
def test_maxima_of_floats_become_those_of_bytes(activations):
    """Quantising keeps the order of numbers."""
    n = Network(718, activations)
    y = n.node("Relu", n.node("Conv", n.fake(n.input((1, 5, 12, 11))), n.weights((6, 5, 3, 3), 0), n.bias(6)))
    y = n.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    ops, notes = n.check([n.fake(n.node("Conv", n.fake(y), n.weights((4, 6, 1, 1), 0)))], 0.051, ["IntegerPool"])
    assert "Pool" not in ops
    assert ops.count("Transpose") == 2
    assert not notes


@pytest.mark.parametrize("activations", BYTES, ids=str)
def test_the_maximum_of_nothing_is_the_lowest_byte(activations):
    """The only taps of a dilated window are pads."""
    n = Network(721, activations)
    y = n.node("Conv", n.fake(n.input((1, 5, 12, 3))), n.weights((40, 5, 3, 3), 0), n.bias(40))
    y = n.node("MaxPool", y, kernel_shape=[1, 2], dilations=[1, 2], pads=[0, 1, 0, 1])
    n.check([n.fake(y)], 0.051, ["IntegerPool"])


@pytest.mark.parametrize("same", [True, False])
def test_parts_of_bytes(same):
    """Channels are split, and brought together again, where they lie."""
    n = Network(719)
    quantum = n.quantum()
    x = n.fake(n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((12, 5, 3, 3), 0)), quantum)
    n.nodes.append(helper.make_node("Split", [x, n.constant(np.array([5, 7], np.int64))], ["one", "other"], axis=1))
    one = n.fake("one", quantum if same else None)
    one = n.fake(n.node("Conv", one, n.weights((6, 5, 3, 3), 0), pads=[1, 1, 1, 1]), quantum)
    y = n.fake(n.node("Concat", one, n.fake("other", quantum if same else None), axis=1), quantum)
    ops, notes = n.check([n.fake(n.node("Conv", y, n.weights((4, 13, 1, 1), 0)))], 0.101, ["Split", "Concat"])
    assert ops.count("IntegerConv") == 3
    assert ops.count("Transpose") == 2
    assert ops.count("Elementwise") <= (2 if same else 5)
    assert not notes


def test_bytes_from_outside_join_those_with_channels_last():
    n = Network(720)
    quantum = n.quantum()
    x = n.fake(n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((6, 5, 3, 3), 0), pads=[1, 1, 1, 1]), quantum)
    y = n.fake(n.node("Concat", x, n.fake(n.input((1, 4, 9, 8)), quantum), axis=1), quantum)
    ops, notes = n.check([n.fake(n.node("Conv", y, n.weights((4, 10, 3, 3), 0)))], 0.051, ["Concat"])
    # Of both inputs and the result.
    assert ops.count("Transpose") == 3
    assert not notes


@pytest.mark.parametrize("same", [True, False])
def test_moves(same):
    """What moves elements moves bytes; a Concat may bring quanta together."""
    n = Network(707)
    quantum = n.quantum()
    parts = [n.fake(n.input((1, 6, 9, 7)), quantum if same else None) for _ in range(2)]
    x = n.fake(n.node("Concat", *parts, axis=1), quantum)
    y = n.node("Resize", x, "", n.constant(np.array([1, 1, 2, 2], "f")), mode="nearest")
    y = n.node("Conv", y, n.weights((5, 12, 3, 3)), n.bias(5))
    ops, notes = n.check([n.fake(y)], 0.051, ["IntegerConv", "Concat"])
    assert "Conv" not in ops
    assert not notes


@pytest.mark.parametrize("many", [False, True], ids=["one", "columns"])
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_dynamic_quantisation(op, many):
    """What scales the sums is done where they are made."""
    n = Network(712)
    convolution = op == "ConvInteger"
    x = n.input((2, 5, 9, 8) if convolution else (2, 7, 19))
    outputs = ["q", "qs", "qz"]
    n.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], outputs))
    w, columns = ((6, 5, 3, 3), (6, 1, 1)) if convolution else ((19, 6), (6,))
    scale = n.random.uniform(0.01, 0.02, columns if many else ()).astype("f")
    sums = n.node(op, "q", n.constant(weights(BYTES[1], w, n.random)), "qz")
    y = n.node("Mul", n.node("Cast", sums, to=TensorProto.FLOAT), n.node("Mul", "qs", n.constant(scale)))
    y = n.node("Add", y, n.constant(n.random.standard_normal(columns).astype("f")))
    ops, _ = n.check([n.node("Relu", y)], 2e-3)
    after = ops[ops.index("IntegerConv" if convolution else "IntegerMatMul") + 1 :]
    assert "Elementwise" not in after


def test_ranges_of_a_run_are_taken_channels_last():
    """Smallest and largest elements, means and gates are those of any order."""
    n = Network(716)

    def convolution(x, shape, **attributes):
        outputs = [f"{x}_{part}" for part in ("q", "qs", "qz")]
        n.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], outputs))
        w, scale = n.constant(weights(BYTES[1], shape, n.random)), n.constant(np.float32(0.01))
        sums = n.node("ConvInteger", outputs[0], w, outputs[2], **attributes)
        y = n.node("Mul", n.node("Cast", sums, to=TensorProto.FLOAT), n.node("Mul", outputs[1], scale))
        return n.node("Add", y, n.constant(n.random.standard_normal((shape[0], 1, 1)).astype("f")))

    x = n.node("Relu", convolution(n.input((2, 5, 9, 8)), (40, 5, 3, 3)))
    x = n.node("Clip", convolution(x, (40, 1, 3, 3), group=40, pads=[1, 1, 1, 1]), "", n.constant(np.float32(6)))
    gate = n.node("HardSigmoid", convolution(n.node("GlobalAveragePool", x), (40, 40, 1, 1)))
    y = convolution(n.node("Mul", x, gate), (4, 40, 1, 1))
    ops, _ = n.check([y], 0.05, ["IntegerConv"], share=0.1)
    assert ops.count("Transpose") == 2


@pytest.mark.parametrize("channels", [(6, 1, 1), (1, 6, 1, 1)], ids=str)
def test_values_by_channel_stay_channels_last(channels):
    n = Network(714)
    y = n.fake(n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((6, 5, 3, 3), 0)))
    y = n.node("PRelu", y, n.constant(n.random.uniform(0.1, 0.9, channels[-3:]).astype("f")))
    y = n.node("Mul", y, n.constant(n.random.uniform(0.5, 1.5, channels).astype("f")))
    y = n.node("Conv", n.fake(y), n.weights((4, 6, 1, 1), 0))
    ops, _ = n.check([n.fake(y)], 0.051)
    assert ops.count("Transpose") == 2


@pytest.mark.parametrize("counted", [0, 1])
def test_padded_averages(counted):
    n = Network(717)
    x = n.fake(n.node("Conv", n.fake(n.input((1, 5, 9, 8))), n.weights((6, 5, 3, 3), 0)))
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 0, 1], "strides": [2, 1], "count_include_pad": counted}
    x = n.fake(n.node("AveragePool", x, ceil_mode=1, **attributes))
    ops, notes = n.check([n.fake(n.node("Conv", x, n.weights((4, 6, 1, 1), 0)))], 0.051, ["IntegerPool"])
    assert "Pool" not in ops
    assert not notes


@pytest.mark.parametrize("mean", ["ReduceMean", "GlobalAveragePool"])
def test_gates_stay_channels_last(mean):
    """Squeeze and excitation multiplies bytes where they lie."""
    n = Network(715)
    x = n.node("Relu", n.node("Conv", n.fake(n.input((2, 5, 9, 8))), n.weights((6, 5, 3, 3), 0), n.bias(6)))
    x = n.fake(x)
    axes = {"axes": [2, 3]} if mean == "ReduceMean" else {}
    gate = n.fake(n.node(mean, x, **axes))
    gate = n.fake(n.node("Relu", n.node("Conv", gate, n.weights((3, 6, 1, 1), 0), n.bias(3))))
    gate = n.node("HardSigmoid", n.node("Conv", gate, n.weights((6, 3, 1, 1), 0), n.bias(6)))
    y = n.node("Mul", x, n.fake(gate, n.quantum(1 / 255, np.asarray(0 if n.type == BYTES[0] else -128, n.type))))
    y = n.node("Conv", n.fake(y), n.weights((4, 6, 1, 1), 0))
    ops, notes = n.check([n.fake(y)], 0.051, ["IntegerConv", "IntegerPool"])
    assert ops.count("Transpose") == 2
    assert not notes


def test_open_sizes():
    n = Network(708)
    x = n.fake(n.input((2, 4, 11, 10), ["N", 4, "H", "W"]))
    y = n.fake(n.node("Conv", x, n.weights((6, 4, 3, 3), 0), n.bias(6), auto_pad="SAME_UPPER", strides=[2, 2]))
    n.check([n.fake(n.node("GlobalAveragePool", y))], 0.051, ["IntegerConv", "IntegerPool"])


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 3)])
def test_kept_and_shared_tensors(shape):
    """Tensors that others read stay."""
    n = Network(709)
    x = n.fake(n.input((4, *shape)))
    y = n.node("MatMul", x, n.weights((shape[-1], 6)))
    q = n.fake(y)
    ops, _ = n.check([n.node("Relu", y), n.node("Neg", q), q], 0.051, ["IntegerMatMul"])
    assert "MatMul" not in ops


@pytest.mark.parametrize("guarded", ["bytes", "floats", "others"])
def test_guards_against_nan(guarded):
    """Bytes are numbers: guards of what they stand for go, and the bytes before and behind a guard are the same."""
    n = Network(724)
    x, quantum = n.input((3, 8)), n.quantum()
    y = n.node("Softmax", x, axis=-1)
    y = n.fake(y, quantum) if guarded == "bytes" else y
    test = n.node("IsNaN", n.fake(x, n.quantum()) if guarded == "others" else y)
    y = n.node("Where", test, n.constant(np.float32(0)), y)
    ops, _ = n.check([n.node("MatMul", n.fake(y, quantum), n.weights((8, 5)))], 1e-4, ["IntegerMatMul"])
    if guarded == "bytes" and n.target == "cpu":
        assert ops == ["Softmax", "Elementwise", "IntegerMatMul"]


def reasons():
    """Networks that stay f32, and the words that say why."""

    def dynamic_scale(n):
        x, scale = n.input((1, 4, 6, 6)), n.node("Exp", n.input(()))
        q = n.node("QuantizeLinear", x, scale, n.constant(np.uint8(100)))
        d = n.node("DequantizeLinear", q, scale, n.constant(np.uint8(100)))
        return n.node("Conv", d, n.weights((3, 4, 3, 3), 0))

    def plain_weights(n):
        return n.node(
            "Conv", n.fake(n.input((1, 4, 6, 6))), n.constant(n.random.standard_normal((3, 4, 3, 3)).astype("f"))
        )

    def plain_input(n):
        return n.node("MatMul", n.input((3, 8)), n.weights((8, 5), 1))

    def wrong_axis(n):
        return n.node("MatMul", n.fake(n.input((3, 8))), n.weights((8, 5), 0))

    def dynamic_bias(n):
        return n.node("Conv", n.fake(n.input((1, 4, 6, 6))), n.weights((3, 4, 3, 3)), n.input((3,)))

    def sparse_phases(n):
        return n.node("ConvTranspose", n.fake(n.input((1, 4, 6, 6))), n.weights((4, 3, 1, 1), 1), strides=[2, 2])

    def small_groups(n):
        return n.node("ConvTranspose", n.fake(n.input((1, 4, 6, 6))), n.weights((4, 3, 2, 2), 1), group=2)

    def transposed_weights(n):
        return n.node("ConvTranspose", n.fake(n.input((1, 4, 6, 6))), n.weights((4, 3, 2, 2), 0))

    on_gpu = "for the CPU" if Network.target != "cpu" else ""
    return {
        sparse_phases: on_gpu or "3 of 4 taps of its phases would be zeros",
        small_groups: on_gpu or "its groups have 2 channels, expected at least 8",
        transposed_weights: on_gpu or "has scales along axis 0, expected 1",
        dynamic_scale: "is not dequantised from u8 or i8 with a constant scale",
        plain_weights: "the weights are not dequantised",
        plain_input: '"x0" is not dequantised',
        wrong_axis: "has scales along axis 0, expected 1",
        dynamic_bias: "the bias is no constant",
    }


@pytest.mark.parametrize("build", reasons(), ids=lambda f: f.__name__)
def test_reasons(build):
    n = Network(710)
    words = next(w for b, w in reasons().items() if b.__name__ == build.__name__)
    ops, notes = n.check([build(n)], 1e-3)
    assert not [op for op in ops if op.startswith("Integer")]
    assert any(words in note and "stays f32" in note for note in notes), notes


def test_switched_off():
    n = Network(711)
    y = n.node("MatMul", n.fake(n.input((3, 8))), n.weights((8, 5), 1))
    ops, _ = n.check([y], 1e-4, ["MatMul"], ["-fold_quantization"])
    assert "IntegerMatMul" not in ops

"""Reductions, normalisation, pooling, quantisation and recurrent layers on every kind of device, with onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models

F16, F32, I64, U8, I8, I32 = (
    getattr(TensorProto, name) for name in ("FLOAT16", "FLOAT", "INT64", "UINT8", "INT8", "INT32")
)
RANDOM = models.generator(11)


def single(op, shapes, constants=(), outputs=("y",), dtype=F32, kinds=(), opset=18, **attributes):
    """A model of one node: inputs, of any number of rows, then constants."""
    names = [f"x{i}" for i in range(len(shapes))] + [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op, names, list(outputs), **attributes)
    inputs = [models.value(f"x{i}", [f"N{i}", *shape[1:]], dtype) for i, shape in enumerate(shapes)]
    values = [models.constant(f"c{i}", array) for i, array in enumerate(constants)]
    results = [
        models.value(name, None, kind) for name, kind in zip(outputs, kinds or (dtype,) * len(outputs), strict=True)
    ]
    return models.model([node], inputs, results, values, opset=opset), shapes


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def bytes_of(*shape, dtype=np.uint8):
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


REDUCED = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp"]
CASES = {
    f"reduce_{kind}_{'_'.join(map(str, axes))}": single(
        f"Reduce{kind}", [(3, 4, 5)], [np.array(axes)], keepdims=axes[0]
    )
    for kind in REDUCED
    for axes in ([1], [0, 2])
}
CASES |= {
    # Terms of one sign: what the order of f32 sums leaves is small beside the result on every processor.
    "reduce_long": single("ReduceL1", [(2, 70001)], [np.array([1])]),
    "argmax": single("ArgMax", [(5, 33)], axis=1, kinds=(I64,)),
    "argmin": single("ArgMin", [(5, 4, 3)], axis=1, keepdims=0, select_last_index=1, kinds=(I64,)),
    "softmax": single("Softmax", [(4, 37)]),
    "softmax_f16": single("Softmax", [(4, 64)], dtype=F16),
    "softmax_middle": single("Softmax", [(2, 9, 5)], axis=1),
    "softmax_long": single("LogSoftmax", [(2, 40003)]),
    "layer_norm": single("LayerNormalization", [(3, 5, 24)], [normal(24), normal(24)]),
    "layer_norm_f16": single(
        "LayerNormalization", [(3, 5, 24)], [normal(24).astype(np.float16), normal(24).astype(np.float16)], dtype=F16
    ),
    "instance_norm": single("InstanceNormalization", [(2, 3, 7, 5)], [normal(3), normal(3)]),
    "instance_norm_large": single("InstanceNormalization", [(1, 2, 90, 100)], [normal(2), normal(2)]),
    "group_norm": single("GroupNormalization", [(2, 6, 5, 4)], [normal(6), normal(6)], num_groups=3, opset=21),
    "batch_norm": single("BatchNormalization", [(2, 6, 5)], [normal(6), normal(6), normal(6), normal(6) ** 2]),
    "lrn": single("LRN", [(2, 7, 4, 3)], size=3, alpha=0.01),
    "max_pool": single("MaxPool", [(2, 3, 9, 11)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    "max_pool_indices": single(
        "MaxPool",
        [(2, 3, 9, 11)],
        outputs=("y", "i"),
        kinds=(F32, I64),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
    ),
    "max_pool_1d": single("MaxPool", [(2, 3, 19)], kernel_shape=[3], dilations=[2]),
    "average_pool": single("AveragePool", [(2, 3, 9, 8)], kernel_shape=[2, 3], pads=[1, 1, 0, 1], count_include_pad=1),
    "average_pool_3d": single("AveragePool", [(1, 2, 5, 6, 7)], kernel_shape=[2, 3, 2], strides=[1, 2, 2]),
    "global_average": single("GlobalAveragePool", [(2, 5, 6, 7)]),
    "global_max_f16": single("GlobalMaxPool", [(2, 5, 6, 7)], dtype=F16),
    "dynamic_quantize": single("DynamicQuantizeLinear", [(5, 7)], outputs=("y", "s", "z"), kinds=(U8, F32, U8)),
    "quantize": single("QuantizeLinear", [(3, 5)], [np.float32(0.02), np.uint8(100)], kinds=(U8,)),
    "quantize_axis": single(
        "QuantizeLinear", [(3, 5)], [normal(5) ** 2 + 0.01, bytes_of(5, dtype=np.int8)], kinds=(I8,)
    ),
    "dequantize": single("DequantizeLinear", [(3, 5)], [np.float32(0.02), np.uint8(100)], dtype=U8, kinds=(F32,)),
    "matmul_integer": single(
        "MatMulInteger", [(9, 13)], [bytes_of(13, 7, dtype=np.int8), np.uint8(9), np.int8(-3)], dtype=U8, kinds=(I32,)
    ),
    "conv_integer": single(
        "ConvInteger", [(2, 3, 8, 7)], [bytes_of(10, 3, 3, 2), np.uint8(9)], dtype=U8, kinds=(I32,), pads=[1, 0, 1, 1]
    ),
    "qlinear_conv": single(
        "QLinearConv",
        [(2, 4, 8, 7)],
        [
            np.float32(0.1),
            np.uint8(9),
            bytes_of(12, 2, 3, 2, dtype=np.int8),
            normal(12) ** 2 + 0.01,
            np.zeros(12, np.int8),
            np.float32(20),
            np.uint8(3),
        ],
        dtype=U8,
        kinds=(U8,),
        group=2,
    ),
}


def recurrent(op, gates, direction="forward", steps=5, hidden=20, **attributes):
    directions = 2 if direction == "bidirectional" else 1
    weights = [normal(directions, gates * hidden, 7) / 3, normal(directions, gates * hidden, hidden) / 5]
    return single(
        op,
        [(steps, 3, 7)],
        [*weights, normal(directions, 2 * gates * hidden)],
        outputs=("y", "h"),
        hidden_size=hidden,
        direction=direction,
        **attributes,
    )


CASES |= {
    "lstm": recurrent("LSTM", 4),
    "lstm_bidirectional": recurrent("LSTM", 4, "bidirectional"),
    "lstm_large": recurrent("LSTM", 4, steps=2, hidden=160),
    "gru": recurrent("GRU", 3, "reverse"),
    "gru_linear": recurrent("GRU", 3, linear_before_reset=1),
    "rnn": recurrent("RNN", 1, "bidirectional"),
}


def perceptron_with_norm():
    """Products with a residual, its normalisation and a softmax: what a transformer does between its layers."""
    weights = {"w": normal(16, 16) / 4, "scale": normal(16), "bias": normal(16)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("LayerNormalization", ["b", "scale", "bias"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"]),
        helper.make_node("ReduceMean", ["b"], ["m"], axes=[1]),
    ]
    constants = [models.constant(name, array) for name, array in weights.items()]
    outputs = [models.value("y", None), models.value("m", None)]
    return models.model(nodes, [models.value("x", ["N", 16])], outputs, constants), [(5, 16)]


CASES["between_layers"] = perceptron_with_norm()


def feeds_of(proto, shapes):
    feeds = {}
    for port, shape in zip(proto.graph.input, shapes, strict=True):
        kind = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        array = RANDOM.standard_normal(shape) * (60 if kind.kind in "iu" else 1)
        feeds[port.name] = np.asarray(np.clip(array, 0, 255) if kind.kind == "u" else array).astype(kind)
    return feeds


def compare(actual, wanted):
    if actual.dtype.kind in "iu":
        # A sum that rounds the other way in f32 moves a quantised result by one.
        assert np.abs(actual.astype(np.int64) - wanted.astype(np.int64)).max(initial=0) <= (actual.dtype.itemsize == 1)
    elif actual.dtype == np.float16:
        # Sums in f32, rounded once, where onnxruntime rounds some on the way.
        np.testing.assert_allclose(actual.astype(np.float32), wanted.astype(np.float32), rtol=2.0**-8, atol=2.0**-8)
    else:
        np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-5 * max(1, np.abs(wanted).max(initial=0) / 100))


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(target, name):
    proto, shapes = CASES[name]
    feeds = feeds_of(proto, shapes)
    outputs = make_compiler(proto).compile(target)(feeds)
    for actual, wanted in zip(outputs.values(), models.expected(proto, feeds), strict=True):
        compare(actual, wanted)


@pytest.mark.parametrize("op", ["RandomNormal", "RandomUniform"])
def test_random_numbers_are_those_of_the_cpu(target, op):
    node = helper.make_node(op, [], ["y"], shape=[9, 11], seed=3.0)
    proto = models.model([node], [], [models.value("y", None)])
    executor, host = make_compiler(proto).compile(target), make_compiler(proto).compile("cpu")
    for _ in range(3):
        np.testing.assert_allclose(executor({})["y"], host({})["y"], rtol=1e-6)


def test_lengths_out_of_range_are_reported(target):
    weights = [models.constant("w", normal(1, 20, 7)), models.constant("r", normal(1, 20, 5))]
    node = helper.make_node("LSTM", ["x", "w", "r", "", "lengths"], ["y"], hidden_size=5)
    inputs = [models.value("x", [4, 2, 7]), models.value("lengths", [2], I32)]
    executor = make_compiler(models.model([node], inputs, [models.value("y", None)], weights)).compile(target)
    x = normal(4, 2, 7)
    executor({"x": x, "lengths": np.array([4, 0], np.int32)})
    with pytest.raises(InvalidInput, match="5"):
        executor({"x": x, "lengths": np.array([5, 1], np.int32)})


def test_unpooling_out_of_range_is_reported(target):
    node = helper.make_node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2], strides=[2])
    inputs = [models.value("x", [1, 1, 3]), models.value("i", [1, 1, 3], I64)]
    executor = make_compiler(models.model([node], inputs, [models.value("y", None)])).compile(target)
    x = normal(1, 1, 3)
    (y,) = executor({"x": x, "i": np.array([[[1, 3, 1]]])}).values()
    np.testing.assert_array_equal(y[0, 0], np.array([0, x[0, 0, 2], 0, x[0, 0, 1], 0, 0], np.float32))
    with pytest.raises(InvalidInput, match="6"):
        executor({"x": x, "i": np.array([[[1, 6, 0]]])})


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2FNUZ"])
def test_small_floats(target, kind):
    small = getattr(TensorProto, kind)
    values = normal(37) * 300
    for source, to in ((F32, small), (small, F32)):
        cast = helper.make_node("Cast", ["x"], ["y"], to=to)
        proto = models.model([cast], [models.value("x", ["N"], source)], [models.value("y", None, to)], opset=19)
        wanted = make_compiler(proto).compile("cpu")({"x": values})["y"]
        actual = make_compiler(proto).compile(target)({"x": values})["y"]
        np.testing.assert_array_equal(actual.astype(np.float32), wanted.astype(np.float32))
        values = wanted


@pytest.mark.parametrize("sizes", [(3, 5), (3, 8), (5, 4096), (0, 4)])
def test_new_sizes(target, sizes):
    """One executor, sizes that need other kinds of kernels."""
    proto = models.model(
        [helper.make_node("Softmax", ["x0"], ["y"])], [models.value("x0", ["N", "M"])], [models.value("y", None)]
    )
    executor = make_compiler(proto).compile(target)
    for rows in (sizes[0], sizes[0] + 1):
        x = normal(rows, sizes[1])
        (wanted,) = models.expected(proto, {"x0": x})
        compare(executor({"x0": x})["y"], wanted)

"""Quantised operators of com.microsoft, and quantised networks, against onnxruntime."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from refactor_graph import InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.quantization import (
    BYTES,
    MICROSOFT,
    PASSES,
    check_onnxruntime,
    codes,
    run,
    scales,
    weights,
)


@PASSES
@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_qlinear_binary(op, dtype, passes):
    random = models.generator(612)
    for other in ((3, 5, 7), (5, 1), ()):
        arrays = [
            codes(dtype, (3, 5, 7), random),
            scales((), random),
            codes(dtype, (), random),
            codes(dtype, other, random),
            scales((), random),
            codes(dtype, (), random),
            np.float32(0.06),
            codes(dtype, (), random),
        ]
        check_onnxruntime(op, arrays, passes, steps=1)


@PASSES
@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearLeakyRelu", {}),
        ("QLinearSoftmax", {"softmax": 13, "axis": -1}),
        ("QLinearSoftmax", {"softmax": 13, "axis": 1}),
        ("QLinearSoftmax", {"softmax": 12, "axis": 1}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "channels_last": 1}),
    ],
)
def test_qlinear_unary(op, attributes, dtype, passes):
    random = models.generator(613)
    bounded = op in ("QLinearSigmoid", "QLinearSoftmax")
    y_zero = np.asarray(ml_dtypes.iinfo(dtype).min if bounded else 3, dtype)
    arrays = [
        codes(dtype, (2, 5, 7, 9), random),
        np.float32(0.05),
        codes(dtype, (), random),
        np.float32(1 / 256 if bounded else 0.04),
        y_zero,
    ]
    check_onnxruntime(op, arrays, passes, steps=1, **attributes)


@PASSES
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_qlinear_concat(dtype, passes):
    random = models.generator(614)
    arrays = [np.float32(0.03), codes(dtype, (), random)]
    for size in (5, 4, 1):
        arrays += [codes(dtype, (2, size, 3), random), scales((), random), codes(dtype, (), random)]
    fixed = [i for i in range(len(arrays)) if (i - 2) % 3 or i < 2]
    check_onnxruntime("QLinearConcat", arrays, passes, steps=1, constants=fixed, axis=1)


@PASSES
@pytest.mark.parametrize(("a", "b"), [("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
def test_matmul_integer_to_float(a, b, passes):
    random = models.generator(615)
    full = [codes(np.dtype(a), (5, 17), random), weights(np.dtype(b), (17, 11), random), np.float32(0.02)]
    full += [scales(11, random), codes(np.dtype(a), (), random), codes(np.dtype(b), 11, random)]
    full += [random.standard_normal(11, np.float32)]
    check_onnxruntime("MatMulIntegerToFloat", full, passes)
    few = [codes(np.dtype(a), (2, 5, 17), random), weights(np.dtype(b), (17, 11), random), np.float32(0.02)]
    check_onnxruntime("MatMulIntegerToFloat", [*few, np.float32(0.03)], passes)


@PASSES
@pytest.mark.parametrize("b", BYTES, ids=str)
def test_dynamic_quantize_matmul(b, passes):
    random = models.generator(616)
    a = random.standard_normal((2, 5, 17), np.float32)
    w = weights(b, (17, 11), random)
    check_onnxruntime("DynamicQuantizeMatMul", [a, w, np.float32(0.02)], passes, constants=[1])
    bias = random.standard_normal(11, np.float32)
    check_onnxruntime("DynamicQuantizeMatMul", [a, w, scales(11, random), codes(b, 11, random), bias], passes)


@PASSES
@pytest.mark.parametrize(("a", "b"), [("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
@pytest.mark.parametrize("transposed", [0, 1, 2, 3])
def test_qgemm(a, b, transposed, passes):
    random = models.generator(617)
    ta, tb = transposed & 1, transposed >> 1
    many = 11 if b == "i1" else ()
    arrays = [
        codes(np.dtype(a), (17, 5) if ta else (5, 17), random),
        np.float32(0.02),
        codes(np.dtype(a), (), random),
        weights(np.dtype(b), (11, 17) if tb else (17, 11), random),
        scales(many, random),
        np.zeros(many, b) if b == "i1" else codes(np.dtype(b), (), random),
        random.integers(-1000, 1000, 11).astype(np.int32),
        np.float32(0.3),
        codes(np.dtype(a), (), random),
    ]
    options = {"transA": ta, "transB": tb, "alpha": 1.5, "constants": [3, 4, 5]}
    check_onnxruntime("QGemm", arrays, passes, **options)
    arrays[6] = random.integers(-1000, 1000, (5, 11)).astype(np.int32)
    check_onnxruntime("QGemm", arrays[:7], passes, **options)


@PASSES
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("zeros", ["none", "packed"])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("level", [0, 4])
def test_matmul_n_bits(bits, block, zeros, rows, level, passes):
    random = models.generator(618)
    n, k = 13, 150
    blocks = -(-k // block)
    a = random.standard_normal((rows, k), np.float32)
    packed = random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scale = scales((n, blocks), random)
    zero = random.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8) if zeros == "packed" else None
    bias = random.standard_normal(n, np.float32)
    proto, feeds = single.positional(
        "MatMulNBits",
        [a, packed, scale, zero, None, bias],
        constants=[1, 2, 3] if zero is not None else [1, 2],
        opset=17,
        domain=MICROSOFT,
        K=k,
        N=n,
        bits=bits,
        block_size=block,
        accuracy_level=level,
    )
    (actual,) = run(proto, feeds, passes)
    numbers = packed.reshape(n, -1)
    points = np.full((n, blocks), 1 << (bits - 1)) if zero is None else zero
    if bits == 4:
        numbers = np.stack([numbers & 15, numbers >> 4], -1).reshape(n, -1)
        if zero is not None:
            points = np.stack([zero & 15, zero >> 4], -1).reshape(n, -1)
    wide = np.repeat(points[:, :blocks].astype(np.float64), block, 1)[:, :k]
    weights = (numbers[:, :k].astype(np.float64) - wide) * np.repeat(scale.astype(np.float64), block, 1)[:, :k]
    # Sums of k products, and of as many zero points, rounded to f32 each.
    bound = 2**-24 * k * np.abs(weights).max() * np.abs(a).max() * (2 << bits) / (1 << (bits - 1))
    if level == 4:  # half a step of 8 bits for each element of a row
        bound += np.abs(weights).sum(1).max() * np.abs(a).max() / 254
    np.testing.assert_allclose(actual, a.astype(np.float64) @ weights.T + bias, rtol=0, atol=bound)
    assert actual.dtype == np.float32


@pytest.mark.parametrize(
    ("attributes", "error", "words"),
    [
        ({"K": 64, "N": 3, "block_size": 24}, InvalidModel, "block_size is 24"),
        ({"K": 64, "N": 3, "block_size": 32, "bits": 3}, Unsupported, "3 bits"),
        ({"K": 96, "N": 3, "block_size": 32}, InvalidModel, "last size of A is 64, expected 96"),
        ({"K": 64, "N": 4, "block_size": 32}, InvalidModel, "number of bytes of B is 96, expected 128"),
    ],
)
def test_matmul_n_bits_refuses(attributes, error, words):
    arrays = [np.zeros((2, 64), "f"), np.zeros((3, 2, 16), "u1"), np.ones((3, 2), "f")]
    proto, _ = single.positional("MatMulNBits", arrays, opset=17, domain=MICROSOFT, **attributes)
    with pytest.raises(error, match=words):
        make_compiler(proto)


class Batches(CalibrationDataReader):
    """A few random pictures, for the ranges of activations."""

    def __init__(self):
        self.random = models.generator(620)
        self.left = 3

    def get_next(self):
        self.left -= 1
        return {"x": self.random.standard_normal((2, 3, 20, 23), np.float32)} if self.left >= 0 else None


@pytest.mark.parametrize("form", [*QuantFormat, None], ids=str)
@pytest.mark.parametrize(("a", "w"), [(QuantType.QUInt8, QuantType.QInt8), (QuantType.QInt8, QuantType.QInt8)])
@pytest.mark.parametrize("w_by_channel", [False, True])
def test_networks_that_onnxruntime_quantised(form, a, w, w_by_channel, tmp_path):
    source, target = tmp_path / "float.onnx", tmp_path / "quantised.onnx"
    onnx.save(models.convolutions(), source)
    if form is None:
        quantize_dynamic(source, target, weight_type=w, per_channel=w_by_channel, reduce_range=True)
    else:
        options = {"activation_type": a, "weight_type": w, "per_channel": w_by_channel, "reduce_range": True}
        quantize_static(str(source), str(target), Batches(), quant_format=form, **options)
    proto = onnx.load(target)
    x = models.generator(621).standard_normal((2, 3, 20, 23), np.float32)
    (wanted,) = models.expected(proto, {"x": x})
    for passes in ([], ["-all"]):
        (actual,) = run(proto, {"x": x}, passes)
        # Single steps of the last quantisation, where floats round apart.
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=0.03 * np.abs(wanted).max())


def test_additions_fold_into_convolutions():
    """QLinearConv → QLinearAdd of a residual: the addition happens before the convolution stores its bytes."""
    random = models.generator(622)
    constants = {"s": np.float32(0.02), "z": np.uint8(120), "as": np.float32(0.05), "ys": np.float32(0.07)}
    constants |= {"az": np.uint8(128), "yz": np.uint8(110)}
    for name, shape in (("v", (8, 6, 1, 1)), ("w", (8, 8, 3, 3))):
        constants |= {name: weights(BYTES[1], shape, random), name + "s": scales(8, random), name + "z": np.int8(0)}
        constants |= {name + "b": random.integers(-999, 999, 8).astype(np.int32)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "v", "vs", "vz", "as", "az", "vb"], ["a"]),
        helper.make_node("QLinearConv", ["a", "as", "az", "w", "ws", "wz", "ys", "yz", "wb"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QLinearAdd", ["c", "ys", "yz", "a", "as", "az", "s", "z"], ["y"], domain=MICROSOFT),
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 6, 9, 7])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [1, 8, 9, 7])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = random.standard_normal((1, 6, 9, 7), np.float32)
    (wanted,) = models.expected(proto, {"x": x})
    (actual,) = run(proto, {"x": x}, [])
    gap = np.abs(actual.astype(int) - wanted.astype(int))
    assert gap.max() <= 1
    assert (gap > 0).mean() < 0.02
    executor = make_compiler(proto).compile("cpu")
    executor({"x": x})
    ops = [row.type for row in executor.bench()]
    assert ops.count("IntegerConv") == 2
    assert ops.count("Elementwise") <= 1, ops


def test_quantised_network_of_any_size():
    """QuantizeLinear → QLinearConv → QLinearAdd → DequantizeLinear with a batch and a picture of open size."""
    random = models.generator(619)
    constants = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in {
            "s": np.float32(0.02),
            "z": np.uint8(128),
            "w": weights(BYTES[1], (5, 3, 3, 3), random),
            "ws": scales(5, random),
            "wz": np.zeros(5, np.int8),
            "b": random.integers(-99, 99, 5).astype(np.int32),
            "ys": np.float32(0.1),
        }.items()
    ]
    conv = ["q", "s", "z", "w", "ws", "wz", "ys", "z", "b"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", conv, ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QLinearAdd", ["c", "ys", "z", "c", "ys", "z", "ys", "z"], ["a"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["a", "ys", "z"], ["y"]),
    ]
    proto = models.model(
        nodes,
        [models.value("x", ["N", 3, "H", "W"])],
        [models.value("y", ["N", 5, "H", "W"])],
        constants,
        domains=[MICROSOFT],
    )
    executor = make_compiler(proto).compile("cpu")
    for shape in ((1, 3, 9, 7), (3, 3, 16, 17), (2, 3, 1, 1)):
        x = random.standard_normal(shape, np.float32)
        (actual,) = executor({"x": x}).values()
        wanted = models.expected(proto, {"x": x})[0]
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-6)

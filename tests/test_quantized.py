"""Quantised operators of the standard against onnx.reference and onnxruntime."""

import os

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.quantization import (
    BF16,
    BYTES,
    F4,
    F8,
    INTEGERS,
    PACKED,
    PASSES,
    assert_steps,
    check_onnxruntime,
    check_reference,
    codes,
    run,
    scales,
    weights,
)


def granularities():
    """Shapes of scales for x [4, 6, 10], with the attributes that say so."""
    return {
        "tensor": ((), {}),
        "one": ((1,), {"axis": 1}),
        "axis0": ((4,), {"axis": 0}),
        "axis1": ((6,), {"axis": 1}),
        "last": ((10,), {"axis": -1}),
        "blocks": ((4, 3, 10), {"axis": 1, "block_size": 2}),
        "ragged": ((4, 6, 4), {"axis": 2, "block_size": 3}),
    }


@PASSES
@pytest.mark.parametrize("to", [*INTEGERS, *PACKED], ids=str)
@pytest.mark.parametrize("granularity", granularities())
def test_quantize_to_integers(to, granularity, passes):
    random = models.generator(600)
    shape, attributes = granularities()[granularity]
    x = (random.standard_normal((4, 6, 10)) * 4 / 30 * ml_dtypes.iinfo(to).max).astype(np.float32)
    # Ties and what is out of range.
    x.flat[:8] = 0.5, 1.5, 2.5, -0.5, np.inf, -np.inf, 1e9, -1e9
    scale = np.full(shape, 1, np.float32) if granularity == "tensor" else scales(shape, random)
    for zero in (None, codes(to, shape, random)):
        options = dict(attributes)
        if zero is None:
            options["output_dtype"] = helper.np_dtype_to_tensor_dtype(to)
        proto, feeds = single.positional("QuantizeLinear", [x, scale, zero], opset=25, **options)
        (actual,) = run(proto, feeds, passes)
        # The reference wraps what no i32 holds.
        quotient = np.clip(x / spread(scale, x.shape, options), -1e8, 1e8)
        wide = np.rint(quotient).astype(np.int64)
        if zero is not None:
            wide = wide + spread(zero, x.shape, options).astype(np.int64)
        info = ml_dtypes.iinfo(to)
        assert_steps(actual, np.clip(wide, info.min, info.max).astype(np.int32).astype(to))


def spread(scale, shape, attributes):
    """Scales of every element."""
    if scale.size == 1:
        return scale.reshape(())
    axis = attributes["axis"] % len(shape)
    if scale.ndim == 1:
        return scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    wide = np.repeat(scale.astype(np.float32), attributes["block_size"], axis).astype(scale.dtype)
    return np.take(wide, np.arange(shape[axis]), axis)


@PASSES
@pytest.mark.parametrize("to", [*F8, F4], ids=str)
@pytest.mark.parametrize("saturate", [0, 1])
def test_quantize_to_floats(to, saturate, passes):
    random = models.generator(601)
    x = (random.standard_normal((5, 7)) * 100).astype(np.float32)
    for scale in (np.float32(0.3), scales(7, random)):
        options = {"axis": 1, "saturate": saturate}
        zero = np.zeros(np.shape(scale), to)
        proto, feeds = single.positional("QuantizeLinear", [x, scale, zero], opset=25, **options)
        (actual,) = run(proto, feeds, passes)
        wanted = single.reference(proto, feeds)[0]
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual.astype(np.float32), wanted.astype(np.float32))


@PASSES
@pytest.mark.parametrize("source", [np.float16, BF16, np.float32, np.int32], ids=str)
@pytest.mark.parametrize("precision", [0, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_precision_of_the_quotient(source, precision, passes):
    random = models.generator(602)
    x = (random.standard_normal(301) * 9).astype(np.float32).astype(source)
    scale = np.asarray(0.07, np.float32 if source == np.int32 else source)
    proto, feeds = single.positional(
        "QuantizeLinear", [x, scale, np.int8(3)], opset=23, **({"precision": precision} if precision else {})
    )
    (actual,) = run(proto, feeds, passes)
    kind = {0: scale.dtype, 1: np.float32, 10: np.float16, 16: BF16}[precision]
    quotient = (x.astype(kind) / scale.astype(kind)).astype(np.float32)
    assert_steps(actual, np.clip(np.rint(quotient) + 3, -128, 127).astype(np.int8))


@PASSES
@pytest.mark.parametrize("source", [*INTEGERS, np.dtype(np.int32), *PACKED, *F8, F4], ids=str)
@pytest.mark.parametrize("granularity", granularities())
def test_dequantize(source, granularity, passes):
    random = models.generator(603)
    shape, attributes = granularities()[granularity]
    integers = source in (*INTEGERS, *PACKED)
    if integers:
        x = codes(source, (4, 6, 10), random)
    elif source == np.int32:
        x = random.integers(-(2**31), 2**31, (4, 6, 10)).astype(np.int32)
    else:
        x = random.standard_normal((4, 6, 10)).astype(np.float32).astype(source)
    for kind in (np.float32, np.float16, BF16):
        scale = scales(shape, random, kind)
        zero = codes(source, shape, random) if integers else None
        if source == np.int32 and kind != np.float32:
            continue
        proto, feeds = single.positional("DequantizeLinear", [x, scale, zero], opset=25, **attributes)
        (actual,) = run(proto, feeds, passes)
        centred = x.astype(np.float32)
        if zero is not None:
            centred = centred - spread(zero, x.shape, attributes).astype(np.float32)
        wanted = (centred * spread(scale, x.shape, attributes).astype(np.float32)).astype(kind)
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual.astype(np.float32), wanted.astype(np.float32))


def test_dequantize_to_another_type():
    x = np.arange(-8, 8).astype(ml_dtypes.int4)
    scale = np.asarray([2.0], ml_dtypes.float8_e8m0fnu)
    proto, feeds = single.positional("DequantizeLinear", [x, scale], opset=25, output_dtype=TensorProto.FLOAT16)
    (actual,) = run(proto, feeds, [])
    np.testing.assert_array_equal(actual, (2 * np.arange(-8, 8)).astype(np.float16))


@pytest.mark.parametrize(
    ("op", "arrays", "opset", "attributes", "words"),
    [
        ("QuantizeLinear", [np.zeros((2, 3), "f"), np.ones(3, "f")], 10, {}, "expected a scalar in opset 10"),
        (
            "QuantizeLinear",
            [np.zeros((2, 3), "f"), np.ones(2, "f")],
            13,
            {},
            "cannot be broadcast to",
        ),
        ("QuantizeLinear", [np.zeros((2, 3), "f"), np.ones(3, "f"), np.zeros(2, "u1")], 13, {}, "zero point has the"),
        ("QuantizeLinear", [np.zeros(3, "f"), np.ones(3, "f")], 13, {}, "axis"),
        ("QuantizeLinear", [np.zeros(3, "f"), np.float32(1), np.int16(0)], 19, {}, "is i16, expected"),
        ("QuantizeLinear", [np.zeros(3, "f"), np.float32(1)], 21, {"output_dtype": 23}, "f4e2m1"),
        (
            "QuantizeLinear",
            [np.zeros(3, "f"), np.float32(1), np.int8(0)],
            21,
            {"output_dtype": 2},
            "output_dtype is u8, the zero point is i8",
        ),
        ("DequantizeLinear", [np.zeros(3, "i1"), np.float32(1), np.uint8(0)], 21, {}, "zero point is u8, expected i8"),
        ("DequantizeLinear", [np.zeros((2, 3), "i1"), np.ones((2, 2), "f")], 21, {"block_size": 2, "axis": 0}, "scale"),
        ("DequantizeLinear", [np.zeros(3, "i1"), np.float32(1)], 21, {"block_size": -1}, "block_size is -1"),
    ],
)
def test_quantize_refuses(op, arrays, opset, attributes, words):
    proto, _ = single.positional(op, arrays, opset=opset, **attributes)
    with pytest.raises(InvalidModel, match=words):
        make_compiler(proto)


@PASSES
def test_dynamic_quantize(passes):
    random = models.generator(604)
    for x in (
        random.standard_normal((3, 5, 7)),
        random.uniform(1, 2, 11),
        random.uniform(-2, -1, (2, 3)),
        np.zeros(5),
        np.float32(3),
    ):
        array = np.asarray(x, np.float32)
        proto, feeds = single.positional("DynamicQuantizeLinear", [array], opset=11, outputs=3)
        actual = run(proto, feeds, passes)
        wanted = single.reference(proto, feeds)
        assert_steps(actual[0], wanted[0])
        np.testing.assert_array_equal(actual[1], wanted[1])
        assert_steps(actual[2], wanted[2])


@PASSES
@pytest.mark.parametrize("product", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_products_of_an_infinite_range_are_nan(product, bad, passes):
    """The scale is infinite, all numbers are the zero point, and their products are 0 times that."""
    random = models.generator(615)
    x, w = ((5, 40), (40, 24)) if product == "MatMulInteger" else ((1, 4, 6, 6), (8, 4, 3, 3))
    array = random.standard_normal(x).astype(np.float32)
    array.flat[3] = bad
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node(product, ["q", "w", "z"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    constants = [models.constant("w", codes(np.int8, w, random))]
    proto = models.model(nodes, [models.value("x", x)], [models.value("y", None)], constants)
    assert np.isnan(run(proto, {"x": array}, passes)[0]).all()


@PASSES
@pytest.mark.parametrize("a", BYTES, ids=str)
@pytest.mark.parametrize("b", BYTES, ids=str)
def test_matmul_integer(a, b, passes):
    random = models.generator(605)
    for shape_a, shape_b, zero_b in (
        ((5, 37), (37, 11), ()),
        ((2, 3, 5, 16), (16, 33), (33,)),
        ((3, 5, 7), (3, 7, 9), (3, 1, 9)),
        ((7,), (7, 4), ()),
        ((3, 7), (7,), ()),
        ((7,), (7,), None),
    ):
        arrays = [codes(a, shape_a, random), codes(b, shape_b, random), codes(a, (), random)]
        if zero_b is not None:
            arrays.append(codes(b, zero_b, random))
        check_reference("MatMulInteger", arrays, passes, opset=10, constants=[1])
        check_reference("MatMulInteger", arrays, passes, opset=10)


@pytest.mark.skipif(os.environ.get("REFACTOR_GRAPH_ISA") == "scalar", reason="the reference is all there is")
@pytest.mark.parametrize("shape", [(12, 1, 64, 128), (12, 1, 300, 64), (1, 1, 512, 512), (3, 4, 65, 130)], ids=str)
def test_few_rows_times_stacked_matrices_are_packed(shape):
    """As a decoder's step multiplies the keys and values that it has kept."""
    random = models.generator(609)
    batch, m, k, n = shape
    a, b = codes(BYTES[0], (batch, m, k), random), codes(BYTES[1], (batch, k, n), random)
    proto, feeds = single.positional("MatMulInteger", [a, b], opset=10)
    for threads in (1, 2, 3):
        executor = make_compiler(proto).compile("cpu", num_threads=threads)
        (actual,) = executor(feeds).values()
        np.testing.assert_array_equal(actual, a.astype(np.int32) @ b.astype(np.int32))
        assert "reference" not in executor.bench(quiet=True)[0].kernel


@PASSES
def test_matmul_integer_with_a_zero_point_for_each_row(passes):
    random = models.generator(606)
    a, b = codes(BYTES[0], (5, 7), random), codes(BYTES[1], (7, 3), random)
    zeros = codes(BYTES[0], 5, random)
    proto, feeds = single.positional("MatMulInteger", [a, b, zeros], opset=10)
    (actual,) = run(proto, feeds, passes)
    np.testing.assert_array_equal(actual, (a.astype(np.int32) - zeros[:, None]) @ b.astype(np.int32))


@PASSES
@pytest.mark.parametrize("a", BYTES, ids=str)
@pytest.mark.parametrize("b", BYTES, ids=str)
@pytest.mark.parametrize("y", BYTES, ids=str)
def test_qlinear_matmul(a, b, y, passes):
    random = models.generator(607)
    for shape_a, shape_b, columns in (
        ((5, 37), (37, 11), ()),
        ((2, 5, 16), (16, 70), (70,)),
        ((3, 5, 8), (3, 8, 4), ()),
    ):
        arrays = [
            codes(a, shape_a, random),
            scales((), random),
            codes(a, (), random),
            codes(b, shape_b, random),
            scales(columns, random),
            codes(b, columns, random),
            np.float32(0.3),
            codes(y, (), random),
        ]
        # The reference adds the zero point before it rounds: ties go the other way where it is odd.
        check_reference("QLinearMatMul", arrays, passes, steps=1, opset=21, constants=[3])


@PASSES
def test_qlinear_matmul_by_rows(passes):
    random = models.generator(608)
    a, b = codes(BYTES[0], (4, 9), random), codes(BYTES[1], (9, 6), random)
    a_scale, a_zero, b_scale = scales(4, random), codes(BYTES[0], 4, random), scales(6, random)
    b_zero, y_zero = codes(BYTES[1], 6, random), codes(BYTES[1], 4, random)
    y_scale = scales(4, random) * 20
    arrays = [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero]
    proto, feeds = single.positional("QLinearMatMul", arrays, opset=21)
    (actual,) = run(proto, feeds, passes)
    sums = (a.astype(np.int64) - a_zero[:, None]) @ (b.astype(np.int64) - b_zero)
    real = sums * (a_scale[:, None].astype(np.float64) * b_scale / y_scale[:, None])
    assert_steps(actual, np.clip(np.rint(real) + y_zero[:, None], -128, 127).astype(np.int8), 1)


@PASSES
@pytest.mark.parametrize("dtype", F8, ids=str)
def test_qlinear_matmul_of_small_floats(dtype, passes):
    random = models.generator(609)
    a, b = (random.standard_normal(s).astype(np.float32).astype(dtype) for s in ((3, 17), (17, 5)))
    zero = np.zeros((), dtype)
    arrays = [a, np.float32(0.5), zero, b, np.float32(0.25), zero, np.float32(0.75), zero]
    proto, feeds = single.positional("QLinearMatMul", arrays, opset=21)
    (actual,) = run(proto, feeds, passes)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)) * np.float32(0.5 * 0.25 / 0.75)
    assert actual.dtype == dtype
    # One rounding to the type, of sums in another order.
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(actual.astype(np.float32), wanted, rtol=epsilon, atol=epsilon * 0.1)


CONVOLUTIONS = {
    "plain": ((2, 5, 9, 11), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((1, 3, 17, 19), (35, 3, 5, 7), {"strides": [2, 3], "pads": [2, 0, 1, 3]}),
    "dilated": ((1, 18, 9, 8), (6, 18, 3, 3), {"dilations": [2, 2], "pads": [2, 1, 2, 3]}),
    "pointwise": ((1, 33, 13, 12), (66, 33, 1, 1), {}),
    "grouped": ((1, 6, 9, 11), (4, 3, 3, 2), {"group": 2}),
    "depthwise": ((2, 21, 15, 18), (21, 1, 3, 3), {"group": 21, "pads": [1, 1, 1, 1]}),
    "one": ((2, 5, 33), (7, 5, 4), {"strides": [2]}),
    "volume": ((1, 3, 6, 7, 9), (5, 3, 2, 3, 3), {"pads": [1, 0, 1, 0, 1, 0]}),
}


@PASSES
@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("x", BYTES, ids=str)
@pytest.mark.parametrize("w", BYTES, ids=str)
def test_conv_integer(case, x, w, passes):
    random = models.generator(610)
    shape_x, shape_w, attributes = CONVOLUTIONS[case]
    data, weights = codes(x, shape_x, random), codes(w, shape_w, random)
    zero_x, zero_w = codes(x, (), random), codes(w, shape_w[0] if case != "one" else (), random)
    proto, feeds = single.positional(
        "ConvInteger", [data, weights, zero_x, zero_w], opset=10, constants=[1], **attributes
    )
    (actual,) = run(proto, feeds, passes)
    exact = [
        data.astype(np.float64) - zero_x,
        weights.astype(np.float64) - np.reshape(zero_w, (-1,) + (1,) * (len(shape_w) - 1)),
    ]
    float_proto, float_feeds = single.positional("Conv", exact, opset=11, **attributes)
    (wanted,) = single.reference(float_proto, float_feeds)
    np.testing.assert_array_equal(actual, wanted.astype(np.int32))


@PASSES
@pytest.mark.parametrize("case", ["plain", "strided", "dilated", "pointwise", "grouped", "depthwise"])
@pytest.mark.parametrize(("x", "w"), [("u1", "i1"), ("u1", "u1"), ("i1", "i1")])
def test_qlinear_conv(case, x, w, passes):
    random = models.generator(611)
    shape_x, shape_w, attributes = CONVOLUTIONS[case]
    filters = shape_w[0]
    many = () if w == "u1" else filters
    arrays = [
        codes(np.dtype(x), shape_x, random),
        np.float32(0.02),
        codes(np.dtype(x), (), random),
        weights(np.dtype(w), shape_w, random),
        scales(many, random),
        np.zeros(many, w) if w == "i1" else codes(np.dtype(w), (), random),
        np.float32(0.5),
        codes(np.dtype(x), (), random),
        random.integers(-500, 500, filters).astype(np.int32),
    ]
    check_onnxruntime("QLinearConv", arrays, passes, domain="", constants=[1, 2, 3, 4, 5, 6, 7, 8], **attributes)


@pytest.mark.parametrize(
    ("op", "arrays", "words"),
    [
        ("MatMulInteger", [np.zeros((2, 3), "u1"), np.zeros((4, 5), "u1")], "is 4, expected 3"),
        ("MatMulInteger", [np.zeros((2, 3), "u1"), np.zeros((3, 5), "i2")], "is i16, expected u8, i8"),
        ("MatMulInteger", [np.zeros((2, 3), "u1"), np.zeros((3, 5), "u1"), np.int8(0)], "zero point of A is i8"),
        ("MatMulInteger", [np.zeros((2, 3), "u1"), np.zeros((3, 5), "u1"), np.zeros(3, "u1")], "expected a scalar, "),
        ("ConvInteger", [np.zeros((1, 3, 5, 5), "u1"), np.zeros((2, 4, 3, 3), "u1")], "number of channels is 3"),
        ("ConvInteger", [np.zeros((1, 3), "u1"), np.zeros((2, 3), "u1")], "rank|axes"),
        (
            "ConvInteger",
            [np.zeros((1, 3, 5, 5), "u1"), np.zeros((2, 3, 3, 3), "u1"), np.zeros(3, "u1")],
            "zero point of X has the shape",
        ),
    ],
)
def test_products_refuse(op, arrays, words):
    proto, _ = single.positional(op, arrays, opset=10)
    with pytest.raises(InvalidModel, match=words):
        make_compiler(proto)

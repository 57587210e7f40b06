"""Casts between all types, and elementwise operators over all types that the standard allows."""

import itertools
import math

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models, single

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
PACKED = [np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)]
F8 = [
    np.dtype(t)
    for t in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
]
F4 = np.dtype(ml_dtypes.float4_e2m1fn)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
ALL = [*INTEGERS, *FLOATS, *PACKED, *F8, F4, E8M0, np.dtype(bool)]
OPSET = 26


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def numbers(dtype, count, random):
    """Random numbers of a type, and its extremes; those of a float that fit in every integer of 8 bits, and others."""
    if dtype == np.dtype(bool):
        return random.integers(0, 2, count).astype(bool)
    if dtype == E8M0:
        return np.exp2(random.integers(-20, 20, count)).astype(E8M0)
    if dtype in PACKED or dtype in INTEGERS:
        info = ml_dtypes.iinfo(dtype)
        wide = np.int64 if dtype.kind == "i" or dtype in PACKED else np.uint64
        values = random.integers(info.min, info.max, count, endpoint=True, dtype=wide)
        values[:2] = info.min, info.max
        return values.astype(dtype)
    return (random.standard_normal(count) * 3).astype(np.float32).astype(dtype)


def same_bits(actual, wanted):
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    if wanted.dtype.kind not in "biu":
        # NaN has many patterns, and packed types are compared by value.
        actual, wanted = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(actual, wanted)


def cast_by_numpy(x, to):
    if to == E8M0:
        return onnx.numpy_helper.to_float8e8m0(x.astype(np.float32)).astype(E8M0)
    if to in F8:
        return onnx.numpy_helper.saturate_cast(x.astype(np.float64), to)
    if x.dtype in PACKED or x.dtype in (*F8, F4, E8M0, FLOATS[1]):
        # These have one way into numpy's own types.
        x = x.astype(np.float64) if x.dtype not in PACKED else x.astype(np.int8)
    if to in PACKED:
        bits = 4 if "4" in to.name else 2
        whole = x.astype(np.float64).astype(np.int64) if x.dtype.kind in "fV" else x.astype(np.int64)
        low = whole & ((1 << bits) - 1)
        signed = low - ((low >> (bits - 1)) << bits) if "u" not in to.name else low
        return signed.astype(np.int8).astype(to)
    return x.astype(to)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts_at_run_time(source):
    random = models.generator(200 + ALL.index(source))
    for to in ALL:
        if to == E8M0 and source in (np.dtype(bool), *PACKED):
            continue
        # 1037 elements: several blocks and, for packed types, part of a byte.
        x = numbers(source, 1037, random)
        if to == E8M0:
            largest = ml_dtypes.iinfo(source).max if source in INTEGERS else np.inf
            x = np.abs(x.astype(np.float64)).clip(1, largest / 2).astype(source)
        elif source in FLOATS and to in INTEGERS:
            # What is out of range is undefined.
            x = x.astype(np.float64).clip(-100 if to.kind == "i" else 0, 100).astype(source)
        elif source == E8M0 and to in (*INTEGERS, *PACKED):
            x = np.exp2(random.integers(0, 6, 1037)).astype(E8M0)
        proto = single.model("Cast", {"x": x}, opset=OPSET, to=code(to))
        (actual,) = single.run(proto, {"x": x})
        same_bits(actual, cast_by_numpy(x, to))


@pytest.mark.parametrize("to", [*F8, F4], ids=str)
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_to_small_floats_saturate(to, saturate):
    x = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9, 0.3, -7e-4], np.float32)
    for source in (np.float32, np.float64, np.float16):
        with np.errstate(over="ignore"):
            given = x.astype(source)
        proto = single.model("Cast", {"x": given}, opset=OPSET, to=code(to), saturate=saturate)
        (actual,) = single.run(proto, {"x": given})
        same_bits(actual, single.reference(proto, {"x": given})[0])


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_to_powers_of_two(mode, saturate):
    x = np.abs(models.generator(3).standard_normal(517, np.float32)) * 100
    proto = single.model("Cast", {"x": x}, opset=OPSET, to=code(E8M0), round_mode=mode, saturate=saturate)
    (actual,) = single.run(proto, {"x": x})
    same_bits(actual, single.reference(proto, {"x": x})[0])


def test_wide_numbers_are_rounded_once():
    # 1 + 2^-11 + 2^-40 is above the middle of two f16, but its f32 is the middle.
    x = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11], np.float64)
    proto = single.model("Cast", {"x": x}, opset=OPSET, to=TensorProto.FLOAT16)
    np.testing.assert_array_equal(single.run(proto, {"x": x})[0], x.astype(np.float16))
    big = np.array([2**24 + 1, 33554431], np.int64) * 1
    proto = single.model("Cast", {"x": big}, opset=OPSET, to=TensorProto.BFLOAT16)
    assert single.run(proto, {"x": big})[0].tolist() == [2.0**24, 2.0**25]


def test_cast_like_takes_the_type_of_the_other():
    x = models.generator(4).standard_normal((3, 5), np.float32)
    like = np.zeros(0, ml_dtypes.int4)
    proto = single.model("CastLike", {"x": x, "like": like}, opset=OPSET)
    actual = single.run(proto, {"x": x, "like": like})[0]
    assert actual.dtype == like.dtype
    np.testing.assert_array_equal(actual.astype(np.int8), np.trunc(x).astype(np.int8))


@pytest.mark.parametrize(
    ("opset", "to", "words"),
    [
        (13, TensorProto.FLOAT8E5M2, "does not exist in opset 13"),
        (23, TensorProto.UINT2, "does not exist in opset 23"),
        (25, 99, "99"),
        (25, 0, "target type 0"),
    ],
)
def test_cast_refuses_types(opset, to, words):
    proto = single.model("Cast", {"x": np.zeros(3, np.float32)}, opset=opset, to=to)
    with pytest.raises(InvalidModel, match=words):
        make_compiler(proto)


def test_cast_refuses_round_mode():
    proto = single.model("Cast", {"x": np.zeros(3, np.float32)}, opset=24, to=code(E8M0), round_mode="odd")
    with pytest.raises(InvalidModel, match='round_mode is "odd"'):
        make_compiler(proto)


def bit_casts():
    widths = {1: [np.dtype("i1"), np.dtype("u1"), *F8, E8M0, np.dtype(bool)], 2: [np.dtype("i2"), np.dtype("u2")]}
    widths[2] += FLOATS[:2]
    for size in (4, 8):
        widths[size] = [np.dtype(f"{kind}{size}") for kind in "iuf"]
    return [pair for types in widths.values() for pair in itertools.permutations(types, 2)]


@pytest.mark.parametrize(("source", "to"), bit_casts(), ids=str)
def test_bit_cast(source, to):
    random = models.generator(5)
    x = random.integers(0, 2 if bool in (source, to) else 256, 33 * source.itemsize).astype(np.uint8).view(source)
    proto = single.model("BitCast", {"x": x}, opset=OPSET, to=code(to))
    (actual,) = single.run(proto, {"x": x})
    assert actual.dtype == to
    np.testing.assert_array_equal(actual.view(np.uint8), x.view(np.uint8))


def test_bit_cast_of_packed_types():
    x = models.generator(6).integers(-8, 8, 7).astype(np.int8).astype(ml_dtypes.int4)
    proto = single.model("BitCast", {"x": x}, opset=OPSET, to=TensorProto.UINT4)
    (actual,) = single.run(proto, {"x": x})
    np.testing.assert_array_equal(actual.astype(np.int8), x.astype(np.int8) & 15)


def test_bit_cast_refuses_other_widths():
    proto = single.model("BitCast", {"x": np.zeros(3, np.float32)}, opset=OPSET, to=TensorProto.INT64)
    with pytest.raises(InvalidModel, match="64 bits, expected 32"):
        make_compiler(proto)


ATTRIBUTES = {"BitShift": {"direction": "RIGHT"}, "IsInf": {"detect_negative": 0}}
POSITIVE = {"Log", "Sqrt", "Acosh"}
UNIT = {"Acos", "Asin", "Atanh"}
UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]
BINARY = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Xor",
]


ERF = np.vectorize(math.erf, otypes=[np.float64])
EXACT = {
    "Erf": ERF,
    "Gelu": lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2))),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def allowed(op, opset):
    """Types of the first input in the standard, without strings and complex numbers."""
    schema = onnx.defs.get_schema(op, opset)
    formal = schema.inputs[0].type_str
    names = next(t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == formal)
    found = []
    for name in names:
        inner = name[len("tensor(") : -1]
        upper = {"float": "FLOAT", "double": "DOUBLE"}.get(inner, inner.upper())
        if inner != "string" and not inner.startswith("complex"):
            found.append(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(upper)))
    return [np.dtype(t) for t in found]


def cases(ops):
    return [pytest.param(op, dtype, id=f"{op}-{dtype}") for op in ops for dtype in allowed(op, OPSET)]


def operand(op, dtype, shape, random, second=False):
    if dtype == np.dtype(bool):
        return random.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        wide = random.integers(max(info.min, -90), min(info.max, 90), shape)
        if second and op in ("Div", "Mod"):
            wide = np.where(wide == 0, 7, wide)
        if op == "Pow":
            wide = np.abs(wide) % 4 if second else wide % 11
        if op == "BitShift" and second:
            wide = np.abs(wide) % 70
        return wide.astype(dtype)
    x = random.standard_normal(shape) * (1 if op in UNIT or op in ("Exp", "Sinh", "Cosh", "Tan", "Pow") else 3)
    if op in POSITIVE or (op == "Pow" and not second):
        x = np.abs(x) + 1
    if op in UNIT:
        x = np.clip(x, -0.9, 0.9)
    if second and op in ("Div", "Mod"):
        x = np.where(np.abs(x) < 0.1, 0.5, x)
    if op in ("IsInf", "IsNaN"):
        x.flat[:3] = np.inf, -np.inf, np.nan
    return x.astype(dtype)


def check_elementwise(op, dtype, arrays, opset=OPSET):
    attributes = dict(ATTRIBUTES.get(op, {}))
    if op == "Mod" and dtype in FLOATS:
        attributes["fmod"] = 1
    proto, feeds = single.positional(op, arrays, opset=opset, **attributes)
    (actual,) = single.run(proto, feeds)
    if dtype.kind in "iub" or dtype in F8:
        (wanted,) = single.reference(proto, feeds)
        wanted = np.asarray(wanted).astype(actual.dtype)
        single.assert_same([actual], [wanted])
        return
    # The oracle computes in f64: every instruction here rounds once to the type, functions of f32 a few times.
    exact = [a.astype(np.float64) for a in arrays]
    wide_proto, wide_feeds = single.positional(op, exact, opset=opset, **attributes)
    # The reference computes these three in f32, or with constants of f32.
    (wanted,) = [EXACT[op](*exact)] if op in EXACT else single.reference(wide_proto, wide_feeds)
    wanted = np.asarray(wanted)
    if wanted.dtype != bool:
        wanted = wanted.astype(dtype)
    assert actual.dtype == (np.dtype(bool) if wanted.dtype == bool else dtype)
    single.assert_same([actual], [wanted], steps=16)


@pytest.mark.parametrize(("op", "dtype"), cases(UNARY))
def test_unary_of_every_type(op, dtype):
    random = models.generator(300 + UNARY.index(op))
    check_elementwise(op, dtype, [operand(op, dtype, (3, 7, 19), random)])


@pytest.mark.parametrize(("op", "dtype"), cases(BINARY))
def test_binary_of_every_type(op, dtype):
    random = models.generator(400 + BINARY.index(op))
    second = (1, 19) if op == "PRelu" else (7, 1)
    if op == "PRelu":
        second = (1, 1, 19)
    arrays = [operand(op, dtype, (3, 7, 19), random), operand(op, dtype, second, random, second=True)]
    check_elementwise(op, dtype, arrays)


@pytest.mark.parametrize("dtype", [np.dtype("i1"), np.dtype("i2"), np.dtype("i4"), np.dtype("i8")], ids=str)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_signed_numbers(dtype, direction):
    random = models.generator(500)
    info = np.iinfo(dtype)
    x = random.integers(info.min, info.max, 301, endpoint=True, dtype=np.int64).astype(dtype)
    y = random.integers(-5, info.bits + 5, 301).astype(dtype)
    single.check("BitShift", {"x": x, "y": y}, opset=28, direction=direction)


def test_shifts_of_signed_numbers_are_new():
    x = np.ones(3, np.int32)
    proto = single.model("BitShift", {"x": x, "y": x}, opset=27, direction="LEFT")
    with pytest.raises(InvalidModel, match="is i32, expected"):
        make_compiler(proto)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mod_of_floats_has_the_sign_of_the_divisor(dtype):
    random = models.generator(501)
    x, y = ((random.standard_normal(401) * 10).astype(dtype) for _ in range(2))
    proto = single.model("Mod", {"x": x, "y": y}, opset=28, fmod=0)
    (actual,) = single.run(proto, {"x": x, "y": y})
    wanted = np.mod(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    # A remainder near the divisor may have been rounded to it, or to nothing: compare around the circle.
    gap = np.abs(actual.astype(np.float64) - wanted.astype(np.float64))
    circle = np.minimum(gap, np.abs(np.abs(y.astype(np.float64)) - gap))
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    assert (circle <= 4 * epsilon * np.maximum(np.abs(y.astype(np.float64)), 1e-3)).all()
    assert (np.signbit(actual) == np.signbit(y)).all()


def test_mod_special_cases():
    inf, nan = np.inf, np.nan
    x = np.array([0, -0.0, inf, -inf, 3, 3, -3, -3, 5, nan, 1], np.float32)
    y = np.array([-2, 2, 3, 3, inf, -inf, inf, -inf, 0, 1, nan], np.float32)
    single.check("Mod", {"x": x, "y": y}, opset=28, fmod=0)


@pytest.mark.parametrize("opset", [10, 13])
def test_mod_of_floats_without_fmod_before_opset_28(opset):
    x = np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0])
    y = np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0])
    (actual,) = single.run(single.model("Mod", {"x": x, "y": y}, opset=opset), {"x": x, "y": y})
    np.testing.assert_allclose(actual, np.mod(x, y), rtol=1e-15)


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_mod_of_the_smallest_integer_by_minus_one(dtype, fmod):
    x, y = np.array([np.iinfo(dtype).min, 7, -7], dtype), np.array([-1, -1, -1], dtype)
    (actual,) = single.run(single.model("Mod", {"x": x, "y": y}, opset=13, fmod=fmod), {"x": x, "y": y})
    np.testing.assert_array_equal(actual, np.zeros(3, dtype))


def test_mod_refuses_other_values_of_fmod():
    x = np.ones(3, np.float32)
    with pytest.raises(InvalidModel, match="fmod is 2, expected 0 or 1"):
        make_compiler(single.model("Mod", {"x": x, "y": x}, opset=28, fmod=2))


@pytest.mark.parametrize("dtype", [*PACKED, F4], ids=str)
def test_packed_types_move(dtype):
    x = numbers(dtype, 5 * 7 * 3, models.generator(502)).reshape(5, 7, 3)
    (moved,) = single.run(single.model("Transpose", {"x": x}, opset=25, perm=[2, 0, 1]), {"x": x})
    same_bits(moved, x.transpose(2, 0, 1))
    (same,) = single.run(single.model("Identity", {"x": x}, opset=25), {"x": x})
    same_bits(same, x)


@pytest.mark.parametrize("shape", [(7,), (3, 5), ()])
def test_bits_of_bf16_in_uint16(shape):
    """ONNX's test data before 1.19 and torch's `view` keep them so."""
    x = models.generator(503).standard_normal(shape).astype(ml_dtypes.bfloat16)
    executor = make_compiler(single.model("Cast", {"x": x}, opset=21, to=1)).compile("cpu")
    for bits in (x.view(np.uint16), np.array(x.view(np.uint16), order="F")):
        np.testing.assert_array_equal(executor({"x": bits})["y0"], x.astype(np.float32))
    executor.set_input(0, x.view(np.uint16))
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0), x.astype(np.float32))
    for other in (x.view(np.int16), x.view(np.float16), x.view(np.uint16).astype(">u2")):
        with pytest.raises(InvalidInput, match=r'"x": expected bf16.*, got'):
            executor({"x": other})


@pytest.mark.parametrize("code_of_f6", [27, 28])
def test_six_bit_floats_are_refused(code_of_f6):
    proto = single.model("Cast", {"x": np.zeros(3, np.float32)}, opset=28, to=code_of_f6)
    with pytest.raises(Unsupported, match="6-bit float"):
        make_compiler(proto)

"""Networks of codes: every operator between a dequantisation and a quantisation, as tools for deployment write them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import helper

from tests.fuzz.graph import F32, Draft, Reject
from tests.fuzz.operators import operator

_BYTES = (np.int8, np.uint8)
_CURVES = (
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "LeakyRelu",
    "Elu",
    "Softplus",
    "Abs",
    "Neg",
    "Sqrt",
    "Erf",
    "Ceil",
    "Relu",
)


def _scale(draft: Draft, largest: float) -> float:
    """Return a scale by which bytes reach about `largest`: a power of two, so that no rounding is a matter of luck."""
    return float(2.0 ** np.ceil(np.log2(max(largest, 2.0**-20) / 127) + draft.integer(-1, 1)))


def _codes(draft: Draft, x: str) -> str:
    """Return `x` quantised and dequantised again."""
    array = draft.value(x)
    if not array.size or not np.isfinite(array).all():
        raise Reject("no range")
    dtype = draft.choice(_BYTES)
    zero = draft.choice([0, 0, draft.integer(-20, 20)]) + (draft.choice([0, 128]) if dtype is np.uint8 else 0)
    parameters = [
        draft.constant(_scale(draft, float(np.abs(array).max())), np.float32),
        draft.constant(max(zero, 0) if dtype is np.uint8 else zero, dtype),
    ]
    (q,) = draft.add("QuantizeLinear", [x, *parameters])
    return draft.add("DequantizeLinear", [q, *parameters])[0]


def _weights(draft: Draft, shape: tuple[int, ...], axis: int) -> str:
    """Return dequantised weights that keep the size of what they are multiplied with; by tensor or by `axis`."""
    fan_in = max(1, int(np.prod(shape)) // shape[axis])
    dtype = draft.choice([np.int8, np.int8, np.uint8])
    numbers = draft.random.integers(-127, 128, shape)
    by_axis = draft.chance(0.5)
    count = shape[axis] if by_axis else 1
    scales = 2.0 ** (np.round(np.log2(1 / (64 * np.sqrt(fan_in)))) + draft.random.integers(-1, 2, count))
    parameters = [scales if by_axis else scales[0]]
    zero = 128 if dtype is np.uint8 else 0
    w = draft.leaf((numbers + zero).astype(dtype), constant=True)
    inputs = [w, draft.constant(parameters[0], np.float32)]
    if zero or draft.chance(0.5):
        inputs.append(draft.constant(np.full(count, zero) if by_axis else zero, dtype))
    return draft.add("DequantizeLinear", inputs, axis=axis if by_axis else None)[0]


def _bias(draft: Draft, size: int) -> str:
    numbers = draft.random.integers(-(1 << 12), 1 << 12, size).astype(np.int32)
    inputs = [draft.leaf(numbers, constant=True), draft.constant(2.0**-12, np.float32)]
    return (
        draft.add("DequantizeLinear", inputs)[0]
        if draft.chance(0.7)
        else draft.leaf((numbers * 2.0**-12).astype(np.float32), constant=True)
    )


def _activated(draft: Draft, x: str) -> str:
    kind = draft.choice(["", "", "Relu", "Relu", "Clip", "curve"])
    if kind == "Clip":
        (x,) = draft.add("Clip", [x, draft.constant(0, np.float32), draft.constant(6, np.float32)])
    elif kind == "curve":
        (x,) = draft.add(draft.choice(["Sigmoid", "Tanh", "LeakyRelu"]), [_codes(draft, x)])
    elif kind:
        (x,) = draft.add(kind, [x])
    return x


def _convolution(draft: Draft, x: str, out: int, kernel: int, *, group: int = 1, stride: int = 1) -> str:
    inputs = [x, _weights(draft, (out, draft.value(x).shape[1] // group, kernel, kernel), 0)]
    if draft.chance(0.6):
        inputs.append(_bias(draft, out))
    pads = [(kernel - 1) // 2] * 4
    (y,) = draft.add("Conv", inputs, pads=pads, strides=[stride] * 2, group=group)
    return _codes(draft, _activated(draft, y))


def _plain(draft: Draft, x: str) -> str:
    return _convolution(
        draft, x, draft.choice([8, 16, 24, 32, 19]), draft.choice([1, 1, 3, 3, 5]), stride=draft.choice([1, 1, 2])
    )


def _by_channel(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    return _convolution(draft, x, channels, 3, group=channels, stride=draft.choice([1, 1, 2]))


def _residual(draft: Draft, x: str) -> str:
    y = _convolution(draft, x, draft.value(x).shape[1], draft.choice([1, 3]))
    (y,) = draft.add("Add", [x, y] if draft.chance(0.5) else [y, x])
    return _codes(draft, _activated(draft, y))


def _gated(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    (gate,) = draft.add("GlobalAveragePool", [x])
    gate = _convolution(draft, _codes(draft, gate), 8, 1)
    gate = _convolution(draft, gate, channels, 1)
    (gate,) = draft.add(draft.choice(["Sigmoid", "HardSigmoid"]), [gate])
    (y,) = draft.add("Mul", [x, _codes(draft, gate)])
    return _codes(draft, y)


def _pooled(draft: Draft, x: str) -> str:
    op = draft.choice(["MaxPool", "AveragePool"])
    kernel = draft.choice([2, 3])
    (y,) = draft.add(op, [x], kernel_shape=[kernel] * 2, strides=[draft.integer(1, 2)] * 2)
    return _codes(draft, y)


def _branches(draft: Draft, x: str) -> str:
    parts = [_convolution(draft, x, draft.choice([8, 16, 12]), draft.choice([1, 3])) for _ in range(2)]
    (y,) = draft.add("Concat", [*parts, x] if draft.chance(0.4) else parts, axis=1)
    return _codes(draft, y)


def _moved(draft: Draft, x: str) -> str:
    """Codes that only move."""
    (y,) = draft.add("Transpose", [x], perm=[0, 2, 3, 1])
    y = _codes(draft, y)
    (y,) = draft.add(draft.choice(_CURVES[:4]), [y])
    (y,) = draft.add("Transpose", [_codes(draft, y)], perm=[0, 3, 1, 2])
    return _codes(draft, y)


@operator("*quantised_cnn")
def quantised_cnn(draft: Draft, _: str) -> None:
    """Convolutions of every kind, residuals, gates and pools of codes."""
    if draft.opset < 13:
        raise Reject("no scales by axis")
    sizes = [draft.integer(5, 24) for _ in range(2)]
    x = draft.new(F32, (draft.choice([1, 1, 2]), draft.choice([3, 8, 16, 32, 20]), *sizes), False)
    x = _codes(draft, x)
    pieces = (_plain, _plain, _by_channel, _residual, _residual, _gated, _pooled, _branches, _moved)
    for _piece in range(draft.integer(2, 5)):
        x = draft.choice(pieces)(draft, x)
    if draft.chance(0.4):
        (x,) = draft.add("GlobalAveragePool", [x])
        (x,) = draft.add("Flatten", [_codes(draft, x)])
        classes = draft.integer(5, 40)
        weights = _weights(draft, (classes, draft.value(x).shape[1]), 0)
        (x,) = draft.add("Gemm", [x, weights, _bias(draft, classes)], transB=1)
        _codes(draft, x)


def _product(draft: Draft, x: str, width: int) -> str:
    (y,) = draft.add("MatMul", [x, _weights(draft, (draft.value(x).shape[-1], width), 1)])
    if draft.chance(0.7):
        (y,) = draft.add("Add", [y, _bias(draft, width)])
    return y


def _heads(draft: Draft, x: str, heads: int, perm: list[int]) -> str:
    width = draft.value(x).shape[-1]
    (y,) = draft.add("Reshape", [x, draft.constant([0, 0, heads, width // heads])])
    return draft.add("Transpose", [y], perm=perm)[0]


@operator("*quantised_transformer")
def quantised_transformer(draft: Draft, _: str) -> None:
    """A layer whose products are of codes, those of attention too."""
    if draft.opset < 17:
        raise Reject("no LayerNormalization")
    heads = draft.choice([1, 2, 4])
    width = heads * draft.choice([8, 16, 20])
    x = draft.new(F32, (draft.integer(1, 2), draft.integer(1, 40), width), False)
    d = _codes(draft, x)
    query, key, value = (_codes(draft, _product(draft, d, width)) for _ in range(3))
    query, value = (_heads(draft, part, heads, [0, 2, 1, 3]) for part in (query, value))
    (scores,) = draft.add("MatMul", [query, _heads(draft, key, heads, [0, 2, 3, 1])])
    (scores,) = draft.add("Div", [scores, draft.constant(4, np.float32)])
    scores = _codes(draft, scores) if draft.chance(0.5) else scores
    (weights,) = draft.add("Softmax", [scores], axis=-1)
    (y,) = draft.add("MatMul", [_codes(draft, weights), value])
    (y,) = draft.add("Transpose", [_codes(draft, y)], perm=[0, 2, 1, 3])
    (y,) = draft.add("Reshape", [y, draft.constant([0, 0, width])])
    y = _product(draft, y, width)
    y = _codes(draft, y) if draft.chance(0.5) else y
    (y,) = draft.add("Add", [d if draft.chance(0.5) else x, y])
    numbers = [draft.leaf(draft.random.uniform(0.5, 1.5, width).astype(np.float32), constant=True) for _ in range(2)]
    (y,) = draft.add("LayerNormalization", [y, *numbers], axis=-1)
    d = _codes(draft, y)
    y = _codes(draft, _product(draft, d, 2 * width))
    (y,) = draft.add(draft.choice(["Relu", "Sigmoid", "Tanh"]), [y])
    y = _product(draft, _codes(draft, y), width)
    (y,) = draft.add("Add", [d, _codes(draft, y)])
    _codes(draft, y)


@operator("*byte_table")
def byte_table(draft: Draft, _: str) -> None:
    """Elementwise operators between two quantisations of one tensor of codes: a table of 256 entries."""
    if draft.opset < 10:
        raise Reject("no quantisation")
    dtype = draft.choice(_BYTES)
    info = np.iinfo(dtype)
    codes = draft.random.integers(info.min, info.max + 1, draft.shape(1, 4)).astype(dtype)
    zero = draft.constant(draft.integer(0, 9), dtype)
    (x,) = draft.add("DequantizeLinear", [draft.leaf(codes, constant=False), draft.constant(2.0**-5, np.float32), zero])
    for _step in range(draft.integer(1, 4)):
        if draft.chance(0.6):
            op = draft.choice([op for op in _CURVES if op != "Sqrt" or (draft.value(x) >= 0).all()])
            (x,) = draft.add(op, [x])
        elif draft.chance(0.2):
            (gate,) = draft.add("Sigmoid", [x])
            (x,) = draft.add("Mul", [x, gate])
        else:
            number = draft.constant(draft.choice([0.5, 3.0, -1.25]), np.float32)
            op = draft.choice(["Add", "Mul", "Sub", "Div", "Max", "Min"])
            (x,) = draft.add(op, [x, number] if op == "Div" or draft.chance(0.5) else [number, x])
    if not np.isfinite(draft.value(x)).all():
        raise Reject("no code for it")
    to = draft.choice(_BYTES)
    scale = _scale(draft, float(np.abs(draft.value(x)).max(initial=1)))
    parameters = [draft.constant(scale, np.float32), draft.constant(draft.integer(0, 9), to)]
    (q,) = draft.add("QuantizeLinear", [x, *parameters])
    if draft.chance(0.4):
        draft.add("DequantizeLinear", [q, *parameters])


@operator("*weight_only")
def weight_only(draft: Draft, _: str) -> None:
    """A product with weights of few bits, or a table of them: one scale, one for each column, or those of blocks."""
    if draft.opset < 21:
        raise Reject("no blocks")
    block = draft.choice([16, 32, 48, 64])
    k, n = draft.choice([block * draft.integer(1, 4), draft.integer(1, 150)]), draft.integer(1, draft.choice([40, 160]))
    dtype = draft.choice([ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
    low, high = (0, 16) if dtype is ml_dtypes.uint4 else (-8, 8) if dtype is ml_dtypes.int4 else (0, 100)
    turned, kind = draft.chance(0.5), draft.choice(["one", "columns", "blocks", "blocks"])
    shape = (n, k) if turned else (k, n)
    blocks = -(-k // block)
    scaled = {"one": (), "columns": (n,), "blocks": (n, blocks) if turned else (blocks, n)}[kind]
    axis = int(turned) if kind == "blocks" else 1 - int(turned)
    real = draft.choice([np.float32, np.float32, np.float16])
    inputs = [
        draft.leaf(draft.random.integers(low, high, shape).astype(dtype), constant=True),
        draft.leaf((2.0 ** draft.random.integers(-6, -3, scaled)).astype(real), constant=True),
    ]
    if draft.chance(0.6):
        zeros = draft.random.integers(max(low, 0), min(high, 8), scaled)
        inputs.append(draft.leaf(np.asarray(zeros).astype(dtype), constant=True))
    (w,) = draft.add("DequantizeLinear", inputs, axis=axis, block_size=block if kind == "blocks" else None)
    if draft.chance(0.2):
        ids = draft.random.integers(-shape[0], shape[0], draft.shape(0, 2, 4)).astype(np.int64)
        draft.add("Gather", [w, draft.leaf(ids, constant=False)], axis=0)
        return
    if turned:
        (w,) = draft.add("Transpose", [w], perm=[1, 0])
    wide = draft.choice([np.float32, real])
    if wide is not real:
        (w,) = draft.add("Cast", [w], to=helper.np_dtype_to_tensor_dtype(np.dtype(wide)))
    x = draft.new(np.dtype(wide), (*draft.shape(0, 2, 3), draft.choice([1, 1, 3, 9]), k), False)
    (y,) = draft.add("MatMul", [x, w])
    if draft.chance(0.4):
        draft.add("Add", [y, draft.new(np.dtype(wide), (n,), True)])

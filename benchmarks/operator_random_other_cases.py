"""Models of a single operator of random sizes beyond floats between images: bytes, halves, sequences, equations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from models import Case
from operator_cases import Operand, c, one, w, x
from operator_random_cases import MACS, Draw, Random, named, shaped_window


def _constant(values: object, dtype: str) -> Operand:
    return Operand(lambda _: np.asarray(values, dtype), constant=True)


def _byte(r: Random) -> str:
    return r.of(("u1", "i1"))


def _zero(r: Random, dtype: str) -> Operand:
    return _constant(r.integer(100, 150) if dtype == "u1" else r.integer(-20, 20), dtype)


def _scale(value: float, count: int = 0) -> Operand:
    return Operand(lambda g: (value * g.uniform(0.5, 1.5, (count,) if count else ())).astype("f4"), constant=True)


def _weights(*shape: int, dtype: str) -> Operand:
    return Operand(
        x(*shape, dtype=dtype, low=-60 if dtype == "i1" else 60, high=60 if dtype == "i1" else 180).make, True
    )


def _byte_convolution(r: Random) -> tuple[str, Callable[[], Case]]:
    rank = r.of((1, 2, 2, 2))
    kernel, inputs, outputs, group = (r.of((1, 3, 3, 5)),) * rank, r.size(384), r.size(384), 1
    if r.chance(0.35):
        group = inputs if r.chance(0.7) else math.gcd(inputs, r.of((2, 4, 8, 16)))
        outputs = inputs if group == inputs else max(1, outputs // group) * group
    positions = max(2, min(MACS / (inputs * outputs / group * math.prod(kernel)), 3e5 / max(inputs, outputs)))
    side = round(math.exp(r.generator.uniform(0, math.log(positions))) ** (1 / rank))
    shape = (1, inputs, *(max(side + r.integer(-1, 1), 2 * k) for k in kernel))
    attributes: dict[str, object] = dict(shaped_window(r, rank, kernel))
    if group > 1:
        attributes["group"] = group
    a, b = r.of((("u1", "u1"), ("u1", "i1"), ("i1", "i1")))
    scales = r.of((0, outputs))
    filters = _weights(outputs, inputs // group, *kernel, dtype=b)
    name = named("QLinearConv", a, b, shape, outputs, kernel, "channels" if scales else "", **attributes)
    depth = inputs // group * math.prod(kernel)
    zero = 0 if b == "i1" else 120
    zeros = _constant(np.full(outputs, zero) if scales else zero, b)
    bias = Operand(lambda g: g.integers(-500, 500, outputs).astype("i4"), constant=True)
    a_zero, y_zero = _zero(r, a), _zero(r, a)
    return name, lambda: one(
        "QLinearConv",
        *(x(*shape, dtype=a), _scale(0.02), a_zero, filters, _scale(0.01, scales), zeros),
        *(_scale(0.02 * math.sqrt(depth)), y_zero, bias),
        **attributes,
    )


def _byte_product(r: Random) -> tuple[str, Callable[[], Case]]:
    batch = r.of(((), (), (r.size(32),)))
    rows, depth = r.size(384), r.size(1024)
    columns = r.size(min(1024, max(1, MACS / (rows * depth * math.prod(batch)))))
    a, b = r.of((("u1", "u1"), ("u1", "i1"), ("i1", "i1")))
    shape, right = (*batch, rows, depth), (*(batch if r.chance(0.3) else ()), depth, columns)
    fed = r.chance(0.25)
    operand = x(*right, dtype=b) if fed else _weights(*right, dtype=b)
    kind = "" if fed else "constant"
    a_zero, b_zero, y_zero = _zero(r, a), _zero(r, b), _zero(r, a)
    if r.chance(0.4):
        return named("MatMulInteger", a, b, shape, right, kind), lambda: one(
            "MatMulInteger", x(*shape, dtype=a), operand, a_zero, b_zero
        )
    return named("QLinearMatMul", a, b, shape, right, kind), lambda: one(
        "QLinearMatMul",
        *(x(*shape, dtype=a), _scale(0.02), a_zero, operand, _scale(0.01), b_zero),
        *(_scale(0.02 * math.sqrt(depth)), y_zero),
    )


def _quantisation(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype = r.shape((1, 2, 3, 4)), _byte(r)
    kind = r.of(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))
    if kind == "DynamicQuantizeLinear":
        return named(kind, shape), lambda: one(kind, x(*shape), outputs=3)
    axis = r.integer(0, len(shape) - 1)
    count = r.of((0, shape[axis]))
    zero = _constant(np.full(count, 3) if count else 3, dtype)
    data = x(*shape) if kind == "QuantizeLinear" else x(*shape, dtype=dtype)
    return named(kind, dtype, shape, f"axis={axis}" if count else ""), lambda: one(
        kind, data, _scale(0.02, count), zero, axis=axis
    )


def _half(r: Random) -> tuple[str, Callable[[], Case]]:
    kind = r.of(("MatMul", "MatMul", "Gemm", "Conv", "Softmax", "LayerNormalization", "MaxPool", "ReduceSum"))
    dtype = r.of(("f2", "f2", "f8")) if kind != "Conv" else "f2"
    if kind in ("MatMul", "Gemm"):
        rows, depth = r.size(384), r.size(1024)
        columns = r.size(min(1024, max(1, MACS / (rows * depth))))
        right = r.of((w, x))
        name = named(kind, dtype, (rows, depth), (depth, columns), "constant" if right is w else "")
        return name, lambda: one(kind, x(rows, depth, dtype=dtype), right(depth, columns, dtype=dtype))
    if kind == "Conv":
        inputs, outputs, taps = r.size(128), r.size(128), r.of((1, 3, 5))
        positions = min(MACS / 4 / (inputs * outputs * taps * taps), 1e5 / max(inputs, outputs))
        shape = (1, inputs, *(max(taps, round(math.sqrt(positions))),) * 2)
        pads = [taps // 2] * 4
        return named(kind, dtype, shape, outputs, taps), lambda: one(
            kind, x(*shape, dtype=dtype), w(outputs, inputs, taps, taps, dtype=dtype), pads=pads
        )
    shape = r.shape((4,) if kind == "MaxPool" else (2, 3, 4), 3e5)
    axis = r.integer(0, len(shape) - 1)
    if kind == "MaxPool":
        shape = (1, max(1, shape[0] * shape[1]), shape[2] + 3, shape[3] + 3)
        return named(kind, dtype, shape), lambda: one(kind, x(*shape, dtype=dtype), kernel_shape=[3, 3], strides=[2, 2])
    if kind == "ReduceSum":
        return named(kind, dtype, shape, axis=axis), lambda: one(kind, x(*shape, dtype=dtype), c([axis]))
    scales = [w(*shape[axis:], dtype=dtype)] if kind == "LayerNormalization" else []
    return named(kind, dtype, shape, axis=axis), lambda: one(kind, x(*shape, dtype=dtype), *scales, axis=axis)


def _recurrent(r: Random) -> tuple[str, Callable[[], Case]]:
    operator, gates = r.of((("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, inputs, hidden = r.size(60), r.of((1, 1, 2, 8)), r.size(256), r.size(256)
    directions = r.of((1, 1, 2))
    extra = {"linear_before_reset": 1} if operator == "GRU" and r.chance(0.7) else {}
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward", **extra}
    name = named(operator, (steps, batch, inputs), hidden, directions, **extra)
    scaled = [
        (directions, gates * hidden, inputs),
        (directions, gates * hidden, hidden),
        (directions, 2 * gates * hidden),
    ]
    weights = [
        Operand(lambda g, s=shape: (g.standard_normal(s) / math.sqrt(hidden)).astype("f4"), constant=True)
        for shape in scaled
    ]
    return name, lambda: one(operator, x(steps, batch, inputs), *weights, outputs=2, **attributes)


def _attention(r: Random) -> tuple[str, Callable[[], Case]]:
    keys_of_head, heads = r.of((8, 16, 32, 40, 64, 64, 80, 128)), r.of((1, 2, 4, 8, 12))
    groups = r.of((1, 1, 2, 4)) if heads % 4 == 0 else 1
    queries, keys = r.size(256), r.size(512)
    causal = r.integer(0, 1)
    q, k = (1, heads, queries, keys_of_head), (1, heads // groups, keys, keys_of_head)
    mask = [x(queries, keys)] if r.chance(0.3) and not causal else []
    return named("Attention", q, k, "mask" if mask else "", is_causal=causal), lambda: one(
        "Attention", x(*q), x(*k), x(*k), *mask, is_causal=causal, opset=23
    )


_EQUATIONS = (
    "bhid,bhjd->bhij",
    "bij,bjk->bik",
    "bnqk,bknd->bqnd",
    "nctw,cd->ndtw",
    "ij,jk->ki",
    "abc,abd->acd",
    "bic,hc->bhi",
)


def _equation(r: Random) -> tuple[str, Callable[[], Case]]:
    equation = r.of(_EQUATIONS)
    letters = sorted(set(equation) - set(",->"))
    sizes = {letter: r.size(48) for letter in letters}
    while math.prod(sizes.values()) > MACS:
        sizes[max(sizes, key=lambda letter: sizes[letter])] //= 2
    left, right = ((tuple(sizes[i] for i in part)) for part in equation.split("->")[0].split(","))
    return named("Einsum", equation, left, right), lambda: one("Einsum", x(*left), x(*right), equation=equation)


DRAWS: tuple[Draw, ...] = (
    *(_byte_convolution, _byte_product, _half) * 2,
    *(_quantisation, _recurrent, _attention, _equation),
)

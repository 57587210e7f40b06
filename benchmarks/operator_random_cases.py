"""Models of a single operator of random sizes: where a kernel falls behind between the sizes that networks have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from models import Case
from operator_cases import Cases, Operand, c, index, one, order_along, sized, w, x

MACS = 1e8
"""Multiply-adds of a product or convolution, at most."""
ELEMENTS = 1e6
"""Elements of the largest tensor, at most."""
_FLOATS, _NUMBERS = ("f4", "f4", "f4", "f2"), ("f4", "f4", "f4", "f2", "i4", "i8")
_MOVED = ("f4", "f4", "f2", "i8", "u1")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater", "Equal")
_UNARY = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Erf",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
    "Abs",
    "Neg",
    "Sqrt",
    "Round",
    "Sin",
)
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "SumSquare", "L2", "L1", "LogSumExp")

T = TypeVar("T")


class Random:
    """What cases draw from."""

    def __init__(self, seed: int, number: int) -> None:
        self.generator = np.random.default_rng([seed, number])

    def integer(self, low: int, high: int) -> int:
        """Draw from `low` to `high`, both included."""
        return int(self.generator.integers(low, high + 1))

    def size(self, high: float) -> int:
        """Draw a size up to `high`, small ones as often as large ones; a half are multiples of 8."""
        value = round(math.exp(self.generator.uniform(0, math.log(max(high, 1)))))
        return value // 8 * 8 if value >= 8 and self.chance(0.5) else max(value, 1)

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)

    def of(self, values: Sequence[T]) -> T:
        return values[int(self.generator.integers(len(values)))]

    def shape(self, ranks: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 4, 5), elements: float = ELEMENTS) -> tuple[int, ...]:
        """Draw a shape of 1,000 to `elements` elements."""
        rank = self.of(ranks)
        cuts = np.sort(self.generator.uniform(0, 1, rank - 1))
        parts = np.diff([0, *cuts, 1]) * self.generator.uniform(math.log(1e3), math.log(elements))
        return tuple(max(1, round(math.exp(part))) for part in parts)


Draw = Callable[[Random], tuple[str, Callable[[], Case]]]


def named(operator: str, *words: object, **attributes: object) -> str:
    given = (f"{name}={value}".replace(" ", "") for name, value in attributes.items())
    return " ".join([operator, *(sized(word) if isinstance(word, tuple) else str(word) for word in words), *given])


def shaped_window(r: Random, rank: int, kernel: tuple[int, ...]) -> dict[str, list[int]]:
    attributes: dict[str, list[int]] = {}
    if r.chance(0.3):
        attributes["strides"] = [r.of((2, 2, 3))] * rank
    if r.chance(0.15):
        attributes["dilations"] = [2] * rank
    if r.chance(0.7):
        spread = [size // 2 for size in kernel]
        attributes["pads"] = spread + ([size - half - 1 for size, half in zip(kernel, spread, strict=True)])
    return attributes


def _kernel(r: Random, rank: int) -> tuple[int, ...]:
    if r.chance(0.6):
        return (r.of((1, 3, 3, 5, 7)),) * rank
    return tuple(r.of((1, 2, 3, 4, 5, 7, 9)) for _ in range(rank))


def _convolution(r: Random) -> tuple[str, Callable[[], Case]]:
    rank = r.of((1, 2, 2, 2, 3))
    kernel, inputs, outputs, group = _kernel(r, rank), r.size(512), r.size(512), 1
    if r.chance(0.4):
        group = inputs if r.chance(0.6) else math.gcd(inputs, r.of((2, 4, 8, 16, 32)))
        outputs = max(1, outputs // group) * group if group < inputs else inputs * r.of((1, 1, 1, 2))
    positions = min(MACS / (inputs * outputs / group * math.prod(kernel)), ELEMENTS / max(inputs, outputs))
    positions = math.exp(r.generator.uniform(math.log(max(positions, 2)) / 3, math.log(max(positions, 2))))
    sizes = tuple(max(r.integer(-1, 1) + round(positions ** (1 / rank)), 2 * k) for k in kernel)
    attributes: dict[str, object] = dict(shaped_window(r, rank, kernel))
    if group > 1:
        attributes["group"] = group
    batch = r.of((1, 1, 1, 4))
    shape = (batch, inputs, *sizes)
    if r.chance(0.2) and "dilations" not in attributes and group == 1:
        name = named("ConvTranspose", shape, outputs, kernel, **attributes)
        return name, lambda: one("ConvTranspose", x(*shape), w(inputs, outputs, *kernel), w(outputs), **attributes)
    name = named("Conv", shape, outputs, kernel, **attributes)
    return name, lambda: one("Conv", x(*shape), w(outputs, inputs // group, *kernel), w(outputs), **attributes)


def _pool(r: Random) -> tuple[str, Callable[[], Case]]:
    rank = r.of((1, 2, 2, 2, 3))
    kernel = tuple(max(2, size) for size in _kernel(r, rank))
    channels = r.size(512)
    side = (r.generator.uniform(2e3, ELEMENTS) / channels) ** (1 / rank)
    shape = (r.of((1, 1, 4)), channels, *(max(round(side), 2 * k) for k in kernel))
    attributes: dict[str, object] = {**shaped_window(r, rank, kernel), "kernel_shape": list(kernel)}
    if r.chance(0.2):
        attributes["ceil_mode"] = 1
    operator = r.of(("MaxPool", "AveragePool"))
    return named(operator, shape, **attributes), lambda: one(operator, x(*shape), **attributes)


def _product(r: Random) -> tuple[str, Callable[[], Case]]:
    batch = r.of(((), (), (r.size(64),), (r.size(8), r.size(16))))
    rows, depth = r.size(512), r.size(2048)
    columns = r.size(min(2048, max(1, MACS / (rows * depth * math.prod(batch)))))
    if r.chance(0.3):
        flags = {"transA": r.integer(0, 1), "transB": r.integer(0, 1)}
        a = (depth, rows) if flags["transA"] else (rows, depth)
        b = (columns, depth) if flags["transB"] else (depth, columns)
        right, biases = r.of((w, x)), ((columns,), (rows, 1), (1,))
        bias = biases[r.integer(0, 2)]
        name = named("Gemm", a, b, bias, "constant" if right is w else "", **flags)
        return name, lambda: one("Gemm", x(*a), right(*b), w(*bias), **flags)
    right = r.of((w, x))
    b = (*(batch if r.chance(0.5) else ()), depth, columns)
    name = named("MatMul", (*batch, rows, depth), b, "constant" if right is w else "")
    return name, lambda: one("MatMul", x(*batch, rows, depth), right(*b))


def _binary(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, operator, dtype = r.shape(), r.of(_BINARY), r.of(_NUMBERS)
    operands = [tuple(1 if r.chance(0.25) else size for size in shape) for _ in range(2)]
    if r.chance(0.3):
        operands[1] = operands[1][r.integer(0, len(shape) - 1) :]
    name = named(operator, dtype, *operands)
    low = 1 if operator == "Div" else -100
    if r.chance(0.15):
        return named("Where", dtype, shape, *operands), lambda: one(
            "Where", x(*shape, dtype="?"), *(x(*operand, dtype=dtype) for operand in operands)
        )
    return name, lambda: one(operator, *(x(*operand, dtype=dtype, low=low) for operand in operands))


def _unary(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, operator, dtype = r.shape(), r.of(_UNARY), r.of(_FLOATS)
    if r.chance(0.2):
        source, target = r.of(("f4", "f2", "i4", "i8", "u1", "?")), r.of((1, 10, 6, 7, 2, 9))
        return named("Cast", source, shape, target), lambda: one("Cast", x(*shape, dtype=source, low=0), to=target)
    return named(operator, dtype, shape), lambda: one(operator, x(*shape, dtype=dtype))


def _reduction(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype, kind = r.shape((1, 2, 3, 3, 4, 4, 5)), r.of(("f4", "f4", "f4", "f2", "i4")), r.of(_REDUCTIONS)
    axes = [axis for axis in range(len(shape)) if r.chance(0.5)] or [len(shape) - 1]
    kind = kind if dtype == "f4" else r.of(("Sum", "Mean", "Max"))
    if r.chance(0.2):
        axis = r.of(axes)
        return named("ArgMax", dtype, shape, axis=axis), lambda: one("ArgMax", x(*shape, dtype=dtype), axis=axis)
    return named(f"Reduce{kind}", dtype, shape, axes=axes), lambda: one(
        f"Reduce{kind}", x(*shape, dtype=dtype), c(axes), keepdims=0
    )


def _normalisation(r: Random) -> tuple[str, Callable[[], Case]]:
    shape = r.shape((2, 3, 3, 4))
    kind, axis = r.of(("Softmax", "Softmax", "LogSoftmax", "Layer", "RMS", "Instance", "Group", "Batch", "Lp")), 0
    if "Softmax" in kind or kind == "Lp":
        axis = r.integer(0, len(shape) - 1)
        operator = kind if kind != "Lp" else "LpNormalization"
        return named(operator, shape, axis=axis), lambda: one(operator, x(*shape), axis=axis)
    if kind in ("Layer", "RMS"):
        axis = r.integer(1, len(shape) - 1)
        scales = shape[axis:]
        extra = [w(*scales)] if kind == "Layer" else []
        return named(f"{kind}Normalization", shape, axis=axis), lambda: one(
            f"{kind}Normalization", x(*shape), w(*scales), *extra, axis=axis, opset=23
        )
    channels = r.of((1, 3, 8, 24, 32, 64, 100, 320))
    whole = (r.of((1, 2)), channels, *r.shape((1, 2), max(2e3, ELEMENTS / channels)))
    of_channels = [w(channels), w(channels)]
    if kind == "Batch":
        variance = Operand(lambda g: g.uniform(0.5, 2, channels).astype("f4"), constant=True)
        return named("BatchNormalization", whole), lambda: one(
            "BatchNormalization", x(*whole), *of_channels, w(channels), variance
        )
    groups = {"num_groups": math.gcd(channels, r.of((1, 4, 8, 32)))} if kind == "Group" else {}
    return named(f"{kind}Normalization", whole, **groups), lambda: one(
        f"{kind}Normalization", x(*whole), *of_channels, **groups
    )


def _transpose(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype = r.shape((2, 3, 3, 4, 4, 5)), r.of(_MOVED)
    order = [int(axis) for axis in r.generator.permutation(len(shape))]
    return named("Transpose", dtype, shape, perm=order), lambda: one("Transpose", x(*shape, dtype=dtype), perm=order)


def _join(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype = r.shape((1, 2, 3, 3, 4)), r.of(_MOVED)
    axis, parts = r.integer(0, len(shape) - 1), r.integer(2, 5)
    if r.chance(0.4):
        whole = tuple(size * parts if i == axis else size for i, size in enumerate(shape))
        return named("Split", dtype, whole, axis=axis, num_outputs=parts), lambda: one(
            "Split", x(*whole, dtype=dtype), outputs=parts, axis=axis, num_outputs=parts
        )
    shapes = [tuple(r.size(size) if i == axis else size for i, size in enumerate(shape)) for _ in range(parts)]
    return named("Concat", dtype, *shapes, axis=axis), lambda: one(
        "Concat", *(x(*part, dtype=dtype) for part in shapes), axis=axis
    )


def _part(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype = r.shape((1, 2, 3, 3, 4)), r.of(_MOVED)
    if r.chance(0.5):
        starts = [r.integer(0, size // 3) for size in shape]
        ends = [size - r.integer(0, size // 3) for size in shape]
        steps = [r.of((1, 1, 1, 2, 3)) for _ in shape]
        axis = r.integer(0, len(shape) - 1)
        if r.chance(0.2):
            starts[axis], ends[axis], steps[axis] = shape[axis] - 1, -shape[axis] - 1, -1
        bounds = [starts, ends, list(range(len(shape))), steps]
        return named("Slice", dtype, shape, *map(tuple, (starts, ends, steps))), lambda: one(
            "Slice", x(*shape, dtype=dtype), *map(c, bounds)
        )
    pads = [r.integer(0, min(3, size - 1)) for size in (*shape, *shape)]
    mode = r.of(("constant", "constant", "reflect", "edge"))
    return named("Pad", dtype, shape, tuple(pads), mode=mode), lambda: one(
        "Pad", x(*shape, dtype=dtype), c(pads), mode=mode
    )


def _lookup(r: Random) -> tuple[str, Callable[[], Case]]:
    shape, dtype = r.shape((1, 2, 3, 3)), r.of(_MOVED)
    axis = r.integer(0, len(shape) - 1)
    kind = r.of(("Gather", "GatherElements", "ScatterElements", "CumSum", "TopK"))
    if kind == "Gather":
        count = r.size(shape[axis])
        return named(kind, dtype, shape, count, axis=axis), lambda: one(
            kind, x(*shape, dtype=dtype), index(shape[axis], count), axis=axis
        )
    if kind == "CumSum":
        return named(kind, shape, axis=axis), lambda: one(kind, x(*shape), c(axis))
    if kind == "TopK":
        count = r.size(shape[axis])
        return named(kind, shape, count, axis=axis), lambda: one(kind, x(*shape), c([count]), outputs=2, axis=axis)
    if kind == "GatherElements":
        return named(kind, dtype, shape, axis=axis), lambda: one(
            kind, x(*shape, dtype=dtype), index(shape[axis], *shape), axis=axis
        )
    return named(kind, dtype, shape, axis=axis), lambda: one(
        kind, x(*shape, dtype=dtype), order_along(axis, *shape), x(*shape, dtype=dtype), axis=axis
    )


def _spread(r: Random) -> tuple[str, Callable[[], Case]]:
    dtype = r.of(_MOVED)
    if r.chance(0.4):
        whole = r.shape((2, 3, 4))
        part = tuple(1 if r.chance(0.4) else size for size in whole)
        return named("Expand", dtype, part, whole), lambda: one("Expand", x(*part, dtype=dtype), c(whole))
    if r.chance(0.4):
        shape = r.shape((1, 2, 3, 4), ELEMENTS / 8)
        times = [r.of((1, 1, 2, 3)) for _ in shape]
        return named("Tile", dtype, shape, tuple(times)), lambda: one("Tile", x(*shape, dtype=dtype), c(times))
    channels = r.of((1, 3, 16, 40, 64))
    sides = r.shape((2,), max(4e3, ELEMENTS / channels / 4))
    scales, mode = [r.of((0.5, 0.7, 1.5, 2.0, 3.0)) for _ in sides], r.of(("nearest", "linear", "linear", "cubic"))
    rule = r.of(("half_pixel", "align_corners", "asymmetric"))
    sizes = [1, channels, *(max(1, round(side * scale)) for side, scale in zip(sides, scales, strict=True))]
    return named("Resize", (1, channels, *sides), tuple(sizes), mode, rule), lambda: one(
        "Resize", x(1, channels, *sides), None, None, c(sizes), mode=mode, coordinate_transformation_mode=rule
    )


DRAWS: tuple[Draw, ...] = (
    *(_convolution,) * 4,
    *(_product,) * 3,
    *(_binary, _reduction, _normalisation, _transpose) * 2,
    *(_pool, _unary, _join, _part, _lookup, _spread),
)


def cases(seed: int, count: int, draws: Sequence[Draw] = DRAWS) -> Cases:
    """Draw `count` cases; number `i` of a seed is the same for every count."""
    for number in range(count):
        r = Random(seed, number)
        name, make = r.of(draws)(r)
        yield name, make

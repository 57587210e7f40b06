"""Elementwise operators."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from tests.fuzz.graph import BOOL, FLOATS, INTEGERS, TYPES, Draft, allowed_types
from tests.fuzz.operators import operator

_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp"),
    *("Floor", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
_NUMBERS = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("lambd", "bias"),
    "Swish": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}
"""Operators with optional attributes that are floats."""


@operator(*_UNARY)
def unary(draft: Draft, op: str) -> None:
    """One input, no attributes; Erf of integers asks for the last bit before it cuts."""
    types = allowed_types(op, draft.opset, 0)
    draft.add(op, [draft.pick(FLOATS if op == "Erf" else types)])


@operator(*_NUMBERS)
def with_numbers(draft: Draft, op: str) -> None:
    """One input, numbers as attributes."""
    numbers = {name: round(float(draft.random.uniform(0.1, 1.5)), 3) for name in _NUMBERS[op] if draft.chance(0.7)}
    draft.add(op, [draft.pick(allowed_types(op, draft.opset, 0))], **numbers)


@operator("Gelu")
def gelu(draft: Draft, op: str) -> None:
    """Both formulas."""
    draft.add(op, [draft.pick(FLOATS)], approximate=draft.choice([None, "none", "tanh"]))


@operator("IsInf")
def is_inf(draft: Draft, op: str) -> None:
    """Either sign."""
    types = allowed_types(op, draft.opset, 0)
    draft.add(op, [draft.pick(types)], detect_positive=draft.integer(0, 1), detect_negative=draft.integer(0, 1))


@operator("Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor")
@operator("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def binary(draft: Draft, op: str) -> None:
    """Two inputs that broadcast."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    y = draft.partner(x)
    draft.add(op, [x, y] if draft.chance(0.5) else [y, x])


def _without_zeros(draft: Draft, name: str) -> str:
    array = draft.value(name)
    return draft.leaf(np.where(array == 0, np.asarray(3, array.dtype), array))


@operator("Div", "Mod")
def division(draft: Draft, op: str) -> None:
    """Integers are divided by nothing but constants that are not zero."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    y = draft.partner(x)
    integers = draft.value(x).dtype in INTEGERS
    if integers:
        y = _without_zeros(draft, y)
    if op == "Div":
        draft.add(op, [x, y])
    else:
        draft.add(op, [x, y], fmod=1 if not integers or draft.chance(0.4) else None)


@operator("Pow")
def power(draft: Draft, op: str) -> None:
    """Integers have small exponents that are not negative."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    dtype = draft.value(x).dtype
    if draft.chance(0.5):
        exponent = draft.choice([0.0, 0.5, 1.0, 2.0, 3.0, -1.0] if dtype in FLOATS else [0, 1, 2, 3])
        draft.add(op, [x, draft.constant(exponent, dtype)])
        return
    y = draft.partner(x)
    if dtype in INTEGERS:
        y = draft.leaf((draft.value(y).astype(np.int64) % 4).astype(dtype))
    draft.add(op, [x, y])


@operator("BitShift")
def shift(draft: Draft, op: str) -> None:
    """Shifts by less than the width."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    array = draft.value(x)
    y = draft.leaf(draft.random.integers(0, 8 * array.dtype.itemsize, array.shape).astype(array.dtype))
    draft.add(op, [x, y], direction=draft.choice(["LEFT", "RIGHT"]))


@operator("Max", "Mean", "Min", "Sum")
def variadic(draft: Draft, op: str) -> None:
    """One to four inputs."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    draft.add(op, [x] + [draft.partner(x) for _ in range(draft.integer(0, 3))])


@operator("PRelu")
def prelu(draft: Draft, op: str) -> None:
    """The slope broadcasts to the input."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4))
    shape = [1 if draft.chance(0.4) else size for size in draft.value(x).shape]
    draft.add(op, [x, draft.new(draft.value(x).dtype, shape[draft.integer(0, len(shape)) :])])


@operator("Where")
def where(draft: Draft, op: str) -> None:
    """Three inputs that broadcast."""
    x = draft.pick(allowed_types(op, draft.opset, 1))
    draft.add(op, [draft.partner(x, BOOL), x, draft.partner(x)])


@operator("Clip")
def clip(draft: Draft, op: str) -> None:
    """Bounds are attributes, or inputs from opset 11 on; either may be absent."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    dtype = draft.value(x).dtype
    low, high = sorted(draft.random.integers(0 if dtype.kind == "u" else -3, 4, 2).tolist())
    if draft.opset < 11:
        draft.add(
            op, [x], min=float(low) if draft.chance(0.7) else None, max=float(high) if draft.chance(0.7) else None
        )
        return
    bounds = [draft.constant(bound, dtype) if draft.chance(0.7) else "" for bound in (low, high)]
    draft.add(op, [x, *bounds] if bounds[1] else [x, bounds[0]] if bounds[0] else [x])


def _castable(array: np.ndarray, to: np.dtype) -> bool:
    """Return whether a cast is defined for every element: floats that do not fit an integer are not."""
    if array.dtype not in FLOATS or to not in INTEGERS:
        return True
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
    info = np.iinfo(to)
    return bool(
        np.isfinite(wide).all() and (wide > max(info.min, -(2**31))).all() and (wide < min(info.max, 2**31)).all()
    )


@operator("Cast", "CastLike")
def cast(draft: Draft, op: str) -> None:
    """Between all types, where it is defined."""
    to = draft.dtype(allowed_types("Cast", draft.opset, 0))
    x = draft.pick(allowed_types(op, draft.opset, 0), where=lambda array: _castable(array, to))
    if op == "CastLike":
        draft.add(op, [x, draft.new(to, (2,))])
    else:
        draft.add(op, [x], to=helper.np_dtype_to_tensor_dtype(to))


@operator("Dropout")
def dropout(draft: Draft, op: str) -> None:
    """Inference only."""
    x = draft.pick(allowed_types(op, draft.opset, 0))
    if draft.opset < 12:
        draft.add(op, [x], ratio=0.25)
    elif draft.chance(0.5):
        draft.add(op, [x, draft.constant(0.5, np.float32)])
    else:
        draft.add(op, [x], outputs=2)


@operator("Constant")
def constant(draft: Draft, op: str) -> None:
    """A tensor, or from opset 12 on a list."""
    if draft.opset >= 12 and draft.chance(0.4):
        draft.add(op, [], **draft.choice([{"value_ints": [1, -2, 3]}, {"value_float": 0.5}, {"value_int": 7}]))
        return
    array = draft.array(draft.dtype(TYPES), draft.shape(0, 3))
    draft.add(op, [], value=numpy_helper.from_array(array))

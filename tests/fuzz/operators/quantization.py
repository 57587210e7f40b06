"""Quantisation."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import F32, Draft, Reject
from tests.fuzz.operators import operator

_BYTES = (np.int8, np.uint8)


def _scale(draft: Draft, shape: tuple[int, ...] = ()) -> str:
    # Powers of two: quotients are exact, so no rounding is a matter of luck.
    return draft.constant(2.0 ** draft.random.integers(-5, 0, shape), np.float32)


def _by_axis(draft: Draft, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int | None]:
    """Return the shape of the parameters and the axis; scalars without one."""
    if draft.opset < 13 or not shape or draft.chance(0.5):
        return (), None
    axis = draft.axis(len(shape))
    return (shape[axis],), axis


@operator("QuantizeLinear")
def quantize(draft: Draft, op: str) -> None:
    """By tensor and by axis."""
    x = draft.pick((F32,), (0, 4), where=lambda array: bool(np.isfinite(array).all()))
    shape, axis = _by_axis(draft, draft.value(x).shape)
    dtype = draft.choice(_BYTES)
    inputs = [x, _scale(draft, shape)]
    if draft.chance(0.8):
        inputs.append(draft.constant(draft.random.integers(0, 9, shape), dtype))
    draft.add(op, inputs, axis=axis)


@operator("DequantizeLinear")
def dequantize(draft: Draft, op: str) -> None:
    """By tensor and by axis."""
    x = draft.pick(tuple(map(np.dtype, _BYTES)), (0, 4))
    shape, axis = _by_axis(draft, draft.value(x).shape)
    inputs = [x, _scale(draft, shape)]
    if draft.chance(0.8):
        inputs.append(draft.constant(draft.random.integers(0, 9, shape), draft.value(x).dtype))
    draft.add(op, inputs, axis=axis)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(draft: Draft, op: str) -> None:
    """Scale and zero point are results."""
    x = draft.pick((F32,), (1, 3), where=lambda array: array.size > 1 and bool(np.isfinite(array).all()))
    if np.ptp(draft.value(x)) == 0:
        raise Reject("the range is empty")
    draft.add(op, [x], 3)


@operator("QLinearMatMul")
def qlinear_matmul(draft: Draft, op: str) -> None:
    """All by tensor."""
    dtype = draft.choice(_BYTES)
    m, k, n = (draft.integer(1, 7) for _ in range(3))
    inputs = []
    for shape in ((m, k), (k, n)):
        inputs += [draft.new(np.dtype(dtype), shape), _scale(draft), draft.constant(draft.integer(0, 5), dtype)]
    draft.add(op, [*inputs, _scale(draft), draft.constant(draft.integer(0, 5), dtype)])


@operator("QLinearConv")
def qlinear_conv(draft: Draft, op: str) -> None:
    """Weights by tensor or by channel, with bias."""
    dtype = draft.choice(_BYTES)
    channels, out = draft.integer(1, 4), draft.integer(1, 5)
    x = draft.new(np.dtype(dtype), (draft.integer(1, 2), channels, draft.integer(3, 7), draft.integer(3, 7)))
    w = draft.leaf(draft.random.integers(-9 if dtype is np.int8 else 0, 10, (out, channels, 3, 2)).astype(dtype))
    shape = draft.choice([(), (out,)])
    weights = [w, _scale(draft, shape), draft.constant(np.zeros(shape), dtype)]
    inputs = [x, _scale(draft), draft.constant(draft.integer(0, 5), dtype), *weights]
    inputs += [_scale(draft), draft.constant(draft.integer(0, 5), dtype)]
    if draft.chance(0.5):
        inputs.append(draft.leaf(draft.random.integers(-50, 50, out).astype(np.int32)))
    draft.add(op, inputs, pads=draft.choice([None, [1, 0, 1, 1]]), strides=draft.choice([None, [2, 1]]))

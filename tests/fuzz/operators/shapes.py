"""Operators that move elements, and those that compute shapes."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from tests.fuzz.graph import BOOL, F32, FLOATS, I64, TYPES, Draft, Reject, allowed_types
from tests.fuzz.operators import operator


def _axis(draft: Draft, rank: int) -> int:
    """Return an axis; negative ones came with opset 11."""
    axis = draft.axis(rank)
    return axis if draft.opset >= 11 else axis % rank


@operator("Reshape")
def reshape(draft: Draft, op: str) -> None:
    """To a factorisation of the size, with -1 and 0 where they mean the same."""
    x = draft.pick(TYPES, where=lambda array: array.size > 0)
    array = draft.value(x)
    left, target = array.size, []
    while left > 1 and len(target) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        target.append(draft.choice(divisors))
        left //= target[-1]
    target += [left] if left > 1 else []
    if target and draft.chance(0.4):
        target[draft.integer(0, len(target) - 1)] = -1
    for i in range(min(array.ndim, len(target))):
        if target[i] == array.shape[i] and draft.chance(0.3):
            target[i] = 0
    draft.add(op, [x, draft.constant(target)])


@operator("Flatten")
def flatten(draft: Draft, op: str) -> None:
    """At any axis."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 5))
    rank = draft.value(x).ndim
    draft.add(op, [x], axis=draft.choice([None, draft.integer(-rank if draft.opset >= 11 else 0, rank)]))


@operator("Transpose")
def transpose(draft: Draft, op: str) -> None:
    """Any permutation; reversed if there is none."""
    x = draft.pick(TYPES, (0, 5))
    rank = draft.value(x).ndim
    draft.add(op, [x], perm=[int(i) for i in draft.random.permutation(rank)] if rank and draft.chance(0.8) else None)


@operator("Squeeze")
def squeeze(draft: Draft, op: str) -> None:
    """Some axes of size 1, or all."""
    x = draft.pick(TYPES, (1, 5), where=lambda array: 1 in array.shape)
    ones = [axis for axis, size in enumerate(draft.value(x).shape) if size == 1]
    axes = [axis for axis in ones if draft.chance(0.7)]
    if not axes:
        draft.add(op, [x])
    elif draft.opset < 13:
        draft.add(op, [x], axes=axes)
    else:
        draft.add(op, [x, draft.constant(axes)])


@operator("Unsqueeze")
def unsqueeze(draft: Draft, op: str) -> None:
    """One or two new axes."""
    x = draft.pick(TYPES, (0, 4))
    count = draft.integer(1, 2)
    rank = draft.value(x).ndim + count
    axes = [int(axis) for axis in draft.random.permutation(rank)[:count]]
    if draft.opset >= 11:
        axes = [axis - rank if draft.chance(0.3) else axis for axis in axes]
    if draft.opset < 13:
        draft.add(op, [x], axes=axes if draft.opset >= 11 else sorted(axes))
    else:
        draft.add(op, [x, draft.constant(axes)])


@operator("Expand")
def expand(draft: Draft, op: str) -> None:
    """To a shape that broadcasts with the input, in either direction."""
    x = draft.pick(TYPES, (0, 4))
    shape = draft.value(x).shape
    target = [draft.integer(1, 4) if size == 1 else draft.choice([1, size]) for size in shape]
    target = [*draft.shape(0, 1), *target]
    draft.add(op, [x, draft.constant(target[draft.integer(0, len(target)) if draft.chance(0.2) else 0 :])])


@operator("Tile")
def tile(draft: Draft, op: str) -> None:
    """Up to three times along an axis."""
    x = draft.pick(TYPES, (1, 4))
    draft.add(op, [x, draft.constant([draft.integer(1, 3) for _ in draft.value(x).shape])])


@operator("Concat")
def concat(draft: Draft, op: str) -> None:
    """One to four inputs of different sizes along the axis."""
    x = draft.pick(TYPES, (1, 4))
    array = draft.value(x)
    axis = _axis(draft, array.ndim)
    inputs = [x]
    for _ in range(draft.integer(0, 3)):
        shape = list(array.shape)
        shape[axis] = draft.integer(0 if draft.chance(0.05) else 1, 4)
        inputs.append(x if draft.chance(0.2) else draft.new(array.dtype, shape))
    draft.add(op, [inputs[int(i)] for i in draft.random.permutation(len(inputs))], axis=axis)


@operator("Split")
def split(draft: Draft, op: str) -> None:
    """Into given sizes, or equal ones."""
    x = draft.pick(TYPES, (1, 4), where=lambda array: max(array.shape, default=0) > 1)
    shape = draft.value(x).shape
    axis = draft.choice([i for i, size in enumerate(shape) if size > 1])
    count = draft.integer(1, min(4, shape[axis]))
    cuts = sorted(draft.random.choice(np.arange(1, shape[axis]), count - 1, replace=False).tolist())
    sizes = [int(b - a) for a, b in zip([0, *cuts], [*cuts, shape[axis]], strict=True)]
    if draft.opset < 13:
        draft.add(op, [x], count, axis=axis, split=sizes)
    elif draft.opset >= 18 and draft.chance(0.4):
        draft.add(op, [x], count, axis=axis, num_outputs=count)
    else:
        draft.add(op, [x, draft.constant(sizes)], count, axis=axis)


@operator("Slice")
def slice_(draft: Draft, op: str) -> None:
    """Any bounds, out of range ones too, and any steps."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4))
    shape = draft.value(x).shape
    axes = [axis % len(shape) for axis in draft.axes(len(shape), 1)]
    if not axes:
        raise Reject("no axis")
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = draft.choice([1, 1, 1, 2, 3, -1, -2]) if draft.opset >= 10 else 1
        bounds = sorted([draft.integer(-size - 2, size + 2), draft.integer(-size - 2, size + 2)])
        start, end = bounds if step > 0 else bounds[::-1]
        starts.append(start)
        ends.append(draft.choice([end, 2**31 - 1 if step > 0 else -(2**31)]))
        steps.append(step)
    if draft.opset < 10:
        draft.add(op, [x], starts=starts, ends=ends, axes=axes)
        return
    dtype = draft.choice([np.int32, np.int64])
    signed = [axis - len(shape) if draft.chance(0.3) else axis for axis in axes]
    inputs = [x, *(draft.constant(values, dtype) for values in (starts, ends, signed))]
    draft.add(op, inputs if all(step == 1 for step in steps) else [*inputs, draft.constant(steps, dtype)])


@operator("Pad")
def pad(draft: Draft, op: str) -> None:
    """All modes; negative pads crop."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4), where=lambda array: array.size > 0)
    array = draft.value(x)
    modes = ["constant", "reflect", "edge"] + (["wrap"] if draft.opset >= 19 else [])
    mode = draft.choice(modes)
    if mode != "constant" and array.dtype == BOOL:
        raise Reject("no oracle pads it")
    low = -1 if mode == "constant" and draft.chance(0.2) and min(array.shape) > 2 else 0
    largest = [2 if mode in ("constant", "edge") else min(2, size - 1) for size in array.shape]
    pads = [draft.integer(low, max(limit, 0)) for limit in (*largest, *largest)]
    value = draft.choice([None, 0.5 if array.dtype in FLOATS else 1])
    if draft.opset < 11:
        draft.add(op, [x], pads=[max(p, 0) for p in pads], mode=mode, value=None if value is None else float(value))
        return
    inputs = [x, draft.constant(pads)]
    if value is not None and mode == "constant":
        inputs.append(draft.constant(value, array.dtype))
    draft.add(op, inputs, mode=draft.choice([None, mode]) if mode == "constant" else mode)


@operator("DepthToSpace", "SpaceToDepth")
def depth_space(draft: Draft, op: str) -> None:
    """Blocks of 1 to 3."""
    block = draft.integer(1, 3)
    n, c, h, w = (draft.integer(1, 3) for _ in range(4))
    shape = (n, c * block**2, h, w) if op == "DepthToSpace" else (n, c, h * block, w * block)
    x = draft.new(draft.dtype(FLOATS[:2]), shape)
    mode = draft.choice([None, "DCR", "CRD"]) if op == "DepthToSpace" and draft.opset >= 11 else None
    draft.add(op, [x], blocksize=block, mode=mode)


@operator("Trilu")
def trilu(draft: Draft, op: str) -> None:
    """Either half, any diagonal."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (2, 4), where=lambda array: array.ndim >= 2 and array.size > 0)
    inputs = [x, draft.constant(draft.integer(-4, 4))] if draft.chance(0.7) else [x]
    draft.add(op, inputs, upper=draft.choice([None, 0, 1]))


@operator("ReverseSequence")
def reverse_sequence(draft: Draft, op: str) -> None:
    """Time and batch in either order."""
    x = draft.pick(TYPES, (2, 4), where=lambda array: array.size > 0)
    time = draft.integer(0, 1)
    shape = draft.value(x).shape
    lengths = draft.random.integers(1, shape[time] + 1, shape[1 - time])
    draft.add(op, [x, draft.constant(lengths)], time_axis=time, batch_axis=1 - time)


@operator("Shape")
def shape_of(draft: Draft, op: str) -> None:
    """A part of the shape from opset 15 on."""
    x = draft.pick(TYPES, (0, 5))
    rank = draft.value(x).ndim
    if draft.opset >= 15 and draft.chance(0.5):
        draft.add(
            op,
            [x],
            start=draft.integer(-rank - 1, rank + 1),
            end=draft.choice([None, draft.integer(-rank - 1, rank + 1)]),
        )
    else:
        draft.add(op, [x])


@operator("Size")
def size_of(draft: Draft, op: str) -> None:
    """Of anything."""
    draft.add(op, [draft.pick(TYPES)])


@operator("ConstantOfShape")
def constant_of_shape(draft: Draft, op: str) -> None:
    """Of any type; zeros if there is none."""
    value = draft.array(draft.dtype(TYPES), (1,))
    shape = draft.constant(list(draft.shape(0, 3)))
    draft.add(op, [shape], value=numpy_helper.from_array(value) if draft.chance(0.7) else None)


@operator("Range")
def range_(draft: Draft, op: str) -> None:
    """Up or down, also empty."""
    dtype = draft.dtype((F32, I64, np.dtype(np.int32)))
    start, step = draft.integer(-5, 5), draft.choice([1, 2, 3, -1, -2])
    end = start + step * draft.integer(-1, 6)
    draft.add(op, [draft.constant(value, dtype) for value in (start, end, step)])


@operator("EyeLike")
def eye_like(draft: Draft, op: str) -> None:
    """Any diagonal."""
    x = draft.pick((F32, I64), (2, 2))
    if draft.value(x).ndim != 2:
        raise Reject("no matrix")
    draft.add(op, [x], k=draft.choice([None, draft.integer(-2, 2)]))


@operator("CenterCropPad")
def center_crop_pad(draft: Draft, op: str) -> None:
    """Some axes are cropped, others padded."""
    x = draft.pick((F32, I64), (1, 4))
    shape = draft.value(x).shape
    draft.add(op, [x, draft.constant([max(1, size + draft.integer(-2, 2)) for size in shape])])

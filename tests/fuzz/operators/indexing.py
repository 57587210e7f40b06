"""Operators that take and put elements by index."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import BOOL, FLOATS, I64, TYPES, Draft, Reject, allowed_types
from tests.fuzz.operators import operator

_INDICES = (np.int32, np.int64)


def _indices(draft: Draft, size: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return indices into an axis, some counted from the end (from opset 11 on)."""
    if size == 0:
        raise Reject("an empty axis has no index")
    low = -size if draft.opset >= 11 else 0
    return np.asarray(draft.random.integers(low, size, shape)).astype(dtype)


@operator("Gather")
def gather(draft: Draft, op: str) -> None:
    """Indices of any rank."""
    x = draft.pick(TYPES, (1, 4))
    shape = draft.value(x).shape
    axis = draft.axis(len(shape)) if draft.opset >= 11 else draft.integer(0, len(shape) - 1)
    indices = _indices(draft, shape[axis], draft.shape(0, 2, 4), draft.choice(_INDICES))
    draft.add(op, [x, draft.leaf(indices)], axis=axis)


@operator("GatherElements")
def gather_elements(draft: Draft, op: str) -> None:
    """Indices that are smaller along the other axes."""
    x = draft.pick(TYPES, (1, 4), where=lambda array: array.size > 0)
    shape = draft.value(x).shape
    axis = draft.axis(len(shape))
    target = [draft.integer(1, size) for size in shape]
    target[axis] = draft.integer(1, 5)
    indices = _indices(draft, shape[axis], tuple(target), draft.choice(_INDICES))
    draft.add(op, [x, draft.leaf(indices)], axis=axis)


def _tuples(draft: Draft, shape: tuple[int, ...], batch: tuple[int, ...], count: int, distinct: bool) -> np.ndarray:
    """Return `count` index tuples into the first axes of `shape`, for each of `batch`."""
    depth = draft.integer(1, len(shape))
    if 0 in shape[:depth]:
        raise Reject("an empty axis has no index")
    total = int(np.prod(shape[:depth]))
    if distinct:
        flat = np.stack([draft.random.permutation(total)[: min(count, total)] for _ in range(int(np.prod(batch)))])
    else:
        flat = draft.random.integers(0, total, (int(np.prod(batch)), count))
    found = np.stack(np.unravel_index(flat, shape[:depth]), -1).reshape(*batch, flat.shape[1], depth)
    negative = draft.random.random(found.shape) < 0.2
    return np.where(negative, found - np.array(shape[:depth]), found).astype(np.int64)


@operator("GatherND")
def gather_nd(draft: Draft, op: str) -> None:
    """With batch dimensions from opset 12 on."""
    x = draft.pick(TYPES, (1, 4), where=lambda array: array.size > 0)
    shape = draft.value(x).shape
    batch = draft.integer(0, len(shape) - 1) if draft.opset >= 12 else 0
    indices = _tuples(draft, shape[batch:], shape[:batch], draft.integer(1, 4), False)
    draft.add(op, [x, draft.leaf(indices)], batch_dims=batch or None)


@operator("ScatterElements", "Scatter")
def scatter_elements(draft: Draft, op: str) -> None:
    """Distinct indices, or a reduction that does not depend on the order."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 3), where=lambda array: array.size > 0)
    array = draft.value(x)
    axis = draft.axis(array.ndim) if draft.opset >= 11 else draft.integer(0, array.ndim - 1)
    target = [draft.integer(1, size) for size in array.shape]
    order = np.argsort(draft.random.random(array.shape), axis)
    indices = order[tuple(slice(size) for size in target)].astype(draft.choice(_INDICES))
    reductions = [None, "none"] if draft.opset >= 16 else [None]
    if array.dtype != BOOL:
        reductions += ["add", "mul"] * (draft.opset >= 16) + ["min", "max"] * (draft.opset >= 18)
    inputs = [x, draft.leaf(indices), draft.new(array.dtype, indices.shape)]
    draft.add(op, inputs, axis=axis, reduction=draft.choice(reductions))


@operator("ScatterND")
def scatter_nd(draft: Draft, op: str) -> None:
    """Distinct indices, or a reduction that does not depend on the order."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 3), where=lambda array: array.size > 0)
    array = draft.value(x)
    indices = _tuples(draft, array.shape, (1,), draft.integer(1, 4), True)[0]
    shape = (*indices.shape[:-1], *array.shape[indices.shape[-1] :])
    reductions = [None, "none"] if draft.opset >= 16 else [None]
    if array.dtype != BOOL:
        reductions += ["add", "mul"] * (draft.opset >= 16) + ["min", "max"] * (draft.opset >= 18)
    draft.add(op, [x, draft.leaf(indices), draft.new(array.dtype, shape)], reduction=draft.choice(reductions))


@operator("OneHot")
def one_hot(draft: Draft, op: str) -> None:
    """Indices that are out of range are all off."""
    depth = draft.integer(1, 5)
    indices = draft.leaf(np.asarray(draft.random.integers(-depth, depth, draft.shape(1, 3, 4))).astype(np.int64))
    values = draft.new(draft.dtype((FLOATS[0], I64)), (2,))
    axis = draft.integer(-1, draft.value(indices).ndim)
    draft.add(op, [indices, draft.constant(draft.choice([depth, [depth]])), values], axis=axis)


@operator("NonZero")
def non_zero(draft: Draft, op: str) -> None:
    """A size that depends on data."""
    draft.add(op, [draft.pick((FLOATS[0], I64, BOOL), (1, 3))])


@operator("Compress")
def compress(draft: Draft, op: str) -> None:
    """A size that depends on data."""
    x = draft.pick(TYPES, (1, 3), where=lambda array: array.size > 0)
    array = draft.value(x)
    axis = draft.choice([None, draft.axis(array.ndim)])
    length = array.size if axis is None else array.shape[axis]
    draft.add(op, [x, draft.new(BOOL, (draft.integer(1, min(length, 64)),))], axis=axis)

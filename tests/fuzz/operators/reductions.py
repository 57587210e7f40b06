"""Reductions, scans, sorts and normalisations."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import FLOATS, I64, Draft, Reject, allowed_types
from tests.fuzz.operators import operator

_REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin")
_REDUCTIONS += ("ReduceProd", "ReduceSum", "ReduceSumSquare")


@operator(*_REDUCTIONS)
def reduction(draft: Draft, op: str) -> None:
    """Axes are an attribute, or an input from opset 18 on (13 for ReduceSum)."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 5), where=lambda array: array.size > 0)
    axes = draft.axes(draft.value(x).ndim)
    keepdims = draft.choice([None, 0, 1])
    if draft.opset < (13 if op == "ReduceSum" else 18):
        draft.add(op, [x], axes=axes or None, keepdims=keepdims)
        return
    inputs = [x] if draft.chance(0.2) else [x, draft.constant(axes)]
    draft.add(op, inputs, keepdims=keepdims, noop_with_empty_axes=draft.choice([None, 0, 1]))


def _is_ordered(array: np.ndarray) -> bool:
    return array.size > 0 and not (array.dtype in FLOATS and np.isnan(array.astype(np.float64)).any())


@operator("ArgMax", "ArgMin")
def arg(draft: Draft, op: str) -> None:
    """The first or the last of equal elements; NaN has no place among them."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 5), where=_is_ordered)
    last = draft.choice([None, 0, 1]) if draft.opset >= 12 else None
    axis = _axis(draft, draft.value(x).ndim)
    draft.add(op, [x], axis=axis, keepdims=draft.choice([None, 0, 1]), select_last_index=last)


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(draft: Draft, op: str) -> None:
    """Before opset 13 all axes from `axis` on are one."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4), where=_is_ordered)
    rank = draft.value(x).ndim
    # The default axis was 1.
    draft.add(op, [x], axis=draft.choice([None if rank > 1 or draft.opset >= 13 else 0, _axis(draft, rank)]))


def _axis(draft: Draft, rank: int) -> int:
    """Return an axis; negative ones came with opset 11."""
    axis = draft.axis(rank)
    return axis if draft.opset >= 11 else axis % rank


@operator("CumSum", "CumProd")
def scan(draft: Draft, op: str) -> None:
    """Either direction."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4))
    axis = draft.constant(draft.axis(draft.value(x).ndim), draft.choice([np.int32, np.int64]))
    draft.add(op, [x, axis], exclusive=draft.choice([None, 0, 1]), reverse=draft.choice([None, 0, 1]))


@operator("TopK")
def top_k(draft: Draft, op: str) -> None:
    """Values that differ, since the order of equal ones is open."""
    types = allowed_types(op, draft.opset, 0)
    x = draft.pick(types, (1, 4), where=lambda array: array.size > 0 and np.unique(array).size == array.size)
    rank = draft.value(x).ndim
    axis = _axis(draft, rank)
    k = draft.integer(0 if draft.opset >= 10 else 1, draft.value(x).shape[axis])
    if draft.opset < 10:
        draft.add(op, [x], 2, axis=axis, k=k)
    elif draft.opset < 11:
        draft.add(op, [x, draft.constant([k])], 2, axis=axis)
    else:
        draft.add(op, [x, draft.constant([k])], 2, axis=axis, largest=draft.choice([None, 0, 1]))


@operator("LpNormalization")
def lp_normalization(draft: Draft, op: str) -> None:
    """L1 and L2."""
    x = draft.pick(allowed_types(op, draft.opset, 0), (1, 4), where=lambda array: array.size > 0)
    draft.add(op, [x], axis=draft.choice([None, draft.axis(draft.value(x).ndim)]), p=draft.choice([None, 1, 2]))


@operator("MeanVarianceNormalization")
def mean_variance(draft: Draft, op: str) -> None:
    """Over some axes."""
    x = draft.pick(FLOATS[:2], (2, 4), where=lambda array: array.size > 8)
    axes = draft.axes(draft.value(x).ndim, 1)
    draft.add(op, [x], axes=sorted(axis % draft.value(x).ndim for axis in axes))


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(draft: Draft, op: str) -> None:
    """Scale and bias of the normalised shape."""
    x = draft.pick(FLOATS[:2], (1, 4), where=lambda array: array.size > 0)
    array = draft.value(x)
    axis = draft.axis(array.ndim)
    shape = array.shape[axis % array.ndim :]
    if np.prod(shape) < 2:
        raise Reject("the variance of one element is zero")
    inputs = [x, draft.new(array.dtype, shape)]
    if op == "LayerNormalization" and draft.chance(0.6):
        inputs.append(draft.new(array.dtype, shape))
    draft.add(op, inputs, axis=axis, epsilon=draft.choice([None, 1e-3]))


@operator("InstanceNormalization")
def instance_normalization(draft: Draft, op: str) -> None:
    """By channel of each picture."""
    x = draft.pick(FLOATS[:2], (3, 5), where=lambda array: array.size > 0 and np.prod(array.shape[2:]) > 2)
    array = draft.value(x)
    weights = [draft.new(array.dtype, (array.shape[1],)) for _ in range(2)]
    draft.add(op, [x, *weights], epsilon=draft.choice([None, 1e-3]))


@operator("GroupNormalization")
def group_normalization(draft: Draft, op: str) -> None:
    """Scale and bias by channel."""
    if draft.opset < 21:
        raise Reject("scale by group: deprecated")
    groups = draft.integer(1, 3)
    shape = (draft.integer(1, 3), groups * draft.integer(1, 3), *draft.shape(1, 2))
    x = draft.new(FLOATS[0], shape)
    if np.prod(shape[1:]) // groups < 3:
        raise Reject("the variance of one element is zero")
    draft.add(op, [x, *(draft.new(FLOATS[0], (shape[1],)) for _ in range(2))], num_groups=groups)


@operator("BatchNormalization")
def batch_normalization(draft: Draft, op: str) -> None:
    """Inference only."""
    x = draft.pick(FLOATS[:2], (2, 5))
    array = draft.value(x)
    if array.ndim < 2:
        raise Reject("there is no channel")
    channels = (array.shape[1],)
    weights = [draft.new(array.dtype, channels, True) for _ in range(3)]
    variance = draft.leaf(draft.random.uniform(0.5, 2, channels).astype(array.dtype), constant=True)
    draft.add(op, [x, *weights, variance], epsilon=draft.choice([None, 1e-3]))


@operator("LRN")
def lrn(draft: Draft, op: str) -> None:
    """Over neighbouring channels; onnxruntime, which is the oracle, loses small numbers beside large ones."""
    x = draft.pick(FLOATS[:1], (4, 4), where=lambda array: bool((np.abs(array) < 100).all()))
    draft.add(op, [x], size=draft.choice([1, 3, 5]), alpha=draft.choice([None, 0.1]), beta=draft.choice([None, 0.5]))


@operator("Unique")
def unique(draft: Draft, op: str) -> None:
    """Sorted, flat or along an axis."""
    x = draft.pick((*FLOATS[:2], I64), (1, 3), where=lambda array: array.size > 0 and not np.isnan(array).any())
    draft.add(op, [x], draft.integer(1, 4), axis=draft.choice([None, draft.axis(draft.value(x).ndim)]), sorted=1)


@operator("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(draft: Draft, op: str) -> None:
    """All reductions, with weights and a class that is ignored."""
    classes = draft.integer(2, 5)
    shape = (draft.integer(1, 4), *draft.shape(0, 2, 3))
    scores = draft.new(FLOATS[0], (shape[0], classes, *shape[1:]))
    labels = draft.leaf(np.asarray(draft.random.integers(0, classes, shape)).astype(np.int64))
    weights = [draft.leaf(draft.random.uniform(0.5, 2, classes).astype(np.float32))] if draft.chance(0.5) else []
    reduction = draft.choice([None, "none", "sum", "mean"])
    draft.add(op, [scores, labels, *weights], reduction=reduction, ignore_index=draft.choice([None, 0]))

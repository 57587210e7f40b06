"""Layers of decoders: packed projections, rotations, caches and shared heads, in the forms that exporters write."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.fuzz.graph import Draft, Reject
from tests.fuzz.operators import operator


def _slice(draft: Draft, x: str, start: int, end: int, axis: int) -> str:
    return draft.add("Slice", [x, draft.constant([start]), draft.constant([end]), draft.constant([axis])])[0]


def _linear(draft: Draft, x: str, width: int) -> str:
    inner = draft.value(x).shape[-1]
    weights = (draft.random.standard_normal((inner, width)) / np.sqrt(inner)).astype(draft.real)
    (y,) = draft.add("MatMul", [x, draft.leaf(weights, constant=True)])
    if draft.chance(0.4):
        (y,) = draft.add("Add", [y, draft.leaf(draft.random.uniform(-1, 1, width).astype(draft.real), constant=True)])
    return y


def _turned(draft: Draft, x: str, heads: int, size: int) -> str:
    (y,) = draft.add("Reshape", [x, draft.constant([0, 0, heads, size])])
    return draft.add("Transpose", [y], perm=[0, 2, 1, 3])[0]


def _projections(draft: Draft, x: str, heads: int, groups: int, size: int) -> list[str]:
    """Return query, key and value, [batch, heads, length, size] each."""
    counts = (heads, groups, groups)
    kind = draft.choice(["apart", "split", "slices", "stacked"])
    if kind == "apart":
        return [_turned(draft, _linear(draft, x, count * size), count, size) for count in counts]
    joined = _linear(draft, x, sum(counts) * size)
    if kind == "split":
        parts = draft.add("Split", [joined, draft.constant([count * size for count in counts])], 3, axis=-1)
        return [_turned(draft, part, count, size) for part, count in zip(parts, counts, strict=True)]
    if kind == "slices":
        ends = np.cumsum([0, *counts])
        rows = _turned(draft, joined, sum(counts), size)
        return [_slice(draft, rows, int(a), int(b), 1) for a, b in pairwise(ends)]
    if heads != groups:
        raise Reject("stacks are of one size")
    (y,) = draft.add("Reshape", [joined, draft.constant([0, 0, 3, heads, size])])
    (y,) = draft.add("Transpose", [y], perm=[2, 0, 3, 1, 4])
    if draft.chance(0.5):
        return [draft.add("Gather", [y, draft.constant(i)], axis=0)[0] for i in range(3)]
    parts = draft.add("Split", [y, draft.constant([1, 1, 1])], 3, axis=0)
    return [draft.add("Squeeze", [part, draft.constant([0])])[0] for part in parts]


def _rotated(draft: Draft, x: str, tables: tuple[str, str]) -> str:
    size = draft.value(x).shape[-1]
    left, right = _slice(draft, x, 0, size // 2, 3), _slice(draft, x, size // 2, 1 << 62, 3)
    (right,) = draft.add("Neg", [right])
    (turned,) = draft.add("Concat", [right, left], axis=-1)
    (first,) = draft.add("Mul", [x, tables[0]])
    (second,) = draft.add("Mul", [turned, tables[1]])
    return draft.add("Add", [first, second])[0]


def _repeated(draft: Draft, x: str, times: int) -> str:
    """Return every head `times` times."""
    batch, groups, _, size = draft.value(x).shape
    (y,) = draft.add("Unsqueeze", [x, draft.constant([2])])
    (y,) = draft.add("Expand", [y, draft.constant([1, 1, times, 1, 1])])
    return draft.add("Reshape", [y, draft.constant([0 if draft.chance(0.5) else batch, groups * times, -1, size])])[0]


@operator("*decoder")
def decoder(draft: Draft, _: str) -> None:
    """Attention over what came before, and a gated feed-forward."""
    if draft.opset < 13:
        raise Reject("another form")
    groups, times, size = draft.choice([1, 2, 3]), draft.choice([1, 1, 2]), draft.choice([8, 16, 12])
    heads = groups * times
    batch, length, past = draft.integer(1, 2), draft.choice([1, 1, draft.integer(2, 40)]), draft.choice([0, 7, 30])
    x = draft.new(draft.real, (batch, length, heads * size), False)
    query, key, value = _projections(draft, x, heads, groups, size)
    if draft.chance(0.6):
        angles = draft.random.uniform(0, 6, (length, size))
        tables = tuple(draft.leaf(f(angles).astype(draft.real), constant=False) for f in (np.cos, np.sin))
        query, key = _rotated(draft, query, tables), _rotated(draft, key, tables)
    if past:
        shape = (batch, groups, past, size)
        before = [draft.new(draft.real, shape, False) for _ in range(2)]
        (key,) = draft.add("Concat", [before[0], key], axis=2)
        (value,) = draft.add("Concat", [before[1], value], axis=2)
    if times > 1:
        key, value = _repeated(draft, key, times), _repeated(draft, value, times)
    (key,) = draft.add("Transpose", [key], perm=[0, 1, 3, 2])
    root = draft.constant(float(np.sqrt(size)), draft.real)
    if draft.chance(0.3):
        (query,) = draft.add("Div", [query, root])
        (scores,) = draft.add("MatMul", [query, key])
    else:
        (scores,) = draft.add("MatMul", [query, key])
        (scores,) = draft.add("Div", [scores, root])
    if draft.chance(0.7):
        hidden = np.triu(np.ones((length, past + length)), past + 1)
        mask = np.where(hidden, -1e4, 0).astype(draft.real)
        (scores,) = draft.add("Add", [scores, draft.leaf(mask.reshape(1, 1, *mask.shape), constant=False)])
    (weights,) = draft.add("Softmax", [scores], axis=-1)
    (y,) = draft.add("MatMul", [weights, value])
    (y,) = draft.add("Transpose", [y], perm=[0, 2, 1, 3])
    (y,) = draft.add("Reshape", [y, draft.constant(draft.choice([[0, 0, -1], [0, -1, heads * size]]))])
    (x,) = draft.add("Add", [x, _linear(draft, y, heads * size)])
    if draft.chance(0.6):
        gate, up = (_linear(draft, x, 2 * heads * size) for _ in range(2))
        (sigmoid,) = draft.add("Sigmoid", [gate])
        (gate,) = draft.add("Mul", [gate, sigmoid])
        (y,) = draft.add("Mul", [gate, up])
        draft.add("Add", [x, _linear(draft, y, heads * size)])

"""Arithmetic on sizes, as exporters write it, and operators whose results it shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.graph import F32, I64, Draft, Reject
from tests.fuzz.operators import operator

_LARGEST = 40
"""Numbers beyond are of no use as sizes."""


def _number(draft: Draft, name: str) -> int:
    return int(draft.value(name)[0])


def _size(draft: Draft, x: str) -> str:
    """Return one size of a tensor, as a vector of one element."""
    rank = draft.value(x).ndim
    axis = draft.integer(0, rank - 1)
    if draft.opset >= 15 and draft.chance(0.4):
        return draft.add("Shape", [x], start=axis, end=axis + 1)[0]
    (shape,) = draft.add("Shape", [x])
    if draft.opset >= 10 and draft.chance(0.3):
        return draft.add("Slice", [shape, *(draft.constant([k]) for k in (axis, axis + 1, 0))])[0]
    return draft.add(
        "Gather", [shape, draft.constant([axis - (rank if draft.opset >= 11 and draft.chance(0.2) else 0)])]
    )[0]


def _rounded(draft: Draft, a: str) -> str:
    """Scale by a number that is no integer, as Resize and attention windows are computed."""
    (real,) = draft.add("Cast", [a], to=1)
    scale = draft.constant([draft.choice([2.0, 4.0, 0.5, 3.0])], np.float32)
    (scaled,) = draft.add(draft.choice(["Div", "Mul"]), [real, scale])
    (whole,) = draft.add(draft.choice(["Ceil", "Floor"]), [scaled])
    return draft.add("Cast", [whole], to=7)[0]


def _quotient(draft: Draft, a: str, b: str) -> str:
    if _number(draft, b) == 0:
        raise Reject("a division by zero")
    # Windows are counted so: a run whose dividend turns out to be negative is refused.
    return draft.add("Div", [draft.add("Abs", [a])[0], b])[0]


def _remainder(draft: Draft, a: str, b: str) -> str:
    if _number(draft, b) == 0:
        raise Reject("a division by zero")
    return draft.add("Mod", [a, b], fmod=draft.choice([None, 0, 1]))[0]


def _chosen(draft: Draft, a: str, b: str) -> str:
    (condition,) = draft.add(draft.choice(["Less", "Greater", "Equal"]), [a, b])
    return draft.add("Where", [condition, a, b] if draft.chance(0.5) else [condition, b, a])[0]


def _combined(draft: Draft, numbers: list[str]) -> str:
    """Return what an operator makes of one or two of the numbers."""
    a, b = draft.choice(numbers), draft.choice(numbers)
    rules: list[Callable[[], str]] = [
        *[lambda: draft.add("Add", [a, b])[0], lambda: draft.add("Sub", [a, b])[0]] * 3,
        lambda: draft.add("Mul", [a, b])[0],
        lambda: draft.add(draft.choice(["Neg", "Abs"]), [a])[0],
        lambda: _quotient(draft, a, b),
        lambda: _rounded(draft, a),
    ]
    if draft.opset >= 9:
        rules.append(lambda: _chosen(draft, a, b))
    if draft.opset >= 10:
        rules += [lambda: _remainder(draft, a, b)] * 2
    if draft.opset >= 12:
        rules += [lambda: draft.add(draft.choice(["Min", "Max"]), [a, b])[0]] * 2
    return str(draft.choice(rules)())


def _scalar(draft: Draft, number: str) -> str:
    return draft.add("Reshape", [number, draft.constant(np.zeros(0, np.int64))])[0]


def _of(draft: Draft, numbers: list[str], low: int, high: int) -> str:
    """Return one of the numbers that is in a range."""
    return str(draft.choice([name for name in numbers if low <= _number(draft, name) <= high]))


def _slice(draft: Draft, x: str, numbers: list[str]) -> None:
    axis = draft.integer(0, draft.value(x).ndim - 1)
    bounds = [draft.choice(numbers), draft.choice([*numbers, draft.constant([2**31 - 1])])]
    draft.add("Slice", [x, *bounds, draft.constant([axis]), draft.constant([draft.choice([1, 1, 1, 2, -1])])])


def _reshape(draft: Draft, x: str, numbers: list[str]) -> None:
    size = draft.value(x).size
    fitting = [name for name in numbers if _number(draft, name) > 0 and size % _number(draft, name) == 0]
    part = draft.choice(fitting)
    (part,) = draft.add("Max", [part, draft.constant([1])])  # 0 and -1 have a meaning of their own
    parts = [part, draft.constant([-1])]
    target = draft.add("Concat", parts if draft.chance(0.5) else parts[::-1], axis=0)
    draft.add("Reshape", [x, *target])


def _expand(draft: Draft, x: str, numbers: list[str]) -> None:
    (row,) = draft.add("Reshape", [x, draft.constant([1, -1])])
    width = draft.constant([1])
    (target,) = draft.add("Concat", [_of(draft, numbers, 1, 9), width], axis=0)
    draft.add("Expand", [row, target])


def _tile(draft: Draft, x: str, numbers: list[str]) -> None:
    ones = [draft.constant([1]) for _ in draft.value(x).shape]
    ones[draft.integer(0, len(ones) - 1)] = _of(draft, numbers, 0, 4)
    draft.add("Tile", [x, *draft.add("Concat", ones, axis=0)])


def _pad(draft: Draft, x: str, numbers: list[str]) -> None:
    pads = [draft.constant([0]) for _ in range(2 * draft.value(x).ndim)]
    for _ in range(draft.integer(1, 2)):
        pads[draft.integer(0, len(pads) - 1)] = _of(draft, numbers, -2, 4)
    draft.add("Pad", [x, *draft.add("Concat", pads, axis=0)])


def _split(draft: Draft, x: str, numbers: list[str]) -> None:
    axis = draft.integer(0, draft.value(x).ndim - 1)
    size = draft.value(x).shape[axis]
    first = _of(draft, numbers, 0, size)
    (shape,) = draft.add("Shape", [x])
    (whole,) = draft.add("Gather", [shape, draft.constant([axis])])
    (rest,) = draft.add("Sub", [whole, first])
    draft.add("Split", [x, *draft.add("Concat", [first, rest], axis=0)], 2, axis=axis)


def _range(draft: Draft, _: str, numbers: list[str]) -> None:
    start, end = (_scalar(draft, draft.choice(numbers)) for _ in range(2))
    (positions,) = draft.add("Range", [start, end, _scalar(draft, draft.constant([draft.choice([1, 1, 2, -1])]))])
    if draft.chance(0.5):
        draft.add("Add", [positions, draft.add("Unsqueeze", [positions, draft.constant([1])])[0]])


def _constant_of_shape(draft: Draft, _: str, numbers: list[str]) -> None:
    parts = [_of(draft, numbers, 0, 9) for _ in range(draft.integer(1, 2))]
    draft.add("ConstantOfShape", draft.add("Concat", parts, axis=0))


def _top_k(draft: Draft, x: str, numbers: list[str]) -> None:
    axis = draft.integer(0, draft.value(x).ndim - 1)
    if len(np.unique(draft.value(x))) < draft.value(x).size or draft.opset < 11:
        raise Reject("ties")
    draft.add("TopK", [x, _of(draft, numbers, 0, draft.value(x).shape[axis])], 2, axis=axis)


def _gather(draft: Draft, x: str, numbers: list[str]) -> None:
    axis = draft.integer(0, draft.value(x).ndim - 1)
    size = draft.value(x).shape[axis]
    draft.add("Gather", [x, _of(draft, numbers, -size if draft.opset >= 11 else 0, size - 1)], axis=axis)


def _trilu(draft: Draft, x: str, numbers: list[str]) -> None:
    (matrix,) = draft.add("Reshape", [x, draft.constant([draft.value(x).shape[0], -1])])
    draft.add("Trilu", [matrix, _scalar(draft, draft.choice(numbers))], upper=draft.choice([0, 1]))


_USES: tuple[tuple[int, int, Callable[[Draft, str, list[str]], None]], ...] = (
    (4, 10, _slice),
    (2, 12, _reshape),
    (1, 8, _expand),
    (1, 7, _tile),
    (2, 11, _pad),
    (1, 13, _split),
    (2, 13, _range),
    (1, 9, _constant_of_shape),
    (1, 11, _top_k),
    (1, 7, _gather),
    (1, 14, _trilu),
)
"""How often, from which opset on, what."""


@operator("*sizes")
def sizes(draft: Draft, _: str) -> None:
    """Numbers that follow from sizes, and what they are for."""
    x = draft.pick((F32, I64), (1, 4), where=lambda array: array.size > 0 and array.ndim > 0)
    numbers = [_size(draft, x) for _ in range(draft.integer(1, 2))]
    numbers += [draft.constant([draft.choice([1, 2, 3, 4, 8, -1, -2])]) for _ in range(draft.integer(1, 2))]
    for _ in range(draft.integer(1, 5)):
        made = _combined(draft, numbers)
        if abs(_number(draft, made)) <= _LARGEST:
            numbers.append(made)
    uses = [use for weight, opset, use in _USES for _ in range(weight) if draft.opset >= opset]
    for _ in range(draft.integer(1, 2)):
        draft.choice(uses)(draft, x, numbers[::-1] if draft.chance(0.5) else numbers[-2:])
    draft.graph.symbolic = True

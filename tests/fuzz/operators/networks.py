"""Pieces of real networks in sizes that reach blocked layouts, tiled products and several threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.graph import I64, Draft, Reject
from tests.fuzz.operators import operator

NETWORK_MOTIFS = frozenset(
    {
        *("*blocked_cnn", "*cnn", "*decoder", "*long_attention", "*products", "*quantised_cnn"),
        *("*quantised_transformer", "*tokens", "*transformer"),
    }
)
"""They make graphs of their own, by a `Draft` of a network."""

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "HardSwish", "Clip", "Softplus", "*swish")


def scaled_weights(draft: Draft, *shape: int) -> str:
    """Return weights that keep the size of what they are multiplied with."""
    fan_in = max(1, int(np.prod(shape[1:])))
    return draft.leaf((draft.random.standard_normal(shape) / np.sqrt(fan_in)).astype(draft.real), constant=True)


def vector(draft: Draft, size: int, low: float = -1.0, high: float = 1.0) -> str:
    """Return a constant of one axis."""
    return draft.leaf(draft.random.uniform(low, high, size).astype(draft.real), constant=True)


def activate(draft: Draft, x: str) -> str:
    """Return an activation of a tensor."""
    name = draft.choice(_ACTIVATIONS)
    if name == "*swish" or (name == "HardSwish" and draft.opset < 14):
        (gate,) = draft.add("Sigmoid", [x])
        return draft.add("Mul", [x, gate])[0]
    if name == "Clip":
        if draft.opset < 11:
            return draft.add("Clip", [x], min=0.0, max=6.0)[0]
        return draft.add("Clip", [x, draft.constant(0, draft.real), draft.constant(6, draft.real)])[0]
    return draft.add(name, [x])[0]


# ---------------------------------------------------------------------- pictures
def convolve(draft: Draft, x: str, out: int, kernel: int, *, stride: int = 1, group: int = 1, dilation: int = 1) -> str:
    """Return a convolution that keeps the size but for the stride, with what usually follows it."""
    channels = draft.value(x).shape[1]
    inputs = [x, scaled_weights(draft, out, channels // group, kernel, kernel)]
    if draft.chance(0.5):
        inputs.append(vector(draft, out))
    pad = dilation * (kernel - 1) // 2
    options = {"pads": [pad] * 4, "strides": [stride] * 2, "group": group, "dilations": [dilation] * 2}
    (y,) = draft.add("Conv", inputs, **options)
    if draft.chance(0.4):
        parameters = [vector(draft, out, 0.5, 1.5), vector(draft, out), vector(draft, out)]
        (y,) = draft.add("BatchNormalization", [y, *parameters, vector(draft, out, 0.5, 2)])
    return activate(draft, y) if draft.chance(0.7) else y


def _plain(draft: Draft, x: str) -> str:
    out = draft.choice([8, 16, 24, 32, 48, 64, 19])
    return convolve(draft, x, out, draft.choice([1, 1, 3, 3, 3, 5, 7]), stride=draft.choice([1, 1, 1, 2]))


def _dilated(draft: Draft, x: str) -> str:
    return convolve(draft, x, draft.choice([16, 32]), 3, dilation=draft.integer(2, 4))


def _grouped(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    group = draft.choice([g for g in (2, 4, 8, channels) if channels % g == 0])
    out = channels * draft.choice([1, 1, 2])
    return convolve(draft, x, out, draft.choice([3, 3, 5]), stride=draft.choice([1, 1, 2]), group=group)


def _residual(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    y = convolve(draft, x, draft.choice([16, 32]), draft.choice([1, 3]))
    y = convolve(draft, y, channels, draft.choice([1, 3]))
    (y,) = draft.add("Add", [x, y] if draft.chance(0.5) else [y, x])
    return activate(draft, y) if draft.chance(0.6) else y


def _inverted(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    wide = channels * draft.integer(2, 3)
    y = convolve(draft, x, wide, 1)
    y = convolve(draft, y, wide, draft.choice([3, 5]), stride=draft.choice([1, 1, 2]), group=wide)
    y = _excited(draft, y) if draft.chance(0.3) else y
    y = convolve(draft, y, channels, 1)
    return draft.add("Add", [x, y])[0] if draft.value(x).shape == draft.value(y).shape else y


def _excited(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    (gate,) = draft.add("GlobalAveragePool", [x])
    (gate,) = draft.add("Conv", [gate, scaled_weights(draft, 8, channels, 1, 1)])
    (gate,) = draft.add("Relu", [gate])
    (gate,) = draft.add("Conv", [gate, scaled_weights(draft, channels, 8, 1, 1), vector(draft, channels)])
    (gate,) = draft.add(draft.choice(["Sigmoid", "HardSigmoid"]), [gate])
    return draft.add("Mul", [x, gate])[0]


def _branches(draft: Draft, x: str) -> str:
    parts = [convolve(draft, x, draft.choice([8, 16, 12]), draft.choice([1, 3])) for _ in range(draft.integer(2, 3))]
    return draft.add("Concat", [*parts, x] if draft.chance(0.4) else parts, axis=1)[0]


def _halves(draft: Draft, x: str) -> str:
    """A split of the channels of which one part goes on, and the shuffle of what is joined again."""
    batch, channels, height, width = draft.value(x).shape
    if channels % 2:
        raise Reject("an odd number of channels")
    half = channels // 2
    if draft.opset < 13:
        left, right = draft.add("Split", [x], 2, axis=1, split=[half, half])
    else:
        left, right = draft.add("Split", [x, draft.constant([half, half])], 2, axis=1)
    (y,) = draft.add("Concat", [left, convolve(draft, right, half, 3)], axis=1)
    (y,) = draft.add("Reshape", [y, draft.constant([batch, 2, half, height, width])])
    (y,) = draft.add("Transpose", [y], perm=[0, 2, 1, 3, 4])
    return draft.add("Reshape", [y, draft.constant([batch, channels, height, width])])[0]


def _pooled(draft: Draft, x: str) -> str:
    kernel = draft.choice([2, 3])
    if min(draft.value(x).shape[2:]) < 2:
        raise Reject("the window does not fit")
    op = draft.choice(["MaxPool", "AveragePool"])
    pads = [1] * 4 if kernel == 3 else None
    return draft.add(op, [x], kernel_shape=[kernel] * 2, strides=[draft.integer(1, 2)] * 2, pads=pads)[0]


def _enlarged(draft: Draft, x: str) -> str:
    if draft.opset < 13:
        raise Reject("another form")
    scales = draft.constant([1, 1, 2, 2], np.float32)
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return draft.add("Resize", [x, "", scales], **options)[0]


def _turned(draft: Draft, x: str) -> str:
    """Elementwise work with the channels last."""
    (y,) = draft.add("Transpose", [x], perm=[0, 2, 3, 1])
    (y,) = draft.add("Mul", [y, vector(draft, draft.value(y).shape[-1])])
    y = activate(draft, y)
    return draft.add("Transpose", [y], perm=[0, 3, 1, 2])[0]


PIECES: tuple[Callable[[Draft, str], str], ...] = (
    *(_plain, _plain, _plain, _dilated, _grouped, _residual, _inverted),
    *(_excited, _branches, _halves, _pooled, _enlarged, _turned),
)
"""Layers of convolutional networks."""


@operator("*cnn")
def cnn(draft: Draft, _: str) -> None:
    """Convolutions of every kind one behind the other, and a head now and then."""
    sizes = [draft.integer(5, 40) for _ in range(2)]
    x = draft.new(draft.real, (draft.choice([1, 1, 2]), draft.choice([3, 8, 16, 32, 20]), *sizes), False)
    for _ in range(draft.integer(2, 6)):
        x = draft.choice(PIECES)(draft, x)
    if draft.chance(0.4):
        (x,) = draft.add("GlobalAveragePool", [x])
        (x,) = draft.add("Flatten", [x])
        classes = draft.integer(5, 100)
        weights = scaled_weights(draft, classes, draft.value(x).shape[1])
        draft.add("Gemm", [x, weights, vector(draft, classes)], transB=1)


# ---------------------------------------------------------------------- sequences
def normalise(draft: Draft, x: str) -> str:
    """Return a normalisation of the last axis, in the forms that exporters write."""
    width = draft.value(x).shape[-1]
    scale, bias = vector(draft, width, 0.5, 1.5), vector(draft, width)
    if draft.opset >= 17 and draft.chance(0.5):
        return draft.add("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-5)[0]
    axes, options = ([draft.constant([-1])], {}) if draft.opset >= 18 else ([], {"axes": [-1]})
    if draft.chance(0.6):
        (mean,) = draft.add("ReduceMean", [x, *axes], **options)
        (x,) = draft.add("Sub", [x, mean])
    (square,) = draft.add("Mul", [x, x]) if draft.chance(0.5) else draft.add("Pow", [x, draft.constant(2, draft.real)])
    (variance,) = draft.add("ReduceMean", [square, *axes], **options)
    (variance,) = draft.add("Add", [variance, draft.constant(1e-5, draft.real)])
    (deviation,) = draft.add("Sqrt", [variance])
    (x,) = draft.add("Div", [x, deviation])
    (x,) = draft.add("Mul", [x, scale])
    return draft.add("Add", [x, bias])[0] if draft.chance(0.6) else x


def _project(draft: Draft, x: str, width: int) -> str:
    """Return a linear map, in the forms that exporters write."""
    inner = draft.value(x).shape[-1]
    weights = (draft.random.standard_normal((inner, width)) / np.sqrt(inner)).astype(draft.real)
    if draft.chance(0.2):  # one product of two axes between reshapes
        shape = draft.value(x).shape
        (rows,) = draft.add("Reshape", [x, draft.constant([-1, inner])])
        (y,) = draft.add("Gemm", [rows, draft.leaf(weights, constant=True), vector(draft, width)])
        return draft.add("Reshape", [y, draft.constant([*shape[:-1], width])])[0]
    (y,) = draft.add("MatMul", [x, draft.leaf(weights, constant=True)])
    bias = [y, vector(draft, width)]
    return draft.add("Add", bias if draft.chance(0.5) else bias[::-1])[0] if draft.chance(0.7) else y


def _heads(draft: Draft, x: str, heads: int, perm: list[int]) -> str:
    batch, length, width = draft.value(x).shape
    (y,) = draft.add("Reshape", [x, draft.constant([0 if draft.chance(0.5) else batch, length, heads, width // heads])])
    return draft.add("Transpose", [y], perm=perm)[0]


def attend(draft: Draft, x: str, heads: int) -> str:
    """Return attention of a sequence to itself."""
    batch, length, width = draft.value(x).shape
    if draft.chance(0.5):
        query, key, value = (_project(draft, x, width) for _ in range(3))
    else:
        joined = _project(draft, x, 3 * width)
        sizes = [width] * 3
        if draft.opset < 13:
            query, key, value = draft.add("Split", [joined], 3, axis=2, split=sizes)
        else:
            query, key, value = draft.add("Split", [joined, draft.constant(sizes)], 3, axis=2)
    query, value = (_heads(draft, part, heads, [0, 2, 1, 3]) for part in (query, value))
    (scores,) = draft.add("MatMul", [query, _heads(draft, key, heads, [0, 2, 3, 1])])
    root = float(np.sqrt(width // heads))
    if draft.chance(0.5):
        (scores,) = draft.add("Div", [scores, draft.constant(root, draft.real)])
    else:
        (scores,) = draft.add("Mul", [scores, draft.constant(1 / root, draft.real)])
    if draft.chance(0.5):
        hidden = (
            np.triu(np.ones((length, length)), 1) if draft.chance(0.5) else draft.random.random((length, length)) < 0.2
        )
        mask = np.where(hidden, -1e4, 0).astype(draft.real)
        shape = draft.choice([(length, length), (1, 1, length, length)])
        (scores,) = draft.add("Add", [scores, draft.leaf(mask.reshape(shape))])
    (weights,) = draft.add("Softmax", [scores], axis=-1 if draft.opset >= 13 else 3)
    (y,) = draft.add("MatMul", [weights, value])
    (y,) = draft.add("Transpose", [y], perm=[0, 2, 1, 3])
    (y,) = draft.add("Reshape", [y, draft.constant([batch, length, width])])
    return _project(draft, y, width)


def _gelu(draft: Draft, x: str) -> str:
    if draft.opset < 9 or draft.chance(0.3):
        return activate(draft, x)
    number = lambda value: draft.constant(value, draft.real)  # noqa: E731
    if draft.chance(0.5):
        (y,) = draft.add("Div", [x, number(np.sqrt(2))])
        (y,) = draft.add("Erf", [y])
    else:
        (y,) = draft.add("Pow", [x, number(3)])
        (y,) = draft.add("Mul", [y, number(0.044715)])
        (y,) = draft.add("Add", [x, y])
        (y,) = draft.add("Mul", [y, number(np.sqrt(2 / np.pi))])
        (y,) = draft.add("Tanh", [y])
    (y,) = draft.add("Add", [y, number(1)])
    (y,) = draft.add("Mul", [x, y])
    return draft.add("Mul", [y, number(0.5)])[0]


@operator("*transformer")
def transformer(draft: Draft, _: str) -> None:
    """One or two layers, normalised before or behind."""
    heads = draft.choice([1, 2, 4, 3])
    width = heads * draft.choice([8, 16, 32, 20])
    batch, length = draft.integer(1, 2), draft.integer(1, 70)
    if draft.chance(0.4):
        table = draft.leaf(draft.random.standard_normal((50, width)).astype(draft.real), constant=True)
        ids = draft.leaf(np.asarray(draft.random.integers(0, 50, (batch, length))).astype(I64), constant=False)
        (x,) = draft.add("Gather", [table, ids])
    else:
        x = draft.new(draft.real, (batch, length, width), False)
    before = draft.chance(0.5)
    for _layer in range(draft.integer(1, 2)):
        for part in ("attention", "feed forward"):
            y = normalise(draft, x) if before else x
            if part == "attention":
                y = attend(draft, y, heads)
            else:
                y = _project(draft, _gelu(draft, _project(draft, y, width * draft.integer(1, 4))), width)
            (x,) = draft.add("Add", [x, y] if draft.chance(0.5) else [y, x])
            x = x if before else normalise(draft, x)

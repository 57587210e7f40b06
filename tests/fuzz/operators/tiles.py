"""Networks in sizes around those of tiles, blocks of channels and blocks of keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.graph import F32, Draft, Reject
from tests.fuzz.operators import operator
from tests.fuzz.operators.networks import PIECES, activate, attend, convolve, normalise, scaled_weights, vector


def _near(draft: Draft, step: int, largest: int) -> int:
    """Return a multiple of `step`, or a number beside one."""
    return max(1, step * draft.integer(0, largest // step) + draft.choice([0, 0, 0, -1, 1, draft.integer(1, step)]))


# ---------------------------------------------------------------------- pictures
def _dense(draft: Draft, x: str) -> str:
    """Each convolution reads all before it."""
    growth = draft.choice([16, 32, 32, 24])
    for _ in range(draft.integer(2, 4)):
        y = normalised = draft.add("Mul", [x, _by_channel(draft, x)])[0]
        if draft.chance(0.7):
            y = draft.add("Relu", [draft.add("Add", [normalised, _by_channel(draft, x)])[0]])[0]
        (x,) = draft.add("Concat", [x, convolve(draft, y, growth, draft.choice([1, 3]))], axis=1)
    return x


def _by_channel(draft: Draft, x: str) -> str:
    channels = draft.value(x).shape[1]
    return draft.leaf(draft.random.uniform(-1, 1, (channels, 1, 1)).astype(draft.real), constant=True)


def _sliced(draft: Draft, x: str) -> str:
    """Parts of the channels or of the picture."""
    axis = draft.choice([1, 1, 2, 3])
    size = draft.value(x).shape[axis]
    start = min(size - 1, draft.choice([0, 16, 32, 1])) if axis == 1 else draft.choice([0, 1, 2])
    end = draft.choice([size, start + 16, start + 32, size - 1])
    bounds = [draft.constant([number]) for number in (start, end, axis)]
    if draft.opset < 10:
        return draft.add("Slice", [x], starts=[start], ends=[end], axes=[axis])[0]
    return draft.add("Slice", [x, *bounds])[0]


def _padded(draft: Draft, x: str) -> str:
    if draft.opset < 11:
        raise Reject("another form")
    amounts = [0, 0, *(draft.integer(0, 2) for _ in range(2)), 0, 0, *(draft.integer(0, 2) for _ in range(2))]
    (y,) = draft.add("Pad", [x, draft.constant(amounts)], mode=draft.choice(["constant", "reflect", "edge"]))
    return convolve(draft, y, draft.choice([16, 32, 24]), 3) if draft.chance(0.6) else y


def _transposed(draft: Draft, x: str) -> str:
    stride, kernel = draft.integer(1, 2), draft.integer(2, 4)
    weights = scaled_weights(draft, draft.value(x).shape[1], draft.choice([16, 32, 20, 1]), kernel, kernel)
    inputs = [x, weights, vector(draft, draft.value(weights).shape[1])] if draft.chance(0.5) else [x, weights]
    pads = [draft.integer(0, 1)] * 4
    (y,) = draft.add("ConvTranspose", inputs, strides=[stride] * 2, pads=pads)
    return activate(draft, y) if draft.chance(0.5) else y


def _averaged(draft: Draft, x: str) -> str:
    options = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [draft.integer(1, 2)] * 2}
    return draft.add("AveragePool", [x], count_include_pad=draft.choice([0, 1]), **options)[0]


def _interpolated(draft: Draft, x: str) -> str:
    if draft.opset < 13:
        raise Reject("another form")
    scales = draft.constant([1, 1, draft.choice([2, 2, 1.5, 3]), draft.choice([2, 2, 0.5])], np.float32)
    coordinates = draft.choice(["half_pixel", "align_corners"])
    return draft.add("Resize", [x, "", scales], mode="linear", coordinate_transformation_mode=coordinates)[0]


def _weighed(draft: Draft, x: str) -> str:
    """A softmax over the channels."""
    if draft.opset < 13:
        raise Reject("another meaning")
    return draft.add("Mul", [x, draft.add("Softmax", [x], axis=1)[0]])[0]


def _single(draft: Draft, x: str) -> str:
    """Few outputs of many channels, and many of few."""
    y = convolve(draft, x, draft.choice([1, 2, 3, 4]), draft.choice([1, 3, 5]))
    return convolve(draft, y, draft.choice([32, 64, 17]), draft.choice([1, 3]))


_LAYERS: tuple[Callable[[Draft, str], str], ...] = (
    *(*PIECES, _dense, _sliced, _padded, _transposed, _averaged, _interpolated, _weighed, _single),
)


@operator("*blocked_cnn")
def blocked_cnn(draft: Draft, _: str) -> None:
    """Convolutions of whole and broken blocks of channels, with everything between them that moves pictures."""
    sizes = [_near(draft, 8, 24) for _ in range(2)]
    x = draft.new(draft.real, (draft.choice([1, 1, 3]), draft.choice([3, 16, 32, 64, 40]), *sizes), False)
    kept = x = convolve(draft, x, draft.choice([16, 32, 48, 64, 96, 72]), draft.choice([1, 3]))
    for _ in range(draft.integer(2, 6)):
        try:
            x = draft.choice(_LAYERS)(draft, x)
        except Reject:
            continue
        if draft.chance(0.4):
            x = convolve(draft, x, draft.choice([16, 32, 64, 96, 24]), draft.choice([1, 1, 3]))
        if draft.value(x).shape[2:] == draft.value(kept).shape[2:] and draft.chance(0.2):
            (x,) = draft.add("Concat", [kept, x], axis=1)
        kept = x if draft.chance(0.3) else kept
    if draft.chance(0.5):
        convolve(draft, x, draft.choice([1, 3, 32, 40]), draft.choice([1, 3]))


# ---------------------------------------------------------------------- sequences
@operator("*products")
def products(draft: Draft, _: str) -> None:
    """Products of two or three axes, by constant or computed operands of either order, one behind the other."""
    rows, inner = draft.choice([1, 1, 3, 16, _near(draft, 16, 300)]), _near(draft, 32, 400)
    batch = draft.choice([(), (), (1,), (draft.integer(2, 5),)])
    x = draft.new(draft.real, (*batch, rows, inner), False)
    for _ in range(draft.integer(1, 4)):
        inner, columns = draft.value(x).shape[-1], _near(draft, 16, 300)
        if draft.chance(0.15):
            (x,) = draft.add("Transpose", [x], perm=[*range(len(batch)), len(batch) + 1, len(batch)])
            inner = draft.value(x).shape[-1]
        shape = (*(batch if draft.chance(0.2) else ()), inner, columns)
        array = (draft.random.standard_normal(shape) / np.sqrt(inner)).astype(draft.real)
        if not batch and draft.chance(0.3):
            weights = draft.leaf(np.ascontiguousarray(array.T), constant=True)
            (x,) = draft.add("Gemm", [x, weights, vector(draft, columns)], transB=1, alpha=draft.choice([None, 0.5]))
        else:
            (x,) = draft.add("MatMul", [x, draft.leaf(array, constant=draft.chance(0.8))])
            if draft.chance(0.6):
                (x,) = draft.add("Add", [x, vector(draft, columns)])
        x = activate(draft, x) if draft.chance(0.5) else x
        x = normalise(draft, x) if draft.chance(0.2) else x


@operator("*long_attention")
def long_attention(draft: Draft, _: str) -> None:
    """Many keys: masks of every kind, also such that hide all but one key, and values of another size."""
    size, value_size = draft.choice([8, 16, 32, 64, 80, 128, 20]), draft.choice([16, 32, 64, 24])
    batch, heads = draft.integer(1, 2), draft.integer(1, 3)
    length, past = draft.choice([1, 2, _near(draft, 16, 130)]), _near(draft, 32, 600)
    groups = heads if draft.opset < 23 else draft.choice([heads, 1])
    query = draft.new(draft.real, (batch, heads, length, size), False)
    key, value = (draft.new(draft.real, (batch, groups, past, width), False) for width in (size, value_size))
    mask = _mask(draft, length, past)
    if draft.opset >= 23 and draft.real == F32 and (groups != heads or draft.chance(0.4)):
        draft.add("Attention", [query, key, value, *([mask] if mask else [])])
        return
    (key,) = draft.add("Transpose", [key], perm=[0, 1, 3, 2])
    (scores,) = draft.add("MatMul", [query, key])
    (scores,) = draft.add("Mul", [scores, draft.constant(draft.choice([1, 1, 4]) / np.sqrt(size), draft.real)])
    if mask:
        (scores,) = draft.add("Add", [scores, mask])
    (weights,) = draft.add("Softmax", [scores], axis=3)
    (y,) = draft.add("MatMul", [weights, value])
    (y,) = draft.add("Transpose", [y], perm=[0, 2, 1, 3])
    draft.add("Reshape", [y, draft.constant([batch, length, heads * value_size])])


def _mask(draft: Draft, length: int, past: int) -> str:
    """Return what is added to scores; nothing now and then."""
    kind = draft.choice(["none", "none", "causal", "random", "one", "numbers"])
    if kind == "none":
        return ""
    if kind == "numbers":
        return draft.new(draft.real, (length, past), False)
    hidden = {
        "causal": np.triu(np.ones((length, past)), 1 + max(0, past - length)),
        "random": draft.random.random((length, past)) < 0.7,
        "one": np.ones((length, past)),
    }[kind].astype(bool)
    hidden[np.arange(length), draft.random.integers(0, past, length)] = False
    lowest = draft.choice([-np.inf, -1e4, np.finfo(draft.real).min])
    shape = draft.choice([(length, past), (1, 1, length, past)])
    return draft.leaf(np.where(hidden, lowest, 0).astype(draft.real).reshape(shape), constant=draft.chance(0.3))


@operator("*tokens")
def tokens(draft: Draft, _: str) -> None:
    """A picture that becomes a sequence, is attended to, and becomes a picture again."""
    patch, heads = draft.choice([1, 2, 4]), draft.choice([1, 2, 4])
    width = heads * draft.choice([16, 32])
    rows, columns = draft.integer(2, 9), draft.integer(2, 9)
    x = draft.new(draft.real, (draft.integer(1, 2), draft.choice([3, 16, 32]), rows * patch, columns * patch), False)
    batch = draft.value(x).shape[0]
    if draft.chance(0.5):
        x = convolve(draft, x, draft.choice([16, 32, 64]), 3)
    weights = scaled_weights(draft, width, draft.value(x).shape[1], patch, patch)
    (x,) = draft.add("Conv", [x, weights, vector(draft, width)], strides=[patch] * 2)
    (y,) = draft.add("Reshape", [x, draft.constant([batch, width, rows * columns])])
    (y,) = draft.add("Transpose", [y], perm=[0, 2, 1])
    (y,) = draft.add("Add", [y, attend(draft, normalise(draft, y), heads)])
    if draft.chance(0.7):
        (y,) = draft.add("Transpose", [y], perm=[0, 2, 1])
        (y,) = draft.add("Reshape", [y, draft.constant([batch, width, rows, columns])])
        (y,) = draft.add("Add", [x, y]) if draft.chance(0.5) else (y,)
        convolve(draft, y, draft.choice([16, 32, 48]), draft.choice([1, 3]))

"""Operators that few models have: signals, boxes, caches, pooling and its inverse."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.graph import F32, FLOATS, I64, TYPES, Draft, Reject
from tests.fuzz.operators import operator

_BITS = {
    np.dtype(name): np.dtype(name).itemsize
    for name in ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


@operator("BitCast")
def bit_cast(draft: Draft, op: str) -> None:
    """Between types of the same width."""
    x = draft.pick(_BITS)
    to = draft.choice([dtype for dtype, size in _BITS.items() if size == draft.value(x).dtype.itemsize])
    if to in FLOATS and draft.value(x).dtype not in FLOATS:
        raise Reject("denormals, and NaN of every kind")
    draft.add(op, [x], to=helper.np_dtype_to_tensor_dtype(to))


@operator("CausalConvWithState")
def causal_conv(draft: Draft, op: str) -> None:
    """With and without what came before."""
    batch, channels, length, kernel = (draft.integer(1, high) for high in (3, 5, 9, 4))
    inputs = [draft.new(F32, (batch, channels, length)), draft.new(F32, (channels, 1, kernel))]
    inputs.append(draft.new(F32, (channels,)) if draft.chance(0.5) else "")
    if draft.chance(0.6):
        inputs.append(draft.new(F32, (batch, channels, kernel - 1)))
    draft.add(op, inputs, 2, activation=draft.choice([None, "none", "silu", "swish"]))


@operator("LinearAttention")
def linear_attention(draft: Draft, op: str) -> None:
    """All rules, several query heads for each of the keys."""
    batch, length, heads, group, keys, values = (draft.integer(1, high) for high in (2, 5, 2, 2, 4, 4))
    rule = draft.choice(["linear", "gated", "delta", "gated_delta"])
    inputs = [draft.new(F32, (batch, length, n)) for n in (heads * group * keys, heads * keys, heads * values)]
    inputs.append(draft.new(F32, (batch, heads, keys, values)) if draft.chance(0.5) else "")
    decay = draft.random.uniform(-1, 0, (batch, length, heads * draft.choice([1, keys]))).astype(np.float32)
    inputs.append(draft.leaf(decay) if "gated" in rule else "")
    beta = draft.random.uniform(0, 1, (batch, length, draft.choice([1, heads]))).astype(np.float32)
    inputs.append(draft.leaf(beta) if "delta" in rule else "")
    while not inputs[-1]:
        inputs.pop()
    draft.add(
        op,
        inputs,
        2,
        q_num_heads=heads * group,
        kv_num_heads=heads,
        update_rule=rule,
        scale=draft.choice([None, 0.5]),
    )


@operator("TensorScatter")
def tensor_scatter(draft: Draft, op: str) -> None:
    """A cache that is written at an index, around its end if it is circular."""
    dtype = draft.dtype(TYPES)
    shape = [draft.integer(1, 4) for _ in range(draft.integer(2, 4))]
    axis = draft.integer(1, len(shape) - 1)
    shape[axis] = draft.integer(2, 7)
    length = draft.integer(1, shape[axis])
    circular = draft.chance(0.5)
    update = [length if i == axis else size for i, size in enumerate(shape)]
    inputs = [draft.new(dtype, shape), draft.new(dtype, update)]
    if draft.chance(0.8):
        most = shape[axis] - (1 if circular else length)
        inputs.append(draft.leaf(draft.random.integers(0, most + 1, shape[0]).astype(np.int64)))
    place = axis - len(shape) if draft.chance(0.5) else axis
    draft.add(op, inputs, axis=place, mode="circular" if circular else draft.choice([None, "linear"]))


@operator("MelWeightMatrix")
def mel_weights(draft: Draft, op: str) -> None:
    """Sizes as inputs."""
    integers = draft.choice([np.int32, np.int64])
    rate = draft.choice([8000, 16000])
    numbers = [draft.constant(n, integers) for n in (draft.integer(2, 9), draft.choice([16, 32, 50]), rate)]
    edges = [draft.constant(edge, np.float32) for edge in (draft.choice([0.0, 100.0]), rate / 2.0)]
    kind = draft.choice([None, TensorProto.FLOAT, TensorProto.DOUBLE])
    draft.add(op, [*numbers, *edges], output_datatype=kind)


@operator("STFT")
def stft(draft: Draft, op: str) -> None:
    """Real signals, a window or a length of frames."""
    length, frame, step = draft.integer(12, 40), draft.integer(4, 11), draft.integer(1, 6)
    signal = draft.new(draft.choice(FLOATS[:2]), (draft.integer(1, 2), length, 1))
    dtype = draft.value(signal).dtype
    integers = draft.choice([np.int32, np.int64])
    window = draft.leaf(draft.random.uniform(0.1, 1, frame).astype(dtype)) if draft.chance(0.7) else ""
    inputs = [signal, draft.constant(step, integers), window]
    if not window or draft.chance(0.4):
        inputs.append(draft.constant(frame, integers))
    draft.add(op, inputs, onesided=draft.choice([None, 0, 1]))


@operator("NonMaxSuppression")
def non_max_suppression(draft: Draft, op: str) -> None:
    """Boxes by their corners or their centres."""
    batch, classes, boxes = draft.integer(1, 2), draft.integer(1, 3), draft.integer(1, 9)
    corners = draft.random.uniform(0, 5, (batch, boxes, 2, 2))
    center = draft.integer(0, 1)
    first, second = corners.min(2), corners.max(2) + 0.25
    found = np.concatenate([(first + second) / 2, second - first] if center else [first, second], 2)
    scores = draft.random.permutation(batch * classes * boxes).reshape(batch, classes, boxes) / 64.0
    inputs = [draft.leaf(array.astype(np.float32)) for array in (found, scores)]
    limits = [draft.constant([draft.integer(0, 5)]), draft.constant([draft.choice([0.0, 0.3, 0.5])], np.float32)]
    limits.append(draft.constant([draft.choice([0.1, 0.2])], np.float32))
    draft.add(op, [*inputs, *limits[: draft.integer(1, 3)]], center_point_box=center)


@operator("DeformConv")
def deform_conv(draft: Draft, op: str) -> None:
    """With groups, offsets by group, and masks."""
    group, offsets = draft.choice([1, 1, 2]), draft.choice([1, 2])
    batch, channels, out = draft.integer(1, 2), 2 * draft.integer(1, 2), group * draft.integer(1, 3)
    size, kernel, stride = draft.integer(4, 7), draft.integer(1, 3), draft.integer(1, 2)
    pad = draft.integer(0, 1)
    result = (size + 2 * pad - kernel) // stride + 1
    count = offsets * kernel * kernel
    shapes = [(batch, channels, size, size), (out, channels // group, kernel, kernel)]
    inputs = [draft.new(F32, shape) for shape in (*shapes, (batch, 2 * count, result, result))]
    inputs.append(draft.new(F32, (out,)) if draft.chance(0.5) else "")
    if draft.chance(0.5):
        inputs.append(draft.new(F32, (batch, count, result, result)))
    elif not inputs[-1]:
        inputs.pop()
    draft.add(
        op,
        inputs,
        group=group,
        offset_group=offsets,
        pads=[pad] * 4,
        strides=[stride] * 2,
        kernel_shape=draft.choice([None, [kernel] * 2]),
    )


@operator("MaxRoiPool")
def max_roi_pool(draft: Draft, op: str) -> None:
    """Regions inside of the pictures."""
    batch, channels, height, width = (draft.integer(1, high) for high in (2, 3, 9, 9))
    x = draft.new(F32, (batch, channels, height, width))
    rois = []
    for _ in range(draft.integer(1, 4)):
        left, right = sorted(draft.random.integers(0, width, 2).tolist())
        top, bottom = sorted(draft.random.integers(0, height, 2).tolist())
        rois.append([draft.integer(0, batch - 1), left, top, right, bottom])
    regions = draft.leaf(np.array(rois, np.float32))
    draft.add(op, [x, regions], pooled_shape=[draft.integer(1, 3), draft.integer(1, 3)])


@operator("MaxUnpool")
def max_unpool(draft: Draft, op: str) -> None:
    """Of what MaxPool has made, to a size that is told or not."""
    batch, channels, size = draft.integer(1, 2), draft.integer(1, 2), 2 * draft.integer(2, 4)
    values = draft.random.permutation(batch * channels * size * size).reshape(batch, channels, size, size)
    x = draft.leaf(values.astype(np.float32) / 16)
    pooled, indices = draft.add("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    inputs = [pooled, indices]
    if draft.chance(0.4):
        inputs.append(draft.constant([batch, channels, size, size]))
    draft.add(op, inputs, kernel_shape=[2, 2], strides=[2, 2])


@operator("*optional")
def optional(draft: Draft, _: str) -> None:
    """Something that may be there, is."""
    if draft.opset < 15:
        raise Reject("no optionals")
    x = draft.pick((F32, I64), (0, 3))
    (made,) = draft.add("Optional", [x])
    if draft.chance(0.5):
        draft.add("OptionalHasElement", [made])
    draft.add("OptionalGetElement", [made])

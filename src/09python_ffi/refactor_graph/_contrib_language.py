"""Operators of com.microsoft that language models are made of, in terms of others.

Sizes that the model fixes are compared here, others by the operators of a body. Source: onnxruntime,
docs/ContribOperators.md, and its CPU kernels by their results.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from refactor_graph._bodies import END, Body, BodyOp
from refactor_graph._errors import Unsupported

_FLOAT, _INT64 = int(TensorProto.FLOAT), int(TensorProto.INT64)


# ---------------------------------------------------------------------- what several have in common
def _fits(sizes: list[int | None], wanted: list[int | None]) -> bool:
    """Return whether two shapes may be the same, None being any size."""
    pairs = zip(sizes, wanted, strict=False)
    return len(sizes) == len(wanted) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def _expect_shape(b: Body, index: int, *wanted: int | None, what: str) -> None:
    """Refuse an input whose rank, or a size, is known to be another; None is any size."""
    sizes = b.sizes(index)
    text = ", ".join("?" if size is None else str(size) for size in wanted)
    b.expect(sizes is None or _fits(sizes, [*wanted]), what, " has shape ", sizes, ", expected [", text, "]")


def _expect_same(b: Body, index: int, other: int, what: str) -> None:
    sizes = b.sizes(other)
    if sizes is not None:
        _expect_shape(b, index, *sizes, what=what)


def _choice(b: Body, name: str, *known: object) -> None:
    value = b.attributes[name]
    b.expect(value in known, name, " is ", repr(value), ", expected one of ", ", ".join(map(repr, known)))


def _wide(b: Body, x: str) -> str:
    return str(b.add("Cast", x, to=_FLOAT))


def _give_as_input(b: Body, index: int, value: str) -> None:
    """Make `value` an output of the type of the first input."""
    if b.asks(index):
        b.give(index, b.add("CastLike", value, b.input(0)))


def _product(b: Body, x: str, *others: str) -> str:
    for other in others:
        x = b.add("Mul", x, other)
    return x


def _silu(b: Body, x: str) -> str:
    return _product(b, x, b.add("Sigmoid", x))


def _joined(b: Body, *parts: str | int) -> str:
    """Append a shape made of vectors and numbers."""
    vectors = [part if isinstance(part, str) else b.constant([part]) for part in parts]
    return str(b.add("Concat", *vectors, axis=0))


def _rms_norm(b: Body, x: str, scale: str = "") -> str:
    """Append RMS normalisation of x in f32 along the last axis, whose size the scale has if it is given."""
    scale = scale or b.add("Expand", b.constant(1.0, np.float32), b.size(x, -1))
    options = {"axis": -1, "epsilon": b.attributes["epsilon"]}
    return str(b.contrib("SimplifiedLayerNormalization", x, scale, **options))


# ---------------------------------------------------------------------- linear attention
def _causal_conv(b: Body) -> None:
    _choice(b, "activation", "none", "silu", "swish")
    _choice(b, "channels_last", 0, 1)
    last, ndim, dilation, window = (
        b.attributes[name] for name in ("channels_last", "ndim", "dilation", "state_window")
    )
    b.expect(dilation >= 1, "dilation is ", dilation, ", expected at least 1")
    b.expect(0 <= window <= 8, "state_window is ", window, ", expected 0 to 8")
    if ndim != 1:
        raise Unsupported(f"ndim {ndim}")
    _expect_shape(b, 1, None, 1, None, what="weight")
    channels, _, taps = b.sizes(1) or [None, None, None]
    if channels is None or taps is None:
        raise Unsupported("weight of unknown size")
    state = (taps - 1) * dilation
    _check_causal_conv(b, channels, state)
    axis = 1 if last else 2
    x = b.add("Reshape", b.input(0), b.constant([0, 0, channels])) if last else b.input(0)
    whole, missing = x, state
    if b.has(3) and state:
        past = b.add("Gather", b.input(3), b.constant(window - 1), axis=0) if window else b.input(3)
        past = b.add("Reshape", past, b.constant([0, state, channels] if last else [0, channels, state]))
        whole, missing = b.add("Concat", past, x, axis=axis), 0
    operand = b.add("Transpose", whole, perm=[0, 2, 1]) if last else whole
    options: dict[str, Any] = {"dilations": [dilation], "group": channels, "kernel_shape": [taps], "pads": [missing, 0]}
    y = b.add("Conv", operand, *b.inputs(1, 2), **options)
    y = y if b.attributes["activation"] == "none" else _silu(b, y)
    b.give(0, b.add("Reshape", b.add("Transpose", y, perm=[0, 2, 1]), b.add("Shape", b.input(0))) if last else y)
    if b.asks(1):
        _give_states(b, whole, missing, b.size(x, axis), state)


def _give_states(b: Body, whole: str, missing: int, length: str, state: int) -> None:
    """Make the last `state` positions of `whole` the output present_state; `missing` zeros are to be put before it."""
    last, window = b.attributes["channels_last"], b.attributes["state_window"]
    axis, zeros = 1 if last else 2, missing + max(window - 1, 0)
    if zeros:
        pads = [0] * 6
        pads[axis] = zeros
        whole = b.add("Pad", whole, b.constant(pads))
    slots = []
    for back in range(max(window, 1))[::-1]:
        slot = b.part(whole, axis, -state - back if state + back else END, -back if back else END)
        if back:  # zeros where the call has no such position
            zero = b.add("CastLike", b.constant(0), slot)
            slot = b.add("Where", b.add("Greater", length, b.constant(back)), slot, zero)
        slots.append(b.unsqueeze(slot, 0) if window else slot)
    states = b.add("Concat", *slots, axis=0) if window > 1 else slots[0]
    if last:
        shape = b.add("Shape", b.input(0))
        sizes = _joined(b, *([window] if window else []), b.part(shape, 0, 0, 1), state, b.part(shape, 0, 2, END))
        states = b.add("Reshape", states, sizes)
    b.give(1, states)


def _check_causal_conv(b: Body, channels: int, state: int) -> None:
    sizes, window = b.sizes(0), b.attributes["state_window"]
    slots = [window] if window else []
    _expect_shape(b, 2, channels, what="bias")
    if sizes is None:
        return
    if b.attributes["channels_last"]:
        b.expect(len(sizes) >= 3, "the input has ", len(sizes), " axes, expected at least 3")
        known = [size for size in sizes[2:] if size is not None]
        fits = len(known) < len(sizes) - 2 or prod(known) == channels
        b.expect(fits, "channels of shape ", known, ", expected ", channels)
        _expect_shape(b, 3, *slots, sizes[0], state, *sizes[2:], what="past_state")
    else:
        _expect_shape(b, 0, None, channels, None, what="the input")
        _expect_shape(b, 3, *slots, sizes[0], channels, state, what="past_state")


def _attention_gate(b: Body) -> None:
    b.expect(b.has(3) or not b.asks(1), "the output beta needs the input b")
    sizes = b.sizes(0)
    if sizes is not None:
        b.expect(len(sizes) > 0, "a is a scalar")
        for index, what in ((1, "dt_bias"), (2, "decay_scale")):
            _expect_shape(b, index, sizes[-1], what=what)
        _expect_same(b, 3, 0, "b")
    sums = b.add("Add", _wide(b, b.input(0)), b.input(1))
    _give_as_input(b, 0, _product(b, b.add("Softplus", sums), b.input(2)))
    if b.asks(1):
        _give_as_input(b, 1, b.add("Sigmoid", _wide(b, b.input(3))))


def _gated_rms_norm(b: Body) -> None:
    _choice(b, "activation", "silu", "swish", "sigmoid")
    _expect_shape(b, 1, None, what="scale")
    _expect_same(b, 2, 0, "gate")
    sizes, (width,) = b.sizes(0), b.sizes(1) or [None]
    size = sizes[-1] if sizes else None
    if size is not None and width is not None:
        fits = width > 0 and size % width == 0
        b.expect(fits, "the last size of the input is ", size, ", expected a multiple of ", width)
    x, scale, gate = (_wide(b, value) for value in b.inputs(0, 1, 2))
    shape = ""
    if size is None or size != width:
        shape = b.add("Shape", x)
        x = b.add("Reshape", x, _joined(b, b.part(shape, 0, 0, -1), -1, b.add("Shape", scale)))
    y = _rms_norm(b, x, scale)
    y = b.add("Reshape", y, shape) if shape else y
    active = b.add("Sigmoid", gate) if b.attributes["activation"] == "sigmoid" else _silu(b, gate)
    _give_as_input(b, 0, _product(b, y, active))


# ---------------------------------------------------------------------- gates
def _gated_add(b: Body) -> None:
    sizes = b.sizes(0)
    if sizes is not None:
        b.expect(len(sizes) > 0, "X is a scalar")
        _expect_same(b, 1, 0, "Y")
        _expect_shape(b, 2, *sizes[:-1], 1, what="gate")
    b.give(0, b.add("Add", b.input(0), _product(b, b.input(1), b.input(2))))


def _scaled_silu(b: Body) -> None:
    _expect_shape(b, 1, what="scale")
    x = b.input(0)
    if b.has(1):
        scale = _wide(b, b.add("Reshape", b.input(1), b.constant([])))
        x = b.add("CastLike", _product(b, _wide(b, x), scale), x)
    elif b.attributes["alpha"] != 1:
        x = b.add("CastLike", _product(b, _wide(b, x), b.constant(b.attributes["alpha"], np.float32)), x)
    b.give(0, _silu(b, x))


# ---------------------------------------------------------------------- several streams
def _streams(b: Body) -> tuple[str, str, list[int | None] | None]:
    """Append the first input in f32 as [..., C, H].

    Returns
    -------
    grouped, branches, sizes
        It; its shape without H; what is known of [..., C, H].
    """
    count = b.attributes["num_branches"]
    b.expect(count >= 0, "num_branches is ", count, ", expected at least 0")
    x, sizes = _wide(b, b.input(0)), b.sizes(0)
    if sizes is not None:
        least = 1 if count else 2
        b.expect(len(sizes) >= least, "the input has ", len(sizes), " axes, expected at least ", least)
    if not count:
        return x, b.part(b.add("Shape", x), 0, 0, -1), sizes
    if sizes is not None:
        size = sizes.pop()
        b.expect(size is None or size % count == 0, "the last size ", size, " is not divisible by num_branches ", count)
        sizes += [count, None if size is None else size // count]
    branches = _joined(b, b.part(b.add("Shape", x), 0, 0, -1), count)
    return b.add("Reshape", x, _joined(b, branches, -1)), branches, sizes


def _gates(b: Body, index: int, branches: str, sizes: list[int | None] | None, *, flat: bool, what: str) -> str:
    """Append gates [..., C], [..., C, 1], [..., C, H], and [..., C · H] if `flat`, as [..., C, 1 or H] in f32."""
    given = b.sizes(index)
    if given is not None and sizes is not None:
        *leading, count, width = sizes
        whole = None if count is None or width is None else count * width
        forms = [[*leading, count], [*leading, count, 1], [*leading, count, width]]
        forms += [[*leading, whole]] if flat else []
        b.expect(any(_fits(given, form) for form in forms), what, " of shape ", given, " for streams of shape ", sizes)
    return str(b.add("Reshape", _wide(b, b.input(index)), _joined(b, branches, -1)))


def _check_branch_scale(b: Body, sizes: list[int | None] | None) -> None:
    given = b.sizes(1)
    if given is None or sizes is None:
        return
    *_, count, width = sizes
    if width is None and len(given) == 1:  # it may be for H, or for C · H
        raise Unsupported("a scale of one axis for branches of unknown size")
    forms: list[list[int | None]] = [[width], [count, width]]
    forms.append([None if count is None or width is None else count * width])
    b.expect(any(_fits(given, form) for form in forms), "scale of shape ", given, " for branches of shape ", sizes[-2:])


def _branchwise_rms_norm(b: Body) -> None:
    x, _, sizes = _streams(b)
    y = _rms_norm(b, x)
    if b.has(1):
        _check_branch_scale(b, sizes)
        scale = b.add("Reshape", _wide(b, b.input(1)), _joined(b, -1, b.size(x, -1)))
        y = _product(b, y, scale)
    if b.attributes["num_branches"]:
        y = b.add("Reshape", y, b.add("Shape", b.input(0)))
    _give_as_input(b, 0, y)


def _pre_mix(b: Body) -> None:
    x, branches, sizes = _streams(b)
    gates = _gates(b, 1, branches, sizes, flat=b.attributes["num_branches"] > 0, what="pre_mix")
    y = b.reduce("ReduceSum", _product(b, x, gates), [-2], keepdims=0)
    if b.attributes["reduction_scale"] != 1:
        y = _product(b, y, b.constant(b.attributes["reduction_scale"], np.float32))
    _give_as_input(b, 0, y)


def _post_mix(b: Body) -> None:
    x, branches, sizes = _streams(b)
    if sizes is not None:
        *leading, count, width = sizes
        _expect_shape(b, 1, *leading, width, what="block_output")
        _expect_shape(b, 3, *leading, count, count, what="stream_mix")
    gates = _gates(b, 2, branches, sizes, flat=False, what="post_mix")
    mixed = b.contrib("FusedMatMul", _wide(b, b.input(3)), x, transA=1) if b.has(3) else x
    y = b.add("Add", mixed, _product(b, gates, b.unsqueeze(_wide(b, b.input(1)), -2)))
    if b.attributes["num_branches"]:
        y = b.add("Reshape", y, b.add("Shape", b.input(0)))
    _give_as_input(b, 0, y)


def _engram_gate(b: Body) -> None:
    b.expect(b.has(5) or not b.asks(1), "the output gated_value_normed needs the input conv_norm_scale")
    sizes = b.sizes(0)
    if sizes is not None:
        _expect_shape(b, 0, None, None, None, None, what="key")
        _expect_same(b, 1, 0, "query")
        _expect_shape(b, 2, sizes[0], sizes[1], sizes[3], what="value")
        for index, what in ((3, "key_norm_scale"), (4, "query_norm_scale"), (5, "conv_norm_scale")):
            _expect_shape(b, index, *sizes[2:], what=what)
    key, query, value, *scales = (_wide(b, x) if x else "" for x in b.inputs(*range(6)))

    def normal(x: str, scale: str) -> str:
        return _product(b, _rms_norm(b, x), scale)

    total = b.reduce("ReduceSum", _product(b, normal(key, scales[0]), normal(query, scales[1])), [-1])
    dot = b.add("Div", total, b.add("Sqrt", _wide(b, b.size(key, -1))))
    root = b.add("Sqrt", b.add("Max", b.add("Abs", dot), b.constant(1e-6, np.float32)))
    gate = b.add("Sigmoid", _product(b, b.add("Sign", dot), root))
    y = _product(b, gate, b.unsqueeze(value, -2))
    _give_as_input(b, 0, y)
    if b.asks(1):
        _give_as_input(b, 1, normal(y, scales[2]))


# ---------------------------------------------------------------------- positions
def _position_streams(section: list[int], layout: int) -> np.ndarray:
    """Return which of the three positions each column of the caches is for."""
    if layout == 0:
        return np.repeat(np.arange(3), section)
    result = np.zeros(sum(section), np.int64)
    for stream in (1, 2):
        result[stream : 3 * section[stream] : 3] = stream
    return result


def _m_rotary(b: Body) -> None:
    if b.attributes["scale"] != 1:
        raise Unsupported(f"scale {b.attributes['scale']}")
    if b.attributes["is_packed_batching"]:
        raise Unsupported("is_packed_batching")
    heads, size, layout = (b.attributes[name] for name in ("num_heads", "rotary_embedding_dim", "mrope_layout"))
    _choice(b, "mrope_layout", 0, 1)
    section = list(b.attributes["mrope_section"])
    half = sum(section)
    fits = len(section) == 3 and min(section) >= 0 and half > 0
    b.expect(fits, "mrope_section is ", section, ", expected three numbers of at least 0")
    b.expect(size in (0, 2 * half), "the sum of mrope_section is ", half, ", expected half of ", size)
    b.expect(size == 0 or heads > 0, "rotary_embedding_dim needs num_heads")
    _check_rotary(b, half)
    streams = _position_streams(section, layout)
    columns = [np.flatnonzero(streams == stream) for stream in range(3)]
    used = [stream for stream in range(3) if columns[stream].size]
    positions = {stream: b.add("Gather", b.input(1), b.constant(stream), axis=0) for stream in used}
    back = np.argsort(np.concatenate(columns))

    def gathered(cache: str) -> str:
        """Append the cache's row of every token [tokens, half]."""
        parts = [
            b.add("Gather", b.add("Gather", cache, b.constant(columns[stream]), axis=1), positions[stream], axis=0)
            for stream in used
        ]
        rows = b.add("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
        rows = b.add("Gather", rows, b.constant(back), axis=-1) if np.any(np.diff(back) != 1) else rows
        return str(b.add("Reshape", rows, b.constant([-1, half])))

    shape = b.part(b.add("Shape", b.input(1)), 0, 1, END)
    number = b.add("ReduceProd", shape, keepdims=0)
    steps = b.add("Reshape", b.add("Range", b.constant(0), number, b.constant(1)), shape)
    options = {"interleaved": b.attributes["interleaved"], "num_heads": heads, "rotary_embedding_dim": size}
    b.give(0, b.contrib("RotaryEmbedding", b.input(0), steps, *map(gathered, b.inputs(2, 3)), **options))


def _check_rotary(b: Body, half: int) -> None:
    sizes, batch, length = b.sizes(0), None, None
    if sizes is not None:
        b.expect(len(sizes) in (3, 4), "the input has ", len(sizes), " axes, expected 3 or 4")
        b.expect(len(sizes) == 4 or b.attributes["num_heads"] > 0, "an input of 3 axes needs num_heads")
        batch, length = sizes[0], sizes[len(sizes) - 2]
    _expect_shape(b, 1, 3, batch, length, what="position_ids")
    for index, what in ((2, "cos_cache"), (3, "sin_cache")):
        _expect_shape(b, index, None, half, what=what)


# ---------------------------------------------------------------------- windows
def _crop_and_resize(b: Body) -> None:
    _choice(b, "mode", "bilinear", "nearest")
    _expect_shape(b, 0, None, None, None, None, what="X")
    _expect_shape(b, 1, None, 4, what="rois")
    _expect_shape(b, 2, (b.sizes(1) or [None])[0], what="batch_indices")
    _expect_shape(b, 3, 2, what="crop_size")
    x, rois, bilinear = b.input(0), _wide(b, b.input(1)), b.attributes["mode"] == "bilinear"
    zero, one, half = (b.constant(value, np.float32) for value in (0.0, 1.0, 0.5))
    shape, crop = b.add("Shape", x), b.add("Cast", b.input(3), to=_INT64)

    def places(axis: int) -> tuple[str, str, str, list[str]]:
        """Append where the crops lie along an axis: places and whether they are inside [rois, crop], ends, rows."""
        size = b.add("Gather", crop, b.constant(axis))
        last = b.add("Sub", _wide(b, b.add("Gather", shape, b.constant(axis + 2))), one)
        low, high = (_product(b, b.part(rois, 1, end, end + 1), last) for end in (axis, axis + 2))
        gaps = b.add("Sub", _wide(b, size), one)
        step = b.add("Div", b.add("Sub", high, low), b.add("Max", gaps, one))
        start = b.add("Where", b.add("Greater", gaps, zero), low, _product(b, b.add("Add", low, high), half))
        steps = _wide(b, b.add("Range", b.constant(0), size, b.constant(1)))
        place = b.add("Add", start, _product(b, steps, step))
        inside = b.add("And", b.add("GreaterOrEqual", place, zero), b.add("LessOrEqual", place, last))
        place = b.add("Min", b.add("Max", place, zero), last)
        ends = [b.add("Floor", place), b.add("Ceil", place)]
        ends = ends if bilinear else [b.add("Floor", b.add("Add", place, half))]
        return place, inside, ends[0], [b.add("Cast", end, to=_INT64) for end in ends]

    (y, y_inside, y_low, rows), (x_place, x_inside, x_low, columns) = places(0), places(1)
    pixels = b.add("Reshape", b.add("Transpose", x, perm=[0, 2, 3, 1]), _joined(b, -1, b.size(x, 1)))
    height, width = b.size(x, 2), b.size(x, 3)
    first = _product(b, b.unsqueeze(b.add("Cast", b.input(2), to=_INT64), 1), height)

    def line(row: str) -> str:
        """Append the crops' pixels of one row each [rois, crop height, crop width, C]."""
        starts = b.unsqueeze(_product(b, b.add("Add", first, row), width), 2)
        found = [b.add("Gather", pixels, b.add("Add", starts, b.unsqueeze(column, 1)), axis=0) for column in columns]
        return between(found, b.unsqueeze(b.add("Sub", x_place, x_low), 1, 3))

    def between(ends: list[str], weight: str) -> str:
        if len(ends) == 1:
            return ends[0]
        change = _product(b, b.add("Sub", ends[1], ends[0]), b.add("CastLike", weight, x))
        return str(b.add("Add", ends[0], change))

    crops = between([line(row) for row in rows], b.unsqueeze(b.add("Sub", y, y_low), 2, 3))
    inside = b.add("And", b.unsqueeze(y_inside, 2, 3), b.unsqueeze(x_inside, 1, 3))
    outside = b.add("CastLike", b.constant(b.attributes["extrapolation_value"], np.float32), x)
    b.give(0, b.add("Transpose", b.add("Where", inside, crops, outside), perm=[0, 3, 1, 2]))


def _unfold(b: Body) -> None:
    dim, size, step = (b.attributes[name] for name in ("dim", "size", "step"))
    b.expect(size > 0, "size is ", size, ", expected at least 1")
    b.expect(step > 0, "step is ", step, ", expected at least 1")
    sizes = b.sizes(0)
    if sizes is not None:
        b.expect(-len(sizes) <= dim < len(sizes), "dim is ", dim, " for ", len(sizes), " axes")
        length = sizes[dim]
        b.expect(length is None or size <= length, "size is ", size, ", expected at most ", length)
    axis = dim if dim == -1 else dim % b.rank(0)
    count = b.add("Sub", b.add("Gather", b.add("Shape", b.input(0)), b.constant(axis)), b.constant(size - 1))
    starts = b.unsqueeze(b.add("Range", b.constant(0), count, b.constant(step)), 1)
    y = b.add("Gather", b.input(0), b.add("Add", starts, b.constant(np.arange(size))), axis=axis)
    if axis != -1 and axis != b.rank(0) - 1:
        axes = [*range(b.rank(0) + 1)]
        axes.append(axes.pop(axis + 1))
        y = b.add("Transpose", y, perm=axes)
    b.give(0, y)


def _word_embedding(b: Body) -> None:
    ids, weights, bias, table = b.inputs(0, 1, 2, 3)
    _expect_shape(b, 0, None, None, what="Sequence")
    _expect_shape(b, 3, None, None, what="C")
    _expect_shape(b, 1, None, 1, None, (b.sizes(3) or [None])[-1], what="W")
    filters, _, window, width = b.sizes(1) or [None] * 4
    _expect_shape(b, 2, filters, what="B")
    for name, size in (("embedding_size", filters), ("conv_window_size", window), ("char_embedding_size", width)):
        given = b.attributes[name]
        b.expect(given is None or size is None or given == size, name, " is ", given, ", expected ", size)
    # Zeros fill a word up. One without characters is zeros, which onnxruntime leaves unwritten.
    marks = b.add("Cast", b.add("Cast", ids, to=TensorProto.BOOL), to=_INT64)
    lengths = b.reduce("ReduceSum", marks, [1])
    y = b.add("Conv", b.unsqueeze(b.add("Gather", table, ids, axis=0), 1), weights, bias)
    y = b.add("Squeeze", y, b.constant([3]))
    steps = b.add("Range", b.constant(0), b.add("Gather", b.add("Shape", y), b.constant(2)), b.constant(1))
    # A word shorter than the window has one all the same.
    count = b.add("Sub", lengths, b.add("Sub", b.size(weights, 2), b.constant(1)))
    inside = b.add("Less", steps, b.add("Max", count, b.constant(1)))
    y = b.add("Where", b.unsqueeze(inside, 1), y, b.constant(-np.inf, np.float32))
    y = b.add("Tanh", b.reduce("ReduceMax", y, [2], keepdims=0))
    b.give(0, b.add("Where", b.add("Greater", lengths, b.constant(0)), y, b.constant(0, np.float32)))


_CAUSAL_CONV = {"activation": "none", "channels_last": 0, "dilation": 1, "ndim": 1, "state_window": 0}
_ROTARY = {"interleaved": 0, "is_packed_batching": 0, "num_heads": 0, "rotary_embedding_dim": 0, "scale": 1.0}
_M_ROTARY = {**_ROTARY, "mrope_layout": 0, "mrope_section": [int]}
_BRANCHES = {"num_branches": 0}
_CROP = {"extrapolation_value": 0.0, "mode": "bilinear"}
_WORDS = {"char_embedding_size": int, "conv_window_size": int, "embedding_size": int}

LANGUAGE_OPS = (
    BodyOp("BranchwiseRMSNorm", (1, 2), (1, 1), {**_BRANCHES, "epsilon": 1e-5}, _branchwise_rms_norm),
    BodyOp("CausalConvWithState", (2, 4), (2, 2), _CAUSAL_CONV, _causal_conv),
    BodyOp("CropAndResize", (4, 4), (1, 1), _CROP, _crop_and_resize),
    BodyOp("EngramGate", (5, 6), (1, 2), {"epsilon": 1e-5}, _engram_gate),
    BodyOp("GatedAdd", (3, 3), (1, 1), {}, _gated_add),
    BodyOp("GatedRMSNorm", (3, 3), (1, 1), {"activation": "silu", "epsilon": 1e-5}, _gated_rms_norm),
    BodyOp("HyperConnectionPostMix", (3, 4), (1, 1), _BRANCHES, _post_mix),
    BodyOp("HyperConnectionPreMix", (2, 2), (1, 1), {**_BRANCHES, "reduction_scale": 1.0}, _pre_mix),
    BodyOp("LinearAttentionGate", (3, 4), (1, 2), {}, _attention_gate),
    BodyOp("MRotaryEmbedding", (4, 4), (1, 1), _M_ROTARY, _m_rotary, frozenset({"mrope_section"})),
    BodyOp("ScaledSiLU", (1, 2), (1, 1), {"alpha": 1.0}, _scaled_silu),
    BodyOp("UnfoldTensor", (1, 1), (1, 1), {"dim": -1, "size": int, "step": 1}, _unfold, frozenset({"size"})),
    BodyOp("WordConvEmbedding", (4, 4), (1, 1), _WORDS, _word_embedding),
)

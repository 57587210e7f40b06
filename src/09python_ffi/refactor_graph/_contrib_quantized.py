"""Quantised operators of com.microsoft in terms of others. Source: onnxruntime, docs/ContribOperators.md."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from refactor_graph._bodies import Body, BodyOp
from refactor_graph._errors import Unsupported

_FLOAT, _INT32 = int(TensorProto.FLOAT), int(TensorProto.INT32)


def _widened(b: Body, x: str, scale: str, zero: str) -> str:
    """Append (x - zero) · scale in f32, of scalars."""

    def scalar(value: str) -> str:
        return str(b.add("Reshape", value, b.constant([])))

    wide = b.add("Cast", x, to=_FLOAT)
    if zero:
        wide = b.add("Sub", wide, b.add("Cast", scalar(zero), to=_FLOAT))
    return str(b.add("Mul", wide, scalar(scale)))


def _where(b: Body) -> None:
    condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = b.inputs(*range(9))
    chosen = b.add(
        "Where",
        condition,
        b.add("DequantizeLinear", x, x_scale, x_zero),
        b.add("DequantizeLinear", y, y_scale, y_zero),
    )
    b.give(0, b.add("QuantizeLinear", chosen, z_scale, z_zero))


def _reduce_mean(b: Body) -> None:
    x, x_scale, x_zero, y_scale, y_zero = b.inputs(*range(5))
    axes = b.attributes["axes"]
    wide = b.add("DequantizeLinear", x, x_scale, x_zero)
    if axes is None:
        mean = b.add("ReduceMean", wide, keepdims=b.attributes["keepdims"])
    else:
        mean = b.reduce("ReduceMean", wide, list(axes), b.attributes["keepdims"])
    b.give(0, b.add("QuantizeLinear", mean, y_scale, y_zero))


def _channels_first(b: Body, x: str, rank: int) -> str:
    return str(b.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]))


def _channels_last(b: Body, x: str, rank: int) -> str:
    return str(b.add("Transpose", x, perm=[0, *range(2, rank), 1]))


def _conv(b: Body) -> None:
    options = dict(b.attributes)
    if not options.pop("channels_last"):
        b.give(0, b.add("QLinearConv", *b.inputs(), **options))
        return
    rank = len(options["kernel_shape"]) + 2 if options["kernel_shape"] else b.rank(3)
    x = _channels_first(b, b.input(0), rank)
    b.give(0, _channels_last(b, b.add("QLinearConv", x, *b.inputs()[1:], **options), rank))


def _max_pool(b: Body) -> None:
    rank = len(b.attributes["kernel_shape"]) + 2
    b.give(0, _channels_last(b, b.add("MaxPool", _channels_first(b, b.input(0), rank), **b.attributes), rank))


def _reduce_sum(b: Body) -> None:
    wide = b.add("Cast", b.input(0), to=_INT32)
    b.give(0, b.reduce("ReduceSum", wide, list(b.attributes["axes"]), b.attributes["keepdims"]))


def _product(b: Body) -> None:
    def centred(index: int) -> str:
        wide = b.add("Cast", b.input(index), to=_INT32)
        zero = b.input(index + 1)
        return str(b.add("Sub", wide, b.add("Cast", zero, to=_INT32)) if zero else wide)

    b.give(0, b.add("Mul", centred(0), centred(2)))


def _matmul_16(b: Body) -> None:
    b.give(0, b.add("MatMul", *(b.add("Cast", x, to=_INT32) for x in b.inputs(0, 1))))


def _embedding(b: Body) -> None:
    ids, segments, *tables = b.inputs(*range(7))
    mask = b.input(7)
    wide = [
        _widened(b, table, b.input(8 + index), b.input(13 + index)) if table else ""
        for index, table in enumerate(tables)
    ]
    options = {"epsilon": b.attributes["epsilon"]}
    y, lengths = b.contrib("EmbedLayerNormalization", ids, segments, *wide, mask, outputs=2, **options)
    b.give(0, y)
    b.give(1, lengths)


def _nibbles(b: Body, x: str, *, high_first: bool) -> str:
    """Append the halves of bytes as i32 numbers, side by side along a new last axis."""
    wide, sixteen = b.add("Cast", x, to=_INT32), b.constant(16, np.int32)
    halves = [b.add("Mod", wide, sixteen), b.add("Div", wide, sixteen)]
    columns = [b.add("Reshape", half, b.add("Concat", b.add("Shape", x), b.constant([1]), axis=0)) for half in halves]
    return str(b.add("Concat", *(columns[::-1] if high_first else columns), axis=-1))


def _gather_blocks(b: Body) -> None:
    data, ids, scales, zeros = b.inputs(*range(4))
    rank, bits, block = b.rank(0), b.attributes["bits"], b.attributes["block_size"]
    first, axis = (b.attributes[name] % rank for name in ("gather_axis", "quantize_axis"))
    packed = b.dtype(0) == TensorProto.UINT8
    if first == axis or axis != rank - 1:
        raise Unsupported(
            f"gather_axis {first} and quantize_axis {axis} of {rank} axes: blocks along the last one only"
        )
    if packed and bits not in (4, 8):
        raise Unsupported(f"{bits} bits in bytes")

    def gathered(x: str) -> str:
        if not packed and x != scales:  # Gather moves whole bytes
            x = b.add("Cast", x, to=TensorProto.INT8)
        rows = b.add("Gather", x, ids, axis=first)
        if packed and bits == 4 and x != scales:
            halves = _nibbles(b, rows, high_first=False)
            joined = b.add("Concat", b.part(b.add("Shape", rows), 0, 0, -1), b.constant([-1]), axis=0)
            return str(b.add("Reshape", halves, joined))
        return str(rows)

    numbers, scale = b.add("Cast", gathered(data), to=_FLOAT), gathered(scales)
    size = b.size(numbers, -1)
    whole = b.add("Shape", numbers)
    if zeros:  # packed zero points may have half a byte too many
        count = b.size(scale, -1)
        zero = b.part(b.add("Cast", gathered(zeros), to=_FLOAT), -1, 0, count)
    else:
        zero = b.constant(float(1 << (bits - 1)) if packed else 0.0, np.float32)
    scale32 = b.add("Cast", scale, to=_FLOAT)

    def spread(x: str) -> str:
        """Repeat every number of a block, and leave out what the last block has too many."""
        column = b.unsqueeze(x, -1)
        grown = b.add("Expand", column, b.constant([block]))
        flat = b.add("Concat", b.part(b.add("Shape", x), 0, 0, -1), b.constant([-1]), axis=0)
        return b.part(b.add("Reshape", grown, flat), -1, 0, size)

    centred = b.add("Sub", numbers, spread(zero) if zeros else zero)
    y = b.add("Mul", centred, spread(scale32))
    y = b.add("Reshape", y, whole)
    b.give(0, b.add("Cast", y, to=b.dtype(2)))


_FP4 = (0.0, 0.005208333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The numbers that four bits stand for. Source: Dettmers et al., QLoRA, arXiv:2305.14314, and bitsandbytes."""


def _bits_and_bytes(b: Body) -> None:
    rows, columns, block = (b.attributes[name] for name in ("N", "K", "block_size"))
    if rows * columns % block:
        raise Unsupported(f"{rows} · {columns} weights in blocks of {block}")
    table = np.array(_NF4 if b.attributes["quant_type"] else (*_FP4, *(-x for x in _FP4)), np.float32)
    codes = _nibbles(b, b.add("Reshape", b.input(1), b.constant([-1])), high_first=True)
    numbers = b.add("Reshape", b.add("Gather", b.constant(table, np.float32), codes), b.constant([-1, block]))
    scale = b.add("Reshape", b.add("Cast", b.input(2), to=_FLOAT), b.constant([-1, 1]))
    weights = b.add("Reshape", b.add("Mul", numbers, scale), b.constant([rows, columns]))
    weights = b.add("Cast", b.add("Transpose", weights, perm=[1, 0]), to=b.dtype(0))
    b.give(0, b.add("MatMul", b.input(0), weights))


_WINDOW = {"auto_pad": "NOTSET", "dilations": [int], "kernel_shape": [int], "pads": [int], "strides": [int]}
_BLOCKS = {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1}
_BNB = {"K": int, "N": int, "block_size": int, "quant_type": int, "training_mode": 0, "transB": 1}

QUANTIZED_OPS = (
    BodyOp("GatherBlockQuantized", (3, 4), (1, 1), _BLOCKS, _gather_blocks),
    BodyOp("MatMulBnb4", (3, 3), (1, 1), _BNB, _bits_and_bytes, frozenset({"K", "N", "block_size", "quant_type"})),
    BodyOp("MatMulInteger16", (2, 2), (1, 1), {}, _matmul_16),
    BodyOp("MulInteger", (3, 4), (1, 1), {}, _product),
    BodyOp("NhwcMaxPool", (1, 1), (1, 1), {**_WINDOW, "ceil_mode": 0}, _max_pool, frozenset({"kernel_shape"})),
    BodyOp("QEmbedLayerNormalization", (18, 18), (2, 2), {"epsilon": 1e-12}, _embedding),
    BodyOp("QLinearConv", (8, 9), (1, 1), {**_WINDOW, "channels_last": 0, "group": 1}, _conv),
    BodyOp("QLinearReduceMean", (5, 5), (1, 1), {"axes": [int], "keepdims": 1}, _reduce_mean),
    BodyOp("QLinearWhere", (9, 9), (1, 1), {}, _where),
    BodyOp("ReduceSumInteger", (1, 1), (1, 1), {"axes": [int], "keepdims": 1}, _reduce_sum, frozenset({"axes"})),
)

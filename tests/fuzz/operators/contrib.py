"""Operators of com.microsoft; onnxruntime computes what they should give."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.graph import F32, Draft, Reject
from tests.fuzz.operators import operator

_I8, _U8 = np.dtype(np.int8), np.dtype(np.uint8)


def _add(draft: Draft, name: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
    while inputs and not inputs[-1]:
        inputs.pop()
    return draft.add(name.lstrip("*"), inputs, outputs, domain="com.microsoft", **attributes)


def _maybe(draft: Draft, chance: float, make: Any) -> str:
    """Return an optional input, or none."""
    return str(make()) if draft.chance(chance) else ""


def _rows(draft: Draft, width: int, low: int = 1, high: int = 3) -> str:
    return draft.finite(F32, (*draft.shape(low - 1, high - 1, 5), width), False)


def _bytes(draft: Draft, shape: tuple[int, ...], dtype: np.dtype[Any], constant: bool | None = False) -> str:
    low, high = (-128, 128) if dtype == _I8 else (0, 256)
    return draft.leaf(draft.random.integers(low, high, shape).astype(dtype), constant=constant)


def _scale(draft: Draft, shape: tuple[int, ...] = ()) -> str:
    return draft.leaf(draft.random.uniform(0.01, 0.1, shape).astype(np.float32), constant=True)


def _zero(draft: Draft, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> str:
    low = -20 if dtype == _I8 else 100
    return draft.leaf(draft.random.integers(low, low + 40, shape).astype(dtype), constant=True)


@operator("*BiasGelu", "*FastGelu", "*Gelu", "*QuickGelu", "*BiasAdd")
def activations(draft: Draft, name: str) -> None:
    """Activations, some with a bias."""
    width = draft.integer(1, 19)
    x = _rows(draft, width, 3 if name == "*BiasAdd" else 1, 3)
    bias = draft.finite(F32, (width,), draft.chance(0.7))
    if name == "*BiasGelu":
        _add(draft, name, [x, bias])
    elif name == "*FastGelu":
        _add(draft, name, [x, bias if draft.chance(0.5) else ""])
    elif name == "*BiasAdd":
        if draft.value(x).ndim != 3:
            raise Reject("no tokens")
        _add(draft, name, [x, bias, draft.finite(F32, draft.value(x).shape)])
    else:
        alpha = draft.choice([None, 1.0, 1.5]) if name == "*QuickGelu" else None
        _add(draft, name, [x], alpha=alpha)


@operator("*FusedMatMul", "*TransposeMatMul")
def fused_matmul(draft: Draft, name: str) -> None:
    """Products of transposed operands, scaled."""
    m, k, n = (draft.integer(1, 17) for _ in range(3))
    batch = draft.shape(0, 2, 3)
    left, right = draft.chance(0.5), draft.chance(0.5)
    a = draft.finite(F32, (*batch, *((k, m) if left else (m, k))), False)
    own = batch if draft.chance(0.5) else ()
    b = draft.finite(F32, (*own, *((n, k) if right else (k, n))))
    alpha = draft.choice([None, 0.5, 2.0])
    _add(draft, name, [a, b], transA=int(left), transB=int(right), alpha=alpha)


@operator("*FusedGemm", "*GemmFastGelu")
def fused_gemm(draft: Draft, name: str) -> None:
    """Gemm and an activation."""
    m, k, n = (draft.integer(1, 17) for _ in range(3))
    if name == "*GemmFastGelu":
        x, w = draft.finite(F32, (m, k), False), draft.finite(F32, (k, n), True)
        _add(draft, name, [x, w, _maybe(draft, 0.6, lambda: draft.finite(F32, (n,), True))])
        return
    left, right = draft.chance(0.3), draft.chance(0.5)
    x = draft.finite(F32, (k, m) if left else (m, k), False)
    w = draft.finite(F32, (n, k) if right else (k, n), True)
    bias = _maybe(draft, 0.7, lambda: draft.finite(F32, draft.choice([(n,), (1, n), (m, 1), (m, n), ()]), True))
    options = {"alpha": draft.choice([None, 0.5]), "beta": draft.choice([None, 0.25])}
    activation = draft.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    if activation == "LeakyRelu":
        options["activation_alpha"] = 0.2
    _add(draft, name, [x, w, bias], transA=int(left), transB=int(right), activation=activation, **options)


@operator("*SkipLayerNormalization", "*SkipSimplifiedLayerNormalization")
def skip_layer_norm(draft: Draft, name: str) -> None:
    """A residual sum and its normalisation, one of whose outputs is the sum."""
    batch, length, width = draft.integer(1, 3), draft.integer(1, 5), draft.integer(2, 40)
    x = draft.finite(F32, (batch, length, width), False)
    skip = draft.finite(F32, draft.choice([(batch, length, width), (1, length, width), (length, width)]), False)
    inputs = [x, skip, draft.finite(F32, (width,), True)]
    if name == "*SkipLayerNormalization":
        inputs.append(_maybe(draft, 0.7, lambda: draft.finite(F32, (width,), True)))
    inputs.append(_maybe(draft, 0.5, lambda: draft.finite(F32, (width,), True)))
    _add(draft, name, inputs, draft.choice([1, 4]), epsilon=draft.choice([None, 1e-5, 1e-3]))


@operator("*MultiHeadAttention")
def multi_head_attention(draft: Draft, name: str) -> None:
    """Queries, keys and values of heads side by side, with a bias, a mask of lengths or a bias of scores."""
    batch, heads, size = draft.integer(1, 2), draft.integer(1, 3), draft.choice([4, 8, 16])
    length, keys, width = draft.integer(1, 6), draft.integer(1, 9), draft.choice([4, 8])
    q = draft.finite(F32, (batch, length, heads * size), False)
    k = draft.finite(F32, (batch, keys, heads * size), False)
    v = draft.finite(F32, (batch, keys, heads * width), False)
    bias = _maybe(draft, 0.4, lambda: draft.finite(F32, (2 * heads * size + heads * width,), True))
    mask = ""
    if draft.chance(0.3):
        shown = draft.random.random((batch, keys)) < 0.7
        shown[:, 0] = True
        mask = draft.leaf(shown.astype(np.int32), constant=False)
    scores = _maybe(
        draft, 0.4, lambda: draft.finite(F32, (draft.choice([1, batch]), draft.choice([1, heads]), length, keys))
    )
    causal = draft.choice([None, 0, 1]) if length == keys else None
    scale = draft.choice([None, 0.3])
    _add(draft, name, [q, k, v, bias, mask, scores], num_heads=heads, unidirectional=causal, scale=scale)


@operator("*Attention")
def attention(draft: Draft, name: str) -> None:
    """The projections and their attention."""
    batch, length, heads, size = draft.integer(1, 2), draft.integer(1, 6), draft.integer(1, 3), draft.choice([4, 8])
    width, hidden = draft.integer(2, 17), heads * size
    x = draft.finite(F32, (batch, length, width), False)
    w = draft.finite(F32, (width, 3 * hidden), True)
    b = draft.finite(F32, (3 * hidden,), True)
    mask = ""
    if draft.chance(0.5):
        kind = draft.integer(0, 2)
        if kind == 0:
            mask = draft.leaf(draft.random.integers(1, length + 1, batch).astype(np.int32), constant=False)
        else:
            shown = draft.random.random((batch, length) if kind == 1 else (batch, length, length)) < 0.7
            shown[..., 0] = True
            mask = draft.leaf(shown.astype(np.int32), constant=False)
    _add(draft, name, [x, w, b, mask], num_heads=heads, unidirectional=draft.choice([None, 0, 1]))


@operator("*RotaryEmbedding")
def rotary(draft: Draft, name: str) -> None:
    """Turned pairs, of whole heads or their first part."""
    batch, length, heads, size = draft.integer(1, 2), draft.integer(1, 5), draft.integer(1, 3), draft.choice([4, 8, 16])
    most = length + draft.integer(0, 4)
    part = draft.choice([None, None, size // 2])
    half = (part or size) // 2
    angles = draft.random.uniform(-3, 3, (most, half)).astype(np.float32)
    tables = [draft.leaf(np.cos(angles), constant=True), draft.leaf(np.sin(angles), constant=True)]
    if draft.chance(0.5):
        places = draft.leaf(np.array([draft.integer(0, most - length)]), constant=False)
    else:
        places = draft.leaf(draft.random.integers(0, most, (batch, length)), constant=False)
    options: dict[str, Any] = {"interleaved": draft.choice([None, 0, 1])}
    if part:
        options |= {"rotary_embedding_dim": part, "num_heads": heads}
    flat = draft.chance(0.6) or bool(part)
    x = draft.finite(F32, (batch, length, heads * size) if flat else (batch, heads, length, size), False)
    _add(draft, name, [x, places, *tables], **options)


@operator("*GroupQueryAttention")
def grouped_query_attention(draft: Draft, name: str) -> None:
    """A step or a prompt with caches."""
    batch, groups, share, size = draft.integer(1, 2), draft.integer(1, 2), draft.integer(1, 3), draft.choice([8, 16])
    heads, past = groups * share, draft.choice([0, 0, 3, 7])
    length = draft.integer(1, 6) if past == 0 else 1
    q = draft.finite(F32, (batch, length, heads * size), False)
    k, v = (draft.finite(F32, (batch, length, groups * size), False) for _ in range(2))
    caches = [draft.finite(F32, (batch, groups, past, size), False) for _ in range(2)]
    total = past + length
    lengths = draft.leaf(np.full(batch, total - 1, np.int32), constant=False)
    whole = draft.leaf(np.array(total, np.int32), constant=True)
    options: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    inputs = [q, k, v, *caches, lengths, whole]
    if draft.chance(0.4):
        angles = draft.random.uniform(-3, 3, (total + 2, size // 2)).astype(np.float32)
        inputs += [draft.leaf(np.cos(angles), constant=True), draft.leaf(np.sin(angles), constant=True)]
        options |= {"do_rotary": 1, "rotary_interleaved": draft.choice([None, 1])}
    options["scale"] = draft.choice([None, 0.3])
    options["softcap"] = draft.choice([None, None, 5.0])
    options["local_window_size"] = draft.choice([None, None, 2, 4])
    _add(draft, name, inputs, 3, **options)


@operator("*MatMulNBits")
def matmul_n_bits(draft: Draft, name: str) -> None:
    """Weights of four or eight bits in blocks."""
    bits, block = draft.choice([4, 8]), draft.choice([16, 32])
    m, n, blocks = draft.integer(1, 5), draft.integer(1, 17), draft.integer(1, 3)
    k = blocks * block - draft.choice([0, 0, 3])
    x = draft.finite(F32, (m, k), False)
    packed = draft.leaf(draft.random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8), constant=True)
    scales = draft.leaf(draft.random.uniform(0.01, 0.1, n * blocks).astype(np.float32), constant=True)
    per_column = (blocks * bits + 7) // 8
    zeros = _maybe(draft, 0.5, lambda: _bytes(draft, (n * per_column,), _U8, True))
    bias = _maybe(draft, 0.3, lambda: draft.finite(F32, (n,), True))
    _add(draft, name, [x, packed, scales, zeros, "", bias], K=k, N=n, bits=bits, block_size=block)


@operator("*QLinearAdd", "*QLinearMul")
def quantised_binary(draft: Draft, name: str) -> None:
    """Of bytes that broadcast."""
    dtype = draft.choice([_I8, _U8])
    shape = draft.shape(1, 4, 9)
    other = draft.choice([shape, shape, shape[-1:], ()])
    inputs = []
    for each in (shape, other):
        inputs += [_bytes(draft, each, dtype), _scale(draft), _zero(draft, dtype)]
    _add(draft, name, [*inputs, _scale(draft), _zero(draft, dtype)])


@operator("*QLinearSigmoid", "*QLinearLeakyRelu", "*QLinearSoftmax")
def quantised_unary(draft: Draft, name: str) -> None:
    """Of bytes, by tables."""
    dtype = draft.choice([_I8, _U8])
    shape = draft.shape(2, 4, 9)
    x = _bytes(draft, shape, dtype)
    options: dict[str, Any] = {}
    result = [_scale(draft), _zero(draft, dtype)]
    if name == "*QLinearLeakyRelu":
        options["alpha"] = draft.choice([None, 0.2])
    if name == "*QLinearSoftmax":
        options |= {"axis": draft.integer(-len(shape), len(shape) - 1), "opset": draft.choice([12, 13])}
        # onnxruntime multiplies by the largest integer below 1 / scale, and lets what is too large for a byte wrap.
        result = [draft.constant(1 / 128, np.float32), draft.constant(-128 if dtype == _I8 else 0, dtype)]
    _add(draft, name, [x, _scale(draft), _zero(draft, dtype), *result], **options)


@operator("*QLinearAveragePool", "*QLinearGlobalAveragePool")
def quantised_pool(draft: Draft, name: str) -> None:
    """Means of bytes, in either layout."""
    dtype, last = draft.choice([_I8, _U8]), draft.integer(0, 1)
    n, c, h, w = draft.integer(1, 2), draft.integer(1, 9), draft.integer(3, 8), draft.integer(3, 8)
    x = _bytes(draft, (n, h, w, c) if last else (n, c, h, w), dtype)
    inputs = [x, _scale(draft), _zero(draft, dtype), _scale(draft), _zero(draft, dtype)]
    if name == "*QLinearGlobalAveragePool":
        _add(draft, name, inputs, channels_last=last)
        return
    pads = [draft.integer(0, 1) for _ in range(4)]
    options = {"strides": [draft.integer(1, 2) for _ in range(2)], "count_include_pad": draft.integer(0, 1)}
    _add(draft, name, inputs, channels_last=last, kernel_shape=[2, 3], pads=pads, **options)


@operator("*QLinearConcat")
def quantised_concat(draft: Draft, name: str) -> None:
    """Bytes of different scales side by side."""
    dtype = draft.choice([_I8, _U8])
    shape = list(draft.shape(1, 4, 6))
    axis = draft.integer(0, len(shape) - 1)
    inputs = [_scale(draft), _zero(draft, dtype)]
    for _ in range(draft.integer(1, 3)):
        shape[axis] = draft.integer(1, 5)
        inputs += [_bytes(draft, tuple(shape), dtype), _scale(draft), _zero(draft, dtype)]
    _add(draft, name, inputs, axis=axis)


@operator("*DynamicQuantizeMatMul", "*MatMulIntegerToFloat")
def quantised_products(draft: Draft, name: str) -> None:
    """Products of bytes whose results are real."""
    m, k, n = (draft.integer(1, 17) for _ in range(3))
    dtype = draft.choice([_I8, _U8])
    columns = (n,) if draft.chance(0.4) else ()
    # Small enough that sums of two products fit into the 16 bits of instructions that saturate.
    w = draft.leaf(draft.random.integers(-60, 61, (k, n)).astype(np.int8), constant=True)
    bias = _maybe(draft, 0.4, lambda: draft.finite(F32, (n,), True))
    if name == "*DynamicQuantizeMatMul":
        zero = _maybe(draft, 0.5, lambda: draft.leaf(np.zeros(columns, np.int8), constant=True))
        _add(draft, name, [draft.finite(F32, (m, k), False), w, _scale(draft, columns), zero, bias])
        return
    x = _bytes(draft, (m, k), dtype)
    zeros = [_maybe(draft, 0.7, lambda: _zero(draft, dtype)), ""]
    _add(draft, name, [x, w, _scale(draft), _scale(draft, columns), *zeros, bias])


@operator("*NhwcMaxPool")
def nhwc_max_pool(draft: Draft, name: str) -> None:
    """Largest bytes, channels last."""
    dtype = draft.choice([_I8, _U8])
    x = _bytes(draft, (draft.integer(1, 2), draft.integer(3, 8), draft.integer(3, 8), draft.integer(1, 20)), dtype)
    pads = [draft.integer(0, 1) for _ in range(4)]
    _add(draft, name, [x], kernel_shape=[2, 3], pads=pads, strides=[draft.integer(1, 2) for _ in range(2)])


@operator("*FusedConv")
def fused_conv(draft: Draft, name: str) -> None:
    """A convolution, a sum and an activation."""
    channels, out, size = draft.choice([3, 8, 16]), draft.choice([4, 16]), draft.integer(4, 8)
    x = draft.finite(F32, (1, channels, size, size), False)
    if not np.isfinite(draft.value(x)).all():
        raise Reject("one infinity makes a whole tile of Winograd's algorithm NaN")
    w = draft.finite(F32, (out, channels, 3, 3), True)
    bias = _maybe(draft, 0.7, lambda: draft.finite(F32, (out,), True))
    added = _maybe(draft, 0.4, lambda: draft.finite(F32, (1, out, size, size), False))
    # Errors of Winograd's algorithm are relative to sums, whose size others do not tell.
    _add(draft, name, [x, w, bias, added], pads=[1] * 4, activation="Relu")


@operator("*Inverse", "*CDist", "*ExpandDims", "*Trilu", "*Unique", "*Range", "*GatherND")
def small_ones(draft: Draft, name: str) -> None:
    """Those that became operators of ONNX, or are matrices."""
    if name == "*Inverse":
        n = draft.integer(1, 5)
        matrix = np.eye(n) * 4 + draft.random.standard_normal((*draft.shape(0, 2, 3), n, n))
        _add(draft, name, [draft.leaf(matrix.astype(np.float32), constant=False)])
    elif name == "*CDist":
        width = draft.integer(1, 9)
        a, b = (draft.finite(F32, (draft.integer(1, 7), width), False) for _ in range(2))
        _add(draft, name, [a, b], metric=draft.choice(["euclidean", "sqeuclidean"]))
    elif name == "*ExpandDims":
        x = draft.pick((F32,), (0, 4))
        rank = draft.value(x).ndim
        _add(draft, name, [x, draft.constant(draft.integer(-rank - 1, rank), np.int32)])
    elif name == "*Trilu":
        x = draft.finite(F32, (*draft.shape(0, 2, 3), draft.integer(1, 6), draft.integer(1, 6)), False)
        places = [draft.constant(draft.integer(-4, 4))] if draft.chance(0.6) else []
        _add(draft, name, [x, *places], upper=draft.choice([None, 0, 1]))
    elif name == "*Unique":
        x = draft.leaf(draft.random.integers(0, 5, draft.integer(1, 9)).astype(np.float32), constant=False)
        _add(draft, name, [x], 3)
    elif name == "*Range":
        start, step = draft.integer(-5, 5), draft.choice([1, 2, -1])
        numbers = (start, start + step * draft.integer(0, 6), step)
        _add(draft, name, [draft.constant(number, np.float32) for number in numbers])
    else:
        x = draft.finite(F32, draft.shape(2, 3, 5), False)
        sizes = draft.value(x).shape[:2]
        if 0 in sizes:
            raise Reject("nothing to gather")
        places = np.stack([draft.random.integers(0, size, 4) for size in sizes], -1)
        _add(draft, name, [x, draft.leaf(places, constant=False)])


@operator("*EmbedLayerNormalization")
def embedding(draft: Draft, name: str) -> None:
    """Rows of three tables, normalised."""
    batch, length, width, words = draft.integer(1, 3), draft.integer(1, 6), draft.integer(2, 19), draft.integer(2, 9)
    ids = draft.leaf(draft.random.integers(0, words, (batch, length)).astype(np.int32), constant=False)
    segments = _maybe(
        draft, 0.6, lambda: draft.leaf(draft.random.integers(0, 2, (batch, length)).astype(np.int32), constant=False)
    )
    tables = [draft.finite(F32, (words, width), True), draft.finite(F32, (length + 2, width), True)]
    tables.append(draft.finite(F32, (2, width), True) if segments else "")
    norm = [draft.finite(F32, (width,), True) for _ in range(2)]
    mask = _maybe(
        draft,
        0.4,
        lambda: draft.leaf((draft.random.random((batch, length)) < 0.8).astype(np.int32), constant=False),
    )
    _add(draft, name, [ids, segments, *tables, *norm, mask], 2, epsilon=draft.choice([None, 1e-5]))


@operator("*QAttention")
def quantised_attention(draft: Draft, name: str) -> None:
    """Attention whose projection multiplies bytes."""
    batch, length, heads, size = draft.integer(1, 2), draft.integer(1, 6), draft.integer(1, 3), draft.choice([4, 8])
    width, hidden = draft.integer(2, 17), heads * size
    x = _bytes(draft, (batch, length, width), _U8)
    w = draft.leaf(draft.random.integers(-60, 61, (width, 3 * hidden)).astype(np.int8), constant=True)
    b = draft.finite(F32, (3 * hidden,), True)
    mask = _maybe(
        draft, 0.4, lambda: draft.leaf(draft.random.integers(1, length + 1, batch).astype(np.int32), constant=False)
    )
    zeros = [_zero(draft, _U8), draft.constant(0, np.int8)]
    # Scores of hundreds would turn on what a lower precision rounds between the products.
    scales = [draft.leaf(np.array(draft.random.uniform(0.002, 0.006), np.float32), constant=True) for _ in range(2)]
    inputs = [x, w, b, *scales, mask, *zeros]
    _add(draft, name, inputs, num_heads=heads, unidirectional=draft.choice([None, 0, 1]))


@operator("*QGemm")
def quantised_gemm(draft: Draft, name: str) -> None:
    """Gemm of bytes, to floats or bytes."""
    m, k, n = (draft.integer(1, 17) for _ in range(3))
    left, right, dtype = draft.chance(0.3), draft.chance(0.5), draft.choice([_I8, _U8])
    x = _bytes(draft, (k, m) if left else (m, k), dtype)
    w = draft.leaf(draft.random.integers(-60, 61, (n, k) if right else (k, n)).astype(np.int8), constant=True)
    columns = (n,) if draft.chance(0.4) else ()
    inputs = [x, _scale(draft), _zero(draft, dtype), w, _scale(draft, columns)]
    inputs.append(draft.leaf(np.zeros(columns, np.int8), constant=True))
    inputs.append(
        _maybe(draft, 0.6, lambda: draft.leaf(draft.random.integers(-99, 99, n).astype(np.int32), constant=True))
    )
    if draft.chance(0.5):
        inputs += [draft.leaf(np.array(0.5, np.float32), constant=True), _zero(draft, dtype)]
    _add(draft, name, inputs, transA=int(left), transB=int(right))


@operator("*MatMulBnb4", "*GatherBlockQuantized")
def packed_weights(draft: Draft, name: str) -> None:
    """Weights of four bits, multiplied or gathered."""
    block, blocks = draft.choice([16, 32]), draft.integer(1, 3)
    k, n = block * blocks, draft.choice([4, 8])
    if name == "*MatMulBnb4":
        x = draft.finite(F32, (draft.integer(1, 5), k), False)
        packed = draft.leaf(draft.random.integers(0, 256, n * k // 2).astype(np.uint8), constant=True)
        scales = _scale(draft, (n * blocks,))
        _add(draft, name, [x, packed, scales], K=k, N=n, block_size=block, quant_type=draft.integer(0, 1))
        return
    bits = draft.choice([4, 8])
    data = draft.leaf(draft.random.integers(0, 256, (n, k * bits // 8)).astype(np.uint8), constant=True)
    ids = draft.leaf(draft.random.integers(0, n, draft.shape(1, 2, 5)), constant=False)
    zeros = _maybe(draft, 0.5, lambda: _bytes(draft, (n, (blocks * bits + 7) // 8), _U8, True))
    options = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    _add(draft, name, [data, ids, _scale(draft, (n, blocks)), zeros], **options)


@operator("*QLinearWhere")
def quantised_where(draft: Draft, name: str) -> None:
    """A choice between bytes of two scales."""
    dtype, shape = draft.choice([_I8, _U8]), draft.shape(1, 3, 6)
    inputs = [draft.leaf(draft.random.random(shape) < 0.5, constant=False)]
    for _ in range(2):
        inputs += [_bytes(draft, shape, dtype), _scale(draft), _zero(draft, dtype)]
    _add(draft, name, [*inputs, _scale(draft), _zero(draft, dtype)])


@operator("*ConvTransposeWithDynamicPads", "*CropAndResize", "*UnfoldTensor", "*MurmurHash3")
def odd_ones(draft: Draft, name: str) -> None:
    """What some exporters needed."""
    if name == "*ConvTransposeWithDynamicPads":
        channels, out = draft.integer(1, 5), draft.integer(1, 5)
        x = draft.finite(F32, (1, channels, draft.integer(3, 6), draft.integer(3, 6)), False)
        w = draft.finite(F32, (channels, out, 3, 3), True)
        pads = draft.leaf(np.array([draft.integer(0, 1) for _ in range(4)]), constant=False)
        bias = _maybe(draft, 0.5, lambda: draft.finite(F32, (out,), True))
        _add(draft, name, [x, w, pads, bias], strides=[draft.integer(1, 2) for _ in range(2)], kernel_shape=[3, 3])
    elif name == "*CropAndResize":
        x = draft.finite(F32, (2, 3, draft.integer(3, 7), draft.integer(3, 7)), False)
        count = draft.integer(1, 4)
        corners = np.sort(draft.random.uniform(-0.1, 1.1, (count, 2, 2)), 1).reshape(count, 4).astype(np.float32)
        images = draft.leaf(draft.random.integers(0, 2, count).astype(np.int32), constant=False)
        size = draft.constant([draft.integer(1, 4), draft.integer(1, 4)], np.int32)
        mode = draft.choice(["bilinear", "nearest"])
        _add(draft, name, [x, draft.leaf(corners, constant=False), images, size], mode=mode)
    elif name == "*UnfoldTensor":
        x = draft.finite(F32, draft.shape(1, 3, 9), False)
        axis = draft.integer(0, draft.value(x).ndim - 1)
        if not draft.value(x).size:
            raise Reject("nothing to unfold")
        size = draft.integer(1, draft.value(x).shape[axis])
        _add(draft, name, [x], dim=axis, size=size, step=draft.integer(1, 3))
    else:
        numbers = draft.random.integers(-99, 99, draft.shape(1, 2, 5)).astype(np.int32)
        seed, positive = draft.choice([None, 7]), draft.choice([None, 0, 1])
        _add(draft, name, [draft.leaf(numbers, constant=False)], seed=seed, positive=positive)

"""Operators of com.microsoft against onnxruntime, which implements them."""

import numpy as np
import pytest
from refactor_graph import InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, run

DOMAIN = "com.microsoft"
# Sums of up to 64 terms of size 1 in another order, through a product, a softmax and a product.
TOLERANCE = 3e-5


def node(op, arrays, domain=DOMAIN, opset=17, **options):
    proto, feeds = positional(op, arrays, opset=opset, domain=domain, **options)
    proto.ir_version = 9
    return proto, feeds


def check(op, arrays, *, tolerance=TOLERANCE, **options):
    proto, feeds = node(op, arrays, **options)
    for ours, theirs in zip(run(proto, feeds, num_threads=2), models.expected(proto, feeds), strict=True):
        assert_close(ours, theirs, tolerance, tolerance)


def normal(random, *shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------------- activations and products
@pytest.mark.parametrize("op", ["Gelu", "FastGelu", "QuickGelu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_activations(op, dtype):
    if dtype == np.float16 and op == "Gelu":
        (y,) = run(*node(op, [normal(models.generator(1), 3, 7, dtype=dtype)]))
        assert y.dtype == dtype
        return
    x = normal(models.generator(1), 3, 7, 9)
    proto, feeds = node(op, [x.astype(dtype)])
    (wanted,) = models.expected(*node(op, [x.astype(dtype).astype(np.float32)]))
    tolerance = 1e-5 if dtype == np.float32 else 2.0**-10
    assert_close(run(proto, feeds)[0], wanted.astype(dtype), tolerance, tolerance)


@pytest.mark.parametrize("op", ["FastGelu", "BiasGelu"])
def test_biased_activations(op):
    random = models.generator(2)
    check(op, [normal(random, 2, 5, 9), normal(random, 9)])


def test_split_gelu_and_bias_add():
    from math import erf

    random = models.generator(3)
    x, bias, skip = normal(random, 2, 3, 8), normal(random, 8), normal(random, 2, 3, 8)
    (y,) = run(*node("BiasSplitGelu", [x, bias]))
    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    wanted = left * 0.5 * right * (1 + np.vectorize(erf)(right / np.sqrt(2)))
    assert_close(y, wanted.astype(np.float32), 1e-5, 1e-6)
    assert_close(run(*node("BiasAdd", [x, bias, skip]))[0], x + bias + skip, 1e-6, 1e-6)


def test_quick_gelu_slope():
    check("QuickGelu", [normal(models.generator(4), 5, 6)], alpha=0.7)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("constant", [False, True])
def test_fused_matmul(trans_a, trans_b, batch, constant):
    random = models.generator(len(batch))
    a = normal(random, *batch, *((5, 7) if trans_a else (7, 5)))
    b = normal(random, *batch, *((4, 5) if trans_b else (5, 4)))
    check("FusedMatMul", [a, b], constants=[1] * constant, transA=trans_a, transB=trans_b, alpha=0.3)


@pytest.mark.parametrize(
    ("a", "b", "flags"),
    [
        ((3, 2, 5), (3, 5, 4), {"transBatchA": 0}),
        ((7, 3, 5), (3, 5, 4), {"transBatchA": 1}),
        ((3, 7, 5), (5, 3, 4), {"transBatchB": 1}),
        ((7, 2, 3, 5), (5, 2, 3, 4), {"transBatchA": 1, "transBatchB": 1}),
        ((5, 3, 7), (3, 5, 4), {"transBatchA": 1, "transA": 1}),
        ((5,), (3, 5, 4), {}),
        ((3, 4, 5), (5,), {"transA": 0}),
    ],
)
def test_fused_matmul_batches(a, b, flags):
    random = models.generator(6)
    check("FusedMatMul", [normal(random, *a), normal(random, *b)], **flags)


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Softplus"])
def test_fused_gemm(activation):
    random = models.generator(7)
    arrays = [normal(random, 7, 5), normal(random, 4, 5), normal(random, 4)]
    options = {"LeakyRelu": {"activation_alpha": 0.2}, "Elu": {"activation_alpha": 0.5}}
    options["HardSigmoid"] = {"activation_alpha": 0.3, "activation_beta": 0.4}
    check("FusedGemm", arrays, activation=activation, transB=1, alpha=0.5, beta=0.25, **options.get(activation, {}))


# ---------------------------------------------------------------------- convolutions
@pytest.mark.parametrize(
    ("activation", "params"),
    [
        ("", []),
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.75]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_fused_conv(activation, params, summed, bias):
    random = models.generator(30)
    arrays = [normal(random, 2, 6, 9, 7), normal(random, 4, 3, 3, 3), normal(random, 4) if bias else None]
    arrays += [normal(random, 2, 4, 5, 6)] if summed else []
    options = {"activation": activation} if activation else {}
    if params:
        options["activation_params"] = params
    while arrays[-1] is None:
        arrays.pop()
    check("FusedConv", arrays, constants=[1], group=2, strides=[2, 1], pads=[1, 0, 1, 1], **options)


def test_nhwc_conv():
    """onnxruntime has it for other devices only: against Conv between transpositions."""
    random = models.generator(31)
    x, w, b = normal(random, 2, 9, 7, 6), normal(random, 4, 3, 2, 3), normal(random, 4)
    options = {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}
    (y,) = run(*node("NhwcConv", [x, w, b], **options))
    first = [np.ascontiguousarray(np.moveaxis(array, -1, 1)) for array in (x, w)]
    (wanted,) = models.expected(*node("Conv", [*first, b], domain="", **options))
    assert_close(y, np.moveaxis(wanted, 1, -1), TOLERANCE, TOLERANCE)


# ---------------------------------------------------------------------- normalisations
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", [["y"], ["y", "", "", "sum"], ["y", "mean"], ["y", "", "inverse"], list("abcd")])
@pytest.mark.parametrize("skip", [(2, 5, 24), (1, 5, 24), (5, 24)])
def test_skip_norms(op, bias, outputs, skip):
    random = models.generator(8)
    arrays = [normal(random, 2, 5, 24), normal(random, *skip), normal(random, 24)]
    if op == "SkipLayerNormalization":
        arrays.append(normal(random, 24))
    if bias:
        arrays.append(normal(random, 24))
    check(op, arrays, outputs=outputs, epsilon=1e-5)


def test_skip_norm_without_beta():
    random = models.generator(9)
    check("SkipLayerNormalization", [normal(random, 2, 3, 8), normal(random, 2, 3, 8), normal(random, 8)], epsilon=1e-6)


@pytest.mark.parametrize("domain", ["", DOMAIN])
def test_simplified_norm(domain):
    random = models.generator(10)
    x, scale = normal(random, 2, 5, 24), normal(random, 24)
    (y,) = run(*node("SimplifiedLayerNormalization", [x, scale], domain=domain, axis=-1, epsilon=1e-6))
    wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * scale
    assert_close(y, wanted.astype(np.float32), 1e-5, 1e-6)
    if not domain:
        options = {"domain": domain, "axis": -1, "epsilon": 1e-6, "outputs": ["y", "inverse"]}
        check("SimplifiedLayerNormalization", [x, scale], **options)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embeddings(segments, mask, positions):
    random = models.generator(11)
    ids = random.integers(0, 20, (2, 6), np.int32)
    arrays = [ids, random.integers(0, 3, (2, 6), np.int32) if segments else None, normal(random, 20, 8)]
    arrays += [normal(random, 12, 8), normal(random, 3, 8) if segments else None, normal(random, 8), normal(random, 8)]
    if mask or positions:
        arrays.append(random.integers(0, 2, (2, 6), np.int32) if mask else None)
    if positions:
        arrays.append(random.integers(0, 12, (2, 6), np.int32))
    check("EmbedLayerNormalization", arrays, outputs=["y", "m", "s"], epsilon=1e-6)


# ---------------------------------------------------------------------- RotaryEmbedding
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("layout", ["packed", "heads", "split"])
def test_rotary(interleaved, offset, layout):
    random = models.generator(12)
    angles = random.uniform(-3, 3, (13, 4))
    x = normal(random, *((2, 3, 5, 8) if layout == "split" else (2, 5, 24)))
    positions = np.array([4], np.int64) if offset else random.integers(0, 13, (2, 5))
    heads = {"num_heads": 3, "rotary_embedding_dim": 8} if layout == "heads" else {}
    arrays = [x, positions, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    check("RotaryEmbedding", arrays, interleaved=interleaved, **heads)


# ---------------------------------------------------------------------- attention
MASKS = ["none", "keys", "lengths", "bias", "both"]


def masks(kind, random, batch, heads, queries, keys):
    """An integer mask and a bias."""
    mask = None
    if kind in ("keys", "both"):
        mask = (random.random((batch, keys)) < 0.7).astype(np.int32)
        mask[:, 0] = 1
    if kind == "lengths":
        mask = random.integers(1, keys + 1, batch, np.int32)
    bias = normal(random, 1, heads, queries, keys) if kind in ("bias", "both") else None
    return mask, bias


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [False, True])
def test_multi_head(mask, causal, past):
    random = models.generator(13)
    batch, heads, queries, depth = 2, 3, 4, 8
    keys = queries + (3 if past else 0)
    width = heads * depth
    arrays = [normal(random, batch, queries, width) for _ in range(3)] + [normal(random, 3 * width)]
    arrays += list(masks(mask, random, batch, heads, queries, keys))
    if past:
        arrays += [normal(random, batch, heads, 3, depth) for _ in range(2)]
    while arrays[-1] is None:
        arrays.pop()
    outputs = ["y", "k", "v"] if past else ["y"]
    check("MultiHeadAttention", arrays, outputs=outputs, num_heads=heads, unidirectional=causal)


@pytest.mark.parametrize("layout", ["cross", "packed keys", "packed", "split"])
def test_multi_head_layouts(layout):
    random = models.generator(14)
    batch, heads, queries, keys, depth = 2, 3, 4, 6, 8
    q = normal(random, batch, queries, heads * depth)
    if layout == "packed":
        arrays = [normal(random, batch, queries, heads, 3, depth)]
    elif layout == "packed keys":
        arrays = [q, normal(random, batch, keys, heads, 2, depth)]
    elif layout == "split":
        arrays = [q, *(normal(random, batch, heads, keys, depth) for _ in range(2))]
    else:
        arrays = [q, *(normal(random, batch, keys, heads * depth) for _ in range(2))]
    if layout.startswith("packed"):
        # onnxruntime has these on CUDA only: the same by plain inputs.
        (y,) = run(*node("MultiHeadAttention", arrays, num_heads=heads))
        parts = [np.ascontiguousarray(arrays[-1][..., i, :]) for i in range(arrays[-1].shape[3])]
        plain = [p.reshape(p.shape[0], p.shape[1], -1) for p in parts]
        plain = plain if layout == "packed" else [q, *plain]
        (wanted,) = models.expected(*node("MultiHeadAttention", plain, num_heads=heads))
        assert_close(y, wanted, TOLERANCE, TOLERANCE)
        return
    check("MultiHeadAttention", arrays, num_heads=heads, scale=0.2)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("sizes", [None, [24, 24, 12]])
def test_attention(mask, causal, past, sizes):
    if past and (sizes or mask in ("bias", "both")):
        sizes, mask = None, "keys" if mask == "both" else "none"  # onnxruntime has no others with a past
    random = models.generator(15)
    batch, heads, queries, width = 2, 3, 4, 10
    keys = queries + (3 if past else 0)
    total = sum(sizes) if sizes else 72
    integers, bias = masks(mask, random, batch, heads, queries, keys)
    arrays = [normal(random, batch, queries, width), normal(random, width, total), normal(random, total), integers]
    arrays += [normal(random, 2, batch, heads, 3, 8) if past else None, bias]
    while arrays[-1] is None:
        arrays.pop()
    extra = {"qkv_hidden_sizes": sizes} if sizes else {}
    outputs = ["y", "present"] if past else ["y"]
    check("Attention", arrays, constants=[1, 2], outputs=outputs, num_heads=heads, unidirectional=causal, **extra)


def caches(random, half, length=64):
    angles = random.uniform(-3, 3, (length, half))
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


@pytest.mark.parametrize("rotary", ["no", "halves", "interleaved"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"local_window_size": 3}, {"scale": 0.3}])
@pytest.mark.parametrize("past", [0, 5])
def test_grouped(rotary, packed, options, past):
    random = models.generator(16)
    batch, heads, kv_heads, depth = 2, 4, 2, 16
    queries = 1 if past else 6
    total = past + queries
    widths = [heads * depth, kv_heads * depth, kv_heads * depth]
    parts = [normal(random, batch, queries, w) for w in widths]
    arrays = [np.concatenate(parts, -1), None, None] if packed else parts
    arrays += [normal(random, batch, kv_heads, past, depth) for _ in range(2)]
    arrays += [np.full(batch, total - 1, np.int32), np.array(total, np.int32)]
    extra = {}
    if rotary != "no":
        arrays += caches(random, depth // 2)
        extra = {"do_rotary": 1, "rotary_interleaved": int(rotary == "interleaved")}
    check(
        "GroupQueryAttention",
        arrays,
        constants=[6],
        outputs=["y", "k", "v"],
        num_heads=heads,
        kv_num_heads=kv_heads,
        **options,
        **extra,
    )


def test_grouped_with_sequences_of_different_lengths():
    """A decoding step over a cache that is filled to different lengths: rows behind them are not compared."""
    random = models.generator(17)
    batch, heads, kv_heads, depth, past = 2, 4, 2, 16, 5
    lengths = np.array([5, 3], np.int32)
    arrays = [normal(random, batch, 1, w) for w in (heads * depth, kv_heads * depth, kv_heads * depth)]
    arrays += [normal(random, batch, kv_heads, past, depth) for _ in range(2)]
    arrays += [lengths, np.array(6, np.int32), *caches(random, depth // 2)]
    options = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": 1}
    proto, feeds = node("GroupQueryAttention", arrays, constants=[6], outputs=["y", "k", "v"], **options)
    ours, theirs = run(proto, feeds), models.expected(proto, feeds)
    assert_close(ours[0], theirs[0], TOLERANCE, TOLERANCE)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        for b in range(batch):
            used = lengths[b] + 1
            assert_close(mine[b, :, :used], other[b, :, :used], TOLERANCE, TOLERANCE)


def test_grouped_in_a_cache_of_fixed_size():
    random = models.generator(18)
    batch, heads, kv_heads, depth, most = 1, 4, 2, 16, 9
    arrays = [normal(random, batch, 1, w) for w in (heads * depth, kv_heads * depth, kv_heads * depth)]
    arrays += [normal(random, batch, kv_heads, most, depth) for _ in range(2)]
    arrays += [np.array([5], np.int32), np.array(6, np.int32)]
    options = {"num_heads": heads, "kv_num_heads": kv_heads}
    proto, feeds = node("GroupQueryAttention", arrays, constants=[6], outputs=["y", "k", "v"], **options)
    ours, theirs = run(proto, feeds), models.expected(proto, feeds)
    assert_close(ours[0], theirs[0], TOLERANCE, TOLERANCE)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        assert mine.shape == (batch, kv_heads, most, depth)
        assert_close(mine[:, :, :6], other[:, :, :6], TOLERANCE, TOLERANCE)


def test_half_precision():
    """f16 is computed in f32 and rounded once."""
    random = models.generator(19)
    arrays = [normal(random, 2, 5, 24, dtype=np.float16) for _ in range(3)]
    (y,) = run(*node("MultiHeadAttention", arrays, num_heads=3, unidirectional=1))
    wide = [a.astype(np.float32) for a in arrays]
    (wanted,) = models.expected(*node("MultiHeadAttention", wide, num_heads=3, unidirectional=1))
    assert_close(y, wanted.astype(np.float16), 2.0**-10, 2.0**-14)


# ---------------------------------------------------------------------- refusals
def zeros(*shapes):
    return [np.zeros(s, np.float32) if s is not None else None for s in shapes]


@pytest.mark.parametrize(
    ("op", "arrays", "attributes", "pattern"),
    [
        ("BiasGelu", zeros((2, 4), (5,)), {}, "size of the bias is 5, expected 4"),
        ("BiasSplitGelu", zeros((2, 5), (5,)), {}, "no multiple of 2"),
        ("FusedMatMul", zeros((2, 4), (5, 3)), {}, "inner size of the second operand is 5, expected 4"),
        ("FusedGemm", zeros((2, 4), (4, 3)), {"activation": "Swish"}, 'activation "Swish"'),
        ("FusedConv", zeros((1, 2, 5, 5), (3, 2, 3, 3)), {"activation": "Swish"}, 'activation "Swish"'),
        ("FusedConv", zeros((1, 2, 5, 5), (3, 2, 3, 3)), {"activation": "Clip"}, "0 entries, expected 2"),
        ("FusedConv", zeros((1, 2, 5, 5), (3, 2, 3, 3), (3,), (1, 3, 3, 2)), {}, "a size of Z is 2, expected 3"),
        ("SkipLayerNormalization", zeros((2, 3, 4), (2, 3, 4), (5,)), {}, "size of input 2 is 5"),
        ("SkipLayerNormalization", zeros((2, 3, 4), (2, 5, 4), (4,)), {}, "5"),
        (
            "RotaryEmbedding",
            [*zeros((2, 3, 8)), np.zeros((2, 4), np.int64), *zeros((9, 4), (9, 4))],
            {},
            "length of position",
        ),
        (
            "RotaryEmbedding",
            [*zeros((2, 3, 8)), np.zeros(1, np.int64), *zeros((9, 4), (9, 4))],
            {"scale": 2.0},
            "scale",
        ),
        ("MultiHeadAttention", zeros((2, 3, 10), (2, 3, 10), (2, 3, 10)), {"num_heads": 3}, "no multiple of 3 heads"),
        ("MultiHeadAttention", zeros((2, 3, 12)), {"num_heads": 3}, "expected 5 without a key"),
        ("MultiHeadAttention", zeros((2, 3, 12), (2, 4, 12), (2, 5, 12)), {"num_heads": 3}, "length of the value is 5"),
        ("Attention", zeros((2, 3, 5), (5, 18)), {"num_heads": 4}, "no multiple of 4 heads"),
        ("Attention", zeros((2, 3, 5), (6, 24)), {"num_heads": 4}, "height of the weights is 6"),
        ("Attention", zeros((2, 3, 5), (5, 24)), {"num_heads": 4, "do_rotary": 1}, "do_rotary"),
    ],
)
def test_refusals(op, arrays, attributes, pattern):
    with pytest.raises((InvalidModel, Unsupported), match=pattern):
        make_compiler(node(op, arrays, **attributes)[0])


@pytest.mark.parametrize(
    ("attributes", "pattern"),
    [
        ({"num_heads": 3}, "expected a multiple of kv_num_heads"),
        ({"do_rotary": 1}, "without cos_cache"),
    ],
)
def test_refused_groups(attributes, pattern):
    arrays = zeros((1, 2, 32), (1, 2, 16), (1, 2, 16), None, None)
    arrays += [np.array([1], np.int32), np.array(2, np.int32)]
    options = {"num_heads": 4, "kv_num_heads": 2} | attributes
    with pytest.raises((InvalidModel, Unsupported), match=pattern):
        make_compiler(node("GroupQueryAttention", arrays, constants=[6], **options)[0])

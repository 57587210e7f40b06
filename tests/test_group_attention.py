"""GroupQueryAttention of com.microsoft beyond its plain form: sinks, scores, norms, positions and integer caches."""

import numpy as np
import pytest
from refactor_graph import InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, run

HEADS, KV_HEADS, DEPTH = 4, 2, 16
# Sums of up to 64 terms of size 1 in another order, through a product, a softmax and a product.
TOLERANCE = 3e-5


def group(random, *, batch=1, past=5, queries=3, dtype=np.float32, extra=None, **options):
    """Make a model whose further inputs are those of `extra`, by number, and what to feed it."""

    def normal(*shape):
        return random.standard_normal(shape).astype(dtype)

    total = past + queries
    arrays = [normal(batch, queries, heads * DEPTH) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    arrays += [normal(batch, KV_HEADS, past, DEPTH) if past else None for _ in range(2)]
    arrays += [np.full(batch, total - 1, np.int32), np.array(total, np.int32), *[None] * 9]
    for number, array in (extra or {}).items():
        arrays[number] = array
    while arrays[-1] is None:
        arrays.pop()
    options = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": ["y", "k", "v"]} | options
    proto, feeds = positional("GroupQueryAttention", arrays, opset=17, domain="com.microsoft", constants=[6], **options)
    proto.ir_version = 9
    return proto, feeds


def compare(proto, feeds, tolerance=TOLERANCE):
    for threads in (1, 2):
        for ours, theirs in zip(run(proto, feeds, num_threads=threads), models.expected(proto, feeds), strict=True):
            if theirs.dtype.kind in "iu":
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
            else:
                assert_close(ours, theirs, tolerance, tolerance)


@pytest.mark.parametrize("sinks", ["smooth", "learned", "both"])
@pytest.mark.parametrize("options", [{}, {"softcap": 1.5}, {"local_window_size": 3}, {"causal": 0}])
@pytest.mark.parametrize(("past", "queries"), [(0, 37), (5, 3), (300, 1)])
def test_sinks(sinks, options, past, queries):
    random = models.generator(41)
    # Sinks that dominate and sinks that vanish.
    extra = {11: (random.standard_normal(HEADS) * 5).astype(np.float32)} if sinks != "smooth" else {}
    smooth = {"smooth_softmax": 1} if sinks != "learned" else {}
    compare(*group(random, past=past, queries=queries, extra=extra, **smooth, **options))


def test_sinks_in_half_precision_and_with_a_bias():
    random = models.generator(42)
    extra = {11: random.standard_normal(HEADS).astype(np.float16)}
    compare(*group(random, dtype=np.float16, extra=extra), tolerance=2.0**-9)
    extra = {
        10: random.standard_normal((1, HEADS, 3, 8)).astype(np.float32),
        11: random.standard_normal(HEADS).astype(np.float32),
    }
    compare(*group(random, extra=extra))


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("options", [{}, {"softcap": 1.5}, {"local_window_size": 3}, {"smooth_softmax": 1}])
@pytest.mark.parametrize("bias", [False, True])
def test_scores(which, options, bias):
    random = models.generator(43)
    extra = {10: random.standard_normal((1, HEADS, 3, 8)).astype(np.float32)} if bias else {}
    compare(*group(random, extra=extra, outputs=["y", "k", "v", "scores"], qk_output=which, **options))


@pytest.mark.parametrize(("past", "positions"), [(5, [[3, 4, 9]]), (5, [[30, 1, 1]]), (0, [[4, 5, 6]])])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_positions(past, positions, interleaved):
    random = models.generator(44)
    angles = random.uniform(-3, 3, (32, DEPTH // 2)).astype(np.float32)
    extra = {7: np.cos(angles), 8: np.sin(angles), 9: np.array(positions)}
    compare(*group(random, past=past, extra=extra, do_rotary=1, rotary_interleaved=interleaved))


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("past", [5, 0])
@pytest.mark.parametrize("rotary", [False, True])
def test_integer_caches(kind, bits, past, rotary):
    random = models.generator(45)
    width = DEPTH * bits // 8
    extra = {}
    for i in range(2):
        low, high, dtype = (-128, 128, np.int8) if bits == 8 else (0, 256, np.uint8)
        extra[3 + i] = random.integers(low, high, (1, KV_HEADS, past, width)).astype(dtype)
        shape = (1,) if kind == "PER_TENSOR" else (KV_HEADS * DEPTH,)
        # Some of the fresh numbers saturate.
        extra[12 + i] = random.uniform(0.01, 0.02, shape).astype(np.float32) * (1 if bits == 8 else 15)
    if rotary:
        angles = random.uniform(-3, 3, (32, DEPTH // 2)).astype(np.float32)
        extra |= {7: np.cos(angles), 8: np.sin(angles)}
    options = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits, "do_rotary": int(rotary)}
    compare(*group(random, past=past, extra=extra, **options))


def test_norms():
    """onnxruntime's CPU kernel refuses them: against the same node on keys and queries that are normalised already."""
    random = models.generator(46)
    weights = [random.standard_normal(DEPTH).astype(np.float32) for _ in range(2)]
    proto, feeds = group(random, extra={14: weights[0], 15: weights[1]}, qk_norm_epsilon=1e-3)
    ours = run(proto, feeds)
    normal = dict(feeds)
    for name, weight in zip(("x0", "x1"), weights, strict=True):
        x = feeds[name].reshape(1, 3, -1, DEPTH).astype(np.float64)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * weight
        normal[name] = x.reshape(feeds[name].shape).astype(np.float32)
    plain, _ = group(models.generator(46))
    names = {port.name for port in plain.graph.input}
    wanted = models.expected(plain, {name: array for name, array in normal.items() if name in names})
    for mine, other in zip(ours, wanted, strict=True):
        assert_close(mine, other, TOLERANCE, TOLERANCE)


def held(total, capacity, window):
    """How many of `total` positions a windowed cache holds: it drops a group of them when it is full."""
    group = capacity - window + 1
    return total - group * -(-max(total - capacity, 0) // group)


@pytest.mark.parametrize(("capacity", "window"), [(8, 8), (12, 8), (9, 1), (16, 7)])
@pytest.mark.parametrize("rotary", [False, True])
def test_windowed_caches(capacity, window, rotary):
    random = models.generator(47)
    angles = random.uniform(-3, 3, (64, DEPTH // 2)).astype(np.float32)
    extra = {7: np.cos(angles), 8: np.sin(angles)} if rotary else {}
    # A prompt, then steps of one position and of several, also of more than the cache holds.
    for total, queries in ((5, 5), (30, 30), (6, 1), (9, 1), (13, 1), (14, 1), (31, 1), (40, 3), (41, 25)):
        lengths = {5: np.array([total - 1], np.int32), 6: np.array(total, np.int32)}
        options = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": int(rotary)}
        proto, feeds = group(random, past=capacity, queries=queries, extra=extra | lengths, **options)
        ours, theirs = run(proto, feeds), models.expected(proto, feeds)
        rows = held(total, capacity, window)
        assert_close(ours[0], theirs[0], TOLERANCE, TOLERANCE)
        for mine, other in zip(ours[1:], theirs[1:], strict=True):
            assert mine.shape == other.shape == (1, KV_HEADS, capacity, DEPTH)
            assert_close(mine[:, :, :rows], other[:, :, :rows], TOLERANCE, TOLERANCE)


def test_windowed_caches_of_integers_and_of_several_sequences():
    random = models.generator(48)
    capacity, window, batch = 10, 6, 3
    totals = np.array([4, 11, 40], np.int32)
    extra = {5: totals - 1, 6: np.array(40, np.int32)}
    for i in range(2):
        extra[3 + i] = random.integers(-128, 128, (batch, KV_HEADS, capacity, DEPTH)).astype(np.int8)
        extra[12 + i] = random.uniform(0.01, 0.02, KV_HEADS * DEPTH).astype(np.float32)
    kinds = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "local_window_size": window}
    options = {"sliding_window_cache": 1, "kv_cache_bit_width": 8} | kinds
    proto, feeds = group(random, batch=batch, past=capacity, queries=1, extra=extra, **options)
    ours, theirs = run(proto, feeds), models.expected(proto, feeds)
    assert_close(ours[0], theirs[0], TOLERANCE, TOLERANCE)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        for sequence, total in enumerate(totals):
            rows = held(int(total), capacity, window)
            np.testing.assert_array_equal(mine[sequence, :, :rows], other[sequence, :, :rows])


@pytest.mark.parametrize(
    ("options", "extra", "pattern"),
    [
        ({"sliding_window_cache": 1}, {}, "local_window_size is -1, expected a window for sliding_window_cache"),
        ({"sliding_window_cache": 1, "local_window_size": 6}, {}, "capacity of a windowed cache"),
        ({"sliding_window_cache": 1, "local_window_size": 4}, {3: None, 4: None}, "without past_key"),
        (
            {"sliding_window_cache": 1, "local_window_size": 4},
            {10: np.zeros((1, HEADS, 3, 8), np.float32)},
            "attention_bias with sliding_window_cache",
        ),
        (
            {"sliding_window_cache": 1, "local_window_size": 4, "outputs": ["y", "k", "v", "s"], "qk_output": 1},
            {},
            "output_qk with sliding_window_cache",
        ),
        ({"causal": 0, "local_window_size": 3}, {}, "local_window_size is 3 where causal is 0"),
        ({"k_quant_type": "PER_ROW"}, {}, 'k_quant_type is "PER_ROW", expected NONE, PER_TENSOR or PER_CHANNEL'),
        ({"k_quant_type": "PER_TENSOR"}, {}, "a scale of the cache is omitted"),
        ({"v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 3}, {}, "kv_cache_bit_width is 3, expected 8 or 4"),
        ({"v_quant_type": "PER_TENSOR"}, {13: np.ones(2, np.float32)}, "number of scales of a cache is 2, expected 1"),
        ({"v_quant_type": "PER_TENSOR"}, {13: np.ones(1, np.float32)}, "a cache is f32, expected i8"),
        ({"outputs": ["y", "k", "v", "s"]}, {}, "qk_output is 0, expected 1 or 2"),
        ({}, {11: np.ones(3, np.float32)}, "size of head_sink is 3, expected 4"),
        ({}, {14: np.ones(DEPTH, np.float32)}, "one of q_norm_weight and k_norm_weight is omitted"),
        ({}, {14: np.ones(3, np.float32), 15: np.ones(DEPTH, np.float32)}, "size of a norm's weight is 3, expected 16"),
        ({}, {9: np.zeros((1, 2), np.int64)}, "length of position_ids is 2, expected 3"),
    ],
)
def test_refusals(options, extra, pattern):
    with pytest.raises((InvalidModel, Unsupported), match=pattern):
        make_compiler(group(models.generator(47), extra=extra, **options)[0])

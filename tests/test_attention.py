"""Attention, RotaryEmbedding, LinearAttention and TensorScatter against onnx.reference."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper
from refactor_graph import InvalidInput, InvalidModel, Unsupported
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, reference, run

# Scores of up to 64 products of size 1 and probabilities of up to 40 keys: sums in another order.
TOLERANCE = 2e-5


def tensors(random, batch, heads, kv_heads, queries, keys, depth, value_depth, packed, dtype=np.float32):
    """Q, K and V, with the heads in the last axis if `packed`."""
    shapes = [(batch, heads, queries, depth), (batch, kv_heads, keys, depth), (batch, kv_heads, keys, value_depth)]
    arrays = [random.standard_normal(s).astype(dtype) for s in shapes]
    if packed:
        arrays = [a.transpose(0, 2, 1, 3).reshape(a.shape[0], a.shape[2], -1) for a in arrays]
    return arrays


def check(arrays, opset, outputs=1, tolerance=TOLERANCE, threads=2, **attributes):
    proto, feeds = positional("Attention", arrays, opset=opset, outputs=outputs, **attributes)
    for ours, theirs in zip(run(proto, feeds, num_threads=threads), reference(proto, feeds), strict=False):
        assert_close(ours, np.asarray(theirs, ours.dtype), tolerance, tolerance)


MASKS = [None, "bool", "float", "bool2", "short"]


def mask_of(kind, random, batch, heads, queries, keys, dtype=np.float32):
    if kind is None:
        return None
    shape = {"bool": (batch, heads, queries, keys), "float": (batch, 1, queries, keys), "bool2": (queries, keys)}
    shape = shape.get(kind, (queries, max(1, keys - 2)))
    if kind == "float":
        return random.standard_normal(shape).astype(dtype)
    mask = random.random(shape) < 0.7
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_masks_and_heads(mask, causal, packed):
    random = models.generator(len(mask or "") + causal)
    for (heads, kv_heads), (queries, keys) in itertools.product(((3, 3), (4, 2), (6, 1)), ((7, 7), (5, 9), (1, 6))):
        arrays = tensors(random, 2, heads, kv_heads, queries, keys, 8, 5, packed)
        arrays.append(mask_of(mask, random, 2, heads, queries, keys))
        extra = {"q_num_heads": heads, "kv_num_heads": kv_heads} if packed else {}
        check(arrays, 23, is_causal=causal, **extra)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("causal", [0, 1])
def test_scores_and_cache(mode, causal):
    """All outputs, with a past. The reference has the capped product in mode 0 as well: without a cap there."""
    random = models.generator(mode)
    arrays = tensors(random, 2, 4, 2, 3, 3, 8, 6, packed=False)
    mask = mask_of("float", random, 2, 4, 3, 8)
    arrays += [mask, random.standard_normal((2, 2, 5, 8), np.float32), random.standard_normal((2, 2, 5, 6), np.float32)]
    cap = {"softcap": 1.5} if mode else {}
    check(arrays, 23, outputs=4, is_causal=causal, qk_matmul_output_mode=mode, scale=0.3, **cap)


def test_product_before_the_cap():
    arrays = tensors(models.generator(5), 1, 2, 2, 3, 4, 8, 8, packed=False)
    plain = run(*positional("Attention", arrays, opset=23, outputs=["y", "", "", "s"]))
    capped = run(*positional("Attention", arrays, opset=23, outputs=["y", "", "", "s"], softcap=0.5))
    np.testing.assert_array_equal(plain[1], capped[1])
    assert not np.allclose(plain[0], capped[0])


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("window", [(-1, -1), (2, 0), (1, 2), (-1, 1), (3, -1)])
@pytest.mark.parametrize("cache", ["none", "inside", "outside"])
def test_windows(causal, window, cache):
    random = models.generator(sum(window))
    keys = 9 if cache == "outside" else 4
    arrays = [*tensors(random, 2, 2, 2, 4, keys, 8, 8, packed=False), None]
    if cache == "inside":
        arrays += [random.standard_normal((2, 2, 3, 8), np.float32) for _ in range(2)]
    if cache == "outside":
        arrays += [None, None, np.array([6, 3], np.int64)]
    left, right = window
    check(arrays, 25, is_causal=causal, left_window_size=left, right_window_size=right)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_floats(dtype):
    """Computed in f32 (f64) and rounded once."""
    random = models.generator(9)
    arrays = tensors(random, 2, 4, 2, 5, 7, 8, 6, packed=False, dtype=dtype)
    arrays.append(mask_of("float", random, 2, 4, 5, 7, dtype))
    (y,) = run(*positional("Attention", arrays, opset=23, is_causal=0))
    wide = [a.astype(np.float64) for a in arrays]
    (wanted,) = run(*positional("Attention", wide, opset=23, is_causal=0))
    assert y.dtype == dtype
    epsilon = {np.float16: 2.0**-11, np.float64: 2.0**-52}.get(dtype, 2.0**-8)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2 * epsilon, atol=1e-6)


def test_queries_that_see_nothing_give_zeros():
    arrays = tensors(models.generator(2), 1, 2, 2, 3, 4, 8, 8, packed=False)
    mask = np.ones((3, 4), bool)
    mask[1] = False
    (y,) = run(*positional("Attention", [*arrays, mask], opset=23))
    assert not y[:, :, 1].any()
    assert y[:, :, 0].any()


def test_symbolic_lengths():
    random = models.generator(4)
    arrays = tensors(random, 2, 2, 1, 3, 3, 8, 8, packed=False)
    arrays += [None, random.standard_normal((2, 1, 4, 8), np.float32), random.standard_normal((2, 1, 4, 8), np.float32)]
    proto, _ = positional("Attention", arrays, opset=23, outputs=3, is_causal=1)
    for port in proto.graph.input:
        dims = port.type.tensor_type.shape.dim
        dims[0].dim_param, dims[2].dim_param = "B", {"x0": "S", "x1": "L", "x2": "L"}.get(port.name, "P")
    executor = make_compiler(proto).compile()
    for batch, fresh, past in ((1, 5, 2), (3, 1, 9), (2, 6, 0)):
        feeds = dict(
            zip(("x0", "x1", "x2"), tensors(random, batch, 2, 1, fresh, fresh, 8, 8, packed=False), strict=True)
        )
        feeds |= {name: random.standard_normal((batch, 1, past, 8), np.float32) for name in ("x4", "x5")}
        for ours, theirs in zip(executor(feeds).values(), reference(proto, feeds), strict=True):
            assert_close(ours, theirs, TOLERANCE, TOLERANCE)


Q = np.zeros((2, 4, 3, 8), np.float32)


@pytest.mark.parametrize(
    ("arrays", "attributes", "pattern"),
    [
        ([Q, Q[:, :3], Q[:, :3]], {}, "4 heads of Q are no multiple of 3"),
        ([Q, Q[..., :6], Q], {}, "head of K is 6, expected 8"),
        ([Q, Q, Q[:, :, :2]], {}, "positions of V is 2, expected 3"),
        ([Q[0], Q[0], Q[0]], {"q_num_heads": 3, "kv_num_heads": 1}, "no multiple of 3 heads"),
        ([Q[0], Q[0], Q[0]], {}, "number of heads of Q is 0"),
        ([Q, Q, Q, np.zeros((5, 3), np.float32)], {}, "5"),
        ([Q, Q, Q, np.zeros((3, 4), np.float32)], {}, "the mask has 4 keys, there are 3"),
        ([Q, Q, Q, None, Q], {}, "past_value is omitted"),
        ([Q, Q, Q, None, None, None, np.zeros(3, np.int64)], {}, "nonpad_kv_seqlen is 3"),
        ([Q, Q, Q], {"qk_matmul_output_mode": 4}, "mode is 4"),
        ([Q, Q, Q], {"left_window_size": -2}, "left_window_size is -2"),
        ([Q, Q, Q], {"q_num_heads": 4}, "4-D inputs"),
    ],
)
def test_refused_attention(arrays, attributes, pattern):
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(positional("Attention", arrays, opset=25, **attributes)[0])


# ---------------------------------------------------------------------- RotaryEmbedding
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("size", [0, 4])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotary(interleaved, size, packed, positions, dtype):
    random = models.generator(size)
    x = random.standard_normal((2, 5, 24) if packed else (2, 3, 5, 8)).astype(dtype)
    half = (size or 8) // 2
    angles = random.uniform(-3, 3, (11, half) if positions else (2, 5, half))
    arrays = [x, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    if positions:
        arrays.append(random.integers(0, 11, (2, 5)))
    heads = {"num_heads": 3} if packed else {}
    proto, feeds = positional(
        "RotaryEmbedding", arrays, opset=23, interleaved=interleaved, rotary_embedding_dim=size, **heads
    )
    epsilon = 4 * np.finfo(dtype).eps
    assert_close(run(proto, feeds)[0], reference(proto, feeds)[0], epsilon, epsilon)


@pytest.mark.parametrize("positions", [False, True])
def test_rotary_takes_the_first_part_of_wider_caches(positions):
    random = models.generator(7)
    x = random.standard_normal((2, 3, 5, 8)).astype(np.float32)
    angles = random.uniform(-3, 3, (11, 4) if positions else (2, 5, 4))
    caches = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    rest = [random.integers(0, 11, (2, 5))] if positions else []
    results = []
    for width in (2, 4):
        arrays = [x, *(cache[..., :width] for cache in caches), *rest]
        proto, feeds = positional("RotaryEmbedding", arrays, opset=23, rotary_embedding_dim=4)
        results.append(run(proto, feeds)[0])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("shapes", "attributes", "pattern"),
    [
        (((2, 3, 5, 8), (2, 5, 3), (2, 5, 3)), {}, "last size of a cache is 3, expected 4"),
        (((2, 3, 5, 8), (5, 4), (5, 4)), {}, "2 axes, expected 3"),
        (((2, 3, 5, 7), (2, 5, 3), (2, 5, 3)), {}, "expected an even number"),
        (((2, 3, 5, 8), (2, 5, 6), (2, 5, 6)), {"rotary_embedding_dim": 12}, "a head has the size 8"),
        (((2, 5, 24), (2, 5, 4), (2, 5, 4)), {}, "number of heads of X is 0"),
    ],
)
def test_refused_rotary(shapes, attributes, pattern):
    arrays = [np.zeros(s, np.float32) for s in shapes]
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(positional("RotaryEmbedding", arrays, opset=23, **attributes)[0])


# ---------------------------------------------------------------------- LinearAttention
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_linear_attention(rule, past, wide, dtype):
    random = models.generator(len(rule) + past)
    batch, steps, heads, kv_heads, depth, value_depth = 2, 5, 4, 2, 6, 3
    scaled = lambda *shape: (random.standard_normal(shape) * 0.4).astype(dtype)  # noqa: E731
    arrays = [scaled(batch, steps, heads * depth), scaled(batch, steps, kv_heads * depth)]
    arrays += [scaled(batch, steps, kv_heads * value_depth)]
    arrays.append(scaled(batch, kv_heads, depth, value_depth) if past else None)
    gated, delta = rule.startswith("gated"), rule.endswith("delta")
    arrays.append(-np.abs(scaled(batch, steps, kv_heads * (depth if wide else 1))) if gated else None)
    arrays.append(np.abs(scaled(batch, steps, kv_heads if wide else 1)) if delta else None)
    proto, feeds = positional(
        "LinearAttention", arrays, opset=27, outputs=2, update_rule=rule, q_num_heads=heads, kv_num_heads=kv_heads
    )
    tolerance = 1e-5 if dtype == np.float32 else 2.0**-10
    for ours, theirs in zip(run(proto, feeds, num_threads=2), reference(proto, feeds), strict=True):
        assert_close(ours, theirs, tolerance, tolerance)


@pytest.mark.parametrize(
    ("change", "attributes", "pattern"),
    [
        ({}, {"update_rule": "linear"}, "takes no decay"),
        ({4: None}, {}, "needs decay"),
        ({5: None}, {}, "needs beta"),
        ({}, {"update_rule": "best"}, "update_rule is"),
        ({}, {"q_num_heads": 3}, "expected a multiple"),
        ({3: np.zeros((2, 2, 5, 3), np.float32)}, {}, "size 2 of past_state is 5, expected 6"),
        ({4: np.zeros((2, 5, 3), np.float32)}, {}, "last size of decay is 3"),
    ],
)
def test_refused_linear_attention(change, attributes, pattern):
    shapes = {0: (2, 5, 24), 1: (2, 5, 12), 2: (2, 5, 6), 4: (2, 5, 2), 5: (2, 5, 1)}
    arrays = [np.zeros(shapes[i], np.float32) if i in shapes else None for i in range(6)]
    for i, array in change.items():
        arrays[i] = array
    while arrays[-1] is None:
        arrays.pop()
    options = {"q_num_heads": 4, "kv_num_heads": 2} | attributes
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(positional("LinearAttention", arrays, opset=27, outputs=2, **options)[0])


def of_microsoft(heads, kv_heads, steps=9, depth=24, value_depth=40, **options):
    random = models.generator(heads + steps)
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    arrays = [normal(2, steps, heads * depth), normal(2, steps, kv_heads * depth) / depth**0.5]
    arrays += [normal(2, steps, kv_heads * value_depth), normal(2, kv_heads, depth, value_depth)]
    arrays += [-np.abs(normal(2, steps, kv_heads)), random.uniform(0, 1, (2, steps, kv_heads)).astype(np.float32)]
    heads_of = {"q_num_heads": heads, "kv_num_heads": kv_heads, **options}
    return positional("LinearAttention", arrays, opset=18, domain="com.microsoft", outputs=2, **heads_of)


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 6), (6, 2), (3, 3)])
@pytest.mark.parametrize("steps", [1, 9])
def test_linear_attention_of_microsoft(heads, kv_heads, steps):
    proto, feeds = of_microsoft(heads, kv_heads, steps)
    for ours, theirs in zip(run(proto, feeds, num_threads=3), models.expected(proto, feeds), strict=True):
        assert_close(ours, theirs, 1e-5, 1e-5)


def test_refused_linear_attention_of_microsoft():
    with pytest.raises(Unsupported, match="state_window = 2"):
        make_compiler(of_microsoft(2, 2, state_window=2)[0])
    with pytest.raises(InvalidModel, match="q_num_heads is 2, expected a multiple of kv_num_heads, 3"):
        make_compiler(of_microsoft(2, 3)[0])


# ---------------------------------------------------------------------- TensorScatter
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("given", [False, True])
def test_tensor_scatter(mode, axis, dtype, given):
    random = models.generator(axis)
    cache = random.integers(0, 2, (2, 5, 6, 7)).astype(dtype)
    shape = list(cache.shape)
    shape[axis] = 3
    update = random.integers(0, 2, shape).astype(dtype)
    arrays = [cache, update]
    if given:
        arrays.append(random.integers(0, cache.shape[axis] if mode == "circular" else 3, 2))
    proto, feeds = positional("TensorScatter", arrays, opset=24, axis=axis, mode=mode)
    np.testing.assert_array_equal(run(proto, feeds)[0], reference(proto, feeds)[0])


def test_a_row_behind_the_cache():
    arrays = [np.zeros((2, 4, 3), np.float32), np.ones((2, 2, 3), np.float32), np.array([0, 3])]
    proto, feeds = positional("TensorScatter", arrays, opset=24)
    with pytest.raises(InvalidInput, match="writes 2 rows from 3 in batch 1, the cache has 4"):
        run(proto, feeds)


@pytest.mark.parametrize(
    ("shapes", "attributes", "pattern"),
    [
        (((2, 4, 3), (2, 5, 3)), {}, "5 rows, the cache 4"),
        (((2, 4, 3), (1, 2, 3)), {}, "size 0 of the update is 1"),
        (((2, 4, 3), (2, 2, 3)), {"axis": 0}, "that of the batch"),
        (((2, 4, 3), (2, 2, 3)), {"mode": "random"}, "mode is"),
    ],
)
def test_refused_tensor_scatter(shapes, attributes, pattern):
    arrays = [np.zeros(s, np.float32) for s in shapes]
    with pytest.raises(InvalidModel, match=pattern):
        make_compiler(positional("TensorScatter", arrays, opset=24, **attributes)[0])


def test_one_fused_step():
    """The operator reaches the fast kernel without a detour, f16 too."""
    for dtype in (np.float32, np.float16):
        arrays = tensors(models.generator(3), 1, 2, 2, 6, 6, 8, 8, packed=False, dtype=dtype)
        executor = make_compiler(positional("Attention", arrays, opset=23, is_causal=1)[0]).compile()
        assert "attention:cpu" in executor.dbg()


def test_einsums_whose_result_has_the_second_operand_first_are_attention():
    # As Keras' MultiHeadAttention has them: [batch, position, head, depth], keys before queries.
    random = models.generator()
    feeds = {
        name: random.standard_normal((2, length, 3, 16), np.float32) for name, length in (("q", 7), ("k", 9), ("v", 9))
    }
    nodes = [
        helper.make_node("Einsum", ["k", "q"], ["scores"], equation="aecd,abcd->acbe"),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("Einsum", ["weights", "v"], ["y"], equation="acbe,aecd->abcd"),
    ]
    ports = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in feeds.items()]
    graph = helper.make_graph(nodes, "keras", ports, [helper.make_empty_tensor_value_info("y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executor = make_compiler(proto).compile()
    assert_close(executor(feeds)["y"], reference(proto, feeds)[0], TOLERANCE, TOLERANCE)
    assert [row.kernel.split(":")[0] for row in executor.bench(quiet=True)] == ["attention"]


@pytest.mark.parametrize("equation", ["ij,ki->kj", "bij,kib->kbj", "bij,bkj->bki", "aij,bjk->bika", "ij,jk->ki"])
@pytest.mark.parametrize("weights", [[], ["b"], ["a"]])
def test_operands_of_einsums_in_any_order(equation, weights):
    random = models.generator()
    sizes = dict(zip("abijk", (2, 3, 4, 5, 6), strict=True))
    shapes = [[sizes[label] for label in labels] for labels in equation.split("->")[0].split(",")]
    feeds = {name: random.standard_normal(shape, np.float32) for name, shape in zip("ab", shapes, strict=True)}
    ports = [helper.make_tensor_value_info(name, 1, a.shape) for name, a in feeds.items() if name not in weights]
    constants = [numpy_helper.from_array(feeds[name], name) for name in weights]
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    graph = helper.make_graph([node], "einsum", ports, [helper.make_empty_tensor_value_info("y")], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = {name: array for name, array in feeds.items() if name not in weights}
    assert_close(make_compiler(proto).compile()(inputs)["y"], np.einsum(equation, *feeds.values()), 1e-5, 1e-5)

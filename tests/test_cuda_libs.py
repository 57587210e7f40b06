"""Convolutions, products and attention on every kind of device, compared with onnxruntime or their definition."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import find_device, make_compiler

from tests import models
from tests.conftest import is_emulated, missing_dnn

EPS = {np.dtype(np.float32): 2.0**-23, np.dtype(np.float16): 2.0**-10, np.dtype(ml_dtypes.bfloat16): 2.0**-7}
TYPES = {
    "f32": (np.float32, TensorProto.FLOAT),
    "f16": (np.float16, TensorProto.FLOAT16),
    "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
    "f64": (np.float64, TensorProto.DOUBLE),
}


def run(proto, feeds, target):
    executor = make_compiler(proto).compile(target)
    return executor(feeds), executor


def one_node(op, arrays, dtype, **attributes):
    """A model of one node with all operands as inputs but W and B, which are constants."""
    names = ["x", "w", "b"][: len(arrays)]
    constants = [models.constant(name, array) for name, array in zip(names[1:], arrays[1:], strict=True)]
    shape = ["N", *arrays[0].shape[1:]]
    node = helper.make_node(op, names, ["y"], **attributes)
    return models.model([node], [models.value("x", shape, dtype)], [models.value("y", None, dtype)], constants, 22)


def expected(op, arrays, **attributes):
    """By onnxruntime in f32, and the sum of the products' magnitudes."""
    results = []
    for change in (lambda a: a, np.abs):
        wide = [change(a.astype(np.float32)) for a in arrays]
        results.append(models.expected(one_node(op, wide, TensorProto.FLOAT, **attributes), {"x": wide[0]})[0])
    return results


def check_window(op, shapes, target, kind="f32", seed=0, algorithm=None, **attributes):
    random = models.generator(seed)
    numpy_type, onnx_type = TYPES[kind]
    arrays = [random.standard_normal(shape).astype(numpy_type) for shape in shapes]
    outputs, executor = run(one_node(op, arrays, onnx_type, **attributes), {"x": arrays[0]}, target)
    wanted, magnitude = expected(op, arrays, **attributes)
    # Sums of n products in f32, in any order, in the oracle too; then one rounding.
    products = arrays[1].size / arrays[1].shape[1 if op == "ConvTranspose" else 0]
    eps = max(EPS.get(np.dtype(numpy_type), 0), 2.0**-23)
    allowed = 2 * products * 2.0**-23 * magnitude + eps * np.abs(wanted)
    actual = outputs["y"].astype(np.float32)
    assert actual.shape == wanted.shape
    assert np.all(np.abs(actual - wanted) <= allowed), np.max(np.abs(actual - wanted) / allowed)
    if algorithm and target != "cpu":
        assert f":nvidia:{algorithm}:{kind}" in executor.dbg(quiet=True)


WINDOWS = {
    "pointwise": ([(2, 20, 7, 5), (24, 20, 1, 1), (24,)], {}),
    "odd": ([(2, 5, 9, 11), (7, 5, 3, 2), (7,)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "dilated": ([(1, 6, 13, 12), (9, 6, 3, 3)], {"pads": [2, 3, 2, 1], "dilations": [2, 3]}),
    "groups": ([(2, 12, 6, 7), (18, 4, 3, 3), (18,)], {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise": ([(2, 13, 9, 8), (13, 1, 3, 3), (13,)], {"group": 13, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "line": ([(3, 6, 31), (11, 6, 5), (11,)], {"pads": [2, 2], "strides": [3]}),
    "volume": ([(1, 4, 5, 6, 7), (10, 4, 2, 3, 3), (10,)], {"pads": [1, 1, 0, 0, 1, 2], "strides": [1, 2, 1]}),
    "deep": ([(1, 160, 3, 4), (70, 160, 3, 3), (70,)], {"pads": [1, 1, 1, 1]}),
    "wide": ([(1, 9, 96, 200), (129, 9, 1, 1)], {}),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_convolution(target, name):
    shapes, attributes = WINDOWS[name]
    check_window("Conv", shapes, target, **attributes)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("name", ["odd", "depthwise", "deep"])
def test_convolution_types(target, name, kind):
    shapes, attributes = WINDOWS[name]
    check_window("Conv", shapes, target, kind, **attributes)


TRANSPOSED = {
    "stride_1": ([(2, 5, 6, 7), (5, 9, 3, 3), (9,)], {"pads": [1, 1, 1, 1]}),
    "stride_2": ([(2, 20, 5, 6), (20, 17, 4, 3), (17,)], {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "gaps": ([(1, 6, 4, 5), (6, 10, 2, 2)], {"strides": [3, 3], "output_padding": [1, 2]}),
    "dilated": ([(1, 7, 5, 6), (7, 11, 3, 3), (11,)], {"strides": [2, 3], "dilations": [2, 2]}),
    "groups": ([(2, 12, 5, 5), (12, 6, 3, 3), (18,)], {"group": 3, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise": ([(2, 9, 5, 5), (9, 1, 4, 4)], {"group": 9, "strides": [2, 2]}),
    "line": ([(2, 8, 15), (8, 12, 5), (12,)], {"strides": [4]}),
    "volume": ([(1, 4, 3, 4, 5), (4, 10, 2, 3, 2)], {"strides": [2, 1, 2]}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(target, name):
    shapes, attributes = TRANSPOSED[name]
    check_window("ConvTranspose", shapes, target, **attributes)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_random_windows(target, op):
    for seed in range(12):
        random = models.generator(100 + seed)
        draw = lambda low, high, random=random: int(random.integers(low, high + 1))  # noqa: E731
        group, inputs, outputs = draw(1, 3), draw(1, 9), draw(1, 40)
        kernel, strides, dilations = ([draw(1, high) for _ in range(2)] for high in (4, 3, 2))
        pads = [draw(0, k - 1) for k in kernel] * 2
        sizes = [(k - 1) * d + 1 + draw(0, 9) for k, d in zip(kernel, dilations, strict=True)]
        batch = draw(1, 3)
        pair = (inputs * group, outputs) if op == "ConvTranspose" else (outputs * group, inputs)
        shapes = [(batch, inputs * group, *sizes), (*pair, *kernel), (outputs * group,)]
        attributes = {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
        print(seed, shapes, attributes)
        check_window(op, shapes, target, seed=seed, **attributes)


def test_algorithms(target):
    """Which of our own estimates choose; where the device has cuDNN, they choose that."""
    library = target != "cpu" and not missing_dnn()
    for name, own in {"depthwise": "direct", "deep": "implicit_product"}.items():
        shapes, attributes = WINDOWS[name]
        check_window("Conv", shapes, target, algorithm="cudnn" if library else own, **attributes)


@pytest.mark.parametrize("activation", ["Relu", "HardSwish", "Sigmoid", "Clip"])
def test_residual_network(target, activation):
    """Bias, residual before and after the activation, batch normalisation, a dynamic batch."""
    random = models.generator(3)
    weights = {
        "w0": random.standard_normal((16, 3, 3, 3), np.float32) / 5,
        "w1": random.standard_normal((16, 16, 3, 3), np.float32) / 12,
        "w2": random.standard_normal((16, 16, 1, 1), np.float32) / 4,
        "b": random.standard_normal(16, np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.75),
    }
    more = ["low", "high"] if activation == "Clip" else []
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node(activation, ["c0", *more], ["a0"]),
        helper.make_node("Conv", ["a0", "w1", "b"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "a0"], ["s1"]),
        helper.make_node(activation, ["s1", *more], ["a1"]),
        helper.make_node("Conv", ["a1", "w2", "b"], ["c2"]),
        helper.make_node(activation, ["c2", *more], ["a2"]),
        helper.make_node("Add", ["a2", "a1"], ["y"]),
    ]
    constants = [models.constant(name, array) for name, array in weights.items()]
    proto = models.model(nodes, [models.value("x", ["N", 3, "H", 21])], [models.value("y", None)], constants)
    compiler = make_compiler(proto)
    executor = compiler.compile(target)
    for batch, height in ((1, 19), (3, 8)):
        feeds = {"x": models.generator(batch).standard_normal((batch, 3, height, 21), np.float32)}
        models.assert_close(executor(feeds)["y"], models.expected(proto, feeds)[0])


def attention(q, k, v, mask, causal, scale, softcap=0):
    """Its definition in f64; grouped heads; zeros for rows that see no key."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if mask is not None:
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64))
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    largest = np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = np.sum(weights, axis=-1, keepdims=True)
    weights /= np.where(sums > 0, sums, 1)
    return np.einsum("bhst,bhtd->bhsd", weights, v)


SIZES = {
    # batch, heads, heads of K and V, queries, keys, depth, depth of V
    "small": (2, 4, 2, 7, 9, 8, 5),
    "tiles": (1, 10, 2, 66, 66, 64, 64),
    "odd_tiles": (1, 3, 1, 70, 90, 33, 72),
    "one_query": (1, 3, 3, 1, 700, 64, 64),
    "deep": (1, 2, 1, 3, 300, 96, 300),
}
KINDS = [*itertools.product(SIZES, ["f32"]), ("tiles", "f16"), ("one_query", "f16"), ("small", "bf16"), ("deep", "f64")]


@pytest.mark.parametrize(("size", "kind"), KINDS)
def test_attention(target, size, kind):
    batch, heads, kv_heads, queries, keys, depth, value_depth = SIZES[size]
    numpy_type, onnx_type = TYPES[kind]
    for number, (masking, causal) in enumerate(itertools.product((None, "bool", "float"), (0, 1))):
        if causal and queries != keys:
            continue
        random = models.generator(number)
        shapes = [(batch, heads, queries, depth), (batch, kv_heads, keys, depth), (batch, kv_heads, keys, value_depth)]
        arrays = [random.standard_normal(shape).astype(numpy_type) for shape in shapes]
        if masking == "bool":
            mask = random.random((queries, keys)) < 0.7
            mask[:, 0] = True
            arrays.append(mask)
        elif masking:
            arrays.append(random.standard_normal((batch, 1, queries, keys)).astype(numpy_type))
        names = ["q", "k", "v", "m"][: len(arrays)]
        inputs = [
            models.value(name, array.shape, TensorProto.BOOL if array.dtype == bool else onnx_type)
            for name, array in zip(names, arrays, strict=True)
        ]
        softcap = 1.5 if masking == "bool" else 0.0
        node = helper.make_node("Attention", names, ["y"], is_causal=causal, softcap=softcap)
        proto = models.model([node], inputs, [models.value("y", None, onnx_type)], opset=23)
        outputs, executor = run(proto, dict(zip(names, arrays, strict=True)), target)
        if target != "cpu" and size in ("tiles", "one_query"):
            algorithm = "tiled" if size == "tiles" else "split_keys"
            names = [f"attention:nvidia:{each}:" for each in (algorithm, "cudnn")]
            assert any(name in executor.dbg(quiet=True) for name in names)
        wanted = attention(*arrays[:3], arrays[3] if masking else None, causal, depth**-0.5, softcap)
        # Scores of `depth` products of size 1 enter an exponential; weights of sum 1 then average values of size 4.
        eps = max(EPS.get(np.dtype(numpy_type), 0), 2.0**-23)
        allowed = 8 * eps * np.sqrt(depth) * np.maximum(1, np.abs(wanted)) + 2.0**-18
        assert np.all(np.abs(outputs["y"].astype(np.float64) - wanted) <= allowed)


PRODUCTS = {
    # shapes of A and B, B is a constant
    "one_row": ((1, 300), (300, 70), True),
    "few_rows": ((2, 3, 97), (97, 41), True),
    "split": ((3, 1536), (1536, 64), True),
    "batched": ((3, 2, 5, 33), (3, 1, 33, 20), False),
    "many_rows": ((70, 33), (33, 19), True),
}


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("transposed", [False, True])
def test_products(target, name, kind, transposed):
    a_shape, b_shape, is_constant = PRODUCTS[name]
    if transposed and (len(a_shape) > 2 or not is_constant):
        return
    random = models.generator(len(name))
    numpy_type, onnx_type = TYPES[kind]
    a, b = (random.standard_normal(shape).astype(numpy_type) for shape in (a_shape, b_shape))
    bias = random.standard_normal(b_shape[-1]).astype(numpy_type)
    stored = np.ascontiguousarray(b.T) if transposed else b
    op = "Gemm" if len(a_shape) == 2 else "MatMul"
    nodes = [
        helper.make_node(op, ["a", "b"], ["p"], **({"transB": int(transposed)} if op == "Gemm" else {})),
        helper.make_node("Add", ["p", "c"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["y"]),
    ]
    constants = [models.constant("c", bias)] + ([models.constant("b", stored)] if is_constant else [])
    inputs = [models.value("a", ["M", *a_shape[1:]], onnx_type)]
    if not is_constant:
        inputs.append(models.value("b", b_shape, onnx_type))
    proto = models.model(nodes, inputs, [models.value("y", None, onnx_type)], constants)
    outputs, executor = run(proto, {"a": a} if is_constant else {"a": a, "b": b}, target)
    wide = a.astype(np.float64) @ b.astype(np.float64) + bias.astype(np.float64)
    # Sums of products of size 1, rounded before and after the bias; the slope of the sigmoid is 1/4.
    eps = max(EPS.get(np.dtype(numpy_type), 0), 2.0**-23)
    error = 4 * eps * (a_shape[-1] ** 0.5 + np.abs(wide)) / 4 + eps
    assert np.all(np.abs(outputs["y"].astype(np.float64) - 1 / (1 + np.exp(-wide))) <= error)
    if target != "cpu" and name in ("one_row", "split"):
        assert f"matmul:nvidia:few_rows:{kind}" in executor.dbg(quiet=True)


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_products_of_integers(target, kind):
    random = models.generator(5)
    a, b = (random.integers(0, 1 << 20, shape).astype(kind) for shape in ((2, 9, 33), (33, 70)))
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    inputs = [models.value("a", a.shape, dtype), models.value("b", b.shape, dtype)]
    proto = models.model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [models.value("y", None, dtype)])
    outputs, _ = run(proto, {"a": a, "b": b}, target)
    np.testing.assert_array_equal(outputs["y"], a @ b)


def test_an_empty_inner_size(target):
    inputs = [models.value("a", [3, "K"]), models.value("b", ["K", 5])]
    proto = models.model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [models.value("y", None)])
    feeds = {"a": np.zeros((3, 0), np.float32), "b": np.zeros((0, 5), np.float32)}
    outputs, _ = run(proto, feeds, target)
    np.testing.assert_array_equal(outputs["y"], np.zeros((3, 5), np.float32))


@pytest.fixture
def dnn(target, monkeypatch):
    """A device with the vendor's library for convolutions: of the emulator, on request."""
    if target == "cpu":
        pytest.skip("a library of GPUs")
    monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", "1")
    if missing_dnn():
        pytest.skip(missing_dnn())
    return target


@pytest.mark.parametrize("kind", ["f32", "f16", "f64"])
@pytest.mark.parametrize("name", ["pointwise", "dilated", "groups", "line", "volume"])
def test_library_convolution(dnn, name, kind):
    shapes, attributes = WINDOWS[name]
    # For f64, groups, dilations and volumes some versions and cards have no engine.
    sure = is_emulated() or (name == "pointwise" and kind != "f64")
    check_window("Conv", shapes, dnn, kind, algorithm="cudnn" if sure else None, **attributes)


def test_library_transposed_convolution(dnn):
    """Its bias is added behind; pads that differ are left to generated code."""
    shapes, attributes = TRANSPOSED["stride_1"]
    check_window("ConvTranspose", shapes, dnn, algorithm="cudnn" if is_emulated() else None, **attributes)
    shapes, attributes = TRANSPOSED["stride_2"]
    check_window("ConvTranspose", shapes, dnn, **attributes)


@pytest.mark.parametrize("activation", ["Relu", "HardSwish", "Clip"])
def test_library_epilogues(dnn, activation):
    test_residual_network(dnn, activation)


def test_library_attention(dnn):
    for size in ("small", "one_query"):
        test_attention(dnn, size, "f16")


MASKS = {
    # sizes of batch, heads, queries and keys of the mask, 1 where it is repeated; its type; causal
    "none": (None, None, 0),
    "causal": (None, None, 1),
    "padding": ((1, 0, 0, 1), np.float16, 0),
    "padding_bool": ((1, 0, 0, 1), bool, 0),
    "square": ((0, 0, 1, 1), np.float16, 0),
    "heads": ((1, 1, 1, 1), np.float16, 0),
    "square_causal": ((0, 0, 1, 1), bool, 1),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("queries", [1, 200])
def test_library_attention_masks(dnn, name, queries):
    """Grouped heads, with what is added to scores; bool masks become that first. Some rows see no key."""
    varies, kind, causal = MASKS[name]
    random = models.generator(queries)
    batch, heads, keys, depth = 2, 4, 200, 32
    if causal and queries == 1:
        return
    shapes = [(batch, heads, queries, depth), (batch, 2, keys, depth), (batch, 2, keys, 40)]
    arrays = [random.standard_normal(shape).astype(np.float16) for shape in shapes]
    if varies:
        full = (batch, heads, queries, keys)
        shape = [size if v else 1 for size, v in zip(full, varies, strict=True)]
        mask = random.random(shape) < 0.8 if kind is bool else random.standard_normal(shape).astype(kind)
        hidden = False if kind is bool else -np.inf
        mask[-1, -1, -1, : queries if causal else keys] = hidden
        if causal:
            mask[..., 40, :41] = hidden
        arrays.append(mask)
    names = ["q", "k", "v", "m"][: len(arrays)]
    inputs = [
        models.value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in zip(names, arrays, strict=True)
    ]
    node = helper.make_node("Attention", names, ["y"], is_causal=causal)
    proto = models.model([node], inputs, [models.value("y", None, TensorProto.FLOAT16)], opset=23)
    outputs, executor = run(proto, dict(zip(names, arrays, strict=True)), dnn)
    wanted = attention(*arrays[:3], arrays[3] if varies else None, causal, depth**-0.5)
    assert np.all(np.abs(outputs["y"] - wanted) <= 8 * 2.0**-10 * 4 * np.maximum(1, np.abs(wanted)))
    algorithms = ["cudnn"] if queries > 1 or not varies else ["cudnn", "split_keys"]
    assert not is_emulated() or any(
        f"attention:nvidia:{algorithm}:f16" in executor.dbg(quiet=True) for algorithm in algorithms
    )


@pytest.mark.parametrize("sizes", [(1, 1, 1, 70), (2, 1, 1, 70), (1, 1, 33, 70), (2, 4, 33, 70)])
def test_library_attention_that_is_written_out(dnn, sizes):
    """Products and softmax with a mask that is added, fused and computed in f16."""
    random = models.generator(9)
    shapes = {"q": (2, 4, 33, 16), "k": (2, 4, 70, 16), "v": (2, 4, 70, 24), "m": sizes}
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    feeds["m"][..., 60:] = np.finfo(np.float32).min
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["p"]),
        helper.make_node("Mul", ["p", "scale"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["y"]),
    ]
    inputs = [models.value(name, shape) for name, shape in shapes.items()]
    constants = [models.constant("scale", np.float32(0.25))]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants)
    executor = make_compiler(proto).compile(dnn, precision="f16")
    wanted = attention(feeds["q"], feeds["k"], feeds["v"], feeds["m"], 0, 0.25)
    assert np.abs(executor(feeds)["y"] - wanted).max() <= 2.0**-6
    assert not is_emulated() or "attention:nvidia:cudnn:f16" in executor.dbg(quiet=True)


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(("queries", "keys", "heads"), [(70, 70, 4), (1, 70, 4), (70, 70, 3)])
def test_attention_takes_operands_where_products_leave_them(dnn, precision, queries, keys, heads):
    """Heads are split, moved and joined again as exporters write it: nothing of that is a kernel."""
    random = models.generator(queries + heads)
    depth = 16 if heads == 4 else 10  # rows that are no multiples of 16 bytes are left to generated code
    width = heads * depth
    shapes = {"x": (2, queries, 24), "z": (2, keys, 24)}
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants = [
        models.constant("heads", np.array([0, 0, heads, depth])),
        models.constant("joined", np.array([0, 0, width])),
        models.constant("scale", np.float32(depth**-0.5)),
    ]
    for name, columns in {"wq": width, "wkv": 2 * width, "wo": 20}.items():
        rows = width if name == "wo" else 24
        weights = random.standard_normal((rows, columns)).astype(np.float32) * rows**-0.5
        constants.append(models.constant(name, weights))
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q0"]),
        helper.make_node("MatMul", ["z", "wkv"], ["kv"]),
        helper.make_node("Split", ["kv"], ["k0", "v0"], axis=-1),
        helper.make_node("Reshape", ["q0", "heads"], ["q1"]),
        helper.make_node("Reshape", ["k0", "heads"], ["k1"]),
        helper.make_node("Reshape", ["v0", "heads"], ["v1"]),
        helper.make_node("Transpose", ["q1"], ["q"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["k1"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["v1"], ["v"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["q", "k"], ["p"]),
        helper.make_node("Mul", ["p", "scale"], ["s"]),
        helper.make_node("Softmax", ["s"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "joined"], ["j"]),
        helper.make_node("MatMul", ["j", "wo"], ["y"]),
    ]
    inputs = [models.value(name, shape) for name, shape in shapes.items()]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants)
    wanted = make_compiler(proto).compile("cpu", passes=["-view_operands"])(feeds)["y"]
    executor = make_compiler(proto).compile(dnn, precision=precision, verify=True)
    tolerance = 2.0**-18 if precision == "f32" else 2.0**-7
    assert np.abs(executor(feeds)["y"] - wanted).max() <= tolerance * np.abs(wanted).max()
    plan = executor.dbg(quiet=True)
    assert not any(f"{kind}:nvidia" in plan for kind in ("transpose", "split", "slice"))
    if precision == "f16" and (is_emulated() or heads == 3):
        assert ("attention:nvidia:cudnn:f16" in plan) == (heads == 4)


def test_plans_of_the_library_are_kept(dnn, monkeypatch, tmp_path):
    """Made anew from what is on disk, a convolution with ReLU and an attention compute the same bits."""
    monkeypatch.setenv("REFACTOR_GRAPH_CACHE", str(tmp_path))
    random = models.generator(3)
    feeds = {"x": random.standard_normal((1, 16, 12, 12)).astype(np.float32)}
    weights = random.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["s"]),
        helper.make_node("Reshape", ["s", "heads"], ["h"]),
        helper.make_node("Attention", ["h", "h", "h"], ["y"]),
    ]
    constants = [models.constant("w", weights), models.constant("heads", np.array([1, 4, 36, 16]))]
    inputs = [models.value("x", feeds["x"].shape)]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants, 23)
    outputs = []
    for _ in range(2):
        executor = make_compiler(proto).compile(dnn, precision="f16")
        outputs.append(executor(feeds)["y"].copy())
        plan = executor.dbg(quiet=True)
        if is_emulated():
            assert all(f"{kind}:nvidia:cudnn:f16" in plan for kind in ("conv", "attention"))
        # Plans in memory go with whoever uses them.
        del executor
    assert np.array_equal(*outputs)
    if not is_emulated() and "attention:nvidia:cudnn:f16" in plan:
        assert list(tmp_path.glob("cudnn*/*.code"))


def test_the_library_is_told(dnn, monkeypatch):
    (version,) = find_device("nvidia", 0).libraries
    assert "cuDNN" in version
    monkeypatch.delenv("REFACTOR_GRAPH_EMULATED_DNN")
    (reason,) = find_device("nvidia", 0).libraries
    assert "cuDNN" in reason
    assert reason == version or "not set" in reason
    assert find_device("cpu", 0).libraries == []


@pytest.mark.parametrize("with_library", [False, True])
def test_tuning(target, with_library, monkeypatch, tmp_path):
    """Candidates are measured on the device; what was found is used."""
    if with_library and target != "cpu":
        monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", "1")
    monkeypatch.setenv("REFACTOR_GRAPH_CACHE", str(tmp_path))
    shapes, attributes = WINDOWS["groups"]
    random = models.generator(1)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    proto = one_node("Conv", arrays, TensorProto.FLOAT, **attributes)
    wanted, magnitude = expected("Conv", arrays, **attributes)
    for _ in range(2):
        compiler = make_compiler(proto)
        compiler.substitute("N", len(arrays[0]))
        executor = compiler.compile(target, tune="quick")
        outputs = executor({"x": arrays[0]})
        assert np.all(np.abs(outputs["y"] - wanted) <= 1e-5 * (1 + magnitude))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("zeros", [None, "packed", "f32"])
def test_packed_weights(target, bits, rows, zeros):
    random = models.generator(bits + rows)
    k, n, block = 150, 45, 64 if bits == 2 else 32
    blocks = -(-k // block)
    numbers = random.integers(0, 1 << bits, (n, blocks, block))
    packed = np.zeros((n, blocks, block * bits // 8), np.uint8)
    per_byte = 8 // bits
    for i in range(per_byte):
        packed |= (numbers[..., i::per_byte] << (i * bits)).astype(np.uint8)
    scales = random.uniform(0.5, 1.5, (n, blocks)).astype(np.float32)
    a = random.standard_normal((rows, k)).astype(np.float32)
    point = np.full((n, blocks), 1 << (bits - 1), np.float64)
    constants = {"q": packed, "s": scales.reshape(-1)}
    if zeros == "f32":
        point = random.uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
        constants["z"] = point.reshape(-1)
    elif zeros:
        point = random.integers(0, 1 << bits, (n, blocks))
        row = np.zeros((n, -(-blocks * bits // 8) * per_byte), np.uint8)
        row[:, :blocks] = point
        constants["z"] = sum(row[:, i::per_byte] << (i * bits) for i in range(per_byte)).astype(np.uint8)
    weights = ((numbers - point[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
    node = helper.make_node(
        "MatMulNBits", ["a", *constants], ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block
    )
    initializers = [models.constant(name, array) for name, array in constants.items()]
    inputs, outputs = [models.value("a", ["M", k])], [models.value("y", ["M", n])]
    proto = models.model([node], inputs, outputs, initializers, domains=["com.microsoft"])
    actual = make_compiler(proto).compile(target)({"a": a})["y"]
    magnitude = np.abs(a) @ np.abs((numbers + np.abs(point[..., None])) * scales[..., None]).reshape(n, -1)[:, :k].T
    assert np.all(np.abs(actual - a @ weights.T) <= 2 * k * 2.0**-23 * magnitude)


def test_halves_are_fused(target):
    """Softmax between products, in f16."""
    if target == "cpu":
        pytest.skip("halves are computed in f32 there")
    random = models.generator(11)
    q, k, v = (random.standard_normal((2, 3, 40, 16)).astype(np.float16) for _ in range(3))
    weights, bias = (random.standard_normal(shape).astype(np.float16) for shape in ((16, 24), (24,)))
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    constants = [models.constant(name, array) for name, array in (("w", weights), ("b", bias))]
    constants.append(models.constant("scale", np.float16(0.25)))
    inputs = [models.value(name, q.shape, TensorProto.FLOAT16) for name in "qkv"]
    proto = models.model(nodes, inputs, [models.value("y", None, TensorProto.FLOAT16)], constants)
    outputs, executor = run(proto, {"q": q, "k": k, "v": v}, target)
    attended = attention(q, k, v, None, False, 0.25)
    wanted = np.maximum(attended @ weights.astype(np.float64) + bias, 0)
    # Averages of size 1 are rounded once, then sums of 16 products with them.
    np.testing.assert_allclose(outputs["y"].astype(np.float64), wanted, rtol=2.0**-9, atol=2.0**-7)
    assert "attention:nvidia:" in executor.dbg(quiet=True)

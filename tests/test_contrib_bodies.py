"""Operators of com.microsoft that are replaced by others, against onnxruntime where it has them on the CPU."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from refactor_graph import InvalidModel, Unsupported, supported_ops
from refactor_graph.onnx import make_compiler

from tests import models
from tests.quantization import weights
from tests.single import assert_close, positional, run

# Sums of up to 64 terms of size 1 in another order, through a product, a softmax and a product.
TOLERANCE = 3e-5


def node(op, arrays, opset=17, **options):
    proto, feeds = positional(op, arrays, opset=opset, domain="com.microsoft", **options)
    proto.ir_version = 9
    return proto, feeds


def check(op, arrays, *, tolerance=TOLERANCE, **options):
    proto, feeds = node(op, arrays, **options)
    for ours, theirs in zip(run(proto, feeds, num_threads=2), models.expected(proto, feeds), strict=True):
        assert_close(ours, theirs, tolerance, tolerance)


def normal(random, *shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def quantized(random, *shape, dtype=np.uint8):
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


# ---------------------------------------------------------------------- plain ones
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances(metric, dtype):
    random = models.generator(1)
    x, y = normal(random, 7, 5, dtype=dtype), normal(random, 3, 5, dtype=dtype)
    for opset in (11, 17, 18):
        check("CDist", [x, y], metric=metric, opset=opset)


@pytest.mark.parametrize("far", range(4))
def test_distances_beside_a_point_that_is_far_away(far):
    random = models.generator(3)
    x, y = normal(random, 7, 5), normal(random, 4, 5)
    y[far] = 1e4
    wanted = np.sqrt(((x[:, None].astype(np.float64) - y[None]) ** 2).sum(-1)).astype(np.float32)
    proto, feeds = node("CDist", [x, y], metric="euclidean")
    assert_close(run(proto, feeds)[0], wanted, 1e-5, 1e-5)


def test_distances_far_from_zero():
    random = models.generator(2)
    x, y = normal(random, 7, 5) + 1000, normal(random, 3, 5) + 1000
    (actual,) = run(*node("CDist", [x, y], metric="sqeuclidean"))
    wanted = ((x[:, None].astype(np.float64) - y[None]) ** 2).sum(-1)
    # The differences from the mean carry a rounding of 1000 · eps, times twice the distance of about 3 for 5 axes.
    assert_close(actual, wanted.astype(np.float32), 0, 1000 * 2**-23 * 3 * 2 * 5)


def test_products():
    random = models.generator(3)
    a, b = normal(random, 5, 4), normal(random, 3, 5)
    check("TransposeMatMul", [a, b], transA=1, transB=1, alpha=0.5)
    proto, feeds = node(
        "FusedMatMulActivation", [a, b], transA=1, transB=1, activation="LeakyRelu", activation_alpha=0.2
    )
    product = a.T @ b.T
    assert_close(run(proto, feeds)[0], np.where(product > 0, product, 0.2 * product), TOLERANCE, TOLERANCE)
    bias = normal(random, 3)
    (y,) = run(*node("GemmFastGelu", [a, b.T[:4], bias]))
    x = (a @ b.T[:4] + bias).astype(np.float64)
    wanted = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert_close(y, wanted.astype(np.float32), TOLERANCE, TOLERANCE)


def test_movement():
    random = models.generator(4)
    x = normal(random, 4, 5)
    check("Trilu", [x, np.array(1, np.int64)], upper=0)
    for opset in (11, 17):
        check("ExpandDims", [x, np.array(-1, np.int32)], constants=[1], opset=opset)
    check("GatherND", [x, np.array([[1, 2], [3, 0]], np.int64)])
    check("Pad", [x, np.array([1, 0, 2, 3], np.int64), np.array([7], np.float32)], constants=[1])
    check("Pad", [x, np.array([[1, 0, 2, 3]], np.int64)], constants=[1], mode="reflect")
    check("Unique", [np.array([3, 1, 3, 2, 1], np.float32)], outputs=3)
    check("Range", [np.array([2], np.float32), np.array([9], np.float32), np.array([2.5], np.float32)])
    check("Range", [np.array(2, np.int64), np.array(9, np.int64)])


@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolution_with_pads_that_a_run_gives(bias):
    random = models.generator(19)
    x, w = normal(random, 2, 3, 5, 6), normal(random, 3, 4, 3, 2)
    arrays = [x, w, np.array([1, 0, 0, 2], np.int64), *([normal(random, 4)] if bias else [])]
    options = {"strides": [2, 1], "output_padding": [1, 0]}
    (actual,) = run(*node("ConvTransposeWithDynamicPads", arrays, **options))
    proto, feeds = positional("ConvTranspose", [x, w, *arrays[3:]], opset=17, pads=[1, 0, 0, 2], **options)
    assert_close(actual, models.expected(proto, feeds)[0], TOLERANCE, TOLERANCE)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norms(last, activation):
    random = models.generator(5)
    x, skip = normal(random, 2, 3, 4, 6), normal(random, 2, 3, 4, 6)
    scale, bias, offset = normal(random, 6), normal(random, 6), normal(random, 6)
    if not last:
        x, skip, offset = x.transpose(0, 3, 1, 2), skip.transpose(0, 3, 1, 2), offset[:, None, None]
    options = {"groups": 3, "activation": activation, "channels_last": last, "epsilon": 1e-4}

    def wanted(x):
        x = (x if last else x.transpose(0, 2, 3, 1)).astype(np.float64)
        parts = x.reshape(2, 12, 3, 2)
        mean, var = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        y = ((parts - mean) / np.sqrt(var + 1e-4)).reshape(x.shape) * scale + bias
        y = y / (1 + np.exp(-y)) if activation else y
        return (y if last else y.transpose(0, 3, 1, 2)).astype(np.float32)

    assert_close(run(*node("GroupNorm", [x, scale, bias], **options))[0], wanted(x), 1e-5, 1e-5)
    y, total = run(*node("SkipGroupNorm", [x, scale, bias, skip, offset], outputs=2, **options))
    assert_close(total, x + skip + offset, 1e-6, 1e-6)
    assert_close(y, wanted(x + skip + offset), 1e-5, 1e-5)


@pytest.mark.parametrize("opset", [11, 14, 16])
def test_layer_norm_before_its_opset(opset):
    """onnxruntime's optimiser writes it into models of any opset."""
    random = models.generator(6)
    arrays = [normal(random, 2, 3, 8), normal(random, 8), normal(random, 8)]
    proto, feeds = positional("LayerNormalization", arrays, opset=opset, axis=-1, epsilon=1e-6)
    proto.ir_version = 7
    assert_close(run(proto, feeds)[0], models.expected(proto, feeds)[0], 1e-5, 1e-5)


# ---------------------------------------------------------------------- quantised
def test_integers():
    random = models.generator(7)
    a, b = quantized(random, 3, 4), quantized(random, 3, 4)
    narrow = quantized(random, 3, 4, 2, dtype=np.int8)  # a type that onnxruntime announces otherwise than it computes
    (total,) = run(*node("ReduceSumInteger", [narrow], axes=[1], keepdims=0))
    assert_close(total, narrow.sum(1, dtype=np.int32), 0, 0)
    (product,) = run(*node("MulInteger", [a, np.array(7, np.uint8), b, np.array(9, np.uint8)]))
    assert_close(product, (a.astype(np.int32) - 7) * (b.astype(np.int32) - 9), 0, 0)
    wide = random.integers(-(2**15), 2**15, (2, 3, 4)).astype(np.int16)
    check("MatMulInteger16", [wide[0], wide[1].T], tolerance=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_where_and_mean(dtype):
    random = models.generator(8)
    zero = np.array(5, dtype)
    scales = [np.array(s, np.float32) for s in (0.02, 0.03, 0.04)]
    x, y = quantized(random, 3, 4, dtype=dtype), quantized(random, 4, dtype=dtype)
    condition = random.random((3, 1)) < 0.5
    proto, feeds = node("QLinearWhere", [condition, x, scales[0], zero, y, scales[1], zero, scales[2], zero])
    actual, wanted = run(proto, feeds)[0], models.expected(proto, feeds)[0]
    # A table of requantised values rounds 0.5 as it likes.
    assert np.abs(actual.astype(np.int32) - wanted.astype(np.int32)).max() <= 1
    proto, feeds = node("QLinearReduceMean", [x, scales[0], zero, scales[1], zero], axes=[1], keepdims=1)
    real = (x.astype(np.float64) - 5).mean(1, keepdims=True) * 0.02 / 0.03 + 5
    assert np.abs(run(proto, feeds)[0] - real).max() <= 0.5 + 1e-5


@pytest.mark.parametrize("last", [0, 1])
def test_convolution_with_channels_last(last):
    random = models.generator(9)
    x, w = quantized(random, 2, 5, 6, 4), weights(np.int8, (3, 4, 3, 3), random)
    if not last:
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    scale, zero = np.array(0.02, np.float32), np.array(120, np.uint8)
    bias = random.integers(-1000, 1000, 3).astype(np.int32)
    by_filter = [w, np.array([0.01, 0.02, 0.03], np.float32), np.zeros(3, np.int8)]
    arrays = [x, scale, zero, *by_filter, np.array(0.5, np.float32), np.array(100, np.uint8), bias]
    proto, feeds = node("QLinearConv", arrays, constants=[3, 4, 5, 8], channels_last=last, pads=[1, 1, 1, 1])
    actual, wanted = run(proto, feeds)[0], models.expected(proto, feeds)[0]
    assert actual.shape == wanted.shape
    assert np.abs(actual.astype(np.int32) - wanted.astype(np.int32)).max() <= 1  # 0.5 in another order of factors


def test_max_pool_with_channels_last():
    x = quantized(models.generator(10), 2, 7, 6, 4)
    for opset in (9, 11, 17):
        options = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}
        check("NhwcMaxPool", [x], opset=opset, **options, tolerance=0)


def test_embedding():
    random = models.generator(12)
    ids = random.integers(0, 9, (2, 4)).astype(np.int32)
    tables = [quantized(random, *shape) for shape in ((9, 8), (6, 8), (2, 8), (8,), (8,))]
    scales = [np.array(0.01 * (i + 1), np.float32) for i in range(5)]
    zeros = [np.array(100 + i, np.uint8) for i in range(5)]
    segments = random.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    arrays = [ids, segments, *tables, mask, *scales, *zeros]
    check("QEmbedLayerNormalization", arrays, outputs=2, epsilon=1e-12, constants=range(2, 7))


def gather_model(data_type, data, ids, scales, zeros, **options):
    """Make a model whose data are packed elements that numpy does not have."""
    tensors = [helper.make_tensor("data", data_type, data.shape, data.reshape(-1).tolist())]
    tensors.append(numpy_helper.from_array(scales, "scales"))
    names = ["data", "ids", "scales"]
    if zeros is not None:
        names.append("zeros")
        tensors.append(helper.make_tensor("zeros", data_type, zeros.shape, zeros.reshape(-1).tolist()))
    call = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **options)
    ports = [helper.make_tensor_value_info("ids", TensorProto.INT64, [None, None])]
    graph = helper.make_graph([call], "g", ports, [helper.make_empty_tensor_value_info("y")], tensors)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), {"ids": ids}


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kind", ["int4", "uint4", "bytes4", "bytes8"])
@pytest.mark.parametrize("width", [32, 40])
def test_gather_of_blocks(kind, width, asymmetric):
    random = models.generator(13)
    blocks, ids = -(-width // 16), np.array([[3, 0, -1], [2, 2, 1]], np.int64)
    scales = (random.random((5, blocks)) + 0.5).astype(np.float32)
    low, high, code = {"int4": (-8, 8, TensorProto.INT4), "uint4": (0, 16, TensorProto.UINT4)}.get(
        kind, (0, 256, TensorProto.UINT8)
    )
    half = 2 if kind == "bytes4" else 1
    data = random.integers(low, high, (5, width // half))
    zeros = random.integers(low, high, (5, -(-blocks // half))) if asymmetric else None
    options = {"block_size": 16, "quantize_axis": 1, "bits": 8 if kind == "bytes8" else 4}
    proto, feeds = gather_model(code, data, ids, scales, zeros, **options)
    assert_close(run(proto, feeds)[0], models.expected(proto, feeds)[0], 1e-6, 1e-6)


@pytest.mark.parametrize("kind", [0, 1])
def test_bits_and_bytes(kind):
    random = models.generator(14)
    x, packed = normal(random, 3, 32), quantized(random, 16 * 32 // 2)
    absolute = (random.random(16 * 32 // 16) + 0.5).astype(np.float32)
    options = {"K": 32, "N": 16, "block_size": 16, "quant_type": kind}
    check("MatMulBnb4", [x, packed, absolute], constants=[1, 2], **options)


# ---------------------------------------------------------------------- attention
@pytest.mark.parametrize("past", [False, True])
def test_quantized_attention(past):
    random = models.generator(15)
    batch, length, width, heads = 2, 4, 8, 2
    x, w = quantized(random, batch, length, width), weights(np.int8, (width, 3 * width), random)
    bias = normal(random, 3 * width)
    mask = np.array([4, 3], np.int32) if not past else np.ones((2, 7), np.int32)
    arrays = [x, w, bias, np.array(0.01, np.float32), np.array(0.01, np.float32), mask]
    arrays += [np.array(128, np.uint8), np.array(0, np.int8)]
    if past:
        arrays.append(normal(random, 2, batch, heads, 3, width // heads))
    check("QAttention", arrays, num_heads=heads, unidirectional=int(past), outputs=2 if past else 1)


def decoder_arrays(random, batch, heads, depth, past):
    query, key, value = (normal(random, batch, 1, heads * depth) for _ in range(3))
    caches = [normal(random, batch, heads, past, depth) for _ in range(2)]
    return query, key, value, caches


def test_decoder_attention():
    random = models.generator(16)
    query, key, value, caches = decoder_arrays(random, 2, 3, 4, 5)
    mask, bias = np.ones((2, 6), np.int32), normal(random, 36)
    mask[0, :2] = 0
    arrays = [query, key, value, mask, None, *caches, None, None, None, bias]
    actual = run(*node("DecoderMaskedMultiHeadAttention", arrays, num_heads=3, outputs=3))
    same = node("MultiHeadAttention", [query, key, value, bias, mask, None, *caches], num_heads=3, outputs=3)
    for ours, theirs in zip(actual, models.expected(*same), strict=True):
        assert_close(ours, theirs, TOLERANCE, TOLERANCE)


def test_decoder_attention_in_a_shared_buffer():
    random = models.generator(17)
    query, key, value, caches = decoder_arrays(random, 2, 3, 4, 5)
    rooms = [np.concatenate([cache, np.zeros((2, 3, 4, 4), np.float32)], 2) for cache in caches]
    arrays = [query, key, value, None, None, *rooms, np.array([5], np.int32)]
    check("DecoderMaskedMultiHeadAttention", arrays, num_heads=3, past_present_share_buffer=1, outputs=3)


# ---------------------------------------------------------------------- refusals
def test_refusals():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidModel, match="1 inputs, expected 2"):
        make_compiler(node("CDist", [x])[0])
    with pytest.raises(InvalidModel, match=r"unknown attribute .*nope"):
        make_compiler(node("CDist", [x, x], nope=1)[0])
    with pytest.raises(InvalidModel, match=r"required attribute .*axes.* is missing"):
        make_compiler(node("ReduceSumInteger", [x.astype(np.int8)])[0])
    with pytest.raises(Unsupported, match=r"CDist.*metric 'manhattan'"):
        make_compiler(node("CDist", [x, x], metric="manhattan")[0])


def test_in_a_function_whose_attributes_are_references():
    call = helper.make_node("CDist", ["a", "b"], ["y"], domain="com.microsoft")
    call.attribute.add(name="metric", ref_attr_name="which", type=3)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    function = helper.make_function("mine", "F", ["a", "b"], ["y"], [call], imports, ["which"])
    random = models.generator(18)
    a, b = normal(random, 4, 3), normal(random, 2, 3)
    proto, feeds = positional("F", [a, b], opset=17, domain="mine", which="euclidean")
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    wanted = np.sqrt(((a[:, None].astype(np.float64) - b[None]) ** 2).sum(-1)).astype(np.float32)
    assert_close(run(proto, feeds)[0], wanted, 1e-5, 1e-5)


def test_they_are_listed():
    listed = {op.name for op in supported_ops() if op.domain == "com.microsoft"}
    assert {"CDist", "QAttention", "Tokenizer", "GatherBlockQuantized"} <= listed


def test_all_refusals_are_reported_at_once():
    x = np.zeros((2, 3), np.float32)
    proto, _ = node("CDist", [x, x], metric="l1")
    inputs = [port.name for port in proto.graph.input]
    proto.graph.node.append(helper.make_node("ScaledSiLU", inputs, ["z"], domain="com.microsoft"))
    proto.graph.output.append(helper.make_empty_tensor_value_info("z"))
    with pytest.raises(InvalidModel) as error:
        make_compiler(proto)
    first, invalid, unsupported = str(error.value).splitlines()
    assert "2 problems" in first
    assert "ScaledSiLU" in invalid
    assert "scale has shape [2, 3], expected []" in invalid
    assert "metric 'l1'" in unsupported

"""Operators of com.microsoft that language models are made of, against onnxruntime; numpy where it has no kernel."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper
from refactor_graph import InvalidInput, InvalidModel, Unsupported, supported_ops
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import assert_close, positional, run

F16 = np.float16
# Sums of up to 64 terms of size 1 in another order, and a few activations.
TOLERANCE = 1e-5


def node(op, arrays, opset=17, fixed=0, **options):
    """Make a model of one node; `fixed` last sizes of the first input are never left open."""
    proto, feeds = positional(op, arrays, opset=opset, domain="com.microsoft", **options)
    sizes = proto.graph.input[0].type.tensor_type.shape.dim
    for axis in range(len(sizes) - fixed, len(sizes)):
        sizes[axis].dim_value = arrays[0].shape[axis]
    proto.ir_version = 9
    return proto, feeds


def tolerance(array):
    return 4 * 2.0**-10 if array.dtype == F16 else TOLERANCE


def check(op, arrays, **options):
    """Compare with onnxruntime, with sizes that the model fixes and with sizes that it leaves open."""
    for symbolic in (False, True):
        proto, feeds = node(op, arrays, symbolic=symbolic, **options)
        for ours, theirs in zip(run(proto, feeds), models.expected(proto, feeds), strict=True):
            assert_close(ours, theirs, tolerance(theirs), tolerance(theirs))


def check_sizes(op, cases, **options):
    """Run one executor on inputs of several sizes."""
    proto, _ = node(op, cases[0], symbolic=True, **options)
    executor = make_compiler(proto).compile("cpu")
    ports = {port.name for port in proto.graph.input}
    for arrays in cases:
        feeds = {f"x{i}": array for i, array in enumerate(arrays) if f"x{i}" in ports}
        for ours, theirs in zip(executor(feeds).values(), models.expected(proto, feeds), strict=True):
            assert_close(ours, theirs, tolerance(theirs), tolerance(theirs))


def refuse(pattern, op, arrays, kind=InvalidModel, **options):
    with pytest.raises(kind, match=f"(?s){op.lower()}.*{pattern}"):
        make_compiler(node(op, arrays, **options)[0])


class Normal:
    """Normal numbers of a fixed seed."""

    def __init__(self, seed, dtype=np.float32):
        self.random, self.dtype = models.generator(seed), dtype

    def __call__(self, *shape, dtype=None):
        return np.asarray(self.random.standard_normal(shape), dtype or self.dtype)


# ---------------------------------------------------------------------- causal convolution
def causal(x, w, bias, past, dilation, activation):
    """Results of channels first in f64, and everything the convolution saw."""
    taps, length = w.shape[2], x.shape[2]
    state = (taps - 1) * dilation
    past = np.zeros((*x.shape[:2], state)) if past is None else past
    whole = np.concatenate([past, x], 2).astype(np.float64)
    y = sum(whole[:, :, tap * dilation :][:, :, :length] * w[None, :, 0, tap, None] for tap in range(taps))
    y = y if bias is None else y + bias[:, None]
    return y if activation == "none" else y / (1 + np.exp(-y)), whole


def swapped(x):
    return None if x is None else np.ascontiguousarray(x.swapaxes(-1, -2))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution(last, length, dilation):
    normal = Normal(1)
    w, bias = normal(3, 1, 4), normal(3)
    activations = itertools.cycle(["none", "silu", "swish"])
    for with_past, with_bias, activation in zip([False, True] * 3, [False, True, True] * 2, activations, strict=False):
        x, past = normal(2, 3, length), normal(2, 3, 3 * dilation) if with_past else None
        x, past = (swapped(x), swapped(past)) if last else (x, past)
        options = {"activation": activation, "channels_last": last, "dilation": dilation}
        arrays = [x, w, bias if with_bias else None, past]
        check("CausalConvWithState", arrays, constants=[1], outputs=2, **options)


def test_causal_convolution_of_one_tap():
    normal = Normal(2)
    for past in ([], [None, normal(2, 3, 0)]):
        check("CausalConvWithState", [normal(2, 3, 5), normal(3, 1, 1), *past], constants=[1], outputs=2)


def test_causal_convolution_over_several_axes_of_channels():
    normal = Normal(3)
    x, w = normal(2, 5, 3, 4), normal(12, 1, 3)
    check("CausalConvWithState", [x, w], constants=[1], outputs=2, channels_last=1)
    check("CausalConvWithState", [x, w, normal(12), normal(2, 2, 3, 4)], constants=[1], outputs=2, channels_last=1)


@pytest.mark.parametrize("last", [0, 1])
def test_causal_convolution_of_any_size(last):
    normal = Normal(4)
    w, cases = normal(6, 1, 4), []
    for batch, length in ((2, 7), (1, 1), (3, 2)):
        x, past = normal(batch, 6, length), normal(batch, 6, 3)
        cases.append([swapped(x), w, None, swapped(past)] if last else [x, w, None, past])
    options = {"constants": [1], "outputs": 2, "channels_last": last, "activation": "silu"}
    check_sizes("CausalConvWithState", cases, **options)
    check_sizes("CausalConvWithState", [case[:2] for case in cases], **options)


def test_causal_convolution_of_half_floats():
    normal = Normal(5, F16)
    x, w, bias, past = normal(2, 3, 6), normal(3, 1, 4), normal(3), normal(2, 3, 3)
    options = {"constants": [1, 2], "outputs": 2, "activation": "silu"}
    y, present = run(*node("CausalConvWithState", [x, w, bias, past], **options))
    wanted, whole = causal(x, w, bias, past, 1, "silu")
    assert_close(y, wanted.astype(F16), 4 * 2.0**-10, 4 * 2.0**-10)
    assert_close(present, whole[:, :, -3:].astype(F16), 0, 0)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("with_past", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("window", [1, 4])
def test_causal_convolution_with_a_window_of_states(last, with_past, symbolic, window):
    """onnxruntime has no kernel on the CPU."""
    normal = Normal(6)
    for length in (1, 3, 6):
        x, w = normal(2, 3, length), normal(3, 1, 3)
        pasts = normal(window, 2, 3, 4) if with_past else None
        y, whole = causal(x, w, None, pasts[-1] if with_past else None, 2, "none")
        states = np.zeros((window, 2, 3, 4))
        for slot in range(max(0, window - length), window):
            end = whole.shape[2] - (window - 1 - slot)
            states[slot] = whole[:, :, end - 4 : end]
        arrays, wanted = [x, w, None, pasts], [y, states]
        if last:
            arrays, wanted = [swapped(x), w, None, swapped(pasts)], [swapped(y), swapped(states)]
        options = {"constants": [1], "outputs": 2, "dilation": 2, "state_window": window, "channels_last": last}
        actual = run(*node("CausalConvWithState", arrays, symbolic=symbolic, **options))
        for ours, theirs in zip(actual, wanted, strict=True):
            assert_close(ours, theirs.astype(np.float32), TOLERANCE, TOLERANCE)


def test_refused_causal_convolutions():
    normal, op = Normal(7), "CausalConvWithState"
    x, w = normal(2, 3, 5), normal(3, 1, 4)
    refuse("ndim 2", op, [normal(2, 3, 5, 5), normal(3, 1, 4, 4)], Unsupported, outputs=2, ndim=2)
    refuse("weight of unknown size", op, [x, w], Unsupported, outputs=2, symbolic=True)
    for pattern, options in (
        ("activation is 'relu', expected one of 'none', 'silu', 'swish'", {"activation": "relu"}),
        ("channels_last is 2", {"channels_last": 2}),
        ("dilation is 0, expected at least 1", {"dilation": 0}),
        ("state_window is 9, expected 0 to 8", {"state_window": 9}),
        ("channels of shape \\[5\\], expected 3", {"channels_last": 1}),
    ):
        refuse(pattern, op, [x, w], outputs=2, **options)
    refuse("1 outputs, expected 2", op, [x, w])
    refuse(r"weight has shape \[3, 2, 4\], expected \[\?, 1, \?\]", op, [x, normal(3, 2, 4)], outputs=2)
    refuse(r"the input has shape \[2, 4, 5\], expected \[\?, 3, \?\]", op, [normal(2, 4, 5), w], outputs=2)
    refuse(r"bias has shape \[4\], expected \[3\]", op, [x, w, normal(4)], outputs=2)
    refuse(r"past_state has shape \[2, 3, 4\], expected \[2, 3, 3\]", op, [x, w, None, normal(2, 3, 4)], outputs=2)


def test_a_state_of_another_length_is_refused_when_it_comes():
    normal = Normal(8)
    arrays = [normal(2, 3, 5), normal(3, 1, 4), None, normal(2, 3, 4)]
    proto, feeds = node("CausalConvWithState", arrays, constants=[1], outputs=2, symbolic=True)
    with pytest.raises(InvalidInput, match=r"\[2, 3, 4\] cannot become f32\[2, 3, 3\]"):
        run(proto, feeds)


# ---------------------------------------------------------------------- gates
@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_gates_of_linear_attention(dtype):
    normal, op = Normal(10, dtype), "LinearAttentionGate"
    bias, scale = normal(4, dtype=np.float32), normal(4, dtype=np.float32)
    check(op, [normal(2, 3, 4) * dtype(5), bias, scale, normal(2, 3, 4)], outputs=2)
    check(op, [normal(2, 3, 4) * dtype(40), bias, scale])
    check_sizes(op, [[normal(*s, 4), bias, scale, normal(*s, 4)] for s in ((2, 3), (1, 1), (5, 7))], outputs=2)


def test_refused_gates_of_linear_attention():
    normal, op = Normal(11), "LinearAttentionGate"
    a, v = normal(2, 3, 4), normal(4)
    refuse("the output beta needs the input b", op, [a, v, v], outputs=2)
    refuse(r"dt_bias has shape \[3\], expected \[4\]", op, [a, v[:3], v])
    refuse(r"decay_scale has shape \[1\], expected \[4\]", op, [a, v, v[:1]])
    refuse(r"b has shape \[2, 3, 1\], expected \[2, 3, 4\]", op, [a, v, v, a[..., :1]], outputs=2)
    refuse("a is a scalar", op, [normal(), v, v])
    refuse("unknown attribute", op, [a, v, v], alpha=1.0)


@pytest.mark.parametrize("dtype", [np.float32, F16])
@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid"])
@pytest.mark.parametrize("width", [4, 12])
def test_gated_rms_norms(dtype, activation, width):
    normal, op = Normal(12, dtype), "GatedRMSNorm"
    scale, options = normal(width), {"activation": activation, "epsilon": 1e-3}
    check(op, [normal(2, 5, 12), scale, normal(2, 5, 12)], **options)
    check(op, [normal(12), scale, normal(12)], constants=[1], **options)
    cases = [[normal(*sizes, 12), scale, normal(*sizes, 12)] for sizes in ((2, 5), (1, 1), (3, 2))]
    check_sizes(op, cases, constants=[1], **options)


def test_refused_gated_rms_norms():
    normal, op = Normal(13), "GatedRMSNorm"
    x, scale = normal(2, 6), normal(3)
    refuse("activation is 'none', expected one of 'silu', 'swish', 'sigmoid'", op, [x, scale, x], activation="none")
    refuse("the last size of the input is 6, expected a multiple of 4", op, [x, normal(4), x])
    refuse(r"scale has shape \[1, 3\], expected \[\?\]", op, [x, scale[None], x])
    refuse(r"gate has shape \[1, 6\], expected \[2, 6\]", op, [x, scale, x[:1]])


@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_gated_sums(dtype):
    normal = Normal(14, dtype)
    cases = [[normal(*sizes, 6), normal(*sizes, 6), normal(*sizes, 1)] for sizes in ((2, 3), (1, 1), (4, 7))]
    check("GatedAdd", cases[0])
    check_sizes("GatedAdd", cases)


def test_refused_gated_sums():
    normal = Normal(15)
    x = normal(2, 3, 6)
    refuse(r"Y has shape \[2, 3, 1\], expected \[2, 3, 6\]", "GatedAdd", [x, x[..., :1], x[..., :1]])
    refuse(r"gate has shape \[2, 3, 6\], expected \[2, 3, 1\]", "GatedAdd", [x, x, x])
    refuse(r"gate has shape \[1\], expected \[2, 3, 1\]", "GatedAdd", [x, x, normal(1)])
    refuse("X is a scalar", "GatedAdd", [normal(), normal(), normal()])


@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_scaled_silu(dtype):
    normal = Normal(16, dtype)
    check("ScaledSiLU", [normal(2, 6)])
    check("ScaledSiLU", [normal(2, 6)], alpha=0.7)
    check("ScaledSiLU", [normal(2, 6), normal(dtype=np.float32)], alpha=0.7)
    check("ScaledSiLU", [normal(2, 6), normal(dtype=F16)])
    check_sizes("ScaledSiLU", [[normal(2, 6)], [normal(5, 1)]], alpha=-2.0)


def test_refused_scaled_silu():
    normal = Normal(17)
    refuse(r"scale has shape \[1\], expected \[\]", "ScaledSiLU", [normal(2, 6), normal(1)])
    refuse("attribute 'alpha' is string, expected float", "ScaledSiLU", [normal(2, 6)], alpha="1")


# ---------------------------------------------------------------------- several streams
SCALES = [(), (4,), (12,), (3, 4)]


@pytest.mark.parametrize("dtype", [np.float32, F16])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("flat", [False, True])
def test_rms_norms_of_branches(dtype, scale, flat):
    normal, op = Normal(20, dtype), "BranchwiseRMSNorm"
    width, options = ((12,), {"num_branches": 3, "fixed": 1}) if flat else ((3, 4), {"fixed": 1})
    scales = [normal(*scale, dtype=np.float32)] if scale else []
    cases = [[normal(*sizes, *width), *scales] for sizes in ((2, 5), (1, 1), (4, 3))]
    check(op, cases[0], epsilon=1e-3, **options)
    check_sizes(op, cases, constants=[1] if scale else [], epsilon=1e-3, **options)
    if scale:
        check(op, [normal(*width), scales[0].astype(F16)], **options)


def test_refused_rms_norms_of_branches():
    normal, op = Normal(21), "BranchwiseRMSNorm"
    x = normal(2, 12)
    refuse("num_branches is -1, expected at least 0", op, [x], num_branches=-1)
    refuse("the last size 12 is not divisible by num_branches 5", op, [x], num_branches=5)
    refuse("the input has 1 axes, expected at least 2", op, [x[0]])
    refuse(
        "a scale of one axis for branches of unknown size", op, [x, x[0]], Unsupported, num_branches=3, symbolic=True
    )
    for shape in ((3,), (1, 4), (4, 3), (2, 3, 4)):
        refuse("scale of shape .* for branches of shape", op, [x, normal(*shape)], num_branches=3)


PRE = [(3,), (3, 1), (3, 4)]


@pytest.mark.parametrize("dtype", [np.float32, F16])
@pytest.mark.parametrize(("gate", "flat"), [*itertools.product(PRE, [False, True]), ((12,), True)])
def test_mixing_of_streams_before_a_block(dtype, gate, flat):
    normal, op = Normal(22, dtype), "HyperConnectionPreMix"
    width, options = ((12,), {"num_branches": 3}) if flat else ((3, 4), {})
    cases = [[normal(*s, *width), normal(*s, *gate, dtype=np.float32)] for s in ((2, 5), (1, 1), (4, 3))]
    check(op, cases[0], **options)
    check_sizes(op, cases, reduction_scale=0.5, **options)
    check(op, [normal(*width), normal(*gate, dtype=F16)], **options)


@pytest.mark.parametrize("dtype", [np.float32, F16])
@pytest.mark.parametrize("gate", PRE)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_mixing_of_streams_after_a_block(dtype, gate, flat, mixed):
    normal, op = Normal(23, dtype), "HyperConnectionPostMix"
    width, options = ((12,), {"num_branches": 3}) if flat else ((3, 4), {})

    def arrays(*sizes, other=np.float32):
        mix = [normal(*sizes, 3, 3, dtype=other)] if mixed else []
        return [normal(*sizes, *width), normal(*sizes, 4), normal(*sizes, *gate, dtype=other), *mix]

    check(op, arrays(2, 5), **options)
    check_sizes(op, [arrays(2, 5), arrays(1, 1), arrays(4, 3)], **options)
    check(op, arrays(2, other=F16), **options)


def test_refused_mixing_of_streams():
    normal, op = Normal(24), "HyperConnectionPreMix"
    x = normal(2, 3, 4)
    for shape in ((3,), (1, 3, 1), (2, 12), (2, 1), (2, 3, 2)):
        refuse(r"pre_mix of shape .* for streams of shape \[2, 3, 4\]", op, [x, normal(*shape)])
    refuse("pre_mix of shape", op, [x.reshape(2, 12), normal(2, 4)], num_branches=3)
    refuse("not divisible by num_branches 5", op, [x, normal(2, 3)], num_branches=5)
    refuse("num_branches is -2", op, [x, normal(2, 3)], num_branches=-2)
    op = "HyperConnectionPostMix"
    block, gate = normal(2, 4), normal(2, 3)
    refuse(r"block_output has shape \[1, 4\], expected \[2, 4\]", op, [x, block[:1], gate])
    refuse(r"post_mix of shape \[2, 12\]", op, [x.reshape(2, 12), block, normal(2, 12)], num_branches=3)
    refuse(r"stream_mix has shape \[3, 3\], expected \[2, 3, 3\]", op, [x, block, gate, normal(3, 3)])
    refuse("the last size 12 is not divisible", op, [x.reshape(2, 12), block, gate], num_branches=7)


@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_engram_gates(dtype):
    normal, op = Normal(25, dtype), "EngramGate"
    scales = [normal(3, 8) for _ in range(3)]

    def arrays(batch, length):
        return [normal(batch, length, 3, 8), normal(batch, length, 3, 8), normal(batch, length, 8), *scales]

    check(op, arrays(2, 5), outputs=2, epsilon=1e-3)
    check(op, arrays(2, 5)[:5])
    check_sizes(op, [arrays(2, 5), arrays(1, 1), arrays(3, 7)], outputs=2)


def test_an_engram_gate_of_nothing():
    zeros, ones = np.zeros((1, 2, 3, 4), np.float32), np.ones((3, 4), np.float32)
    check("EngramGate", [zeros, zeros, zeros[:, :, 0] + 1, ones, ones])


def test_refused_engram_gates():
    normal, op = Normal(26), "EngramGate"
    key, value, scale = normal(2, 5, 3, 4), normal(2, 5, 4), normal(3, 4)
    refuse("gated_value_normed needs the input conv_norm_scale", op, [key, key, value, scale, scale], outputs=2)
    refuse(r"key has shape \[2, 5, 4\], expected \[\?, \?, \?, \?\]", op, [value, value, value, scale, scale])
    refuse(r"query has shape \[2, 5, 1, 4\], expected", op, [key, key[:, :, :1], value, scale, scale])
    refuse(r"value has shape \[2, 5, 3\], expected \[2, 5, 4\]", op, [key, key, value[..., :3], scale, scale])
    refuse(r"key_norm_scale has shape \[4\], expected \[3, 4\]", op, [key, key, value, scale[0], scale])
    refuse(r"query_norm_scale has shape \[1, 4\], expected \[3, 4\]", op, [key, key, value, scale, scale[:1]])
    refuse(r"conv_norm_scale has shape \[3, 1\]", op, [key, key, value, scale, scale, scale[:, :1]])


# ---------------------------------------------------------------------- positions
SECTIONS = [[2, 1, 1], [4, 0, 0], [0, 2, 2], [1, 3, 0], [0, 0, 4]]


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("section", SECTIONS)
def test_rotations_by_three_positions(layout, interleaved, section):
    normal = Normal(30)
    options = {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved, "constants": [2, 3]}
    positions = normal.random.integers(0, 9, (3, 2, 5))
    caches = [normal(9, 4), normal(9, 4)]
    check("MRotaryEmbedding", [normal(2, 3, 5, 8), positions, *caches], **options)
    check("MRotaryEmbedding", [normal(2, 5, 16), positions, *caches], num_heads=2, **options)
    parts = {"num_heads": 2, "rotary_embedding_dim": 8}
    check("MRotaryEmbedding", [normal(2, 5, 32), positions, *caches], **parts, **options)


@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_rotations_of_any_size(dtype):
    normal = Normal(31, dtype)
    caches, cases = [normal(9, 4), normal(9, 4)], []
    for batch, length in ((2, 5), (1, 1), (3, 7)):
        positions = normal.random.integers(0, 9, (3, batch, length))
        cases.append([normal(batch, length, 16), positions, *caches])
    check_sizes("MRotaryEmbedding", cases, num_heads=2, mrope_section=[2, 1, 1], mrope_layout=1)


def test_refused_rotations():
    normal, op = Normal(32), "MRotaryEmbedding"
    positions, cache = np.zeros((3, 2, 5), np.int64), normal(9, 4)
    arrays, section = [normal(2, 3, 5, 8), positions, cache, cache], {"mrope_section": [2, 1, 1]}
    refuse("required attribute .*mrope_section.* is missing", op, arrays)
    refuse("scale 2.0", op, arrays, Unsupported, scale=2.0, **section)
    refuse("is_packed_batching", op, arrays, Unsupported, is_packed_batching=1, **section)
    refuse("mrope_layout is 2, expected one of 0, 1", op, arrays, mrope_layout=2, **section)
    for wrong in ([2, 2], [5, -1, 0], [0, 0, 0]):
        refuse("mrope_section is .*, expected three numbers of at least 0", op, arrays, mrope_section=wrong)
    refuse(r"cos_cache has shape \[9, 4\], expected \[\?, 5\]", op, arrays, mrope_section=[2, 1, 2])
    parts = {"rotary_embedding_dim": 6, "num_heads": 3, **section}
    refuse("the sum of mrope_section is 4, expected half of 6", op, arrays, **parts)
    refuse("rotary_embedding_dim needs num_heads", op, arrays, rotary_embedding_dim=8, **section)
    refuse("an input of 3 axes needs num_heads", op, [normal(2, 5, 16), *arrays[1:]], **section)
    refuse("the input has 2 axes, expected 3 or 4", op, [normal(2, 5), *arrays[1:]], **section)
    wrong = [arrays[0], positions[:2], cache, cache]
    refuse(r"position_ids has shape \[2, 2, 5\], expected \[3, 2, 5\]", op, wrong, **section)
    refuse("the width of a cache is 4, expected 3", op, [normal(2, 3, 5, 6), *arrays[1:]], **section)


# ---------------------------------------------------------------------- windows
BOXES = np.array([[0, 0, 1, 1], [0.2, 0.3, 0.8, 1.2], [0.9, 0.1, 0.2, 0.6], [-0.2, 0, 0.5, 0.5]], np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (1, 5), (7, 1), (5, 6)])
def test_crops(mode, size):
    normal, images, size = Normal(40), np.array([1, 0, 0, 1], np.int32), np.array(size, np.int32)
    arrays = [normal(2, 3, 5, 6), BOXES, images, size]
    check("CropAndResize", arrays, mode=mode, extrapolation_value=0.5)
    check("CropAndResize", arrays, mode=mode, constants=[3])
    cases = [arrays, [normal(1, 2, 9, 4), BOXES[:1], np.zeros(1, np.int32), size]]
    check_sizes("CropAndResize", cases, mode=mode, constants=[3])


def test_refused_crops():
    normal, op = Normal(41), "CropAndResize"
    x, images, size = normal(2, 3, 5, 6), np.array([1, 0, 0, 1], np.int32), np.array([3, 4], np.int32)
    refuse("mode is 'cubic', expected one of 'bilinear', 'nearest'", op, [x, BOXES, images, size], mode="cubic")
    refuse(r"X has shape \[3, 5, 6\]", op, [x[0], BOXES, images, size])
    refuse(r"rois has shape \[4, 3\], expected \[\?, 4\]", op, [x, BOXES[:, :3], images, size])
    refuse(r"batch_indices has shape \[3\], expected \[4\]", op, [x, BOXES, images[:3], size])
    refuse(r"crop_size has shape \[1\], expected \[2\]", op, [x, BOXES, images, size[:1]])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("dim", [-1, 0, 1, -2])
def test_slices_of_a_dimension(dtype, dim):
    normal = Normal(42)
    x = (normal(4, 7, 3) * 10).astype(dtype)
    check("UnfoldTensor", [x], dim=dim, size=3, step=2)
    check_sizes("UnfoldTensor", [[x], [x[:, :4]], [x[:3]]], dim=dim, size=2)


def test_slices_of_half_floats():
    x = Normal(43, F16)(2, 6)
    (y,) = run(*node("UnfoldTensor", [x], size=3, step=3))
    assert_close(y, x.reshape(2, 2, 3), 0, 0)


def test_refused_slices():
    x = Normal(44)(2, 7)
    refuse("required attribute .*size.* is missing", "UnfoldTensor", [x])
    refuse("size is 0, expected at least 1", "UnfoldTensor", [x], size=0)
    refuse("size is 8, expected at most 7", "UnfoldTensor", [x], size=8)
    refuse("step is 0, expected at least 1", "UnfoldTensor", [x], size=1, step=0)
    refuse("dim is 2 for 2 axes", "UnfoldTensor", [x], size=1, dim=2)


@pytest.mark.parametrize("window", [1, 2, 6])
def test_embeddings_of_words(window):
    normal = Normal(45)
    weights = [normal(5, 1, window, 4), normal(5), normal(9, 4)]

    def words(number, length):
        ids = normal.random.integers(1, 9, (number, length)).astype(np.int32)
        lengths = normal.random.integers(1, length + 1, number)
        return np.where(np.arange(length) < lengths[:, None], ids, 0).astype(np.int32)

    options = {"constants": [1, 2, 3], "conv_window_size": window, "embedding_size": 5, "char_embedding_size": 4}
    check("WordConvEmbedding", [words(20, 6), *weights], **options)
    check_sizes("WordConvEmbedding", [[words(*sizes), *weights] for sizes in ((3, 6), (1, 9), (8, 7))], **options)
    (y,) = run(*node("WordConvEmbedding", [np.zeros((2, 6), np.int32), *weights], **options))
    assert_close(y, np.zeros((2, 5), np.float32), 0, 0)


def test_refused_embeddings_of_words():
    normal, op, ids = Normal(46), "WordConvEmbedding", np.ones((3, 6), np.int32)
    w, bias, table = normal(5, 1, 2, 4), normal(5), normal(9, 4)
    refuse("conv_window_size is 3, expected 2", op, [ids, w, bias, table], conv_window_size=3)
    refuse("char_embedding_size is 5, expected 4", op, [ids, w, bias, table], char_embedding_size=5)
    refuse("embedding_size is 4, expected 5", op, [ids, w, bias, table], embedding_size=4)
    refuse(r"Sequence has shape \[1, 3, 6\]", op, [ids[None], w, bias, table])
    refuse(r"W has shape \[5, 2, 4\]", op, [ids, w[:, 0], bias, table])
    refuse(r"W has shape \[5, 1, 2, 4\], expected \[\?, 1, \?, 3\]", op, [ids, w, bias, table[:, :3]])
    refuse(r"B has shape \[4\], expected \[5\]", op, [ids, w, bias[:4], table])
    refuse(r"C has shape \[4\]", op, [ids, w, bias, table[0]])


# ---------------------------------------------------------------------- together
def chain(opset):
    """Return a model in which operators take what others made, whose types no other package knows."""
    normal = Normal(50)

    def call(op, inputs, outputs, **options):
        return helper.make_node(op, inputs, outputs, domain="com.microsoft", **options)

    nodes = [
        call("CausalConvWithState", ["x", "w", "", "past"], ["c", "present"], activation="silu", channels_last=1),
        call("BranchwiseRMSNorm", ["c", "branches"], ["n"], num_branches=3),
        call("HyperConnectionPreMix", ["n", "gate"], ["h"], num_branches=3),
        call("HyperConnectionPostMix", ["n", "h", "gate", "mix"], ["z"], num_branches=3),
        call("GatedRMSNorm", ["z", "scale", "n"], ["a"]),
        call("GatedAdd", ["a", "z", "row"], ["b"]),
        call("ScaledSiLU", ["b"], ["d"], alpha=0.5),
        call("LinearAttentionGate", ["d", "vector", "vector", "b"], ["decay", "beta"]),
        helper.make_node("Reshape", ["decay", "grouped"], ["streams"]),
        call("HyperConnectionPreMix", ["streams", "gate"], ["v"]),
        call("EngramGate", ["streams", "streams", "v", "scales", "scales"], ["y"]),
        call("MRotaryEmbedding", ["beta", "ids", "cos", "sin"], ["r"], mrope_section=[2, 1, 1], num_heads=3),
        call("UnfoldTensor", ["r"], ["u"], size=4, step=2),
    ]
    inputs = [models.value("x", ["B", "T", 24]), models.value("past", ["B", 3, 24]), models.value("row", ["B", "T", 1])]
    inputs += [models.value("gate", ["B", "T", 3]), models.value("mix", ["B", "T", 3, 3])]
    inputs.append(models.value("ids", [3, "B", "T"], onnx.TensorProto.INT64))
    sizes = {"w": (24, 1, 4), "branches": (8,), "scale": (8,), "vector": (24,), "scales": (3, 8)}
    sizes |= {"cos": (20, 4), "sin": (20, 4)}
    constants = [models.constant(name, normal(*shape)) for name, shape in sizes.items()]
    constants.append(models.constant("grouped", np.array([0, 0, 3, 8])))
    outputs = [models.value(name, None) for name in ("present", "y", "u")]
    return models.model(nodes, inputs, outputs, constants, opset, domains=["com.microsoft"])


def chain_feeds(batch, length):
    normal = Normal(batch + length)
    return {
        **{"x": normal(batch, length, 24), "past": normal(batch, 3, 24), "row": normal(batch, length, 1)},
        **{"gate": normal(batch, length, 3), "mix": normal(batch, length, 3, 3)},
        "ids": normal.random.integers(0, 20, (3, batch, length)),
    }


@pytest.mark.parametrize("opset", range(17, onnx.defs.onnx_opset_version() + 1))
def test_every_opset(opset):
    executor = make_compiler(chain(opset)).compile("cpu")
    oracle = chain(min(opset, 24))  # onnxruntime does not know the last ones
    for sizes in ((2, 5), (3, 1), (1, 9)):
        feeds = chain_feeds(*sizes)
        for ours, theirs in zip(executor(feeds).values(), models.expected(oracle, feeds), strict=True):
            assert_close(ours, theirs, 3e-5, 3e-5)  # nine operators in a row


def test_they_are_listed():
    listed = {op.name for op in supported_ops() if op.domain == "com.microsoft"}
    assert {"CausalConvWithState", "GatedRMSNorm", "MRotaryEmbedding", "WordConvEmbedding"} <= listed

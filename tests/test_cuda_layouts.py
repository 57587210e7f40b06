"""Convolutions of halves with the channels last: what follows them, and where transposes remain."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import is_emulated

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("gpu_with_dnn")]


def network(nodes, weights, shape):
    """A model in f32 from "x" to "y", and its inputs for a batch of 2."""
    random = models.generator(11)
    constants = []
    for name, sizes in weights.items():
        fan = int(np.prod(sizes[1:])) or 1
        constants.append(models.constant(name, (random.standard_normal(sizes) / fan**0.5).astype(np.float32)))
    proto = models.model(nodes, [models.value("x", ["N", *shape])], [models.value("y", None)], constants)
    return proto, {"x": random.standard_normal((2, *shape)).astype(np.float32)}


def check(proto, inputs, precision="f16", tolerance=2e-2):
    """Compare with f32 on the CPU; return the operators that run."""
    wanted = make_compiler(proto).compile(num_threads=1)(inputs)["y"]
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    actual = executor(inputs)["y"]
    assert actual.shape == wanted.shape
    assert np.abs(actual - wanted).max() <= tolerance * np.abs(wanted).max()
    return executor.bench(repeats=1, quiet=True)


def conv(x, w, y, size=3, **attributes):
    pads = {"pads": [size // 2] * 4} if size > 1 else {}
    return helper.make_node("Conv", [x, *w.split()], [y], **(pads | attributes))


def count(table, kind):
    return sum(row.type == kind for row in table)


def channel_moves(table):
    """How often channels are moved behind or in front; of few channels they are padded, too."""
    return count(table, "Transpose") + count(table, "ChannelVectors")


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_a_residual_network_is_turned_once(precision):
    nodes = [
        conv("x", "w0 b0", "c0", 7, strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["a0"]),
        helper.make_node("MaxPool", ["a0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        conv("p0", "w1", "c1"),
        helper.make_node("Relu", ["c1"], ["a1"]),
        conv("a1", "w2 b0", "c2"),
        helper.make_node("Add", ["c2", "p0"], ["s2"]),
        helper.make_node("Relu", ["s2"], ["a2"]),
        conv("a2", "w3", "c3", 1, strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4"], ["y"], transB=1),
    ]
    weights = {"w0": (16, 3, 7, 7), "b0": (16,), "w1": (16, 16, 3, 3), "w2": (16, 16, 3, 3), "w3": (24, 16, 1, 1)}
    table = check(
        *network(nodes, weights | {"w4": (10, 24)}, (3, 37, 33)), precision, 2e-2 if precision == "f16" else 0.1
    )
    if is_emulated():
        assert [row.kernel for row in table if row.type == "Conv"] == [f"conv:nvidia:cudnn:{precision}"] * 4
    assert channel_moves(table) == 1


def test_gates_and_depthwise_convolutions_follow():
    """Squeeze and excite, SiLU, depthwise, a concatenation; constants of each channel and of all."""
    nodes = [
        conv("x", "w0", "c0", 1),
        helper.make_node("Sigmoid", ["c0"], ["s0"]),
        helper.make_node("Mul", ["c0", "s0"], ["a0"]),
        conv("a0", "w1 b1", "c1", group=24),
        helper.make_node("HardSwish", ["c1"], ["a1"]),
        helper.make_node("ReduceMean", ["a1"], ["m"], axes=[2, 3]),
        conv("m", "w2 b2", "c2", 1),
        helper.make_node("Relu", ["c2"], ["a2"]),
        conv("a2", "w3", "c3", 1),
        helper.make_node("HardSigmoid", ["c3"], ["gate"]),
        helper.make_node("Mul", ["a1", "gate"], ["gated"]),
        helper.make_node("Mul", ["gated", "factor"], ["scaled"]),
        conv("scaled", "w4", "c4", 1),
        helper.make_node("AveragePool", ["c4"], ["q"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["c4", "q"], ["z"], axis=1),
        conv("z", "w5", "y", 1),
    ]
    weights = {"w0": (24, 6, 1, 1), "w1": (24, 1, 3, 3), "b1": (24,), "w2": (8, 24, 1, 1), "b2": (8,)}
    weights |= {"w3": (24, 8, 1, 1), "factor": (1, 24, 1, 1), "w4": (8, 24, 1, 1), "w5": (5, 16, 1, 1)}
    table = check(*network(nodes, weights, (6, 9, 11)))
    assert channel_moves(table) == 2


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_splits_and_resizes_follow(mode):
    """Blocks of a detector: a split of the channels, a path over one part, all parts together, twice the size."""
    nodes = [
        conv("x", "w0", "c0", 1),
        helper.make_node("Split", ["c0"], ["a", "b"], axis=1),
        conv("b", "w1", "c1"),
        helper.make_node("Add", ["c1", "b"], ["s"]),
        helper.make_node("Concat", ["a", "b", "s"], ["t"], axis=1),
        conv("t", "w2", "c2", 1),
        helper.make_node("Resize", ["c2", "", "scales"], ["r"], mode=mode),
        helper.make_node("Concat", ["r", "r"], ["u"], axis=2),
        conv("u", "w3", "y", 1),
    ]
    weights = {"w0": (12, 5, 1, 1), "w1": (6, 6, 3, 3), "w2": (7, 18, 1, 1), "w3": (4, 7, 1, 1)}
    proto, inputs = network(nodes, weights, (5, 9, 7))
    proto.graph.initializer.append(models.constant("scales", np.array([1, 1, 2, 3], np.float32)))
    assert channel_moves(check(proto, inputs)) == 2


@pytest.mark.parametrize(("group", "outputs"), [(1, 20), (3, 18), (12, 12), (12, 24)])
@pytest.mark.parametrize("library", ["1", "attention"])
def test_windows(group, outputs, library, monkeypatch):
    """Also where the library has no engine for a convolution."""
    monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", library)
    weights = {"w0": (outputs, 12 // group, 3, 2), "b0": (outputs,)}
    nodes = [
        helper.make_node(
            "Conv", ["x", "w0", "b0"], ["y"], group=group, pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2]
        )
    ]
    table = check(*network(nodes, weights, (12, 11, 9)))
    if is_emulated():
        algorithm = "depthwise" if outputs == group else "cudnn" if library == "1" else "direct"
        assert [row.kernel for row in table if row.type == "Conv"] == [f"conv:nvidia:{algorithm}:f16"]


DEPTHWISE = {
    "odd": (20, (9, 11), (3, 3), {"pads": [1, 1, 1, 1]}),
    "one": (24, (7, 9), (1, 1), {"strides": [2, 2]}),
    "strides": (24, (9, 10), (3, 3), {"pads": [1, 0, 0, 2], "strides": [2, 1]}),
    "dilated": (16, (12, 13), (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "wide": (33, (6, 9), (1, 7), {"pads": [0, 3, 0, 3]}),
    "high": (40, (9, 6), (7, 1), {"pads": [3, 0, 3, 0], "strides": [2, 1]}),
    "line": (24, (19,), (5,), {"pads": [2, 2], "strides": [2]}),
    "strips": (96, (57, 55), (5, 5), {"pads": [2, 2, 2, 2]}),
    "long": (16, (9, 12), (3, 10), {"pads": [1, 5, 1, 5]}),
}


@pytest.mark.parametrize("precision", ["f16", "bf16", "tf32"])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_windows(name, precision):
    """With all that follows in one step; long windows are the library's."""
    channels, size, kernel, attributes = DEPTHWISE[name]
    weights = {"w0": (channels, 3, *[1] * len(size)), "w1": (channels, 1, *kernel), "b1": (channels,)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"]),
        helper.make_node("Conv", ["c0", "w1", "b1"], ["c1"], group=channels, **attributes),
        helper.make_node("Sigmoid", ["c1"], ["s1"]),
        helper.make_node("Mul", ["c1", "s1"], ["a1"]),
        helper.make_node("Conv", ["a1", "w2"], ["y"]),
    ]
    weights["w2"] = (4, channels, *[1] * len(size))
    table = check(*network(nodes, weights, (3, *size)), precision, 0.1 if precision == "bf16" else 2e-2)
    kind = "f32" if precision == "tf32" else precision
    if is_emulated():
        assert any(row.kernel == f"conv:nvidia:depthwise:{kind}" for row in table) == (name != "long")
    assert channel_moves(table) == 2


@pytest.mark.parametrize("last", [False, True])
def test_depthwise_residuals(last):
    nodes = [
        conv("x", "w0", "c0", 1),
        conv("c0", "w1 b1", "c1", group=24),
        *([helper.make_node("Relu", ["c1"], ["r1"])] if last else []),
        helper.make_node("Add", ["r1" if last else "c1", "c0"], ["s1"]),
        *([] if last else [helper.make_node("Relu", ["s1"], ["r1"])]),
        conv("s1" if last else "r1", "w2", "y", 1),
    ]
    weights = {"w0": (24, 5, 1, 1), "w1": (24, 1, 3, 3), "b1": (24,), "w2": (4, 24, 1, 1)}
    table = check(*network(nodes, weights, (5, 9, 7)))
    if is_emulated():
        assert any(row.kernel == "conv:nvidia:depthwise:f16" for row in table)
        assert count(table, "Elementwise") == 1, "the type of y; that of x changes while its channels are moved"


def test_a_decoder_is_turned_once():
    """Images that are enlarged by transposed convolutions and meet those before they were made smaller."""
    nodes = [
        conv("x", "w0", "c0"),
        helper.make_node("MaxPool", ["c0"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]),
        conv("p0", "w1", "c1"),
        helper.make_node("ConvTranspose", ["c1", "w2", "b2"], ["u"], strides=[2, 2]),
        helper.make_node("Concat", ["c0", "u"], ["t"], axis=1),
        conv("t", "w3", "y"),
    ]
    weights = {"w0": (8, 3, 3, 3), "w1": (16, 8, 3, 3), "w2": (16, 6, 2, 2), "b2": (6,), "w3": (4, 14, 3, 3)}
    table = check(*network(nodes, weights, (3, 12, 10)))
    if is_emulated():
        assert [row.kernel for row in table if row.type == "ConvTranspose"] == ["conv_transpose:nvidia:cudnn:f16"]
    assert channel_moves(table) == 2


@pytest.mark.parametrize(("group", "outputs"), [(1, 20), (3, 18), (12, 12)])
@pytest.mark.parametrize(
    ("window", "turns"),
    [
        ({"strides": [2, 2]}, True),
        ({"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}, True),
        ({"strides": [2, 1], "pads": [0, 1, 2, 1], "dilations": [1, 2]}, False),
    ],
)
@pytest.mark.parametrize("library", ["1", "attention"])
def test_transposed_windows(group, outputs, window, turns, library, monkeypatch):
    """Pads that the library cannot have leave the channels in front."""
    monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", library)
    weights = {"w": (12, 12, 1, 1), "w0": (12, outputs // group, 3, 2), "b0": (outputs,), "w1": (5, outputs, 1, 1)}
    nodes = [
        conv("x", "w", "p", 1),
        helper.make_node("ConvTranspose", ["p", "w0", "b0"], ["c"], group=group, **window),
        helper.make_node("Relu", ["c"], ["a"]),
        conv("a", "w1", "y", 1),
    ]
    table = check(*network(nodes, weights, (12, 7, 5)))
    assert channel_moves(table) == (2 if turns else 4)
    (kernel,) = [row.kernel for row in table if row.type == "ConvTranspose"]
    if is_emulated():
        assert ("cudnn" in kernel) == (turns and library == "1")


@pytest.mark.parametrize("rank", [1, 3])
def test_lines_and_volumes(rank):
    kernel, size = [3] * rank, [9, 7, 5][:rank]
    weights = {"w0": (6, 4, *kernel), "w1": (5, 6, *kernel)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], pads=[1] * (2 * rank)),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2] * rank),
        helper.make_node("Conv", ["p", "w1"], ["y"], pads=[1] * (2 * rank)),
    ]
    check(*network(nodes, weights, (4, *size)))


def test_what_does_not_follow_is_turned_back():
    """Both an output and the softmax over channels read images with the channels in front."""
    nodes = [
        conv("x", "w0", "c0"),
        helper.make_node("Softmax", ["c0"], ["s"], axis=1),
        conv("s", "w1", "c1"),
        helper.make_node("Add", ["c1", "x"], ["y"]),
    ]
    check(*network(nodes, {"w0": (6, 4, 3, 3), "w1": (4, 6, 3, 3)}, (4, 8, 7)))


def test_f32_stays_in_front_and_tf32_is_turned():
    nodes = [conv("x", "w0", "c0"), helper.make_node("Relu", ["c0"], ["a"]), conv("a", "w1", "y")]
    case = network(nodes, {"w0": (6, 4, 3, 3), "w1": (4, 6, 3, 3)}, (4, 8, 7))
    assert channel_moves(check(*case, "f32", 1e-5)) == 0
    assert channel_moves(check(*case, "tf32", 1e-2)) == 2


def test_without_the_library_nothing_is_turned(monkeypatch):
    monkeypatch.delenv("REFACTOR_GRAPH_EMULATED_DNN")
    nodes = [conv("x", "w0", "c0"), conv("c0", "w1", "y")]
    case = network(nodes, {"w0": (6, 4, 3, 3), "w1": (4, 6, 3, 3)}, (4, 8, 7))
    proto, inputs = case
    executor = make_compiler(proto).compile("cuda", precision="f16")
    executor(inputs)
    if ":cudnn:" not in executor.dbg(quiet=True):
        assert channel_moves(executor.bench(repeats=1, quiet=True)) == 0

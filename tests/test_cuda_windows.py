"""Convolutions that become products on a GPU, channels padded to whole vectors, and how weights lie for few rows."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda


def network(nodes, constants, inputs):
    """A model in f32 to "y", with random weights and values for inputs of these shapes."""
    random = models.generator(5)
    weights = [
        models.constant(name, (random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32))
        for name, shape in constants.items()
    ]
    values = [models.value(name, ["N", *shape[1:]]) for name, shape in inputs.items()]
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
    return models.model(nodes, values, [models.value("y", None)], weights), feeds


def check(proto, feeds, precision="f16", fixed=True):
    """Compare with f32 on the CPU; return the types of operators that run."""
    wanted = make_compiler(proto).compile(num_threads=1)(feeds)["y"]
    compiler = make_compiler(proto)
    if fixed:
        compiler.substitute("N", next(iter(feeds.values())).shape[0])
    executor = compiler.compile("cuda", precision=precision, verify=True)
    actual = executor(feeds)["y"]
    assert actual.shape == wanted.shape
    assert np.abs(actual - wanted).max() <= (5e-2 if precision == "bf16" else 1e-2) * np.abs(wanted).max()
    return [row.type for row in executor.bench(repeats=1, quiet=True)]


@pytest.mark.usefixtures("gpu_with_dnn")
@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("size", [(5,), (3, 4), (2, 3, 2)])
def test_a_window_of_everything(size, batch, precision):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[2] * len(size)),
        helper.make_node("Add", ["c", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    constants = {"w": (7, 12, *size), "b": (7,)}
    types = check(*network(nodes, constants, {"x": (batch, 12, *size), "r": (batch, 7, *[1] * len(size))}), precision)
    assert "Conv" not in types
    assert types.count("MatMul") == 1


@pytest.mark.usefixtures("gpu_with_dnn")
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(("size", "window"), [((12,), (4,)), ((8, 12), (4, 3)), ((4, 6, 4), (2, 3, 4))])
def test_windows_side_by_side(size, window, inner, fixed):
    """Of an image, whose channels lie in front, and of what another convolution made; one Transpose gathers them."""
    first = [helper.make_node("Conv", ["x", "v"], ["a"])] if inner else []
    nodes = [
        *first,
        helper.make_node("Conv", ["a" if inner else "x", "w", "b"], ["c"], strides=list(window)),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    constants = {"w": (10, 3, *window), "b": (10,)} | ({"v": (3, 8, *[1] * len(size))} if inner else {})
    types = check(*network(nodes, constants, {"x": (2, 8 if inner else 3, *size)}), fixed=fixed)
    assert types.count("Conv") == inner
    assert types.count("MatMul") == 1
    # Of X and Y; where X is in the middle, its windows, unless they are in order, as on a line.
    assert types.count("Transpose") == (3 if inner and len(size) > 1 else 2)


@pytest.mark.usefixtures("gpu_with_dnn")
@pytest.mark.parametrize(
    "window", [{"strides": [3, 3]}, {"strides": [4, 2]}, {"strides": [4, 3], "pads": [1, 0, 0, 0]}]
)
def test_other_windows_are_left(window):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], **window)]
    assert "Conv" in check(*network(nodes, {"w": (10, 8, 4, 3)}, {"x": (2, 8, 13, 13)}))


@pytest.mark.usefixtures("gpu_with_dnn")
@pytest.mark.parametrize(
    ("activation", "product"), [("Clip", True), ("LeakyRelu", True), ("Silu", False), ("Elu", False), ("Relu", False)]
)
def test_windows_of_one_element(activation, product):
    """Activations with which cuDNN's plans are slow come behind a product."""
    ends = {"Clip": ["zero", "six"]}.get(activation, [])
    after = [helper.make_node(activation, ["c", *ends], ["y"])]
    if activation == "Silu":
        after = [helper.make_node("Sigmoid", ["c"], ["g"]), helper.make_node("Mul", ["c", "g"], ["y"])]
    proto, feeds = network(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"]), *after],
        {"w": (24, 16, 1, 1), "b": (24,)},
        {"x": (2, 16, 5, 6)},
    )
    for name, bound in (("zero", 0), ("six", 0.5)):
        proto.graph.initializer.append(models.constant(name, np.array(bound, np.float32)))
    types = check(proto, feeds)
    assert ("MatMul" in types, "Conv" in types) == (product, not product)


@pytest.mark.usefixtures("gpu_with_dnn")
@pytest.mark.parametrize("precision", ["f16", "bf16", "tf32"])
@pytest.mark.parametrize("channels", [1, 3, 4, 7, 8, 12, 13])
def test_channels_are_padded(channels, precision):
    """Vectors of 16 bytes feed tensor cores; of one or two channels most would be zeros.

    An image is turned, converted and padded in one step, weights when the model is compiled.
    """
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])]
    types = check(*network(nodes, {"w": (8, channels, 3, 3), "b": (8,)}, {"x": (2, channels, 9, 7)}), precision)
    assert types.count("ChannelVectors") == (3 <= channels < (4 if precision == "tf32" else 8))
    assert types.count("Pad") == (channels == 13 or (channels == 7 and precision == "tf32"))


@pytest.mark.usefixtures("gpu_with_dnn")
def test_padded_channels_of_an_inner_tensor():
    """What another node reads as well is turned for that, too."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Conv", ["t", "w"], ["c"]),
        helper.make_node("Concat", ["c", "t"], ["y"], axis=1),
    ]
    assert "ChannelVectors" in check(*network(nodes, {"w": (5, 3, 1, 1)}, {"x": (2, 3, 9, 7)}))


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(("rows", "turned"), [(1, True), (8, True), (9, False), (None, True)])
@pytest.mark.parametrize(("inner", "columns"), [(40, 72), (1000, 33), (37, 300), (2600, 5), (0, 5)])
def test_weights_for_few_rows(inner, columns, rows, turned, precision):
    """They lie by columns of the product where rows are few or unknown; any sizes are right, also odd ones."""
    if missing_gpu():
        pytest.skip(missing_gpu())
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    proto, feeds = network(nodes, {"w": (inner, columns), "b": (columns,)}, {"x": (rows or 3, inner)})
    w, b = (numpy_helper.to_array(tensor) for tensor in proto.graph.initializer)
    wanted = feeds["x"].astype(np.float64) @ w + b
    compiler = make_compiler(proto)
    if rows:
        compiler.substitute("N", rows)
    executor = compiler.compile("cuda", precision=precision, verify=True)
    actual = executor(feeds)["y"]
    assert np.abs(actual - wanted).max() <= (1e-5 if precision == "f32" else 5e-3) * np.abs(wanted).max()
    if inner:
        assert ("w.turned" in executor.dbg(quiet=True).replace("/f16", "")) == turned


def test_weights_are_turned_once():
    if missing_gpu():
        pytest.skip(missing_gpu())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("MatMul", ["t", "w"], ["y"]),
    ]
    proto, feeds = network(nodes, {"w": (48, 48)}, {"x": (1, 48)})
    types = check(proto, feeds)
    assert "Transpose" not in types
    assert types.count("MatMul") == 2

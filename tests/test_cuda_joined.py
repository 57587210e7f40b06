"""Concatenations that only an elementwise node reads are no kernels of their own."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def gpu():
    if missing_gpu():
        pytest.skip(missing_gpu())


def types_of(nodes, inputs, outputs=("y",), constants=(), passes=None, **options):
    """Compare with the CPU; return the operators that run on the GPU."""
    values = [models.value(name, list(data.shape)) for name, data in inputs.items()]
    proto = models.model(nodes, values, [models.value(name, None) for name in outputs], list(constants))
    wanted = make_compiler(proto).compile(num_threads=1)(inputs)
    executor = make_compiler(proto).compile("cuda", passes=passes or [], verify=True, **options)
    actual = executor(inputs)
    for name in outputs:
        tolerance = {"": 1e-5, "f16": 1e-2, "bf16": 0.1}[options.get("precision", "")]
        np.testing.assert_allclose(actual[name], wanted[name], rtol=tolerance, atol=tolerance)
    return [row.type for row in executor.bench(repeats=1, quiet=True)]


def tensors(**shapes):
    random = models.generator(3)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("sizes", [[8, 24], [3, 1, 5], [4] * 9])
def test_any_axis(axis, sizes):
    shapes = {}
    for i, size in enumerate(sizes):
        shape = [2, 3, 8]
        shape[axis] = size
        shapes[f"x{i}"] = tuple(shape)
    nodes = [
        helper.make_node("Concat", list(shapes), ["c"], axis=axis),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Mul", ["r", "c"], ["y"]),
    ]
    assert types_of(nodes, tensors(**shapes)) == ["JoinedElementwise"]


@pytest.mark.parametrize("first", [True, False])
def test_other_operands_broadcast(first):
    inputs = tensors(a=(2, 4, 5, 7), b=(2, 8, 5, 7), s=(12, 1, 1), t=(2, 12, 5, 7))
    operands = ["c", "s"] if first else ["s", "c"]
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("Sub", operands, ["d"]),
        helper.make_node("Add", ["d", "t"], ["y"]),
    ]
    assert types_of(nodes, inputs) == ["JoinedElementwise"]
    assert types_of(nodes, inputs, passes=["-fuse_concats"]) == ["Concat", "Elementwise"]


def test_one_piece_twice():
    nodes = [helper.make_node("Concat", ["a", "b", "a"], ["c"], axis=1), helper.make_node("Neg", ["c"], ["y"])]
    assert types_of(nodes, tensors(a=(3, 4), b=(3, 6))) == ["JoinedElementwise"]


def test_two_concatenations_of_one_node():
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("Concat", ["b", "a"], ["d"], axis=1),
        helper.make_node("Sub", ["c", "d"], ["y"]),
    ]
    assert sorted(types_of(nodes, tensors(a=(3, 4), b=(3, 6)))) == ["Concat", "JoinedElementwise"]


@pytest.mark.parametrize("nodes", [
    pytest.param([helper.make_node("Softmax", ["c"], ["z"])], id="two readers"),
    pytest.param([helper.make_node("Identity", ["c"], ["z"])], id="an output of the model"),
])  # fmt: skip
def test_what_others_read_stays(nodes):
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("Neg", ["c"], ["y"]),
        *nodes,
    ]
    types = types_of(nodes, tensors(a=(3, 4), b=(3, 6)), ["y", "z"])
    assert "Concat" in types
    assert "Elementwise" in types


def test_what_is_repeated_stays():
    nodes = [helper.make_node("Concat", ["a", "b"], ["c"], axis=1), helper.make_node("Add", ["c", "x"], ["y"])]
    assert types_of(nodes, tensors(a=(1, 4), b=(1, 6), x=(5, 10))) == ["Concat", "Elementwise"]


def test_more_pieces_than_a_launch_takes_stay():
    inputs = tensors(**{f"x{i}": (2, 2) for i in range(129)})
    nodes = [helper.make_node("Concat", list(inputs), ["c"], axis=1), helper.make_node("Neg", ["c"], ["y"])]
    assert types_of(nodes, inputs) == ["Concat", "Elementwise"]


def test_sizes_that_change():
    nodes = [helper.make_node("Concat", ["a", "b"], ["c"], axis=1), helper.make_node("Relu", ["c"], ["y"])]
    values = [models.value("a", ["N", "A", 2]), models.value("b", ["N", "B", 2])]
    proto = models.model(nodes, values, [models.value("y", None)], [])
    host, device = make_compiler(proto).compile(num_threads=1), make_compiler(proto).compile("cuda")
    for batch, a, b in ((1, 4, 8), (3, 1, 2), (2, 0, 5), (2, 5, 0)):
        inputs = tensors(a=(batch, a, 2), b=(batch, b, 2))
        np.testing.assert_array_equal(device(inputs)["y"], host(inputs)["y"])


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_dense_blocks(precision, monkeypatch):
    """Every layer reads all before it, normalised: no concatenation remains but the last."""
    monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", "1")
    random = models.generator(5)
    weights = random.standard_normal((8, 3, 1, 1)).astype(np.float32)
    nodes, constants = [helper.make_node("Conv", ["x", "w"], ["v"])], [models.constant("w", weights)]
    known = ["v"]
    for i in range(4):
        channels = 8 + 4 * i
        scale = random.uniform(0.5, 1.5, (channels, 1, 1)).astype(np.float32)
        weights = (random.standard_normal((4, channels, 3, 3)) / channels).astype(np.float32)
        constants += [models.constant(f"s{i}", scale), models.constant(f"w{i}", weights)]
        nodes += [
            helper.make_node("Concat", list(known), [f"c{i}"], axis=1),
            helper.make_node("Mul", [f"c{i}", f"s{i}"], [f"m{i}"]),
            helper.make_node("Relu", [f"m{i}"], [f"r{i}"]),
            helper.make_node("Conv", [f"r{i}", f"w{i}"], [f"v{i}"], pads=[1, 1, 1, 1]),
        ]
        known.append(f"v{i}")
    nodes.append(helper.make_node("Concat", list(known), ["y"], axis=1))
    types = types_of(nodes, tensors(x=(1, 3, 6, 7)), constants=constants, precision=precision)
    assert types.count("Concat") == 1
    assert types.count("JoinedElementwise") == 3

"""Sizes that only a run tells, and that then contradict each other: refused, and the executor goes on."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import Error, InvalidInput, InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models
from tests.single import floats, model

I8, I64 = np.int8, np.int64
WEIGHTS = floats(8, 3, 3, 3)
CASES = {
    "reshape_fixed": ("Reshape", {"x": floats(4, 3), "s": np.array([4, 3])}, ["s"], {}, {"x": (3, 3)}),
    "reshape_rest": ("Reshape", {"x": floats(4, 3), "s": np.array([4, -1])}, ["s"], {}, {"x": (3, 3)}),
    "reshape_longer": ("Reshape", {"x": floats(4, 3), "s": np.array([4, 3])}, ["s"], {}, {"x": (5, 3)}),
    "squeeze": ("Squeeze", {"x": floats(1, 3), "axes": np.array([0])}, ["axes"], {}, {"x": (2, 3)}),
    "squeeze_nothing": ("Squeeze", {"x": floats(1, 3), "axes": np.array([0])}, ["axes"], {}, {"x": (0, 3)}),
    "depth_to_space": ("DepthToSpace", {"x": floats(1, 4, 2, 2)}, [], {"blocksize": 2}, {"x": (1, 6, 2, 2)}),
    "space_to_depth": ("SpaceToDepth", {"x": floats(1, 1, 4, 2)}, [], {"blocksize": 2}, {"x": (1, 1, 3, 2)}),
    "conv": ("Conv", {"x": floats(1, 3, 5, 5), "w": WEIGHTS}, ["w"], {}, {"x": (1, 4, 5, 5)}),
    "conv_bias": ("Conv", {"x": floats(1, 3, 5, 5), "w": WEIGHTS, "b": floats(8)}, ["w"], {}, {"b": (9,)}),
    "conv_transpose": ("ConvTranspose", {"x": floats(1, 8, 4, 4), "w": WEIGHTS}, ["w"], {}, {"x": (1, 7, 4, 4)}),
    "conv_integer": (
        "ConvInteger",
        {"x": np.ones((1, 3, 5, 5), np.uint8), "w": np.ones((8, 3, 3, 3), np.uint8)},
        ["w"],
        {},
        {"x": (1, 4, 5, 5)},
    ),
    "matmul": ("MatMul", {"x": floats(2, 3), "w": floats(3, 4)}, [], {}, {"w": (4, 4)}),
    "matmul_integer": ("MatMulInteger", {"x": np.ones((2, 3), I8), "w": np.ones((3, 4), I8)}, [], {}, {"w": (4, 4)}),
    "einsum": ("Einsum", {"x": floats(2, 3), "w": floats(3, 3)}, [], {"equation": "ij,jk->ik"}, {"w": (4, 3)}),
    "einsum_weights": (
        "Einsum",
        {"x": floats(2, 3), "w": floats(3, 3)},
        ["w"],
        {"equation": "ij,jk->ik"},
        {"x": (2, 4)},
    ),
    "einsum_batch": ("Einsum", {"x": floats(2, 3), "w": floats(2, 3)}, [], {"equation": "bi,bj->bij"}, {"x": (3, 3)}),
    "einsum_diagonal": ("Einsum", {"x": floats(3, 3)}, [], {"equation": "ii->i"}, {"x": (3, 2)}),
    "batch_normalization": (
        "BatchNormalization",
        {"x": floats(2, 1, 3), **{name: np.ones(1, np.float32) for name in "abcd"}},
        ["a", "b", "c", "d"],
        {},
        {"x": (2, 2, 3)},
    ),
    "loss": (
        "NegativeLogLikelihoodLoss",
        {"x": floats(4, 3, 2), "t": np.ones((4, 2), I64)},
        [],
        {},
        {"t": (5, 2)},
    ),
    "suppression": (
        "NonMaxSuppression",
        {"b": floats(1, 6, 4), "s": floats(1, 2, 6), "k": np.array([3])},
        ["k"],
        {},
        {"b": (1, 6, 3)},
    ),
    "add": ("Add", {"x": floats(4, 3), "z": floats(4, 3)}, [], {}, {"z": (3, 3)}),
    "prelu": ("PRelu", {"x": floats(2, 4, 3), "s": floats(4, 1)}, [], {}, {"s": (3, 1)}),
    "prelu_widens": ("PRelu", {"x": floats(2, 4, 3), "s": floats(4, 3)}, [], {}, {"x": (2, 1, 3)}),
    "layer_normalization": ("LayerNormalization", {"x": floats(2, 3), "s": floats(3)}, [], {}, {"s": (4,)}),
    "gemm": ("Gemm", {"x": floats(2, 3), "w": floats(3, 4), "c": floats(2, 4)}, [], {}, {"c": (5, 4)}),
    "quantize": ("QuantizeLinear", {"x": floats(2, 3), "s": np.ones(3, np.float32)}, [], {}, {"s": (2,)}),
    "dequantize": ("DequantizeLinear", {"x": np.ones((2, 3), I8), "s": floats(3)}, [], {}, {"x": (2, 4)}),
    "matmul_integer_zeros": (
        "MatMulInteger",
        {"x": np.ones((2, 3), I8), "w": np.ones((3, 4), I8), "a": np.ones(2, I8)},
        [],
        {},
        {"a": (3,)},
    ),
    "gather_elements": ("GatherElements", {"x": floats(4, 3), "i": np.zeros((2, 3), I64)}, [], {}, {"i": (2, 4)}),
    "scatter_elements": (
        "ScatterElements",
        {"x": floats(4, 3), "i": np.zeros((2, 3), I64), "u": floats(2, 3)},
        [],
        {},
        {"i": (2, 4), "u": (2, 4)},
    ),
    "scatter_updates": (
        "ScatterElements",
        {"x": floats(4, 3), "i": np.zeros((2, 3), I64), "u": floats(2, 3)},
        ["x"],
        {},
        {"u": (2, 2)},
    ),
    "concat": ("Concat", {"x": floats(4, 3), "z": floats(2, 3)}, [], {"axis": 0}, {"z": (2, 4)}),
}


def _open(proto):
    """Give every size of every input a symbol of its own."""
    for port in proto.graph.input:
        for axis, dim in enumerate(port.type.tensor_type.shape.dim):
            dim.dim_param = f"{port.name}_{axis}"
    return proto


@pytest.mark.parametrize("passes", [[], ["-all"]])
@pytest.mark.parametrize("name", CASES)
def test_a_run_is_refused(name, passes):
    op, feeds, constants, attributes, others = CASES[name]
    executor = make_compiler(_open(model(op, feeds, opset=17, constants=constants, **attributes))).compile(
        "cpu", "default", passes
    )
    given = {key: array for key, array in feeds.items() if key not in constants}
    first = executor(given)
    with pytest.raises(Error) as caught:
        executor(given | {key: np.resize(feeds[key], shape) for key, shape in others.items()})
    assert isinstance(caught.value, InvalidInput | InvalidModel)
    for key, array in executor(given).items():
        np.testing.assert_array_equal(array, first[key])


def test_messages_name_node_actual_and_expected():
    feeds = {"x": floats(1, 3, 5, 5), "w": WEIGHTS}
    executor = make_compiler(_open(model("Conv", feeds, opset=17, constants=["w"]))).compile()
    with pytest.raises(InvalidInput, match='Conv node "conv": the number of channels is 4, expected 3'):
        executor({"x": floats(1, 4, 5, 5)})
    feeds = {"x": floats(2, 4, 3), "s": floats(4, 1)}
    executor = make_compiler(_open(model("PRelu", feeds, opset=17))).compile()
    with pytest.raises(InvalidInput, match='PRelu node "prelu": a size of the slope is 3, expected 4 or 1'):
        executor(feeds | {"s": floats(3, 1)})
    feeds = {"x": floats(4, 3), "z": floats(4, 3)}
    executor = make_compiler(_open(model("Add", feeds, opset=17))).compile()
    with pytest.raises(InvalidInput, match=r'node "add": .* of operands f32\[4, 3\], f32\[2, 3\]'):
        executor(feeds | {"z": floats(2, 3)})
    feeds = {"x": floats(2, 3), "w": floats(3, 4)}
    executor = make_compiler(_open(model("Einsum", feeds, opset=17, constants=["w"], equation="ij,jk->ik"))).compile()
    with pytest.raises(InvalidInput, match="Einsum node \"einsum\": the size of 'j' is 4, expected 3 or 1"):
        executor({"x": floats(2, 4)})
    feeds = {"x": floats(4, 3), "i": np.zeros((2, 3), I64)}
    executor = make_compiler(_open(model("GatherElements", feeds, opset=17))).compile()
    with pytest.raises(InvalidInput, match="the size of the indices on axis 1 is 4, expected 3"):
        executor(feeds | {"i": np.zeros((2, 4), I64)})
    feeds = {"x": floats(4, 3), "s": np.array([4, -1])}
    executor = make_compiler(_open(model("Reshape", feeds, opset=17, constants=["s"]))).compile()
    with pytest.raises(InvalidInput, match=r'Reshape node "reshape": f32\[3, 3\] cannot become f32\[4, 2\]'):
        executor({"x": floats(3, 3)})


def test_a_branch_that_is_not_taken_asks_for_nothing():
    """In the branch, x would have to have 3 columns."""
    product = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"])], "then", [], [models.value("p", None)])
    same = helper.make_graph([helper.make_node("Identity", ["x"], ["q"])], "else", [], [models.value("q", None)])
    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=product, else_branch=same)
    ports = [models.value("x", ["n", "k"]), helper.make_tensor_value_info("c", 9, [])]
    weights = models.constant("w", floats(3, 3))
    executor = make_compiler(models.model([node], ports, [models.value("y", None)], [weights])).compile()
    array = floats(2, 4)
    np.testing.assert_array_equal(executor({"x": array, "c": np.array(False)})["y"], array)
    with pytest.raises(Error, match="MatMul"):
        executor({"x": array, "c": np.array(True)})


def _choice(condition, sizes=("n", "k")):
    """Make x @ w, whose rows are 3, or x @ v, whose rows are 4, behind a ReLU."""
    branches = {
        name: helper.make_graph(
            [helper.make_node("MatMul", ["x", weight], [name])], name, [], [models.value(name, None)]
        )
        for name, weight in (("then_branch", "w"), ("else_branch", "v"))
    }
    nodes = [helper.make_node("If", ["c"], ["p"], "choice", **branches), helper.make_node("Relu", ["p"], ["y"])]
    ports, weights = (
        [models.value("x", sizes)],
        [models.constant("w", floats(3, 5)), models.constant("v", floats(4, 5))],
    )
    if condition is None:
        ports.append(helper.make_tensor_value_info("c", 9, []))
    else:
        weights.append(models.constant("c", np.array(condition)))
    return models.model(nodes, ports, [models.value("y", None)], weights)


def test_a_branch_in_a_program_asks_when_it_is_taken():
    executor = make_compiler(_choice(None)).compile()
    assert "if:cpu:branches" in executor.dbg(quiet=True)
    for _ in range(2):
        for columns, taken in ((3, True), (4, False)):
            assert executor({"x": floats(2, columns), "c": np.array(taken)})["y"].shape == (2, 5)
            with pytest.raises(InvalidInput, match=f"is {4 if taken else 3}, expected {columns}"):
                executor({"x": floats(2, columns), "c": np.array(not taken)})


def test_a_known_branch_asks_always():
    executor = make_compiler(_choice(False)).compile()
    assert executor({"x": floats(2, 4)})["y"].shape == (2, 5)
    with pytest.raises(InvalidInput, match=r"MatMul node .* is 4, expected 3"):
        executor({"x": floats(2, 3)})


def test_one_scale_for_all_stays_one():
    """Where the number of scales is a symbol, 1 holds for every channel."""
    feeds = {"x": floats(2, 3), "s": np.full(3, 0.5, np.float32)}
    executor = make_compiler(_open(model("QuantizeLinear", feeds, opset=17))).compile()
    every = executor(feeds)["y0"]
    np.testing.assert_array_equal(executor({**feeds, "s": feeds["s"][:1]})["y0"], every)

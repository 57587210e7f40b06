"""Rotary position embedding on devices: one step, whoever wrote it."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def gpu():
    if missing_gpu():
        pytest.skip(missing_gpu())


TOLERANCES = {"f32": 2.0**-20, "f16": 2.0**-9, "bf16": 2.0**-6}
HEADS, DEPTH = 3, 16


def operator(interleaved, size):
    """RotaryEmbedding of the standard behind a step that makes its rows."""
    half = (size or DEPTH) // 2
    attributes = {"interleaved": int(interleaved), "rotary_embedding_dim": size}
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("RotaryEmbedding", ["t", "cos", "sin", "positions"], ["r"], **attributes),
        helper.make_node("Abs", ["r"], ["y"]),
    ]
    inputs = [
        models.value("x", ["B", HEADS, "S", DEPTH]),
        models.value("cos", [40, half]),
        models.value("sin", [40, half]),
        models.value("positions", ["B", "S"], TensorProto.INT64),
    ]
    return models.model(nodes, inputs, [models.value("y", None)], opset=23), half


def exchanged_halves(negate_low=False, swap=False):
    """As Hugging Face's models write it: `x cos + concat(-x2, x1) sin`, angles for both halves."""
    constants = [
        models.constant(name, np.array([value])) for name, value in (("0", 0), ("h", DEPTH // 2), ("e", DEPTH))
    ]
    constants.append(models.constant("axis", np.array([-1])))
    for name in ("w", "v"):
        weights = models.generator(8).standard_normal((DEPTH, DEPTH)) * DEPTH**-0.5
        constants.append(models.constant(name, weights.astype(np.float32)))
    low, high = ("low", "n") if negate_low else ("n", "low")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Slice", ["t", "0", "h", "axis"], ["low"]),
        helper.make_node("Slice", ["t", "h", "e", "axis"], ["high"]),
        helper.make_node("Neg", ["low" if negate_low else "high"], ["n"]),
        helper.make_node("Concat", ["high" if negate_low else low, "n" if negate_low else high], ["c"], axis=-1),
        helper.make_node("Cos", ["angle"], ["cos"]),
        helper.make_node("Sin", ["angle"], ["sin"]),
        helper.make_node("Mul", ["t", "cos"], ["p"]),
        helper.make_node("Mul", ["sin", "c"], ["q"]),
        helper.make_node("Add", ["q", "p"] if swap else ["p", "q"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    inputs = [models.value("x", ["B", HEADS, "S", DEPTH])]
    inputs.append(models.value("angle", ["B", 1, "S", DEPTH]))
    return models.model(nodes, inputs, [models.value("y", None)], constants, opset=18)


def check(proto, feeds, precision):
    wanted = make_compiler(proto).compile("cpu")(feeds)["y"]
    executor = make_compiler(proto).compile("cuda", precision=precision, verify=True)
    actual = executor(feeds)["y"]
    assert np.abs(actual - wanted).max() <= TOLERANCES[precision] * np.abs(wanted).max()
    return [row.type for row in executor.bench(repeats=1, quiet=True)]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("size", [0, 6])
@pytest.mark.parametrize("interleaved", [False, True])
def test_the_operator_is_one_step(interleaved, size, precision):
    random = models.generator(5)
    proto, half = operator(interleaved, size)
    for steps in (1, 7):
        angles = random.standard_normal((40, half))
        feeds = {
            "x": random.standard_normal((2, HEADS, steps, DEPTH)).astype(np.float32),
            "cos": np.cos(angles).astype(np.float32),
            "sin": np.sin(angles).astype(np.float32),
            "positions": random.integers(0, 40, (2, steps)),
        }
        types = check(proto, feeds, precision)
        assert types.count("Rotary") == 1
        assert not {"Concat", "Slice"} & set(types)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("swap", [False, True])
def test_exchanged_halves_are_one_step(swap, precision):
    random = models.generator(6)
    feeds = {"x": random.standard_normal((2, HEADS, 5, DEPTH)).astype(np.float32)}
    feeds["angle"] = random.standard_normal((2, 1, 5, DEPTH)).astype(np.float32)
    types = check(exchanged_halves(swap=swap), feeds, precision)
    assert types.count("Rotary") == 1
    assert not {"Concat", "Slice", "JoinedElementwise"} & set(types)


def test_other_exchanges_stay():
    """[b, -a] turns the other way."""
    random = models.generator(7)
    feeds = {"x": random.standard_normal((1, HEADS, 4, DEPTH)).astype(np.float32)}
    feeds["angle"] = random.standard_normal((1, 1, 4, DEPTH)).astype(np.float32)
    assert "Rotary" not in check(exchanged_halves(negate_low=True), feeds, "f32")


def test_pairs_of_an_output_keep_its_name():
    """Interleaved pairs, an axis of their own, that are what the model answers."""
    random = models.generator(9)
    constants = [models.constant(name, np.array([value])) for name, value in (("0", 0), ("1", 1), ("2", 2))]
    constants += [models.constant("e", np.array([DEPTH])), models.constant("axis", np.array([-1]))]
    nodes = [helper.make_node("Tanh", ["x"], ["t"])]
    for start, name in (("0", "a"), ("1", "b")):
        nodes.append(helper.make_node("Slice", ["t", start, "e", "axis", "2"], [name]))
    for first, second, op, name in (("a", "b", "Sub", "p"), ("b", "a", "Add", "q")):
        nodes.append(helper.make_node("Mul", [first, "cos"], [f"{name}c"]))
        nodes.append(helper.make_node("Mul", [second, "sin"], [f"{name}s"]))
        nodes.append(helper.make_node(op, [f"{name}c", f"{name}s"], [name]))
        nodes.append(helper.make_node("Unsqueeze", [name, "axis"], [f"{name}1"]))
    nodes.append(helper.make_node("Concat", ["p1", "q1"], ["y"], axis=-1))
    inputs = [models.value("x", ["B", DEPTH])] + [models.value(name, ["B", DEPTH // 2]) for name in ("cos", "sin")]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants)
    feeds = {"x": random.standard_normal((5, DEPTH)).astype(np.float32)}
    feeds |= {name: random.standard_normal((5, DEPTH // 2)).astype(np.float32) for name in ("cos", "sin")}
    assert "Rotary" in check(proto, feeds, "f32")

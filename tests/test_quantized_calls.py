"""Quantised weights in models that are several programs: each program has them as constants, and folds them."""

import os

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.quantization import BYTES
from tests.quantized_network import Network, literally

pytestmark = pytest.mark.skipif(
    os.environ.get("REFACTOR_GRAPH_ISA") == "scalar", reason="graphs are folded from AVX2 on only"
)


def _network(activations):
    """x0[12, 32], chosen[12] → the chosen rows of x0, quantised, times quantised weights, quantised."""
    network = Network(5, activations)
    rows = network.node("Squeeze", network.node("NonZero", "chosen"), network.constant(np.array([0])))
    x = network.fake(network.node("Gather", network.input((12, 32)), rows, axis=0))
    weights = network.weights((32, 48), axis=1)
    return network, network.fake(network.node("MatMul", x, weights))


def _model(network, outputs, extra):
    inputs = [models.value(name, shape) for name, shape, _ in network.inputs]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return models.model(network.nodes, [*inputs, extra], results, network.constants)


@pytest.mark.parametrize("activations", BYTES, ids=str)
def test_behind_a_procedure(activations):
    network, product = _network(activations)
    proto = _model(network, [product], models.value("chosen", [12], TensorProto.BOOL))
    executor = make_compiler(proto).compile("cpu", verify=True)
    for seed in range(3):
        random = models.generator(seed)
        feeds = {"x0": random.standard_normal((12, 32), np.float32) * 2, "chosen": random.random(12) < 0.6}
        (actual,) = executor(feeds).values()
        (wanted,) = literally(proto, feeds)
        assert actual.shape == wanted.shape
        assert np.abs(actual - wanted).max(initial=0) <= 0.05
    assert "IntegerMatMul" in {row.type for row in executor.bench(quiet=True)}


def test_before_and_behind_a_procedure():
    network, product = _network(BYTES[0])
    x = network.fake(network.input((12, 32)))
    weights = network.weights((32, 32), axis=1)
    first = network.fake(network.node("MatMul", x, weights))
    rows = network.node("Squeeze", network.node("NonZero", "chosen"), network.constant(np.array([0])))
    second = network.fake(network.node("MatMul", network.node("Gather", first, rows, axis=0), weights))
    proto = _model(network, [product, first, second, weights], models.value("chosen", [12], TensorProto.BOOL))
    executor = make_compiler(proto).compile("cpu", verify=True)
    random = models.generator()
    feeds = {f"x{i}": random.standard_normal((12, 32), np.float32) for i in range(2)}
    feeds["chosen"] = random.random(12) < 0.5
    for actual, wanted in zip(executor(feeds).values(), literally(proto, feeds), strict=True):
        assert np.abs(actual - wanted).max(initial=0) <= 0.1


def test_weights_stay_with_what_is_compiled_later():
    network = Network(6)
    total = network.node("ReduceSum", network.input((5, 7, 32)), "axes", keepdims=0)
    weights = network.weights((32, 48), axis=1)
    product = network.node("MatMul", network.fake(total), weights)
    proto = _model(network, [product], models.value("axes", ["n"], TensorProto.INT64))
    executor = make_compiler(proto).compile("cpu", verify=True)
    array = models.generator().standard_normal((5, 7, 32), np.float32)
    for axes in ([0], [1], [0, 1]):
        feeds = {"x0": array, "axes": np.array(axes)}
        (actual,) = executor(feeds).values()
        np.testing.assert_allclose(actual, literally(proto, feeds)[0], atol=0.05)
    assert {row.type for row in executor.bench(quiet=True)} == {"Deferred"}

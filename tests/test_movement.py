"""Operators that move elements: which kernels run, and what they give."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models, single
from tests.single import floats


def gathered(op, x, indices, **attributes):
    """A negation, so that no input is an output, and the gather with constant indices behind it: kernels and result."""
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node(op, ["n", "i"], ["y"], **attributes)]
    constants = [models.constant("i", indices)]
    proto = models.model(nodes, [models.value("x", x.shape)], [models.value("y", None)], constants, opset=18)
    executor = make_compiler(proto).compile()
    single.assert_same(list(executor({"x": x}).values()), models.expected(proto, {"x": x}))
    return [row.kernel.split(":")[0] for row in executor.bench(repeats=1, quiet=True)]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_gather_of_the_only_element_is_a_reshape(shape):
    assert gathered("Gather", floats(3, 1, 5), np.zeros(shape, np.int64), axis=1) == ["elementwise"]


def test_gather_nd_of_the_only_element_is_a_reshape():
    assert gathered("GatherND", floats(1, 3, 5), np.zeros((1, 1), np.int64)) == ["elementwise"]


def test_gather_of_one_known_index_is_a_slice():
    assert gathered("Gather", floats(3, 2, 5), np.zeros(1, np.int64), axis=1) == ["elementwise", "slice"]
    assert gathered("Gather", floats(3, 2, 5), np.array(-1), axis=0) == ["elementwise", "slice"]


def test_other_gathers_stay():
    assert gathered("Gather", floats(3, 1, 5), np.zeros(2, np.int64), axis=1) == ["elementwise", "gather"]
    assert gathered("GatherND", floats(2, 3, 5), np.zeros((1, 1), np.int64)) == ["elementwise", "gather_nd"]


def test_an_index_outside_an_axis_of_one_element_is_refused():
    proto = single.model("Gather", {"x": floats(3, 1), "i": np.array([1])}, opset=18, axis=1)
    with pytest.raises(InvalidInput, match=r"index 1 .* outside axis 1 of size 1"):
        single.run(proto, {"x": floats(3, 1), "i": np.array([1])})

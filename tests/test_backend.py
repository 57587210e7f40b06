"""The ONNX backend API, and the standard's test suite driven through it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import refactor_graph
from onnx import helper
from refactor_graph import InvalidInput, Unsupported, backend

from tests import models


def test_the_outcome_of_the_onnx_suite_is_the_golden_list():
    # A process of its own: what it forks must not hold the threads of other tests.
    package = str(Path(refactor_graph.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, "-m", "tests.backend_suite"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=environment,
        check=False,
    )
    assert run.returncode == 0, (
        f"{run.stdout}{run.stderr[-2000:]}\nIf that is right: python -m tests.backend_suite --update"
    )


def test_prepare_takes_lists_dicts_and_single_values():
    model = models.mlp()
    x = models.generator().standard_normal((3, 8), np.float32)
    representation = backend.prepare(model, "CPU")
    wanted = representation.run([x])
    assert isinstance(wanted, tuple)
    np.testing.assert_array_equal(wanted["y"], wanted[0])
    np.testing.assert_array_equal(representation.run({"x": x})[0], wanted[0])
    np.testing.assert_array_equal(representation.run(x)[0], wanted[0])
    np.testing.assert_array_equal(backend.run_model(model.SerializeToString(), (x,), num_threads=1)[0], wanted[0])


def test_wrong_inputs_name_what_is_expected():
    representation = backend.prepare(models.mlp())
    with pytest.raises(InvalidInput, match=r"2 inputs are given, the model has 1: x"):
        representation.run([1, 2])
    with pytest.raises(InvalidInput, match="z"):
        representation.run({"z": np.zeros((1, 8), np.float32)})


@pytest.mark.parametrize("device", ["TPU", "cuda", "CPU:x", "CPU:", "", None])
def test_unknown_devices_are_refused(device):
    assert not backend.supports_device(device)
    with pytest.raises(InvalidInput, match="expected CPU, CUDA or CUDA:<number>"):
        backend.prepare(models.mlp(), device)


def test_the_processor_is_supported():
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")


def test_compatible_is_what_can_run():
    model = models.mlp()
    assert backend.is_compatible(model)
    assert not backend.is_compatible(model, "CUDA:99")
    model.graph.node[0].op_type = "Frobnicate"
    assert not backend.is_compatible(model)
    with pytest.raises(Unsupported, match="Frobnicate"):
        backend.prepare(model)


def test_run_node():
    random = models.generator(3)
    x, y = random.standard_normal((2, 3, 5), np.float32), random.standard_normal((3, 1), np.float32)
    node = helper.make_node("Add", ["x", "y"], ["z"])
    np.testing.assert_array_equal(backend.run_node(node, [x, y])[0], x + y)
    np.testing.assert_array_equal(backend.run_node(node, {"x": x, "y": y})["z"], x + y)
    info = [(np.dtype(np.float32), (2, 3, 5))]
    np.testing.assert_array_equal(backend.run_node(node, [x, y], outputs_info=info)[0], x + y)


def test_run_node_omits_inputs_without_a_name():
    x = models.generator(4).standard_normal((7,), np.float32)
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    np.testing.assert_array_equal(backend.run_node(node, [x, np.float32(0.25)])[0], np.minimum(x, np.float32(0.25)))


def test_run_node_follows_the_operator_set():
    x = models.generator(5).standard_normal((2, 3, 4), np.float32)
    node = helper.make_node("Softmax", ["x"], ["y"])
    old = backend.run_node(node, [x], opset_version=11)[0]
    new = backend.run_node(node, [x], opset_version=13)[0]
    np.testing.assert_allclose(old.reshape(2, -1).sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(new.sum(2), 1, rtol=1e-6)


def test_run_node_refuses_what_does_not_fit():
    x = np.zeros((2, 3), np.float32)
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(InvalidInput, match="2 inputs are given, the node has 1: x"):
        backend.run_node(node, [x, x])
    with pytest.raises(InvalidInput, match="expected an array or a list, got str"):
        backend.run_node(node, ["x"])
    with pytest.raises((InvalidInput, refactor_graph.InvalidModel), match="y"):
        backend.run_node(node, [x], outputs_info=[(np.dtype(np.float32), (3, 3))])

"""What the tests of onnxruntime's interface share."""

import importlib

import numpy as np
import pytest
from onnx import helper

from tests import models


def runtime_fixture():
    """Return a fixture: the module under test, then onnxruntime itself, which has to pass the same tests."""

    @pytest.fixture(params=["refactor_graph.compat", "onnxruntime"])
    def ort(request):
        if request.param == "onnxruntime":
            return pytest.importorskip("onnxruntime")
        return importlib.import_module(request.param)

    return ort


def state_of(ort):
    """Return the module that holds the exceptions."""
    return importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")


def make_model(**properties):
    """Make a model: x[N, ?, 3] + w → y → Relu → z."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    w = np.array([1, -2, 3], np.float32)
    ports = [models.value("x", ["N", None, 3])], [models.value("z", None)]
    model = models.model(nodes, *ports, [models.constant("w", w)])
    helper.set_model_props(model, properties)
    return model


def make_bytes(**properties):
    """Make the same model, serialised."""
    return make_model(**properties).SerializeToString()


def make_x(*shape):
    """Make an input of the model."""
    return models.generator(31).standard_normal(shape or (2, 5, 3), np.float32)


def wanted_z(x):
    """Return the output of the model."""
    return np.maximum(x + np.array([1, -2, 3], np.float32), 0)

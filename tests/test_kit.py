"""The models of the development kit, where it is there: RG_KIT is its folder (with zoo.py)."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from refactor_graph.onnx import make_compiler

KIT = Path(os.environ.get("RG_KIT", "/nonexistent"))
pytestmark = pytest.mark.skipif(not (KIT / "zoo.py").exists(), reason="RG_KIT does not name the folder of the kit")


@pytest.fixture(scope="module")
def zoo():
    specification = importlib.util.spec_from_file_location("zoo", KIT / "zoo.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["zoo"] = module
    specification.loader.exec_module(module)
    return module


def _names():
    folder = Path(os.environ.get("RG_KIT_DATA", Path.home() / ".cache" / "rg-kit")) / "models"
    return sorted(path.stem for path in folder.glob("*.onnx"))


@pytest.mark.parametrize("name", _names())
def test_model_of_the_kit(zoo, name):
    ort = pytest.importorskip("onnxruntime")
    inputs = zoo.make_inputs(name, 1)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(zoo.path(name), options, providers=["CPUExecutionProvider"])
    inputs = {item.name: inputs[item.name] for item in session.get_inputs()}
    wanted = session.run(None, inputs)
    outputs = make_compiler(zoo.path(name)).compile()(inputs)
    for actual, reference in zip(outputs.values(), wanted, strict=True):
        assert actual.shape == reference.shape
        if reference.dtype.kind == "f":
            # Deep networks of random weights: errors relative to the largest value of the tensor.
            scale = float(np.abs(reference).max()) or 1.0
            assert np.abs(actual - reference).max() <= 1e-3 * scale
        else:
            np.testing.assert_array_equal(actual, reference)

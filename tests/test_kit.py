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


def _session(zoo, name):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(zoo.path(name), options, providers=["CPUExecutionProvider"])


def _largest_error(outputs, wanted):
    pairs = zip(outputs.values(), wanted, strict=True)
    return max(float(np.abs(actual - reference).max() / np.abs(reference).max()) for actual, reference in pairs)


@pytest.mark.skipif("bert_base" not in _names(), reason="the kit has no bert_base")
def test_bert_at_twenty_lengths(zoo):
    executor, session = make_compiler(zoo.path("bert_base")).compile(), _session(zoo, "bert_base")
    random = np.random.default_rng(0)
    for length in random.permutation(np.arange(3, 43, 2)):
        inputs = {
            port.name: random.integers(0, 30000 if port.name == "input_ids" else 2, (1, length))
            for port in executor.inputs
        }
        inputs["attention_mask"][:] = 1
        assert _largest_error(executor(inputs), session.run(None, inputs)) < 1e-4


@pytest.mark.skipif("gpt2_decode" not in _names(), reason="the kit has no gpt2_decode")
def test_gpt2_with_a_growing_cache(zoo):
    executor, session = make_compiler(zoo.path("gpt2_decode")).compile(), _session(zoo, "gpt2_decode")
    random = np.random.default_rng(0)
    names = [port.name for port in executor.inputs if port.name.startswith("past")]
    past = {name: random.standard_normal((1, 12, 4, 64), np.float32) for name in names}
    for position in range(4, 16):
        inputs = {
            "input_ids": random.integers(0, 50000, (1, 1)),
            "attention_mask": np.ones((1, position + 1), np.int64),
        }
        inputs |= {"position_ids": np.array([[position]]), **past}
        outputs = executor(inputs)
        assert _largest_error(outputs, session.run(None, inputs)) < 1e-4
        past = dict(zip(names, list(outputs.values())[1:], strict=True))

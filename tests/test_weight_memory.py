"""How much memory the weights of a model take: measured in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from refactor_graph import load
from refactor_graph.onnx import make_compiler

from tests import models

if TYPE_CHECKING:
    from pathlib import Path

MEASURE = """
import json, sys, numpy as np, refactor_graph.onnx
def anonymous():
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10
def compile_and_run(path):
    executor = refactor_graph.onnx.make_compiler(path).compile("cpu", num_threads=1)
    types = {"f32": np.float32, "i64": np.int64}
    executor({port.name: np.ones(port.shape, types[port.dtype]) for port in executor.inputs})
    return executor
keep = compile_and_run(sys.argv[1])
before = anonymous()
executor = compile_and_run(sys.argv[2])
print(json.dumps({"grown": anonymous() - before, **executor.memory()}))
"""
SLACK = 6 << 20
"""Graphs, plans, and what the allocator of small objects holds."""


def growth(tmp_path: Path, *protos: onnx.ModelProto) -> dict[str, int]:
    """Compile and run the first model, then the second: the growth of anonymous memory by the second."""
    files = []
    for i, proto in enumerate(protos):
        files.append(tmp_path / f"{i}.onnx")
        onnx.save(proto, files[-1])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, files)], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


def tensors(weights: dict[str, np.ndarray]) -> list[onnx.TensorProto]:
    return [models.constant(name, value) for name, value in weights.items()]


def scaled_products(size: int, count: int) -> onnx.ModelProto:
    """Products by matrices whose columns are scaled behind them, as by BatchNormalization."""
    random = models.generator(0)
    nodes, weights, last = [], {}, "x"
    for i in range(count):
        weights[f"w{i}"] = random.standard_normal((size, size), np.float32) / size
        weights[f"s{i}"] = random.uniform(0.5, 2, size).astype(np.float32)
        y = "y" if i == count - 1 else f"y{i}"
        nodes += [
            helper.make_node("MatMul", [last, f"w{i}"], [f"p{i}"]),
            helper.make_node("Mul", [f"p{i}", f"s{i}"], [y]),
        ]
        last = y
    return models.model(nodes, [models.value("x", [8, size])], [models.value("y", [8, size])], tensors(weights))


def test_weights_that_a_pass_makes_are_held_once(tmp_path):
    result = growth(tmp_path, scaled_products(64, 2), scaled_products(1024, 12))
    assert result["weights"] >= 12 << 22
    assert result["grown"] < result["packed_weights"] + result["held"] + SLACK


def branches(channels: int, count: int) -> onnx.ModelProto:
    """Sums of convolutions of one input, which become one convolution."""
    random = models.generator(0)
    nodes, weights, last = [], {}, "x"
    for i in range(count):
        weights[f"a{i}"] = random.standard_normal((channels, channels, 1, 1), np.float32) / channels
        weights[f"b{i}"] = random.standard_normal((channels, channels, 1, 1), np.float32) / channels
        y = "y" if i == count - 1 else f"y{i}"
        nodes += [
            helper.make_node("Conv", [last, f"a{i}"], [f"p{i}"]),
            helper.make_node("Conv", [last, f"b{i}"], [f"q{i}"]),
            helper.make_node("Add", [f"p{i}", f"q{i}"], [y]),
        ]
        last = y
    shape = [1, channels, 8, 8]
    return models.model(nodes, [models.value("x", shape)], [models.value("y", shape)], tensors(weights))


def test_weights_of_branches_are_held_once(tmp_path):
    result = growth(tmp_path, branches(32, 2), branches(1024, 8))
    assert result["weights"] >= 8 << 22
    assert result["grown"] < result["packed_weights"] + result["held"] + SLACK


def table(rows: int, shift: int) -> onnx.ModelProto:
    """Rows of a table, `shift` bytes further behind the begin of the file."""
    random = models.generator(0)
    result = models.model(
        [helper.make_node("Gather", ["t", "x"], ["y"])],
        [models.value("x", [5], TensorProto.INT64)],
        [models.value("y", [5, 256])],
        tensors({"t": random.standard_normal((rows, 256), np.float32)}),
    )
    result.producer_name = "p" * shift
    return result


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_tables_stay_in_their_file(tmp_path, shift):
    result = growth(tmp_path, table(8, shift), table(1 << 15, shift))
    assert result["weights"] == 1 << 25
    assert result["grown"] < SLACK
    proto = table(1 << 10, shift)
    path = tmp_path / "checked.onnx"
    onnx.save(proto, path)
    indices = np.array([0, 1023, -1, 7, 512])
    y = make_compiler(str(path)).compile("cpu", num_threads=1)({"x": indices})["y"]
    np.testing.assert_array_equal(y, numpy_helper.to_array(proto.graph.initializer[0])[indices])


def test_another_shape_makes_weights_again(tmp_path):
    """Their bytes were given up behind the first plan; a kernel for many rows packs them in another order."""
    fixed = scaled_products(256, 3)
    dynamic = onnx.ModelProto()
    dynamic.CopyFrom(fixed)
    dynamic.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    executor = make_compiler(dynamic.SerializeToString()).compile("cpu", num_threads=1)
    random = models.generator(1)
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in fixed.graph.initializer}
    for rows in (1, 8, 700, 2, 4000):
        x = random.standard_normal((rows, 256), np.float32)
        expected = x.astype(np.float64)
        for i in range(3):
            expected = expected @ weights[f"w{i}"] * weights[f"s{i}"]
        y = executor({"x": x})["y"]
        np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-5 * np.abs(expected).max())


def test_saving_behind_a_run_keeps_weights(tmp_path):
    """What the first plan gave up is made again for the file."""
    executor = make_compiler(scaled_products(256, 3).SerializeToString()).compile("cpu")
    x = models.generator(2).standard_normal((8, 256), np.float32)
    expected = executor({"x": x})["y"]
    executor.save(tmp_path / "saved.rg")
    loaded = load(tmp_path / "saved.rg")
    np.testing.assert_allclose(loaded({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)

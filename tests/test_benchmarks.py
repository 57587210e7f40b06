"""The scripts of benchmarks/ start: what they import exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import refactor_graph
from onnx import helper
from refactor_graph.onnx import make_compiler

from tests import models

FOLDER = Path(__file__).parents[1] / "benchmarks"
PACKAGES = Path(refactor_graph.__file__).parents[1]


@pytest.mark.parametrize(
    "name", ["cuda", "memory", "new_shapes", "operators", "run", "shared_core", "steps", "weights"]
)
def test_script_starts(name: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage:" in result.stdout


def test_new_sizes_are_timed(tmp_path: Path) -> None:
    model = tmp_path / "layers.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    weights = [models.constant("w", np.ones((64, 64), np.float32))]
    proto = models.model(nodes, [models.value("x", ["n", 64])], [models.value("y", ["n", 64])], weights)
    model.write_bytes(proto.SerializeToString())
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}

    def run(*sizes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(FOLDER / "new_shapes.py"), str(model), "--sizes", *sizes]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)

    result = run("n=8", "n=1", "n=100")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["n=1", "n=100"]
    assert "packed weights of refactor_graph: 0.0 MB, of a file of 0.0 MB" in lines[-1]
    assert "two sets at least" in run("n=8").stderr


def test_open_sizes_are_timed(tmp_path: Path) -> None:
    model = tmp_path / "layers.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    weights = [models.constant("w", np.ones((64, 64), np.float32))]
    proto = models.model(nodes, [models.value("x", ["n", 64])], [models.value("y", ["n", 64])], weights)
    model.write_bytes(proto.SerializeToString())
    command = [sys.executable, str(FOLDER / "open_sizes.py"), str(model), "--sizes", "n=9", "--rounds", "1"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    name, open_steps, open_ms, given_steps, given_ms, ratio = result.stdout.splitlines()[1].split()[:6]
    assert (name, open_steps, given_steps) == ("layers", "2", "2")
    assert float(ratio) == pytest.approx(float(open_ms) / float(given_ms), rel=5e-3)


def test_quantised_models_load(tmp_path: Path) -> None:
    source, folder = tmp_path / "layers.onnx", tmp_path / "quantised"
    source.write_bytes(models.convolutions().SerializeToString())
    kinds = ["dynamic", "f16", "i8", "qoperator", "u8"]
    command = [sys.executable, str(FOLDER / "quantize.py"), str(folder), str(source), "--kinds", ",".join(kinds)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    written = sorted(path.stem.removeprefix("layers_") for path in folder.iterdir())
    assert written == kinds
    for path in folder.iterdir():
        make_compiler(str(path)).compile("cpu")


def test_operators_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    figures = tmp_path / "figures.json"
    options = ["--only", "Relu 1x16", "Slice 1x4", "TopK 1x1000", "--rounds", "1", "--burst", "0", "--below", "1e9"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}

    def survey(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(FOLDER / "operators.py"), *options, *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)

    result = survey("--json", str(figures))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 operators, below 1e+09: 3" in result.stdout
    rows = json.loads(figures.read_text())
    assert len(rows) == 3
    figures.write_text(json.dumps({name: {"ratio": 1e9 if "TopK" in name else 0} for name in rows}))
    result = survey("--baseline", str(figures))
    assert result.returncode == 1, result.stdout + result.stderr
    assert (
        result.stdout.count("slower than the baseline: ") == result.stdout.count("slower than the baseline: TopK") == 1
    )


def test_operators_of_random_sizes_are_compared() -> None:
    pytest.importorskip("onnxruntime")
    options = ["--random", "12", "--seed", "3", "--rounds", "1", "--burst", "0", "--below", "1e9"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, str(FOLDER / "operators.py"), *options]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        for _ in range(2)
    )
    assert first.returncode == 0, first.stdout + first.stderr
    assert "12 operators, below 1e+09: 12" in first.stdout
    names = [sorted(line[:48] for line in run.stdout.splitlines()[1:13]) for run in (first, second)]
    assert names[0] == names[1]


def test_unknown_peers_are_refused() -> None:
    command = [sys.executable, str(FOLDER / "run.py"), "--engines", "onnxruntime,nobody"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert result.returncode == 2
    assert "unknown peers nobody" in result.stderr


ZOO = """
import os, pathlib, tempfile, torch

SPECS = ["dies", "fails", "lives"]
FOLDER = tempfile.mkdtemp()

def torch_module(name, batch):
    if name == "dies":
        os._exit(7)
    if name == "fails":
        raise RuntimeError("no such weights")
    return torch.nn.Linear(5, 3), (torch.randn(batch, 5),)

def make_inputs(name, batch):
    return {"x": None}

def static_model(name, batch):
    path = pathlib.Path(FOLDER) / "model.onnx"
    module, arguments = torch_module(name, batch)
    torch.manual_seed(0)
    torch.onnx.export(module, arguments, str(path), input_names=["x"], dynamo=False)
    return path
"""


def test_the_torch_backend_is_timed() -> None:
    pytest.importorskip("torch", "2.13")
    pytest.importorskip("onnxscript")
    options = ["call", "--threads", "1", "--rounds", "1", "--burst", "0", "--without", "inductor,frozen"]
    command = [sys.executable, str(FOLDER / "torch_backend.py"), *options]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.match(r"call, 1 threads: eager [\d.]+, ours [\d.]+, µs; compile: ours .* s; error: ours ", result.stdout)


def test_one_model_ends_no_other(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    zoo, rows = tmp_path / "zoo.py", tmp_path / "rows.json"
    zoo.write_text(ZOO)
    options = ["--host", "--zoo", str(zoo), "--batch", "2", "--precision", "f32", "--without", "graphed,compiled"]
    command = [sys.executable, str(FOLDER / "cuda.py"), *options, "--rounds", "1", "--json", str(rows)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(rows.read_text())["rows"]
    assert "status 7" in found["dies|2|f32"]["failed"]["worker"]
    assert "status 1" in found["fails|2|f32"]["failed"]["worker"]
    assert "no such weights" in result.stderr
    assert found["lives|2|f32"]["refactor_graph"] > 0
    assert found["lives|2|f32"]["eager"] > 0

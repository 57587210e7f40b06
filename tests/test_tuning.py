"""Measured choices of kernels, and the file that keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from refactor_graph import InvalidInput, find_device
from refactor_graph.onnx import Compiler, make_compiler

from tests.conftest import missing_gpu

SIZES = {"N": 1, "H": 23, "W": 31}


def conv_model() -> Compiler:
    """Two 3x3 convolutions, which several kernels compute, with open sizes."""
    rng = np.random.default_rng(7)
    weights = [rng.standard_normal((40, c, 3, 3)).astype(np.float32) / 20 for c in (33, 40)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["y", "w1"], ["z"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 33, "H", "W"])],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["N", 40, "H", "W"])],
        [onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    return make_compiler(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def compile_fixed(**options: Any) -> Any:
    compiler = conv_model()
    for name, size in SIZES.items():
        compiler.substitute(name, size)
    return compiler.compile(num_threads=1, **options)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("REFACTOR_GRAPH_CACHE", str(folder))
    return folder


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_a_second_compilation_starts_from_the_file(cache: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 33, 23, 31)).astype(np.float32)
    expected = compile_fixed()({"x": x})["z"]
    np.testing.assert_allclose(compile_fixed(tune="quick")({"x": x})["z"], expected, rtol=1e-4, atol=1e-4)
    file = only_file(cache)
    choices = json.loads(file.read_text())
    assert choices
    assert all(":cpu:" in kernel for kernel in choices.values())

    before = file.stat().st_mtime_ns
    compile_fixed(tune="quick")
    assert file.stat().st_mtime_ns == before, "nothing was measured, nothing was written"


@pytest.mark.cuda
def test_a_gpu_is_measured_and_remembered(cache: Path) -> None:
    if missing_gpu():
        pytest.skip(missing_gpu())
    x = np.random.default_rng(1).standard_normal((1, 33, 23, 31)).astype(np.float32)
    expected = compile_fixed()({"x": x})["z"]
    compile_fixed(tune="quick", target="cuda")
    (file,) = cache.glob("*.json")
    choices = json.loads(file.read_text())
    assert choices
    assert all(":nvidia:" in kernel and find_device("nvidia", 0).name in case for case, kernel in choices.items())

    direct = dict.fromkeys(choices, "conv:nvidia:direct:f32")
    file.write_text(json.dumps(direct))
    executor = compile_fixed(tune="cached", target="cuda")
    np.testing.assert_allclose(executor({"x": x})["z"], expected, rtol=1e-4, atol=1e-4)
    assert [row.kernel for row in executor.bench(repeats=1, quiet=True)] == ["conv:nvidia:direct:f32"] * 2


def test_choices_of_the_file_decide(cache: Path) -> None:
    compile_fixed(tune="quick")
    file = only_file(cache)
    choices = json.loads(file.read_text())
    conv = {key: kernel for key, kernel in choices.items() if key.startswith("Conv{")}
    assert conv
    for wanted in ("direct", "winograd_f4"):
        changed = {key: ":".join(["conv", "cpu", wanted, *kernel.split(":")[3:]]) for key, kernel in conv.items()}
        file.write_text(json.dumps(choices | changed))
        executor = compile_fixed(tune="cached")
        executor({"x": np.zeros((1, 33, 23, 31), np.float32)})
        plan = executor.describe_plan()
        assert all(kernel in plan for kernel in changed.values()), plan


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1}'])
def test_a_broken_file_counts_as_empty(cache: Path, content: str) -> None:
    compile_fixed(tune="quick")
    file = only_file(cache)
    file.write_text(content)
    compile_fixed(tune="quick")
    assert json.loads(file.read_text())


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFACTOR_GRAPH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="not kept"):
        compile_fixed(tune="quick")


def test_no_folder_means_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTOR_GRAPH_CACHE", "")
    compile_fixed(tune="quick")


def test_only_measures_what_has_sizes(cache: Path) -> None:
    with pytest.raises(InvalidInput, match="substitute N, H, W first"):
        conv_model().compile(tune="quick")
    conv_model().compile(tune="cached")
    with pytest.raises(InvalidInput, match="none, quick, cached"):
        conv_model().compile(tune="exhaustive")
    assert not cache.exists()

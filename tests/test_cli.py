"""The command: outputs of every kind, comparisons, and arguments that are refused in one line."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refactor_graph.cli import main

from tests import models

F32 = TensorProto.FLOAT


@pytest.fixture
def sequence(tmp_path):
    """x[N, 4] → rows as a sequence, and Relu."""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0),
        helper.make_node("Relu", ["x"], ["y"], "relu"),
    ]
    outputs = [helper.make_tensor_sequence_value_info("rows", F32, None), models.value("y", None)]
    path = tmp_path / "sequence.onnx"
    onnx.save(models.model(nodes, [models.value("x", ["N", 4])], outputs), path)
    return str(path)


@pytest.fixture
def narrow(tmp_path):
    """x[2, 4] → f8."""
    node = helper.make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.FLOAT8E4M3FN)
    outputs = [models.value("y", [2, 4], TensorProto.FLOAT8E4M3FN)]
    path = tmp_path / "narrow.onnx"
    onnx.save(models.model([node], [models.value("x", [2, 4])], outputs, opset=19), path)
    return str(path)


def test_run_shows_and_saves_what_a_sequence_holds(sequence, tmp_path, capsys):
    assert main(["run", sequence, "--dim", "N=3", "--save", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    for line in ("rows: list of 3", "rows[0]: float32[1, 4]", "rows[2]: float32[1, 4]", "y: float32[3, 4]"):
        assert line in text
    assert np.load(tmp_path / "out" / "rows_2_.npy").shape == (1, 4)
    assert np.load(tmp_path / "out" / "y.npy").shape == (3, 4)


def test_run_of_nothing(sequence, capsys):
    assert main(["run", sequence, "--dim", "N=0"]) == 0
    assert "rows: list of 0" in capsys.readouterr().out


def test_compare_looks_into_sequences(sequence, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["compare", sequence, "--dim", "N=2"]) == 0
    assert capsys.readouterr().out.count(": equal") == 3


def test_compare_knows_types_that_onnxruntime_returns_as_bytes(narrow, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["compare", narrow]) == 0
    assert "y: equal" in capsys.readouterr().out


def test_compare_says_that_the_other_one_cannot(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(ml_dtypes.bfloat16))
    node = helper.make_node("Relu", ["x"], ["y"])
    ports = [models.value("x", [2], kind)], [models.value("y", [2], kind)]
    onnx.save(models.model([node], *ports), tmp_path / "model.onnx")
    assert main(["compare", str(tmp_path / "model.onnx")]) == 2
    assert "onnxruntime cannot run the model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--dim", "M=3"], "no symbol 'M', it has: N"),
        (["run", "--dim", "N"], "expected NAME=NUMBER"),
        (["run", "--dim", "N=999999999999"], "allocate"),
        (["trace", "/proc/none"], "/proc/none"),
        (["run", "--save", "/proc/none"], "/proc/none"),
    ],
)
def test_refusals_are_one_line(sequence, arguments, message, capsys):
    command, *rest = arguments
    assert main([command, sequence, *rest]) == 2
    error = capsys.readouterr().err
    assert error.startswith("refactor-graph: ")
    assert message in error


@pytest.mark.parametrize("command", ["run", "bench", "compare", "trace"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "z=FILE"], "--input: the model has no input 'z', it has: x"),
        (["--input", "x=FILE", "--input", "x=FILE"], "--input: 'x' is given twice"),
        (["--input", "x=FILE", "--dim", "N=5"], "--dim: N=5, but axis 0 of FILE has the size 2"),
        (["--input", "x=ARCHIVE"], "--input: expected ARCHIVE to hold one array (.npy), got NpzFile"),
    ],
)
def test_inputs_that_the_model_does_not_take(sequence, command, arguments, message, tmp_path, capsys):
    if command == "compare":
        pytest.importorskip("onnxruntime")
    paths = {"FILE": str(tmp_path / "x.npy"), "ARCHIVE": str(tmp_path / "x.npz")}
    np.save(paths["FILE"], np.ones((2, 4), np.float32))
    np.savez(paths["ARCHIVE"], x=np.ones((2, 4), np.float32))
    for name, path in paths.items():
        arguments = [word.replace(name, path) for word in arguments]
        message = message.replace(name, path)
    more = [str(tmp_path / "trace")] if command == "trace" else []
    assert main([command, sequence, *more, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"refactor-graph: {message}\n"
    assert not captured.out


def test_inputs_from_files(sequence, tmp_path, capsys):
    np.save(tmp_path / "x=1.npy", np.full((2, 4), 7, np.float32))
    assert main(["run", sequence, "--dim", "N=2", "--input", f"x={tmp_path}/x=1.npy"]) == 0
    assert "y: float32[2, 4], 7.0 to 7.0" in capsys.readouterr().out


def test_names_of_inputs_may_hold_the_sign(tmp_path, capsys):
    ports = [models.value("a=b", [2])], [models.value("y", [2])]
    onnx.save(models.model([helper.make_node("Relu", ["a=b"], ["y"])], *ports), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.full(2, 3, np.float32))
    assert main(["run", str(tmp_path / "model.onnx"), "--input", f"a=b={tmp_path}/x.npy"]) == 0
    assert "3.0 to 3.0" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--runs", "-1"], ["--top", "x"]])
def test_counts_begin_at_one(sequence, arguments, capsys):
    with pytest.raises(SystemExit):
        main(["bench", sequence, *arguments])
    assert "expected a number from 1 on" in capsys.readouterr().err


def test_the_package_is_the_command():
    """`python -m refactor_graph` is `refactor-graph`."""
    command = [sys.executable, "-m", "refactor_graph", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: refactor-graph ")

"""The command: outputs of every kind, comparisons, and arguments that are refused in one line."""

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


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--runs", "-1"], ["--top", "x"]])
def test_counts_begin_at_one(sequence, arguments, capsys):
    with pytest.raises(SystemExit):
        main(["bench", sequence, *arguments])
    assert "expected a number from 1 on" in capsys.readouterr().err

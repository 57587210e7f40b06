"""Which pass changes results: of passes that round, on purpose."""

import numpy as np
import pytest
from onnx import helper
from refactor_graph import InvalidInput, _core
from refactor_graph.bisect import MOST_TENSORS, find_pass
from refactor_graph.cli import main
from refactor_graph.onnx import make_compiler

from tests import models

needs_bf16 = pytest.mark.skipif(
    _core.instruction_set() not in ("avx512bf16", "avx512amx"), reason="no products of bf16"
)


@pytest.fixture
def proto():
    """Two products with an activation between."""
    random = models.generator(5)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Tanh", ["a"], ["b"], name="bounded"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="second"),
    ]
    shapes = {"w0": (24, 700), "w1": (700, 24)}
    weights = [models.constant(name, random.standard_normal(dims, np.float32)) for name, dims in shapes.items()]
    return models.model(nodes, [models.value("x", ["N", 24])], [models.value("y", None)], weights)


@pytest.fixture
def inputs():
    return {"x": models.generator(6).standard_normal((5, 24), np.float32)}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        pytest.param({"precision": "bf16"}, "round_operands", marks=needs_bf16),
        ({"weights": "int8"}, "store_weights"),
    ],
)
def test_a_pass_that_rounds_is_found(proto, inputs, options, name):
    finding = find_pass(proto, inputs, 1e-5, **options)
    assert finding.name == name
    assert finding.error_without_any <= 1e-5
    assert finding.error_before <= 1e-5 < finding.error_after
    assert finding.error > 1e-5
    # It is the only one that does: without it all is well.
    assert finding.error_without <= 1e-5
    first = finding.tensors[0]
    assert (first.tensor, first.node) == ("b", "first")
    assert first.error > 1e-5
    assert first.kernel.startswith("matmul:cpu:")
    assert len(finding.tensors) <= MOST_TENSORS
    report = str(finding)
    assert report.startswith(f"pass {name}: the error is ")
    assert f"passes=['-{name}']" in report
    assert "tensor 'b': error" in report


def test_what_the_pass_says_is_part_of_it(proto, inputs):
    finding = find_pass(proto, inputs, 1e-5, weights="int8")
    assert finding.notes
    assert all(f"note: {note}" in str(finding) for note in finding.notes)


def test_results_that_agree_have_no_such_pass(proto, inputs):
    finding = find_pass(make_compiler(proto), inputs, 1e-5)
    assert finding.name is None
    assert finding.error <= 1e-5
    assert not finding.tensors
    assert str(finding).startswith("no pass: with all of them the error is")


def test_results_that_differ_without_passes_are_no_pass(proto, inputs):
    outputs = make_compiler(proto).compile("cpu")(inputs)
    finding = find_pass(proto, inputs, 1e-3, wanted={"y": outputs["y"] + 1})
    assert finding.name is None
    assert finding.error_without_any > 1e-3
    assert "without any the error is" in str(finding)


def test_wanted_outputs_are_what_counts(proto, inputs):
    rounded = make_compiler(proto).compile("cpu", weights="int8")(inputs)
    finding = find_pass(proto, inputs, 1e-5, wanted=rounded, weights="int8")
    # Without passes nothing is rounded, which differs from what is wanted here.
    assert finding.name is None
    assert finding.error == 0
    assert finding.error_without_any > 1e-5


def test_an_error_of_ones_own_decides(proto, inputs):
    calls = []

    def error(outputs, reference):
        calls.append(float(np.abs(outputs["y"] - reference["y"]).max()))
        return 0.0

    assert find_pass(proto, inputs, 0, error=error, weights="int8").name is None
    assert max(calls) > 1e-5


def test_arguments_are_checked(proto, inputs):
    with pytest.raises(InvalidInput, match="expected a tolerance of at least 0, got -1"):
        find_pass(proto, inputs, -1)
    with pytest.raises(InvalidInput, match="passes are what it chooses"):
        find_pass(proto, inputs, 1e-3, passes=["-all"])
    with pytest.raises(InvalidInput, match="'z'"):
        find_pass(proto, {"z": inputs["x"]}, 1e-3)


def test_the_command_says_it_and_its_status_tells(proto, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["bisect", str(path), "--dim", "N=5", "--tolerance", "1e-5", "--weights", "int8"]) == 1
    assert capsys.readouterr().out.startswith("pass store_weights: ")
    for reference in ("unoptimised", "onnxruntime"):
        assert main(["bisect", str(path), "--dim", "N=5", "--tolerance", "1e-5", "--reference", reference]) == 0
        assert capsys.readouterr().out.startswith("no pass: with all of them")

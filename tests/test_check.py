"""`check`: every problem of a model at once, as data; `supported_ops`; both on the command line."""

import json

import onnx
import pytest
import refactor_graph
from onnx import TensorProto, helper
from refactor_graph import DeviceError, InvalidInput, Operand, Problem, check, cli, supported_ops

from tests import models


def _by_node(model, **options):
    return {problem.node: problem for problem in check(model, **options)}


def test_a_model_without_problems():
    for model in (models.mlp(), models.convolutions(), models.transformer()):
        assert check(model) == []
        assert check(model.SerializeToString()) == []


def test_a_problem_is_data():
    model = models.mlp()
    model.graph.node[0].op_type = "Frobnicate"
    (problem,) = check(model)
    assert problem == Problem(
        kind="unsupported",
        reason="operator Frobnicate is not supported in opset 17",
        node="gemm",
        domain="ai.onnx",
        operator="Frobnicate",
        opset=17,
        inputs=(Operand("x", "f32", ("N", 8)), Operand("w", "f32", (5, 8)), Operand("b", "f32", (5,))),
    )
    assert str(problem) == (
        'unsupported: node "gemm" (Frobnicate, opset 17; inputs f32[N, 8], f32[5, 8], f32[5]): '
        "operator Frobnicate is not supported in opset 17"
    )


def _many_problems():
    """One problem for each stage: reading, structure, attributes, types, shapes, lowering."""
    image, column = models.value("x", [1, 3, 8, 8]), models.value("n", [5], TensorProto.INT32)
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], "unknown"),
        helper.make_node("Relu", ["x"], ["b"], "attribute", slope=1.0),
        helper.make_node("Exp", ["n"], ["c"], "type"),
        helper.make_node("MatMul", ["x", "w"], ["d"], "shape"),
        helper.make_node("Add", ["x", "missing"], ["e"], "structure"),
        helper.make_node("Reshape", ["x", "s"], ["f"], "lowering"),
        helper.make_node("Softmax", ["x"], ["g"], axis=9),
        helper.make_node("Neg", ["x"], ["h"], "sound"),
    ]
    node = helper.make_node("Neg", ["x"], ["i"], "tag")
    node.attribute.add(name="t", type=onnx.AttributeProto.FLOAT, s=b"text")
    outputs = [models.value(name, None) for name in "abcdefghi"]
    inputs = [image, column, models.value("s", [4], TensorProto.INT64), models.value("w", [7, 2])]
    return models.model([*nodes, node], inputs, outputs)


def test_problems_of_all_stages_are_found_at_once():
    found = _by_node(_many_problems())
    reasons = {
        "unknown": "not supported in opset 17",
        "attribute": "slope",
        "type": "i32",
        "shape": "7",
        "structure": "missing",
        "Softmax_6": "9",
        "tag": "'t'",
    }
    for node, word in reasons.items():
        assert word in found[node].reason, node
    assert found.keys() - reasons.keys() <= {"lowering"}  # a shape that depends on data may be supported
    assert {problem.kind for problem in found.values()} == {"invalid", "unsupported"}
    assert found["type"].inputs == (Operand("n", "i32", (5,)),)
    assert found["Softmax_6"].operator == "Softmax"


def test_nodes_behind_a_problem_are_checked_with_the_types_that_onnx_infers():
    nodes = [
        helper.make_node("Gelu", ["x"], ["a"], "first"),
        helper.make_node("Exp", ["a"], ["b"], "second"),
        helper.make_node("Mish", ["b"], ["y"], "third"),
    ]
    # ONNX itself refuses these types, but infers them all the same.
    ports = [models.value("x", [4], TensorProto.INT32)], [models.value("y", [4], TensorProto.INT32)]
    model = models.model(nodes, *ports, opset=20)
    assert list(_by_node(model)) == ["first", "second", "third"]


def test_nodes_of_sub_graphs_are_found():
    then = helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["t"], "inner")], "then", [], [models.value("t", [2])]
    )
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [models.value("e", [2])])
    nodes = [helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)]
    inputs = [models.value("c", [], TensorProto.BOOL), models.value("x", [2])]
    model = models.model(nodes, inputs, [models.value("y", [2])])
    found = _by_node(model)
    assert found["inner"].operator == "Frobnicate"


def test_problems_inside_of_a_function_name_the_call():
    body = helper.make_function(
        "local", "twice", ["x"], ["y"], [helper.make_node("Frobnicate", ["x"], ["y"])], [helper.make_opsetid("", 17)]
    )
    model = models.model(
        [helper.make_node("twice", ["x"], ["y"], "call", domain="local")],
        [models.value("x", [2])],
        [models.value("y", [2])],
        functions=[body],
        domains=["local"],
    )
    (problem,) = check(model)
    assert (problem.node, problem.domain, problem.operator, problem.opset) == ("call", "local", "twice", 1)
    assert "Frobnicate" in problem.reason


def test_the_model_is_not_changed():
    model = _many_problems()
    before = model.SerializeToString(deterministic=True)
    check(model)
    assert model.SerializeToString(deterministic=True) == before


def test_names_may_be_anything():
    for name in ('a"b', "a'b", "x (y): z", "check-node-7-", "ü\n"):
        model = models.mlp()
        for node in model.graph.node:
            node.name = name
        model.graph.node[1].op_type = "Frobnicate"
        (problem,) = check(model)
        assert (problem.node, problem.operator) == (name, "Frobnicate")


def test_more_problems_than_a_message_lists():
    nodes = [helper.make_node("Frobnicate", ["x"], [f"y{i}"], f"n{i}") for i in range(250)]
    model = models.model(nodes, [models.value("x", [2])], [models.value(f"y{i}", [2]) for i in range(250)])
    assert [problem.node for problem in check(model)] == [f"n{i}" for i in range(250)]


def test_problems_of_the_model_as_a_whole():
    model = models.mlp()
    model.opset_import[0].version = 999
    problems = check(model)
    assert [problem.node for problem in problems] == [None]
    assert "999" in problems[0].reason
    assert problems[0].kind == "unsupported"
    assert check(b"garbage")[0].kind == "invalid"
    with pytest.raises(InvalidInput, match="cannot be opened"):
        check("/nonexistent/model.onnx")


def test_targets():
    with pytest.raises(InvalidInput, match="unknown target 'tpu'"):
        check(models.mlp(), target="tpu")
    try:
        refactor_graph.find_device("nvidia", 0)
    except DeviceError:
        with pytest.raises(DeviceError):
            check(models.mlp(), target="cuda")


def test_the_command_prints_text_and_data(tmp_path, capsys):
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    onnx.save(models.mlp(), good)
    onnx.save(_many_problems(), bad)
    assert cli.main(["check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: ok\n"
    assert cli.main(["check", str(good), str(bad)]) == 1
    text = capsys.readouterr().out
    assert "operators that are refused: ai.onnx.Frobnicate" in text
    assert 'unsupported: node "unknown" (Frobnicate, opset 17; inputs f32[1, 3, 8, 8])' in text
    assert cli.main(["check", "--json", str(bad)]) == 1
    (problems,) = json.loads(capsys.readouterr().out).values()
    assert {"kind", "reason", "node", "domain", "operator", "opset", "inputs", "target"} == set(problems[0])


# ---------------------------------------------------------------------- supported_ops
def test_supported_operators():
    found = {(item.domain, item.name): item for item in supported_ops()}
    assert list(found) == sorted(found)
    relu = found["ai.onnx", "Relu"]
    assert relu.supports(17)
    assert relu.native == relu.versions
    assert ("ai.onnx", "Frobnicate") not in found
    newest = max(last for _, last in relu.versions)
    assert newest == onnx.defs.onnx_opset_version()
    gelu = found["ai.onnx", "Gelu"]
    assert not gelu.supports(19)
    assert gelu.supports(20)
    assert found["ai.onnx", "SequenceMap"].supports(17)


def test_every_native_operator_of_the_list_is_known_to_the_importer():
    for item in supported_ops():
        if item.domain != "ai.onnx" or not onnx.defs.has(item.name):
            continue  # of another domain, or experimental in early releases and gone since
        for first, last in item.native:
            for version in (first, last):
                schema = onnx.defs.get_schema(item.name, version, "")
                inputs = [f"x{index}" for index in range(max(schema.min_input, 1))]
                node = helper.make_node(item.name, inputs, ["y"], "node")
                ports = [models.value(name, [2, 3]) for name in inputs]
                problems = check(models.model([node], ports, [models.value("y", None)], opset=version))
                assert not [p for p in problems if "is not supported in opset" in p.reason and p.node == "node"], item


def test_operators_on_the_command_line(capsys):
    assert cli.main(["ops", "Relu"]) == 0
    assert capsys.readouterr().out.startswith("ai.onnx Relu: ")
    assert cli.main(["ops", "Frobnicate"]) == 1

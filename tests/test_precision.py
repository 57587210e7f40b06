"""Models of f32 computed in f16 and bf16, on the CPU and on a GPU."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import DeviceError, InvalidInput
from refactor_graph.onnx import find_device, make_compiler
from refactor_graph.precision import find_keep, relative_error

from tests import models

EPSILON = {"f16": 2.0**-11, "bf16": 2.0**-8}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def target(request):
    if request.param == "cuda":
        try:
            find_device("nvidia", 0)
        except DeviceError as error:
            pytest.skip(str(error))
    return request.param


def layers(large=1.0):
    """Two products with activations and a residual; the first gives values of about 16 · `large`."""
    random = models.generator(3)
    weights = {"w0": random.standard_normal((24, 40)) * large * 3, "w1": random.standard_normal((40, 24)) / 6}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Div", ["a", "scale"], ["b"], name="scaled"),
        helper.make_node("Tanh", ["b"], ["c"], name="bounded"),
        helper.make_node("MatMul", ["c", "w1"], ["d"], name="second"),
        helper.make_node("Add", ["d", "x"], ["y"], name="sum"),
    ]
    constants = [models.constant(name, array.astype(np.float32)) for name, array in weights.items()]
    constants.append(models.constant("scale", np.float32(16 * large)))
    return models.model(nodes, [models.value("x", ["N", 24])], [models.value("y", None)], constants)


def sample(rows=5):
    return {"x": models.generator(rows).standard_normal((rows, 24), np.float32)}


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize("passes", [[], ["-fuse_epilogues", "-fuse_elementwise"]], ids=["fused", "single"])
def test_sums_stay_f32(target, precision, passes):
    proto = layers()
    executor = make_compiler(proto).compile(target, passes=passes, precision=precision)
    for rows in (5, 1, 7):
        arrays = sample(rows)
        outputs = executor(arrays)
        assert outputs["y"].dtype == np.float32
        (wanted,) = models.expected(proto, arrays)
        # Operands of two products and what is between are rounded, each a few times; errors of 24 and 40 terms average
        # out.
        assert 0 < relative_error(outputs, {"y": wanted}) < 16 * EPSILON[precision]
    kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
    assert sum(precision in kernel.split(":") for kernel in kernels if kernel.startswith("matmul")) == 2


def test_nodes_can_be_kept(target):
    proto = layers()
    executor = make_compiler(proto).compile(target, precision="f16", keep_f32=["first", "second"])
    executor(sample())
    kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
    assert all("f32" in kernel.split(":") for kernel in kernels if kernel.startswith("matmul"))


def test_kept_nodes_that_passes_remove(target):
    """What a model has may be named whatever becomes of it: folded, fused, in a sub-graph, replaced by a function."""
    proto = layers()
    twice = helper.make_node("Add", ["scale", "scale"], ["twice"], name="folded")
    divide = helper.make_node("Div", ["a", "twice"], ["unused"], name="dead")
    branches = [
        helper.make_graph([helper.make_node(op, ["y"], [op], name=f"in {op}")], "branch", [], [models.value(op, None)])
        for op in ("Neg", "Abs")
    ]
    choose = helper.make_node("If", ["choice"], ["z"], "if", then_branch=branches[0], else_branch=branches[1])
    nameless = helper.make_node("MatMul", ["c", "w1"], ["second output"])
    proto.graph.node.extend([twice, divide, choose, nameless])
    proto.graph.input.append(models.value("choice", [], TensorProto.BOOL))
    proto.graph.output.extend([models.value("z", None), models.value("second output", None)])
    names = ["folded", "dead", "scaled", "in Neg", "if", "MatMul_8"]
    executor = make_compiler(proto).compile(target, precision="f16", keep_f32=names)
    executor({**sample(), "choice": np.array(True)})
    if target == "cpu":  # for a device these are several programs, each of which is asked for its own nodes
        assert 'keep_f32: no node of this program is named "folded"' in executor.dbg(quiet=True)
    with pytest.raises(InvalidInput, match='keep_f32: the model has no node named "MatMul_9"'):
        make_compiler(proto).compile(target, precision="f16", keep_f32=[*names, "MatMul_9"])


def test_nodes_of_a_function_can_be_kept(target):
    body = [helper.make_node("MatMul", ["x", "w"], ["a"], "inner"), helper.make_node("Tanh", ["a"], ["y"], "tanh")]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("custom", "Layer", ["x", "w"], ["y"], body, opsets)
    proto = models.model(
        [helper.make_node("Layer", ["x", "w"], ["y"], "layer", domain="custom")],
        [models.value("x", ["N", 24])],
        [models.value("y", None)],
        [models.constant("w", models.generator(4).standard_normal((24, 8), np.float32))],
    )
    proto.functions.append(function)
    proto.opset_import.add(domain="custom", version=1)
    for names in (["layer"], ["layer#1/inner"]):
        executor = make_compiler(proto).compile(target, precision="f16", keep_f32=names)
        executor(sample())
        kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
        assert all("f32" in kernel.split(":") for kernel in kernels if kernel.startswith("matmul"))
    with pytest.raises(InvalidInput, match="no node named"):
        make_compiler(proto).compile(target, precision="f16", keep_f32=["layer#1"])


def test_nodes_are_found_where_passes_add_some(target):
    """Names of steps that no node of the model has (a copy for an output that is an input) are left out."""
    proto = layers(1e4)
    proto.graph.output.append(models.value("x", ["N", 24]))
    steps = [row.node for row in _benched(make_compiler(proto).compile(target))]
    assert any(step.startswith("copy of") for step in steps)
    keep = find_keep(proto, [sample()], 0.02, target=target)
    make_compiler(proto).compile(target, precision="f16", keep_f32=keep)


def _benched(executor):
    executor(sample())
    return executor.bench(repeats=1, quiet=True)


def test_the_smallest_list_is_found(target):
    """The sums of the first product are too large for f16."""
    proto, arrays = layers(1e4), sample()
    with np.errstate(over="ignore"):
        failing = make_compiler(proto).compile(target, passes=["-fuse_epilogues"], precision="f16")(arrays)
    (wanted,) = models.expected(proto, arrays)
    keep = find_keep(proto, [arrays, sample(3)], 0.02, target=target)
    assert keep == (["first"] if relative_error(failing, {"y": wanted}) > 0.02 else [])
    outputs = make_compiler(proto).compile(target, precision="f16", keep_f32=keep)(arrays)
    assert relative_error(outputs, {"y": wanted}) <= 0.02
    assert find_keep(proto, arrays, 0.02, target=target, precision="bf16") == []
    with pytest.raises(InvalidInput, match="with all nodes in f32"):
        find_keep(proto, arrays, 1e-3, target=target, error=lambda *_: 1.0)


def test_what_makes_no_sense_is_refused():
    compiler = make_compiler(layers())
    with pytest.raises(InvalidInput, match="expected one of: default, exact, f32, tf32, f16, bf16"):
        compiler.compile("cpu", precision="f12")
    with pytest.raises(InvalidInput, match="keep_f32: expected a list"):
        compiler.compile("cpu", keep_f32="first")
    with pytest.raises(InvalidInput, match="precision f16, bf16, fp8 or int8"):
        find_keep(compiler, sample(), 1, precision="f32")
    for precision in ("f32", "tf32"):
        (wanted,) = models.expected(layers(), sample())
        models.assert_close(compiler.compile("cpu", precision=precision)(sample())["y"], wanted)


def test_the_error_counts_what_is_not_finite():
    x = np.array([1.0, np.inf, np.nan], np.float32)
    assert relative_error({"x": x}, {"x": x}) == 0
    assert relative_error({"x": np.array([1.5, np.inf, np.nan], np.float32)}, {"x": x}) == 0.5
    assert relative_error({"x": np.array([np.nan, np.inf, np.nan], np.float32)}, {"x": x}) == np.inf
    assert relative_error({"x": np.arange(2)}, {"x": np.arange(3)}) == np.inf

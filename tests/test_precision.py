"""Models of f32 computed in f16 and bf16, on the CPU and on a GPU."""

import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph import DeviceError, InvalidInput, _core
from refactor_graph.onnx import find_device, make_compiler
from refactor_graph.precision import find_keep, relative_error

from tests import models

EPSILON = {"f16": 2.0**-11, "bf16": 2.0**-8}
HAS_BF16 = _core.instruction_set() in ("avx512bf16", "avx512amx")
needs_bf16 = pytest.mark.skipif(not HAS_BF16, reason="no products of bf16 without AVX512-BF16")
cuda = pytest.param("cuda", marks=pytest.mark.cuda)


def rounding(target):
    """Return the precision of the tests on a target: f16 is none of a CPU."""
    return "bf16" if target == "cpu" else "f16"


@pytest.fixture(params=["cpu", cuda])
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
    if target == "cpu" and not (HAS_BF16 and precision == "bf16"):
        pytest.skip(f"this CPU multiplies {precision} no faster than f32")
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
    executor = make_compiler(proto).compile(target, precision=rounding(target), keep_f32=["first", "second"])
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
    executor = make_compiler(proto).compile(target, precision=rounding(target), keep_f32=names)
    executor({**sample(), "choice": np.array(True)})
    # For a device these are several programs, each of which is asked for its own nodes.
    if target == "cpu" and HAS_BF16:
        assert 'keep_f32: no node of this program is named "folded"' in executor.dbg(quiet=True)
    with pytest.raises(InvalidInput, match='keep_f32: the model has no node named "MatMul_9"'):
        make_compiler(proto).compile(target, precision=rounding(target), keep_f32=[*names, "MatMul_9"])


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
        executor = make_compiler(proto).compile(target, precision=rounding(target), keep_f32=names)
        executor(sample())
        kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
        assert all("f32" in kernel.split(":") for kernel in kernels if kernel.startswith("matmul"))
    with pytest.raises(InvalidInput, match="no node named"):
        make_compiler(proto).compile(target, precision=rounding(target), keep_f32=["layer#1"])


def test_nodes_are_found_where_passes_add_some(target):
    """Names of steps that no node of the model has (a copy for an output that is an input) are left out."""
    proto = layers(1e4)
    proto.graph.output.append(models.value("x", ["N", 24]))
    steps = [row.node for row in _benched(make_compiler(proto).compile(target))]
    assert any(step.startswith("copy of") for step in steps)
    keep = find_keep(proto, [sample()], 1e-6, target=target, precision=rounding(target))
    make_compiler(proto).compile(target, precision=rounding(target), keep_f32=keep)


def _benched(executor):
    executor(sample())
    return executor.bench(repeats=1, quiet=True)


@needs_bf16
def test_the_smallest_list_is_found_on_a_cpu():
    """Errors of the first product count fifty times."""
    proto, arrays = layers(), sample()
    node = next(node for node in proto.graph.node if node.name == "bounded")
    node.op_type = "Identity"
    for constant in proto.graph.initializer:
        if constant.name == "scale":
            constant.CopyFrom(models.constant("scale", np.float32(0.02)))
    (wanted,) = models.expected(proto, arrays)
    compiler = make_compiler(proto)
    outputs = compiler.compile("cpu", precision="bf16", keep_f32=["second"])(arrays)
    tolerance = relative_error(outputs, {"y": wanted}) / 2
    keep = find_keep(compiler, [arrays, sample(3)], tolerance, precision="bf16")
    assert "first" in keep
    outputs = compiler.compile("cpu", precision="bf16", keep_f32=keep)(arrays)
    assert relative_error(outputs, {"y": wanted}) <= tolerance


@pytest.mark.parametrize("target", [cuda], indirect=True)
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


@pytest.mark.parametrize("passes", [[], ["-fuse_attention"]])
@needs_bf16
def test_products_convolutions_and_attention_round(passes):
    random = models.generator(7)
    channels, heads, size = 32, 2, 12
    weights = {
        "w": random.standard_normal((96, 12, 3, 3), np.float32) / 10,
        "one tap": random.standard_normal((channels, 96, 1, 1), np.float32) / 10,
        "q": random.standard_normal((channels, 3 * channels), np.float32) / 6,
        "tokens": np.array([0, channels, -1], np.int64),
        "split": np.array([0, -1, 3, heads, channels // heads], np.int64),
        "scale": np.float32((channels // heads) ** -0.5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["wide"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["wide", "one tap"], ["c"], "narrow"),
        helper.make_node("Relu", ["c"], ["positive"]),
        helper.make_node("Reshape", ["positive", "tokens"], ["t"]),
        helper.make_node("Transpose", ["t"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["rows", "q"], ["qkv"], "project"),
        helper.make_node("Reshape", ["qkv", "split"], ["split qkv"]),
        helper.make_node("Transpose", ["split qkv"], ["turned"], perm=[2, 0, 3, 1, 4]),
        helper.make_node("Split", ["turned"], ["q5", "k5", "v5"], axis=0, num_outputs=3),
        *(helper.make_node("Squeeze", [f"{name}5", "axis"], [f"{name}4"]) for name in "qkv"),
        helper.make_node("Transpose", ["k4"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q4", "kt"], ["s"], "scores"),
        helper.make_node("Mul", ["s", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v4"], ["y"], "weighted"),
    ]
    weights["axis"] = np.array([0], np.int64)
    constants = [models.constant(name, array) for name, array in weights.items()]
    inputs = [models.value("x", [2, 12, size, size])]
    proto = models.model(nodes, inputs, [models.value("y", None)], constants, opset=18)
    arrays = {"x": random.standard_normal((2, 12, size, size), np.float32)}
    (wanted,) = models.expected(proto, arrays)
    executor = make_compiler(proto).compile("cpu", precision="bf16", passes=passes)
    assert 0 < relative_error(executor(arrays), {"y": wanted}) < 4 * EPSILON["bf16"]
    report = executor.dbg(quiet=True)
    attentions = "0 attentions" if passes else "1 attention"
    assert f"2 convolutions, {attentions} and 0 recurrent layers may round their operands to bf16" in report
    kernels = {row.kernel.rpartition(":")[0] for row in executor.bench(repeats=1, quiet=True)}
    assert {"conv:cpu:direct:bf16", "matmul:cpu:rounded:bf16"} <= kernels
    assert ("attention:cpu:tiled:bf16" in kernels) == (not passes)


@pytest.mark.parametrize(("cell", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("batch", [1, 5])
@needs_bf16
def test_recurrent_layers_round(cell, gates, batch):
    random = models.generator(8)
    size, hidden, steps = 20, 70, 30
    weights = {
        "w": random.standard_normal((2, gates * hidden, size), np.float32) / size**0.5,
        "r": random.standard_normal((2, gates * hidden, hidden), np.float32) / hidden**0.5,
        "b": random.standard_normal((2, 2 * gates * hidden), np.float32) / 4,
    }
    attributes = {"hidden_size": hidden, "direction": "bidirectional"}
    node = helper.make_node(cell, ["x", "w", "r", "b"], ["y", "h"], "layer", **attributes)
    constants = [models.constant(name, array) for name, array in weights.items()]
    outputs = [models.value("y", None), models.value("h", None)]
    proto = models.model([node], [models.value("x", ["S", batch, size])], outputs, constants, opset=17)
    arrays = {"x": random.standard_normal((steps, batch, size), np.float32)}
    exact = make_compiler(proto).compile("cpu")(arrays)
    executor = make_compiler(proto).compile("cpu", precision="bf16")
    assert 0 < relative_error(executor(arrays), exact) < 4 * EPSILON["bf16"]
    assert "0 attentions and 1 recurrent layer may round their operands to bf16" in executor.dbg(quiet=True)
    kernels = [row.kernel for row in executor.bench(repeats=1, quiet=True)]
    assert any(kernel.startswith("recurrent:cpu:packed:bf16:avx512") for kernel in kernels)
    kept = make_compiler(proto).compile("cpu", precision="bf16", keep_f32=["layer"])
    np.testing.assert_array_equal(kept(arrays)["y"], exact["y"])


def test_a_window_of_everything_is_kept():
    """It becomes a product with a Reshape behind it, and is that still what `keep_f32` names."""
    random = models.generator(12)
    constants = [models.constant("w", random.standard_normal((48, 32, 4, 4), np.float32) / 20)]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "head"), helper.make_node("Tanh", ["c"], ["y"])]
    values = [models.value("x", [3, 32, 4, 4])], [models.value("y", None)]
    proto = models.model(nodes, *values, constants)
    arrays = {"x": random.standard_normal((3, 32, 4, 4), np.float32)}
    exact = make_compiler(proto).compile("cpu")(arrays)
    rounded = make_compiler(proto).compile("cpu", precision="bf16")
    assert relative_error(rounded(arrays), exact) < 4 * EPSILON["bf16"]
    assert "MatMul" in [row.type for row in rounded.bench(repeats=1, quiet=True)]
    kept = make_compiler(proto).compile("cpu", precision="bf16", keep_f32=["head"])
    np.testing.assert_array_equal(kept(arrays)["y"], exact["y"])
    assert "keep_f32" not in kept.dbg(quiet=True)


def test_a_cpu_says_what_it_does_not_round():
    proto, arrays = layers(), sample()
    plain = make_compiler(proto).compile("cpu")(arrays)["y"]
    executor = make_compiler(proto).compile("cpu", precision="f16")
    np.testing.assert_array_equal(executor(arrays)["y"], plain)
    assert "nothing is rounded: a CPU multiplies f16 no faster than f32" in executor.dbg(quiet=True)
    environment = {**os.environ, "REFACTOR_GRAPH_ISA": "scalar"}
    code = "; ".join(
        [
            "import sys; from refactor_graph.onnx import make_compiler",
            "executor = make_compiler(sys.stdin.buffer.read()).compile('cpu', precision='bf16')",
            "print(executor.dbg(quiet=True))",
        ]
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=proto.SerializeToString(), env=environment, capture_output=True, check=True
    )
    assert b"nothing is rounded: scalar multiplies bf16 no faster than f32" in result.stdout
    with pytest.raises(InvalidInput, match="a CPU rounds nothing to f16"):
        find_keep(proto, arrays, 0.1, target=["cpu"])


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

"""One list of cases on every kind of device, compared with onnxruntime; the GPU's part skips where there is none."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refactor_graph import DeviceError, InvalidInput, Unsupported
from refactor_graph.onnx import find_device, make_compiler

from tests import models
from tests.conftest import missing_gpu

F16, F32 = TensorProto.FLOAT16, TensorProto.FLOAT


def elementwise(dtype=F32):
    """Broadcasts, a chain, a comparison and a choice; a multiple of no vector width."""
    nodes = [
        helper.make_node("Add", ["x", "row"], ["a"]),
        helper.make_node("Mul", ["a", "column"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("Greater", ["c", "scalar"], ["d"]),
        helper.make_node("Where", ["d", "c", "x"], ["e"]),
        helper.make_node("Exp", ["e"], ["f"]),
        helper.make_node("Sub", ["f", "x"], ["y"]),
    ]
    shapes = {"x": ["N", 3, 5, 7], "row": [7], "column": [3, 1, 1], "scalar": []}
    inputs = [models.value(name, shape, dtype) for name, shape in shapes.items()]
    return models.model(nodes, inputs, [models.value("y", None, dtype)])


def integers():
    nodes = [
        helper.make_node("Mul", ["x", "z"], ["a"]),
        helper.make_node("Max", ["a", "x"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.INT32),
    ]
    inputs = [models.value("x", ["N", 4], TensorProto.INT64), models.value("z", ["N", 1], TensorProto.INT64)]
    return models.model(nodes, inputs, [models.value("y", None, TensorProto.INT32)])


def product(a, b, dtype=F32):
    inputs = [models.value("a", a, dtype), models.value("b", b, dtype)]
    return models.model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [models.value("y", None, dtype)])


def perceptron(activation, residual=False, dtype=F32):
    """Two layers with bias and activation, weights as constants, the output of the first used twice if `residual`."""
    random = models.generator(7)
    kind = np.float16 if dtype == F16 else np.float32
    weights = {"w0": (24, 40), "b0": (40,), "w1": (10, 40) if not residual else (40, 40), "b1": ()}
    weights["b1"] = (weights["w1"][0],)
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["g0"]),
        *activation("g0", "h0"),
        helper.make_node("Gemm", ["h0", "w1", "b1"], ["g1"], transB=1, alpha=0.5),
        helper.make_node("Add", ["g1", "h0"], ["y"]) if residual else helper.make_node("Relu", ["g1"], ["y"]),
    ]
    constants = [
        models.constant(name, (random.standard_normal(shape) / 4).astype(kind)) for name, shape in weights.items()
    ]
    return models.model(nodes, [models.value("x", ["N", 24], dtype)], [models.value("y", None, dtype)], constants)


def node(op, **attributes):
    return lambda x, y: [helper.make_node(op, [x], [y], **attributes)]


def gelu(x, y):
    half, one, root = (models.constant(y + name, np.float32(v)) for name, v in (("h", 0.5), ("o", 1), ("r", 2**-0.5)))
    values = [helper.make_node("Constant", [], [item.name], value=item) for item in (half, one, root)]
    return [
        *values,
        helper.make_node("Mul", [x, root.name], [y + "0"]),
        helper.make_node("Erf", [y + "0"], [y + "1"]),
        helper.make_node("Add", [y + "1", one.name], [y + "2"]),
        helper.make_node("Mul", [x, y + "2"], [y + "3"]),
        helper.make_node("Mul", [y + "3", half.name], [y]),
    ]


UNARY = [
    "Abs",
    "Neg",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Sqrt",
    "Exp",
    "Log",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Sigmoid",
    "Relu",
    "Softplus",
    "Softsign",
    "Elu",
    "Selu",
    "Celu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "ThresholdedRelu",
]

CASES = {
    "elementwise": (elementwise(), {"x": (2, 3, 5, 7), "row": (7,), "column": (3, 1, 1), "scalar": ()}),
    "elementwise_f16": (elementwise(F16), {"x": (3, 3, 5, 7), "row": (7,), "column": (3, 1, 1), "scalar": ()}),
    "integers": (integers(), {"x": (5, 4), "z": (5, 1)}),
    "product": (product(["M", 33], [33, 17]), {"a": (19, 33), "b": (33, 17)}),
    "product_batched": (product(["N", 5, 9], ["N", 9, 7]), {"a": (3, 5, 9), "b": (3, 9, 7)}),
    "product_shared": (product(["N", 2, 5, 9], [9, 7]), {"a": (3, 2, 5, 9), "b": (9, 7)}),
    "product_broadcast": (product(["N", 1, 5, 9], [1, 4, 9, 7]), {"a": (3, 1, 5, 9), "b": (1, 4, 9, 7)}),
    "product_f16": (product(["M", 64], [64, 32], F16), {"a": (24, 64), "b": (64, 32)}),
    "mlp_relu": (perceptron(node("Relu")), {"x": (5, 24)}),
    "mlp_gelu": (perceptron(gelu), {"x": (5, 24)}),
    "mlp_sigmoid": (perceptron(node("Sigmoid")), {"x": (1, 24)}),
    "mlp_clip": (perceptron(node("HardSigmoid", alpha=0.3)), {"x": (5, 24)}),
    "mlp_residual": (perceptron(node("Relu"), residual=True), {"x": (5, 24)}),
    "copy": (
        models.model(
            [helper.make_node("Reshape", ["x", "s"], ["y"])],
            [models.value("x", [3, 8])],
            [models.value("y", [4, 6])],
            [models.constant("s", np.array([4, 6]))],
        ),
        {"x": (3, 8)},
    ),
}
CASES |= {
    f"unary_{op}": (
        models.model([helper.make_node(op, ["x"], ["y"])], [models.value("x", ["N"])], [models.value("y", None)]),
        {"x": (37,)},
    )
    for op in UNARY
}


def inputs_of(proto, shapes):
    random = models.generator()
    arrays = {}
    for port in proto.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        array = random.standard_normal(shapes[port.name]) * (20 if kind.kind == "i" else 1)
        positive = proto.graph.node[0].op_type in ("Sqrt", "Log")
        arrays[port.name] = np.abs(array).astype(kind) if positive else np.asarray(array).astype(kind)
    return arrays


def compare(actual, wanted):
    if actual.dtype == np.float16:
        # A chain of at most 8 operators, each rounded to 11 bits, on values below 64.
        np.testing.assert_allclose(
            actual.astype(np.float32), wanted.astype(np.float32), rtol=8 * 2.0**-11, atol=2.0**-5
        )
    elif actual.dtype == np.float32:
        models.assert_close(actual, wanted)
    else:
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("passes", [[], ["-all"]], ids=["all", "none"])
def test_equals_onnxruntime(target, name, passes):
    proto, shapes = CASES[name]
    arrays = inputs_of(proto, shapes)
    wanted = models.expected(proto, arrays)
    outputs = make_compiler(proto).compile(target, "default", passes)(arrays)
    for actual, reference in zip(outputs.values(), wanted, strict=True):
        compare(actual, reference)


@pytest.mark.parametrize("allocator", ["default", "plain", "mru", "bestfit"])
def test_shapes_allocators_and_clones(target, allocator):
    proto = perceptron(gelu)
    executor = make_compiler(proto).compile(target, allocator)
    clone = executor.clone()
    assert clone.device.kind == executor.device.kind
    for rows in (1, 7, 2, 7):
        arrays = {"x": models.generator(rows).standard_normal((rows, 24), np.float32)}
        (wanted,) = models.expected(proto, arrays)
        held = executor(arrays)["y"]
        compare(held, wanted)
        compare(clone(arrays)["y"], wanted)
        executor({"x": arrays["x"] + 1})
        compare(held, wanted)


def test_dispatch_keeps_inputs(target):
    proto, shapes = CASES["mlp_relu"]
    arrays = inputs_of(proto, shapes)
    (wanted,) = models.expected(proto, arrays)
    executor = make_compiler(proto).compile("cpu")
    executor.set_input("x", arrays["x"])
    for kind in ("nvidia", "cpu") if target == "cuda" else ("cpu",):
        executor.dispatch(find_device(kind, 0), "mru")
        executor.run()
        assert (executor.device.kind, executor.allocator) == (kind, "mru")
        compare(executor.get_output(0), wanted)
    with pytest.raises(InvalidInput, match="fast"):
        executor.dispatch(find_device("cpu", 0), "fast")


def test_debugging(target, tmp_path):
    proto, shapes = CASES["mlp_gelu"]
    arrays = inputs_of(proto, shapes)
    executor = make_compiler(proto).compile(target)
    executor(arrays)
    kind = {"cpu": "cpu", "cuda": "nvidia"}[target]
    assert f"matmul:{kind}:" in executor.dbg(quiet=True)
    assert executor.trace(tmp_path) > 0
    files = sorted(tmp_path.glob("*.npy"))
    assert any(np.array_equal(np.load(file), arrays["x"]) for file in files)
    assert all(row.kernel.split(":")[1] == kind for row in executor.bench(repeats=2, quiet=True))


@pytest.mark.cuda
def test_missing_kernels_are_named():
    if missing_gpu():
        pytest.skip(missing_gpu())
    counted = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0, 1],
        pool_int64s=[2, 3],
    )
    proto = models.model([counted], [models.value("x", ["N"], TensorProto.INT64)], [models.value("y", None)])
    with pytest.raises(Unsupported, match=r"TfIdfVectorizer.*not on nvidia"):
        make_compiler(proto).compile("cuda")


@pytest.mark.skipif(not missing_gpu(), reason="an NVIDIA device is present")
def test_the_reason_names_what_is_missing():
    """The plugin, the driver or the device: whichever comes first."""
    proto: onnx.ModelProto = CASES["mlp_relu"][0]
    with pytest.raises(
        DeviceError, match=r"no plugin for devices of kind|NVIDIA driver|there is no device nvidia"
    ) as info:
        make_compiler(proto).compile("cuda")
    assert str(info.value) == missing_gpu()

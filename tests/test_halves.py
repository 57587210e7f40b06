"""Models of f16 and bf16 on a CPU: computed in f32 from their inputs to their outputs."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

from . import models

HALVES = [np.float16, ml_dtypes.bfloat16]


def kind_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def step_of(dtype):
    return 2**-10 if dtype is np.float16 else 2**-7


def fixed(name, array):
    return helper.make_tensor(name, kind_of(array.dtype), array.shape, array.tobytes(), raw=True)


def kernels(executor):
    return [row.kernel for row in executor.bench(repeats=1, quiet=True)]


def block(dtype):
    """Attention with a cache, layer norm and gelu, as exporters write them."""
    random = models.generator(3)

    def weights(*shape):
        return (random.standard_normal(shape) * shape[0] ** -0.5).astype(dtype)

    constants = {"wq": weights(64, 64), "wk": weights(64, 64), "up": weights(64, 96), "down": weights(96, 64)}
    constants |= {"gain": weights(1, 64)[0], "shift": weights(1, 64)[0]}
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["x", "gain", "shift"], ["n"]),
        node("MatMul", ["n", "wq"], ["q"]),
        node("MatMul", ["n", "wk"], ["k"]),
        node("Concat", ["past", "k"], ["present"], axis=1),
        node("Transpose", ["present"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "present"], ["a"]),
        node("Add", ["a", "x"], ["r"]),
        node("MatMul", ["r", "up"], ["u"]),
        node("Gelu", ["u"], ["g"]),
        node("MatMul", ["g", "down"], ["d"]),
        node("Add", ["d", "r"], ["y"]),
    ]
    kind = kind_of(dtype)
    inputs = [models.value("x", [2, "T", 64], kind), models.value("past", [2, "P", 64], kind)]
    outputs = [models.value("y", [2, "T", 64], kind), models.value("present", [2, "A", 64], kind)]
    tensors = [fixed(name, array) for name, array in constants.items()]
    return models.model(nodes, inputs, outputs, tensors, opset=20)


def widened(proto):
    """The same model in f32."""
    wide = type(proto)()
    wide.CopyFrom(proto)
    for tensor in wide.graph.initializer:
        kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        array = np.frombuffer(tensor.raw_data, kind).reshape(list(tensor.dims)).astype(np.float32)
        tensor.CopyFrom(fixed(tensor.name, array))
    for value in [*wide.graph.input, *wide.graph.output]:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return wide


@pytest.mark.parametrize("dtype", HALVES)
def test_only_results_are_rounded(dtype):
    proto = block(dtype)
    random = models.generator(4)
    feeds = {"x": (2, 5, 64), "past": (2, 9, 64)}
    feeds = {name: random.standard_normal(shape).astype(dtype) for name, shape in feeds.items()}
    executor = make_compiler(proto).compile(num_threads=1, verify=True)
    actual = executor(feeds)
    wide = make_compiler(widened(proto)).compile(num_threads=1)({k: v.astype(np.float32) for k, v in feeds.items()})
    for name in ("y", "present"):
        assert actual[name].dtype == dtype
        error = np.abs(actual[name].astype(np.float32) - wide[name])
        # Half a step for the result, and what the cache has lost that the model shows: it is read as it is shown.
        assert error.max() <= step_of(dtype) * max(1, np.abs(wide[name]).max())
    assert not [kernel for kernel in kernels(executor) if ":reference:" in kernel]


@pytest.mark.parametrize("dtype", HALVES)
def test_exact_rounds_every_result(dtype):
    first = 2048 if dtype is np.float16 else 256
    column = fixed("column", np.ones((2, 1), dtype))
    bias = fixed("bias", np.array([-first], dtype))
    kind = kind_of(dtype)
    proto = models.model(
        [helper.make_node("MatMul", ["x", "column"], ["sum"]), helper.make_node("Add", ["sum", "bias"], ["y"])],
        [models.value("x", [1, 2], kind)],
        [models.value("y", [1, 1], kind)],
        [column, bias],
    )
    x = np.array([[first, 1]], dtype)  # whose sum is no number of the type
    assert make_compiler(proto).compile()({"x": x})["y"] == 1
    assert make_compiler(proto).compile(precision="exact")({"x": x})["y"] == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_what_is_only_moved_stays_half(dtype):
    kind = kind_of(dtype)
    table = models.generator(6).standard_normal((50, 8)).astype(dtype)
    proto = models.model(
        [
            helper.make_node("Gather", ["table", "i"], ["rows"]),
            helper.make_node("Transpose", ["rows"], ["y"], perm=[1, 0]),
        ],
        [models.value("i", [6], TensorProto.INT64)],
        [models.value("y", [8, 6], kind)],
        [fixed("table", table)],
    )
    indices = np.array([3, 49, 0, 7, 7, 12])
    executor = make_compiler(proto).compile()
    np.testing.assert_array_equal(executor({"i": indices})["y"], table[indices].T)
    assert not [kernel for kernel in kernels(executor) if kernel.startswith("elementwise")]


@pytest.mark.parametrize("spelling", ["divided", "multiplied", "tanh"])
def test_biases_and_gelu_are_part_of_products(spelling):
    """As torch exports them, with the numbers of gelu rounded to f16."""
    random, half = models.generator(7), np.float16
    constants = {"w": random.standard_normal((64, 96)) / 8, "bias": random.standard_normal(96)}
    constants |= {
        "down": random.standard_normal((96, 64)) / 8,
        "half": 0.5,
        "one": 1.0,
        "root": np.sqrt(2),
        "inverse": np.sqrt(0.5),
    }
    constants |= {"cube": 0.044715, "factor": np.sqrt(2 / np.pi), "three": 3.0}
    node = helper.make_node
    arguments = {
        "divided": [node("Div", ["a", "root"], ["v"]), node("Erf", ["v"], ["e"])],
        "multiplied": [node("Mul", ["a", "inverse"], ["v"]), node("Erf", ["v"], ["e"])],
        "tanh": [
            node("Pow", ["a", "three"], ["p"]),
            node("Mul", ["p", "cube"], ["c"]),
            node("Add", ["a", "c"], ["s"]),
            node("Mul", ["s", "factor"], ["v"]),
            node("Tanh", ["v"], ["e"]),
        ],
    }
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "bias"], ["a"]),
        *arguments[spelling],
        node("Add", ["e", "one"], ["f"]),
        node("Mul", ["f", "half"], ["g"]),
        node("Mul", ["a", "g"], ["gelu"]),
        node("MatMul", ["gelu", "down"], ["y"]),
    ]
    proto = models.model(
        nodes,
        [models.value("x", [5, 64], TensorProto.FLOAT16)],
        [models.value("y", [5, 64], TensorProto.FLOAT16)],
        [fixed(name, np.asarray(value, half)) for name, value in constants.items()],
    )
    x = random.standard_normal((5, 64)).astype(half)
    executor = make_compiler(proto).compile(num_threads=1, verify=True)
    (wanted,) = models.expected(widened(proto), {"x": x.astype(np.float32)})
    assert np.abs(executor({"x": x})["y"].astype(np.float32) - wanted).max() <= step_of(half) * np.abs(wanted).max()
    # What stands beside the products casts the input and the output.
    assert [kernel.split(":")[0] for kernel in kernels(executor)].count("matmul") == 2
    assert len(kernels(executor)) == 4


def test_branches_and_casts_keep_their_types():
    """What a branch captures is half; casts to integers and comparisons see the same numbers."""
    kind = TensorProto.FLOAT16
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["double", "x"], [name])], name, [], [models.value(name, ["N"], kind)]
        )
        for name, op in (("then_branch", "Mul"), ("else_branch", "Sub"))
    }
    proto = models.model(
        [
            helper.make_node("Add", ["x", "x"], ["double"]),
            helper.make_node("If", ["choose"], ["y"], **branches),
            helper.make_node("Cast", ["double"], ["whole"], to=TensorProto.INT32),
            helper.make_node("Greater", ["double", "x"], ["more"]),
        ],
        [models.value("x", ["N"], kind), models.value("choose", [], TensorProto.BOOL)],
        [
            models.value("y", ["N"], kind),
            models.value("whole", ["N"], TensorProto.INT32),
            models.value("more", ["N"], TensorProto.BOOL),
        ],
    )
    x = np.array([1.5, -2.25, 0], np.float16)
    executor = make_compiler(proto).compile()
    doubled = x + x
    for choose, wanted in ((True, x * 2 * x), (False, x)):
        results = executor({"x": x, "choose": np.array(choose)})
        np.testing.assert_array_equal(results["y"], wanted)
        np.testing.assert_array_equal(results["whole"], doubled.astype(np.int32))
        np.testing.assert_array_equal(results["more"], doubled > x)

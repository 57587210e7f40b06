"""Weights stored in fewer bytes: results stay within what rounding them changes, and the report tells how much."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from refactor_graph import InvalidInput
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu

ERRORS = {"f16": 2**-11, "bf16": 2**-8, "int8": 2**-6}
"""Of the norm of the result: half a step of rounding, relative to the weights, for each of two layers."""
GPU_ERRORS = ERRORS | {"f8e4m3fn": 2**-4, "f8e5m2": 2**-3}
"""What a GPU takes."""


def _tied(dtype: type = np.float32):
    """Embedding, a hidden layer, and a head that is the table transposed, all in `dtype` and cast to f32."""
    random = models.generator(3)
    table = (random.standard_normal((2500, 160)) * 0.1).astype(dtype)
    hidden = (random.standard_normal((160, 160)) * 0.1).astype(dtype)
    nodes = [
        helper.make_node("Cast", ["table"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["hidden"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["wide", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "weights"], ["h"]),
        helper.make_node("Add", ["h", "x"], ["residual"]),
        helper.make_node("Tanh", ["residual"], ["t"]),
        helper.make_node("Transpose", ["wide"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "head"], ["y"]),
    ]
    proto = models.model(
        nodes,
        [models.value("ids", ["N"], TensorProto.INT64)],
        [models.value("y", ["N", 2500])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(hidden, "hidden")],
    )
    return proto, {"ids": np.array([3, 77, 2401])}


def _difference(actual, wanted):
    return float(np.linalg.norm(actual - wanted) / np.linalg.norm(wanted))


def _notes(executor):
    return [note for report in executor.program.passes if report.name == "store_weights" for note in report.notes]


@pytest.mark.parametrize("weights", ERRORS)
@pytest.mark.parametrize("threads", [1, 2])
def test_weights_of_fewer_bytes(weights, threads):
    proto, inputs = _tied()
    compiler = make_compiler(proto)
    wanted = models.expected(proto, inputs)[0]
    small = compiler.compile(weights=weights, num_threads=threads, verify=True)
    assert 0 < _difference(small(inputs)["y"], wanted) < 2 * ERRORS[weights]
    large = compiler.compile(num_threads=threads)
    assert _difference(large(inputs)["y"], wanted) < 1e-6
    if small.program.packed_bytes:
        assert small.program.packed_bytes * (4 if weights == "int8" else 2) <= large.program.packed_bytes
    assert any("2 matrices stored as" in note for note in _notes(small))


def _packed(depth, width, seed=5):
    """Two products; the first has an odd depth and a bias."""
    random = models.generator(seed)
    constants = [
        models.constant("a", random.standard_normal((depth, width), np.float32) / np.float32(4 * np.sqrt(depth))),
        models.constant("b", random.standard_normal((width, width), np.float32)),
        models.constant("bias", random.standard_normal(width, np.float32) / 16),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "a", "bias"], ["h"], "first"),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "b"], ["y"], "second"),
    ]
    proto = models.model(nodes, [models.value("x", ["N", depth])], [models.value("y", None)], constants)
    return proto, {"x": random.standard_normal((3, depth), np.float32)}


@pytest.mark.parametrize(("depth", "width"), [(129, 130), (256, 512)])
@pytest.mark.parametrize("precision", ["default", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_four_bits(depth, width, precision, threads):
    proto, inputs = _packed(depth, width)
    compiler = make_compiler(proto)
    wanted = models.expected(proto, inputs)[0]
    small = compiler.compile("cpu", weights="int4", precision=precision, num_threads=threads, verify=True)
    # A block of 32 normal weights has a step of a quarter of their deviation: 8 % of the norm, twice.
    assert 0.02 < _difference(small(inputs)["y"], wanted) < 0.14
    assert [row.kernel.split(":")[0] for row in small.bench(quiet=True, repeats=1)].count("block_matmul") == 2
    large = compiler.compile("cpu", num_threads=threads)
    large(inputs)
    held = small.memory()
    least = 4 if depth % 32 else 5  # the last block is filled up
    assert (held["weights"] + held["packed_weights"]) * least < sum(
        large.memory()[n] for n in ("weights", "packed_weights")
    )
    notes = [note for report in small.program.passes if report.name == "round_products" for note in report.notes]
    kind = "have weights rounded to 4 bits" if precision == "default" else "round both operands to 8 and 4 bits"
    assert any(f"2 products {kind}: " in note for note in notes)


def test_the_largest_of_a_block_is_kept():
    """Of four bits -8 has no counterpart: the element of the largest magnitude is that, of either sign."""
    random = models.generator(6)
    weights = random.uniform(-0.5, 0.5, (32, 512)).astype(np.float32)
    weights[3, ::2], weights[7, 1::2] = 1, -1
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = models.model(
        [node], [models.value("x", ["N", 32])], [models.value("y", None)], [models.constant("w", weights)]
    )
    actual = make_compiler(proto).compile("cpu", weights="int4")({"x": np.eye(32, dtype=np.float32)})["y"]
    np.testing.assert_array_equal(np.abs(actual[3, ::2]), 1)
    np.testing.assert_array_equal(actual[7, 1::2], -1)
    assert np.abs(actual - weights).max() <= 1 / 16


def test_nodes_keep_their_weights():
    proto, inputs = _packed(129, 130)
    executor = make_compiler(proto).compile("cpu", weights="int4", keep_f32=["first", "second"])
    models.assert_close(executor(inputs)["y"], models.expected(proto, inputs)[0])


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["default", "f16"])
@pytest.mark.parametrize("rows", [3, 40])
def test_four_bits_on_a_gpu(precision, rows):
    if missing_gpu():
        pytest.skip(missing_gpu())
    proto, _ = _packed(129, 130)
    inputs = {"x": models.generator(7).standard_normal((rows, 129), np.float32)}
    executor = make_compiler(proto).compile("cuda", weights="int4", precision=precision)
    wanted = make_compiler(proto).compile("cpu", weights="int4")(inputs)["y"]
    assert _difference(executor(inputs)["y"], wanted) < (1e-5 if precision == "default" else 1e-2)
    assert [row.kernel.split(":")[0] for row in executor.bench(quiet=True, repeats=1)].count("block_matmul") == 2


@pytest.mark.cuda
@pytest.mark.parametrize("weights", GPU_ERRORS)
@pytest.mark.parametrize("rows", [3, 11])
def test_weights_of_fewer_bytes_on_a_gpu(weights, rows):
    if missing_gpu():
        pytest.skip(missing_gpu())
    proto, inputs = _tied()
    inputs["ids"] = np.arange(rows) * 211
    compiler = make_compiler(proto)
    wanted = models.expected(proto, inputs)[0]
    small = compiler.compile("cuda", weights=weights, verify=True)
    assert 0 < _difference(small(inputs)["y"], wanted) < 2 * GPU_ERRORS[weights]
    assert _difference(compiler.compile("cuda")(inputs)["y"], wanted) < 1e-6
    assert any("2 matrices stored as" in note for note in _notes(small))
    names = {"int8": "i8"}
    products = [row.kernel for row in small.bench(quiet=True) if row.type == "MatMul"]
    algorithms = ["few_rows"] * 2 if rows == 3 else ["tiled", "widened"]
    assert products == [f"matmul:nvidia:{name}:f32_{names.get(weights, weights)}" for name in algorithms]


def test_small_floats_are_refused_on_a_cpu():
    with pytest.raises(InvalidInput, match="weights: cannot be stored as f8e4m3fn on cpu"):
        make_compiler(_tied()[0]).compile(weights="f8e4m3fn")


def test_casts_of_halves_are_read_as_they_are():
    proto, inputs = _tied(np.float16)
    compiler = make_compiler(proto)
    stored, wide = compiler.compile(num_threads=1), compiler.compile(num_threads=1, weights="f32")
    assert _difference(stored(inputs)["y"], wide(inputs)["y"]) < 1e-6
    assert _difference(stored(inputs)["y"], models.expected(proto, inputs)[0]) < 1e-6
    assert stored.program.packed_bytes < wide.program.packed_bytes or not wide.program.packed_bytes


def test_pass_can_be_switched_off():
    proto, inputs = _tied()
    executor = make_compiler(proto).compile(passes=["-store_weights"], weights="int8", num_threads=1)
    assert _difference(executor(inputs)["y"], models.expected(proto, inputs)[0]) < 1e-6


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_models_of_halves(dtype):
    random = models.generator(5)

    def tensor(*shape):
        return (random.standard_normal(shape) * 0.2).astype(dtype)

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {"kernel": tensor(24, 8, 3, 3), "matrix": tensor(24, 70), "large": tensor(70, 8192), "bias": tensor(70)}
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "matrix", "bias"], ["g"]),
        helper.make_node("MatMul", ["g", "large"], ["y"]),
    ]
    initializers = [
        helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True) for name, array in weights.items()
    ]
    proto = models.model(
        nodes,
        [models.value("x", [2, 8, 9, 7], kind)],
        [models.value("y", [2, 8192], kind)],
        initializers,
    )
    x = tensor(2, 8, 9, 7)
    executor = make_compiler(proto).compile(num_threads=1, verify=True)
    plain = make_compiler(proto).compile(passes=["-widen_halves"], num_threads=1)
    actual, wanted = (each({"x": x})["y"].astype(np.float32) for each in (executor, plain))
    # Both round once after every node, from sums of different precision: some results are a step apart.
    step = 2**-10 if dtype is np.float16 else 2**-7
    assert np.abs(actual - wanted).max() <= 2 * step * np.abs(wanted).max()
    packed = executor.program.packed_bytes
    assert not packed or packed < 2 * sum(array.nbytes for array in weights.values())

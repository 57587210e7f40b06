"""Weights that are quantised alone: products, and tables that are gathered from, read them as they are."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from refactor_graph.onnx import make_compiler

from tests import models
from tests.conftest import missing_gpu
from tests.quantization import BYTES, PACKED, codes, scales

K, N = 150, 260
"""Sizes of the matrix; K is no multiple of a block."""
GRANULARITIES = {"one": None, "columns": None, "blocks": 32, "uneven blocks": 48}
FLOATS = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}


class Weights:
    """Random numbers [K, N], or [N, K] if `transposed`, with scales, and what they stand for."""

    def __init__(self, dtype, granularity, random, *, transposed=False, zeros=True, scale=np.float32):
        self.data = codes(dtype, (N, K) if transposed else (K, N), random)
        depth, block = int(transposed), GRANULARITIES[granularity]
        shape = {"one": (), "columns": (N,)}.get(granularity)
        if block:
            shape = [-(-K // block), N]
            shape = shape[::-1] if transposed else shape
        self.attributes = {"axis": depth if block else 1 - depth} | ({"block_size": block} if block else {})
        self.scale = np.asarray(scales(shape, random, scale))
        self.zero = np.asarray(codes(dtype, shape, random)) if zeros else None
        self.transposed = transposed

        def spread(values):
            if not block:
                return values[:, None] if transposed and values.ndim else values
            return np.repeat(values, block, axis=depth)[: self.data.shape[0], : self.data.shape[1]]

        zero = 0 if self.zero is None else spread(self.zero.astype(np.float64))
        self.values = (self.data.astype(np.float64) - zero) * spread(self.scale.astype(np.float64))

    def constants(self):
        named = {"data": self.data, "scale": self.scale, "zero": self.zero}
        return [numpy_helper.from_array(array, name) for name, array in named.items() if array is not None]

    def node(self):
        names = ["data", "scale"] + ([] if self.zero is None else ["zero"])
        return helper.make_node("DequantizeLinear", names, ["w"], "dequantize", **self.attributes)


def build(weights, nodes, x, constants=(), kind=TensorProto.FLOAT):
    nodes = [weights.node(), *nodes]
    graph = helper.make_graph(nodes, "g", [x], [models.value("y", None, kind)], [*weights.constants(), *constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10)


def product(weights, op, kind=np.float32, bias=None):
    """A model of a product of any number of rows with them."""
    element = FLOATS[kind]
    if op == "Gemm":
        nodes = [helper.make_node("Gemm", ["x", "w", "bias"], ["y"], "product", transB=int(weights.transposed))]
    elif weights.transposed:
        nodes = [
            helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["y"], "product"),
        ]
    else:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    constants = [] if bias is None else [models.constant("bias", bias)]
    return build(weights, nodes, models.value("x", ["rows", K], element), constants, element)


def kernels(executor):
    return [row.kernel.split(":")[0] for row in executor.bench(quiet=True, repeats=1)]


def compare(actual, wanted, bound):
    """Sums of K products in another order, of floats that have `bound` as rounding error each."""
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual.astype(np.float64), wanted, rtol=0, atol=bound * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [*BYTES, *PACKED], ids=str)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_products(dtype, granularity, transposed, zeros, kind):
    random = models.generator(700)
    weights = Weights(dtype, granularity, random, transposed=transposed, zeros=zeros, scale=kind)
    bias = random.standard_normal(N).astype(kind)
    for op in ("MatMul", "Gemm"):
        proto = product(weights, op, kind, bias if op == "Gemm" else None)
        executor = make_compiler(proto).compile("cpu", num_threads=2, verify=True)
        for rows in (1, 5, 70):
            x = random.standard_normal((rows, K)).astype(kind)
            wanted = x.astype(np.float64) @ (weights.values.T if transposed else weights.values)
            wanted = wanted + bias if op == "Gemm" else wanted
            compare(executor({"x": x})["y"], wanted, 1e-5 if kind == np.float32 else 1e-3)
        used = kernels(executor)
        assert "dequantize" not in used
        assert "block_matmul" in used or (
            np.dtype(dtype).name == "int8" and not zeros and not GRANULARITIES[granularity]
        )


@pytest.mark.parametrize("dtype", [*BYTES, *PACKED], ids=str)
@pytest.mark.parametrize("granularity", ["one", "columns", "blocks"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_gathered_rows(dtype, granularity, zeros, kind):
    random = models.generator(701)
    weights = Weights(dtype, granularity, random, transposed=True, zeros=zeros, scale=kind)
    proto = build(
        weights,
        [helper.make_node("Gather", ["w", "x"], ["y"], axis=0)],
        models.value("x", ["batch", "length"], TensorProto.INT64),
        kind=FLOATS[kind],
    )
    executor = make_compiler(proto).compile("cpu", verify=True)
    for shape in ((1, 1), (2, 7)):
        ids = random.integers(-N, N, shape)
        actual = executor({"x": ids})["y"]
        assert actual.dtype == kind
        compare(actual, weights.values[ids], 1e-6 if kind == np.float32 else 1e-3)
    assert "gather" in kernels(executor)
    assert executor.memory()["weights"] < 2 * N * K


def test_rows_with_a_scale_each_for_one_index():
    random = models.generator(702)
    weights = Weights(np.int8, "columns", random, transposed=True)
    proto = build(
        weights, [helper.make_node("Gather", ["w", "x"], ["y"], axis=0)], models.value("x", [], TensorProto.INT64)
    )
    compare(make_compiler(proto).compile()({"x": np.asarray(7)})["y"], weights.values[7], 1e-6)


def test_table_and_projection_are_one_constant():
    """Tied embeddings: rows are gathered, and the same numbers are multiplied by."""
    random = models.generator(703)
    weights = Weights(ml_dtypes.int4, "blocks", random, transposed=True)
    nodes = [
        helper.make_node("Gather", ["w", "x"], ["rows"], axis=0),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["rows", "t"], ["y"], "product"),
    ]
    executor = make_compiler(build(weights, nodes, models.value("x", ["n"], TensorProto.INT64))).compile(verify=True)
    ids = random.integers(0, N, 4)
    compare(executor({"x": ids})["y"], weights.values[ids] @ weights.values.T, 1e-5)
    assert sorted(set(kernels(executor))) == ["block_matmul", "dequantize", "gather"]


@pytest.mark.parametrize("dtype", [np.dtype(np.int8), np.dtype(ml_dtypes.uint4)], ids=str)
@pytest.mark.parametrize("granularity", ["columns", "blocks"])
def test_rounded_rows(dtype, granularity):
    """With `precision="int8"` rows are rounded, too: within 1/254 of the largest of their block."""
    random = models.generator(704)
    weights = Weights(dtype, granularity, random)
    executor = make_compiler(product(weights, "MatMul")).compile("cpu", precision="int8")
    x = random.standard_normal((3, K)).astype(np.float32)
    bound = np.abs(x).max() / 254 * np.abs(weights.values).sum(axis=0)
    assert (np.abs(executor({"x": x})["y"] - x.astype(np.float64) @ weights.values) <= bound).all()
    assert kernels(executor) == ["block_matmul"]
    exact = make_compiler(product(weights, "MatMul")).compile("cpu").dbg(quiet=True)
    assert "products that read weights quantised alone: 1, in f32: 1; precision=" in exact
    assert "rounds what they multiply" not in executor.dbg(quiet=True)


def test_a_cast_stands_between():
    random = models.generator(705)
    weights = Weights(ml_dtypes.int4, "blocks", random)
    nodes = [
        helper.make_node("Cast", ["w"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["x", "half"], ["y"], "product"),
    ]
    half = TensorProto.FLOAT16
    executor = make_compiler(build(weights, nodes, models.value("x", ["rows", K], half), kind=half)).compile()
    x = random.standard_normal((2, K)).astype(np.float16)
    compare(executor({"x": x})["y"], x.astype(np.float64) @ weights.values, 2e-3)
    assert "block_matmul" in kernels(executor)


ARITHMETIC = ["cast", "scaled", "column scales", "row scales", "zero points", "one zero point"]


@pytest.mark.parametrize("form", ARITHMETIC)
@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_arithmetic(form, dtype, transposed):
    """`(cast(data) - zero) * scale`, as PyTorch's exporters write it."""
    random = models.generator(709)
    rows, columns = (N, K) if transposed else (K, N)
    data = codes(dtype, (rows, columns), random)
    constants, nodes = {"data": data}, [helper.make_node("Cast", ["data"], ["c"], to=TensorProto.FLOAT)]
    wanted, last = data.astype(np.float64), "c"
    wide = (N, 1) if transposed else (N,)
    if "zero" in form:
        zero = codes(dtype, () if form == "one zero point" else wide, random).astype(np.float32)
        constants["zero"], wanted = zero, wanted - zero
        nodes.append(helper.make_node("Sub", [last, "zero"], ["centred"]))
        last = "centred"
    if form != "cast":
        shape = {"scaled": (), "row scales": (K,) if transposed else (K, 1)}.get(form, wide)
        constants["scale"] = scales(shape, random)
        wanted = wanted * constants["scale"].astype(np.float64)
        nodes.append(helper.make_node("Mul", ["scale", last] if form == "scaled" else [last, "scale"], ["w"]))
        last = "w"
    if transposed:
        nodes.append(helper.make_node("Transpose", [last], ["t"], perm=[1, 0]))
        last, wanted = "t", wanted.T
    nodes.append(helper.make_node("MatMul", ["x", last], ["y"], "product"))
    values = [models.value("x", ["rows", K])], [models.value("y", None)]
    proto = models.model(nodes, *values, [models.constant(name, np.asarray(a)) for name, a in constants.items()])
    executor = make_compiler(proto).compile("cpu", verify=True)
    for count in (1, 70):
        x = random.standard_normal((count, K)).astype(np.float32)
        compare(executor({"x": x})["y"], x.astype(np.float64) @ wanted, 1e-5)
    (kernel,) = [row.kernel for row in executor.bench(quiet=True, repeats=1)]
    # Scales along the sums are folded; zero points, and bytes that are not signed, go in blocks.
    symmetric = np.dtype(dtype) == np.int8 and "zero" not in form
    assert kernel.startswith("block_matmul") == (form != "row scales" and not symmetric)
    assert (":i8:" in kernel) == (form != "row scales" and symmetric)


def test_products_share_what_they_read_and_nothing_else():
    """One matrix of bytes with two scales, one of which two products read."""
    random = models.generator(711)
    data = codes(np.int8, (N, N), random)
    constants = {"data": data, "s": scales((N,), random), "t": scales((N,), random)}
    nodes = [
        helper.make_node("DequantizeLinear", ["data", "s"], ["a"], axis=1),
        helper.make_node("DequantizeLinear", ["data", "t"], ["b"], axis=1),
        helper.make_node("MatMul", ["x", "a"], ["u"]),
        helper.make_node("MatMul", ["u", "b"], ["v"]),
        helper.make_node("MatMul", ["v", "a"], ["y"]),
    ]
    values = [models.value("x", ["rows", N])], [models.value("y", None)]
    proto = models.model(nodes, *values, [models.constant(name, array) for name, array in constants.items()])
    executor = make_compiler(proto).compile("cpu")
    x = random.standard_normal((2, N)).astype(np.float32)
    a, b = (data * constants[name].astype(np.float64) for name in "st")
    compare(executor({"x": x})["y"], x.astype(np.float64) @ a @ b @ a, 1e-5)
    held = executor.memory()
    assert held["weights"] + held["packed_weights"] < 3 * N * N


def test_long_chains_of_products_element_by_element_are_left_alone():
    nodes = [helper.make_node("Mul", ["x", "x"], ["t0"])]
    nodes += [helper.make_node("Mul", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(60)]
    nodes.append(helper.make_node("MatMul", ["x", "t60"], ["y"]))
    proto = models.model(nodes, [models.value("x", [3, 3])], [models.value("y", None)])
    x = np.full((3, 3), 1, np.float32)
    np.testing.assert_array_equal(make_compiler(proto).compile("cpu")({"x": x})["y"], np.full((3, 3), 3, np.float32))


def test_roundings_in_between_are_kept():
    """A cast to a float of 8 bits and back rounds the weights on purpose."""
    random = models.generator(713)
    weights = Weights(np.int8, "columns", random)
    nodes = [
        helper.make_node("Cast", ["w"], ["small"], to=TensorProto.FLOAT8E4M3FN),
        helper.make_node("Cast", ["small"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["y"], "product"),
    ]
    proto = build(weights, nodes, models.value("x", ["rows", K]))
    x = random.standard_normal((2, K)).astype(np.float32)
    rounded = weights.values.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    compare(make_compiler(proto).compile("cpu")({"x": x})["y"], x.astype(np.float64) @ rounded, 1e-5)


def test_products_of_f64_are_left_alone():
    random = models.generator(712)
    weights = Weights(np.int8, "columns", random)
    double = TensorProto.DOUBLE
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=double),
        helper.make_node("MatMul", ["x", "wide"], ["y"], "product"),
    ]
    proto = build(weights, nodes, models.value("x", ["rows", K], double), kind=double)
    x = random.standard_normal((2, K))
    compare(make_compiler(proto).compile("cpu")({"x": x})["y"], x @ weights.values.astype(np.float32), 1e-6)


def test_arithmetic_with_zero_points_of_other_types_is_folded():
    random = models.generator(710)
    data, zero = codes(np.uint8, (K, N), random), np.full(N, 3.5, np.float32)
    nodes = [
        helper.make_node("Cast", ["data"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["c", "zero"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"], "product"),
    ]
    values = [models.value("x", ["rows", K])], [models.value("y", None)]
    proto = models.model(nodes, *values, [models.constant("data", data), models.constant("zero", zero)])
    executor = make_compiler(proto).compile("cpu")
    x = random.standard_normal((2, K)).astype(np.float32)
    compare(executor({"x": x})["y"], x.astype(np.float64) @ (data - zero.astype(np.float64)), 1e-5)
    assert kernels(executor) == ["matmul"]


def test_what_stays_in_f32():
    random = models.generator(706)
    x = random.standard_normal((80, K)).astype(np.float32)

    def report(matrix, rows="rows", **options):
        proto = product(matrix, "MatMul")
        proto.graph.input[0].CopyFrom(models.value("x", [rows, K]))
        executor = make_compiler(proto).compile("cpu", **options)
        given = x[: rows if isinstance(rows, int) else 80]
        compare(executor({"x": given})["y"], given.astype(np.float64) @ matrix.values, 1e-5)
        assert kernels(executor) == ["matmul"]
        return executor.dbg(quiet=True)

    # As many rows as hide that weights of four times the bytes are read.
    assert "dequantises its weights" not in report(Weights(np.uint8, "columns", random), rows=80)
    assert "dequantises its weights" not in report(Weights(np.uint8, "columns", random), weights="f32")
    odd = Weights(np.uint8, "columns", random)
    odd.attributes, odd.scale, odd.zero = {"axis": 0}, scales(K, random), None
    odd.values = odd.data * odd.scale[:, None].astype(np.float64)
    assert '"product" dequantises its weights: scales are along the sums' in report(odd)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*BYTES, np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)], ids=str)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("kind", FLOATS)
def test_products_on_a_device(dtype, granularity, kind):
    if missing_gpu():
        pytest.skip(missing_gpu())
    random = models.generator(707)
    weights = Weights(dtype, granularity, random, scale=kind)
    executor = make_compiler(product(weights, "MatMul", kind)).compile("cuda", verify=True)
    for rows in (1, 33):
        x = random.standard_normal((rows, K)).astype(kind)
        wanted = x.astype(np.float64) @ weights.values
        compare(executor({"x": x})["y"], wanted, 1e-5 if kind == np.float32 else 3e-3)
    assert "block_matmul" in kernels(executor)


@pytest.mark.cuda
def test_gathered_rows_on_a_device():
    if missing_gpu():
        pytest.skip(missing_gpu())
    random = models.generator(708)
    weights = Weights(ml_dtypes.int4, "blocks", random, transposed=True)
    proto = build(
        weights, [helper.make_node("Gather", ["w", "x"], ["y"], axis=0)], models.value("x", ["n"], TensorProto.INT64)
    )
    ids = random.integers(0, N, 9)
    compare(make_compiler(proto).compile("cuda")({"x": ids})["y"], weights.values[ids], 1e-6)
